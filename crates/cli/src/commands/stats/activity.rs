//! The part of the text of `larder stats` that shows requests, latencies, the journal, and the busiest files and processes.

use larder::{BusyProcess, HotFile, HotStats, LatencyStats, Load, RequestStats, WritingStats};
use larder_console::name;
use larder_console::size::human;
use std::cmp::Reverse;
use std::io::{self, Write};

/// The number of operations that are shown, those with the most requests.
const OPERATIONS: usize = 8;
/// The number of files, and of processes, that are shown.
const BUSIEST: usize = 5;
/// A time without requests is shown if it is at least this long, in nanoseconds.
const IDLE_NS: u64 = 2_000_000_000;
/// A time without reads is shown if it is at least this long, in nanoseconds.
const NO_READ_NS: u64 = 10_000_000_000;

/// Returns the median and the 99th percentile, as in `half within 12 us, 99% within 1.5 ms`.
pub(super) fn percentiles(latency: &LatencyStats) -> Option<String> {
    let (median, p99) = (latency.p50_ns?, latency.p99_ns?);
    let (median, p99) = (duration(median), duration(p99));
    Some(format!("half within {median}, 99% within {p99}"))
}

/// Prints a line with the percentiles of `what`. Prints nothing if there are none.
pub(super) fn print_latency(
    out: &mut dyn Write,
    what: &str,
    latency: &LatencyStats,
) -> io::Result<()> {
    match percentiles(latency) {
        Some(text) => writeln!(out, "           {what}: {text}"),
        None => Ok(()),
    }
}

/// Prints the commits, the checkpoints, and the waits for them.
pub(super) fn print_journal(out: &mut dyn Write, writing: &WritingStats) -> io::Result<()> {
    write!(
        out,
        "journal    {}",
        counted(writing.commits, "commit", "commits")
    )?;
    if writing.commits > 0 {
        write!(
            out,
            ": {} for syncs, {} after 5 s, {} for space; {}",
            writing.sync_commits,
            writing.timed_commits,
            writing.space_commits,
            counted(writing.logged_blocks, "block logged", "blocks logged"),
        )?;
    }
    writeln!(out)?;
    print_latency(out, "commits", &writing.commit_latency)?;
    let latency = percentiles(&writing.checkpoint_latency);
    if let Some(latency) = latency {
        let checkpoints = counted(writing.checkpoints, "checkpoint", "checkpoints");
        writeln!(out, "           {checkpoints}: {latency}")?;
    }
    let waits = &writing.handle_wait_latency;
    if let Some(latency) = percentiles(waits) {
        let changes = counted(waits.count, "change", "changes");
        writeln!(
            out,
            "           {changes} waited for the journal: {latency}"
        )?;
    }
    Ok(())
}

/// Prints the requests, after the line with the transport.
pub(super) fn print_requests(out: &mut dyn Write, requests: &RequestStats) -> io::Result<()> {
    if let Some(text) = idle(requests) {
        writeln!(out, "           {text}")?;
    }
    let mut operations: Vec<_> = requests.operations.iter().collect();
    operations.sort_by_key(|one| Reverse(one.requests));
    if operations.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "           {:<15} {:>11} {:>8} {:>8} {:>8} {:>8} {:>8} {:>11}",
        "operation", "requests", "errors", "p50", "p90", "p99", "longest", "content"
    )?;
    for one in operations.iter().take(OPERATIONS) {
        let shown = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
        let latency = &one.latency;
        writeln!(
            out,
            "           {:<15} {:>11} {:>8} {:>8} {:>8} {:>8} {:>8} {:>11}",
            one.operation,
            one.requests,
            one.errors,
            shown(latency.p50_ns),
            shown(latency.p90_ns),
            shown(latency.p99_ns),
            shown(latency.max_ns),
            match one.bytes {
                0 => "-".to_owned(),
                bytes => human(bytes),
            },
        )?;
    }
    let others = operations.len().saturating_sub(OPERATIONS);
    if others > 0 {
        let others = counted(others as u64, "other operation", "other operations");
        writeln!(out, "           {others}: see --json")?;
    }
    for one in operations {
        // With this error, the server declines an operation that the kernel then performs itself.
        let errnos = one.errnos.iter().filter(|(errno, _)| *errno != "ENOSYS");
        let errnos: Vec<_> = errnos
            .map(|(errno, count)| format!("{errno} {count}"))
            .collect();
        if !errnos.is_empty() {
            let errnos = errnos.join(", ");
            writeln!(out, "           errors of {}: {errnos}", one.operation)?;
        }
    }
    Ok(())
}

/// Returns the time without requests. If it is known that no request waits for an answer, also returns what follows from
/// that: the kernel has answered all accesses of that time itself. Returns `None` if requests arrived recently, or wait for
/// an answer.
fn idle(requests: &RequestStats) -> Option<String> {
    let answered = match requests.waiting {
        Some(0) => |by: &str| format!(": {by}"),
        Some(_) => return None,
        None => |_: &str| String::new(),
    };
    let (what, ns, cache) = match requests.idle_ns {
        None => {
            let by = answered("any access was answered by the kernel's own caches");
            return Some(format!("none yet{by}"));
        }
        Some(ns) if ns >= IDLE_NS => (
            "none",
            ns,
            "any access since then was answered by the kernel's own caches",
        ),
        Some(_) => {
            let reads = requests
                .operations
                .iter()
                .find(|one| one.operation == "read");
            let ns = reads.map_or(requests.uptime_ns, |reads| reads.idle_ns);
            if ns < NO_READ_NS {
                return None;
            }
            (
                "no read",
                ns,
                "any read since then was answered by the kernel's page cache",
            )
        }
    };
    let by = answered(cache);
    Some(format!("{what} in the last {}{by}", duration(ns)))
}

/// Prints the busiest files and processes.
pub(super) fn print_hot(out: &mut dyn Write, hot: &HotStats) -> io::Result<()> {
    let files = hot.files.iter().map(|file| (file_name(file), &file.load));
    print_busiest(out, "files", files)?;
    let processes = hot.processes.iter();
    print_busiest(
        out,
        "processes",
        processes.map(|one| (process_name(one), &one.load)),
    )
}

fn print_busiest<'a>(
    out: &mut dyn Write,
    title: &str,
    busiest: impl Iterator<Item = (String, &'a Load)>,
) -> io::Result<()> {
    for (at, (name, load)) in busiest.take(BUSIEST).enumerate() {
        let title = if at == 0 { title } else { "" };
        let requests = counted(load.requests, "request", "requests");
        write!(
            out,
            "{title:<10} {requests:>16}, {:.1}/s",
            load.requests_per_s
        )?;
        for (rate, what) in [
            (load.read_bytes_per_s, "read"),
            (load.written_bytes_per_s, "written"),
        ] {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the rate is never negative"
            )]
            let bytes = rate as u64;
            if bytes > 0 {
                write!(out, ", {}/s {what}", human(bytes))?;
            }
        }
        writeln!(out, "  {name}")?;
    }
    Ok(())
}

/// Returns the path of a file, with escapes, or its inode number if the path is not known.
fn file_name(file: &HotFile) -> String {
    let bytes = file.path_hex.as_deref().and_then(bytes_of_hex);
    let path = file.path.as_deref().map(str::as_bytes);
    match bytes.as_deref().or(path) {
        Some(path) => name::escaped(path),
        None => format!("inode {}", file.ino),
    }
}

/// Returns the bytes that `hex` describes, or `None` if it is invalid.
fn bytes_of_hex(hex: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    let bytes = pairs.iter().map(byte).collect::<Option<_>>();
    bytes.filter(|_| rest.is_empty())
}

/// Returns the name of a process, with escapes, and its ID.
fn process_name(process: &BusyProcess) -> String {
    if process.pid == 0 {
        return "the kernel".to_owned();
    }
    let name = process.name.as_ref();
    let name = name.map_or_else(|| "?".to_owned(), |name| name::escaped(name.as_bytes()));
    let ended = if process.is_running { "" } else { ", ended" };
    format!("{name} ({}{ended})", process.pid)
}

/// Returns a duration with three digits at most, as in `850 ns`, `1.5 ms` or `42 s`.
fn duration(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    let unit = units.into_iter().find(|(unit_ns, _)| ns >= *unit_ns);
    let Some((unit_ns, unit)) = unit else {
        return format!("{ns} ns");
    };
    let tenths = ns / (unit_ns / 10);
    if tenths < 100 {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    } else {
        format!("{} {unit}", tenths / 10)
    }
}

/// Returns a count with its noun.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder::OperationStats;

    fn printed(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn durations_have_a_unit_that_fits() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1000, "1.0 us"),
            (1792, "1.7 us"),
            (40_960, "40 us"),
            (1_572_864, "1.5 ms"),
            (999_999_999, "999 ms"),
            (2_500_000_000, "2.5 s"),
            (86_400_000_000_000, "86400 s"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    fn operation(name: &str, requests: u64, idle_ns: u64) -> OperationStats {
        OperationStats {
            operation: name.to_owned(),
            requests,
            idle_ns,
            latency: LatencyStats {
                count: requests,
                p50_ns: Some(1792),
                p90_ns: Some(3072),
                p99_ns: Some(10_240),
                max_ns: Some(2_000_000),
                ..LatencyStats::default()
            },
            ..OperationStats::default()
        }
    }

    #[test]
    fn operations_are_shown_with_errors_and_percentiles() {
        let mut read = operation("read", 400, 0);
        read.errors = 4;
        read.errnos = [("EIO".to_owned(), 3), ("ENOSYS".to_owned(), 1)].into();
        read.bytes = 3 << 20;
        let requests = RequestStats {
            idle_ns: Some(0),
            operations: vec![operation("lookup", 30, 0), read],
            ..RequestStats::default()
        };
        let expected = "           \
operation          requests   errors      p50      p90      p99  longest     content
           read                    400        4   1.7 us   3.0 us    10 us   2.0 ms     3.0 MiB
           lookup                   30        0   1.7 us   3.0 us    10 us   2.0 ms           -
           errors of read: EIO 3
";
        assert_eq!(printed(|out| print_requests(out, &requests)), expected);
    }

    #[test]
    fn rare_operations_are_only_counted() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        let requests = RequestStats {
            idle_ns: Some(0),
            operations: names.map(|name| operation(name, 1, 0)).into(),
            ..RequestStats::default()
        };
        let text = printed(|out| print_requests(out, &requests));
        assert!(text.contains("2 other operations: see --json"), "{text}");
        assert_eq!(text.lines().count(), 2 + OPERATIONS);
    }

    #[test]
    fn time_without_requests_is_explained() {
        let second_ns = 1_000_000_000;
        let requests = |idle_ns, operations| RequestStats {
            uptime_ns: 60 * second_ns,
            idle_ns,
            operations,
            waiting: Some(0),
            ..RequestStats::default()
        };
        let mut none = requests(None, Vec::new());
        let expected = "none yet: any access was answered by the kernel's own caches";
        assert_eq!(idle(&none).as_deref(), Some(expected));
        let idle_for = |seconds: u64| {
            let ns = seconds * second_ns;
            idle(&requests(Some(ns), vec![operation("read", 1, ns)]))
        };
        let expected =
            "none in the last 42 s: any access since then was answered by the kernel's own caches";
        assert_eq!(idle_for(42).as_deref(), Some(expected));
        assert_eq!(idle_for(1), None);
        // Names and attributes were requested recently, but no content.
        let names = operation("lookup", 1, 0);
        let old_read = operation("read", 1, 30 * second_ns);
        let reads = |operations| idle(&requests(Some(0), operations));
        let expected =
            "no read in the last 30 s: any read since then was answered by the kernel's page cache";
        assert_eq!(
            reads(vec![names.clone(), old_read]).as_deref(),
            Some(expected)
        );
        let never = reads(vec![names]).unwrap();
        assert!(never.starts_with("no read in the last 60 s: "), "{never}");
        none.waiting = Some(1);
        assert_eq!(idle(&none), None);
        // Without the FUSE control file system, requests may wait.
        none.waiting = None;
        assert_eq!(idle(&none).as_deref(), Some("none yet"));
        none.idle_ns = Some(42 * second_ns);
        assert_eq!(idle(&none).as_deref(), Some("none in the last 42 s"));
    }

    #[test]
    fn names_of_files_and_programs_are_escaped() {
        let load = Load {
            requests: 1,
            requests_per_s: 0.25,
            read_bytes_per_s: 2048.5,
            written_bytes_per_s: 0.0,
        };
        let file = |path: Option<&str>| HotFile {
            ino: 12,
            path: path.map(str::to_owned),
            path_hex: None,
            load,
        };
        let process = |pid, name: Option<&str>, is_running| BusyProcess {
            pid,
            name: name.map(str::to_owned),
            is_running,
            load,
        };
        let hot = HotStats {
            files: vec![
                file(Some("/a\u{1b}[31m\nb\u{202e}")),
                HotFile {
                    path_hex: Some("2f61ff".to_owned()),
                    ..file(Some("/a\u{fffd}"))
                },
                file(None),
            ],
            processes: vec![
                process(7, Some("ev\u{1b}]0;x\u{7}il"), true),
                process(8, None, false),
                process(0, None, true),
            ],
        };
        let expected =
            "files             1 request, 0.2/s, 2.0 KiB/s read  /a\\033[31m\\nb\\342\\200\\256
                  1 request, 0.2/s, 2.0 KiB/s read  /a\\377
                  1 request, 0.2/s, 2.0 KiB/s read  inode 12
processes         1 request, 0.2/s, 2.0 KiB/s read  ev\\033]0;x\\007il (7)
                  1 request, 0.2/s, 2.0 KiB/s read  ? (8, ended)
                  1 request, 0.2/s, 2.0 KiB/s read  the kernel
";
        assert_eq!(printed(|out| print_hot(out, &hot)), expected);
    }

    #[test]
    fn journal_is_shown_with_reasons_and_waits() {
        let latency = operation("", 3, 0).latency;
        let writing = WritingStats {
            commits: 3,
            sync_commits: 2,
            timed_commits: 1,
            logged_blocks: 26,
            commit_latency: latency.clone(),
            checkpoints: 1,
            checkpoint_latency: latency.clone(),
            handle_wait_latency: latency,
            ..WritingStats::default()
        };
        let expected = "\
journal    3 commits: 2 for syncs, 1 after 5 s, 0 for space; 26 blocks logged
           commits: half within 1.7 us, 99% within 10 us
           1 checkpoint: half within 1.7 us, 99% within 10 us
           3 changes waited for the journal: half within 1.7 us, 99% within 10 us
";
        assert_eq!(printed(|out| print_journal(out, &writing)), expected);
        let none = WritingStats::default();
        assert_eq!(
            printed(|out| print_journal(out, &none)),
            "journal    0 commits\n"
        );
    }
}
