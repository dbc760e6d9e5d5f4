//! The command `larder stats`: shows the statistics of a mount.

mod activity;

use crate::args::StatsArgs;
use crate::json;
use activity::{counted, print_hot, print_journal, print_latency, print_requests};
use larder::tables::Finder;
use larder::{
    AttributeStats, CacheStats, DeviceStats, MbCacheStats, MbCacheVariant, MountTransport,
    RecordingStats, ServerCounts, Stats, WritingStats,
};
use larder_console::size::human;
use larder_console::{Result, name, print_note, write_json};
use larder_fuse::{Transport, find_mount, server_of};
use larder_observe::exposition;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

pub(super) fn run(args: &StatsArgs) -> Result<ExitCode> {
    let mount = server_of(&find_mount(&args.mountpoint)?)?;
    if let Some(cache) = args.histogram {
        let report = mount.histogram(cache.into())?;
        if args.json {
            write_json(&json::Histogram::new(&report))?;
        } else {
            print(|out| write!(out, "{report}"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.prometheus {
        let stats = mount.counts()?;
        let mountpoint = mount.mountpoint.to_string_lossy();
        let labels = [("mountpoint", &*mountpoint)];
        print(|out| out.write_all(exposition(&stats, Some(&mountpoint), &labels).as_bytes()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let stats = mount.stats()?;
    if args.json {
        write_json(&stats)?;
    } else {
        print(|out| print_text(out, &stats))?;
        note_no_lookups(&stats);
        if mount.owner == 0 {
            note_slower_transport(&stats);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// If there were no lookups yet in any cache, or none in the page cache, prints a note that
/// explains why.
fn note_no_lookups(stats: &Stats) {
    if stats.caches().iter().all(|(_, cache)| cache.lookups == 0) {
        print_note(
            "no lookups yet: the kernel answers from its own caches, and requests only the rest from \
             larder",
        );
    } else if stats.page.lookups == 0 {
        print_note(
            "no pages were looked up yet: the kernel caches pages itself, and large reads bypass \
             larder's page cache; with mount --direct-io, larder serves every read",
        );
    }
}

/// If requests pass through /dev/fuse because `io_uring` is off, prints a note that says how to enable it. Mounts of
/// users other than root do not use it by default.
fn note_slower_transport(stats: &Stats) {
    if stats.transport != Some(MountTransport::Device) {
        return;
    }
    let is_offered = fs::read(Transport::URING_PARAMETER).unwrap_or_default();
    let is_disabled = fs::read("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    if let Some(command) = command_to_enable(&is_offered, &is_disabled) {
        print_note(&format!(
            "io_uring is off; walks of directory trees are faster with it: as root, {command}, and \
             mount again"
        ));
    }
}

/// Returns the command with which root enables `io_uring`, from the contents of [`Transport::URING_PARAMETER`] and of the
/// sysctl `kernel.io_uring_disabled`. Returns `None` if neither disables it for root.
fn command_to_enable(is_offered: &[u8], is_disabled: &[u8]) -> Option<String> {
    if is_offered.starts_with(b"N") {
        Some(format!("echo Y > {}", Transport::URING_PARAMETER))
    } else if is_offered.starts_with(b"Y") && is_disabled.starts_with(b"2") {
        Some("sysctl kernel.io_uring_disabled=0".to_owned())
    } else {
        None
    }
}

fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = io::stdout().lock();
    write(&mut out)?;
    Ok(out.flush()?)
}

fn print_text(out: &mut dyn Write, stats: &Stats) -> io::Result<()> {
    writeln!(
        out,
        "{:<7} {:>9} {:>9} {:>9} {:>11} {:>7} {:>10} {:>10} {:>8} {:>10}",
        "cache",
        "buckets",
        "objects",
        "capacity",
        "lookups",
        "hits",
        "links/hit",
        "links/miss",
        "longest",
        "memory"
    )?;
    for (kind, cache) in stats.caches() {
        print_cache(out, kind.as_str(), cache)?;
    }
    let used = stats.caches().map(|(_, cache)| cache.bytes).iter().sum();
    let (used, most) = (human(used), human(stats.cache_size_bytes));
    writeln!(out, "\nmemory     {used} of {most}")?;
    writeln!(out, "tables     {}", stats.tables)?;
    let finders = stats
        .caches()
        .map(|(kind, cache)| format!("{} {}", kind.as_str(), cache.finder));
    writeln!(out, "           {}", finders.join(", "))?;
    let readahead = &stats.readahead;
    writeln!(
        out,
        "readahead  {}, at most {} at once{}",
        readahead.policy,
        human(readahead.max_bytes),
        if readahead.exact { ", exact" } else { "" }
    )?;
    writeln!(
        out,
        "           {}, {} ahead, {} used, {} wasted",
        counted(readahead.windows, "window", "windows"),
        counted(readahead.pages_ahead, "page", "pages"),
        readahead.pages_used,
        readahead.pages_wasted
    )?;
    if let Some(trees) = &stats.tree_readahead {
        writeln!(
            out,
            "           {} ahead, {} used",
            counted(trees.directories_ahead, "directory", "directories"),
            trees.directories_used
        )?;
    }
    if let Some(attributes) = &stats.attributes {
        print_attributes(out, attributes)?;
    }
    let device = &stats.device;
    writeln!(
        out,
        "device     {}, {}, {}",
        device.back_end,
        counted(device.reads, "read", "reads"),
        human(device.bytes)
    )?;
    print_latency(out, "reads", &device.read_latency)?;
    if let Some(server) = &stats.server {
        print_server(out, server)?;
    }
    if let Some(writing) = &stats.writing {
        print_writing(out, device, writing)?;
    }
    if let Some(transport) = stats.transport {
        writeln!(
            out,
            "requests   through {transport}{}",
            match (&stats.writing, stats.collects_writes) {
                (Some(_), Some(true)) => "; the kernel collects writes",
                (Some(_), Some(false)) => "; the kernel sends each write at once",
                _ => "",
            }
        )?;
    }
    if let Some(requests) = &stats.requests {
        print_requests(out, requests)?;
    }
    if let Some(hot) = &stats.hot {
        print_hot(out, hot)?;
    }
    if let Some(recording) = &stats.recording {
        print_recording(out, recording)?;
    }
    Ok(())
}

/// Prints a line with the label `what` and the reason `why`. Prints nothing if `why` is `None`.
fn print_end(out: &mut dyn Write, what: &str, why: Option<&String>) -> io::Result<()> {
    match why {
        Some(why) => writeln!(out, "           {what}: {}", name::escaped(why.as_bytes())),
        None => Ok(()),
    }
}

fn print_server(out: &mut dyn Write, server: &ServerCounts) -> io::Result<()> {
    writeln!(
        out,
        "server     {}, {} fetched, {} of them ahead; {} from memory, {} from disk",
        counted(server.requests, "request", "requests"),
        human(server.fetched_bytes),
        human(server.ahead_bytes),
        human(server.memory_bytes),
        human(server.disk_bytes)
    )?;
    if server.profile_bytes > 0 {
        writeln!(
            out,
            "           {} fetched for the profile, {} of them used",
            human(server.profile_bytes),
            human(server.profile_used_bytes)
        )?;
    }
    if let Some(rate) = server.bandwidth_bytes() {
        writeln!(
            out,
            "           {} per second while requests were in flight",
            human(rate)
        )?;
    }
    if let (Some(median), Some(p99)) = (server.latency_p50_us, server.latency_p99_us) {
        writeln!(
            out,
            "           half of the requests within {} ms, 99% within {} ms; {} repeated, {} failed",
            median.div_ceil(1000),
            p99.div_ceil(1000),
            server.repeated,
            server.failed
        )?;
    }
    if server.unversioned {
        writeln!(
            out,
            "           no strong ETag: a replaced image is detected only by its length and time"
        )?;
    }
    print_end(out, "last failure", server.last_failure.as_ref())
}

fn print_recording(out: &mut dyn Write, recording: &RecordingStats) -> io::Result<()> {
    writeln!(
        out,
        "recording  {} to {}, {} lost",
        counted(recording.events, "event", "events"),
        name::escaped(recording.file.as_bytes()),
        recording.lost
    )?;
    let what = "ended: the trace cannot be written any more";
    print_end(out, what, recording.failure.as_ref())
}

fn print_attributes(out: &mut dyn Write, attributes: &AttributeStats) -> io::Result<()> {
    if attributes.variant == MbCacheVariant::Off {
        return writeln!(out, "attributes off: none are shared");
    }
    let shares = counted(attributes.shares, "share", "shares");
    let (variant, saved) = (attributes.variant, human(attributes.saved_bytes));
    writeln!(
        out,
        "attributes {variant}, {shares}, {saved} saved on the image"
    )?;
    print_mbcache(out, "blocks", &attributes.blocks)?;
    // Only an image with ea_inode has shared inodes.
    if attributes.inodes.limit_entries > 0 {
        print_mbcache(out, "inodes", &attributes.inodes)?;
    }
    Ok(())
}

fn print_mbcache(out: &mut dyn Write, of_what: &str, cache: &MbCacheStats) -> io::Result<()> {
    writeln!(
        out,
        "  {of_what}   {} of {} entries, {} bytes each",
        cache.entries, cache.limit_entries, cache.entry_bytes
    )?;
    writeln!(
        out,
        "           {}, {}",
        counted(cache.lookups, "lookup", "lookups"),
        counted(cache.hits, "hit", "hits")
    )?;
    writeln!(
        out,
        "           {} dropped by the limit, {} by the shrinker",
        cache.dropped_by_limit, cache.dropped_by_shrinker
    )
}

fn print_writing(
    out: &mut dyn Write,
    device: &DeviceStats,
    writing: &WritingStats,
) -> io::Result<()> {
    let writes = counted(device.writes, "write", "writes");
    let flushes = counted(device.flushes, "flush", "flushes");
    let written = human(device.written_bytes);
    writeln!(out, "           {writes}, {written}, {flushes}")?;
    print_latency(out, "writes", &device.write_latency)?;
    print_latency(out, "flushes", &device.flush_latency)?;
    let content = human(writing.dirty_bytes);
    let metadata = human(writing.dirty_metadata_bytes);
    writeln!(
        out,
        "writing    {content} of content and {metadata} of metadata not yet written"
    )?;
    print_journal(out, writing)?;
    print_end(out, "turned read-only", writing.read_only_because.as_ref())
}

fn print_cache(out: &mut dyn Write, name: &str, cache: &CacheStats) -> io::Result<()> {
    let searches = cache.searches();
    let hit_rate = ratio(cache.hits.saturating_mul(100), cache.lookups, 1);
    writeln!(
        out,
        "{name:<7} {:>9} {:>9} {:>9} {:>11} {:>7} {:>10} {:>10} {:>8} {:>10}",
        if cache.finder == Finder::RedBlackTrees {
            "-".to_owned()
        } else {
            cache.buckets.to_string()
        },
        cache.objects,
        cache.capacity,
        cache.lookups,
        hit_rate.map_or("-".to_owned(), |rate| rate + "%"),
        ratio(searches.links_on_hits, searches.hits, 2).unwrap_or("-".to_owned()),
        ratio(searches.links_on_misses, searches.misses, 2).unwrap_or("-".to_owned()),
        cache
            .longest_chain
            .map_or("-".to_owned(), |links| links.to_string()),
        human(cache.bytes),
    )
}

/// Returns `part` divided by `whole`, with `decimals` decimals, or `None` if `whole` is 0.
#[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
fn ratio(part: u64, whole: u64, decimals: usize) -> Option<String> {
    (whole > 0).then(|| format!("{:.decimals$}", part as f64 / whole as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder::tables::Function;
    use larder::{PolicyName, Tables, TreeReadaheadStats};

    #[test]
    fn command_to_enable_depends_on_the_setting_that_disables() {
        let enable = Some("echo Y > /sys/module/fuse/parameters/enable_uring".to_owned());
        assert_eq!(command_to_enable(b"N\n", b"0\n"), enable);
        assert_eq!(command_to_enable(b"N\n", b"2\n"), enable);
        let permit = Some("sysctl kernel.io_uring_disabled=0".to_owned());
        assert_eq!(command_to_enable(b"Y\n", b"2\n"), permit);
        // 1 disables it for users other than root.
        for disabled in [&b"0\n"[..], b"1\n", b""] {
            assert_eq!(command_to_enable(b"Y\n", disabled), None);
        }
        // Linux before 6.14 has no such parameter.
        assert_eq!(command_to_enable(b"", b"2\n"), None);
    }

    #[test]
    fn table_shows_rates_and_links_per_lookup() {
        let mut stats = Stats::default();
        stats.cache_size_bytes = 1 << 20;
        stats.readahead.policy = PolicyName::Modern;
        stats.readahead.max_bytes = 128 << 10;
        stats.tables = Tables::D;
        stats.page = CacheStats {
            finder: Finder::Function(Function::PageOffset),
            buckets: 1024,
            objects: 100,
            inserted: 160,
            capacity: 200,
            lookups: 1000,
            hits: 750,
            by_reference: 0,
            links_on_hits: 900,
            links_on_misses: 125,
            longest_chain: Some(4),
            bytes: 400 << 10,
        };
        let text = shown(&stats);
        let page = text.lines().nth(1).unwrap();
        let cells: Vec<&str> = page.split_whitespace().collect();
        assert_eq!(
            cells,
            [
                "page", "1024", "100", "200", "1000", "75.0%", "1.20", "0.50", "4", "400.0", "KiB"
            ]
        );
        assert!(text.lines().nth(2).unwrap().contains(" - "), "{text}");
        assert!(text.contains("memory     400.0 KiB of 1.0 MiB"), "{text}");
        let tables = "tables     D\n           page page-offset, buffer larder,";
        assert!(text.contains(tables), "{text}");
        let readahead = "readahead  modern, at most 128.0 KiB at once\n";
        assert!(text.contains(readahead), "{text}");
        stats.readahead.exact = true;
        let readahead = "readahead  modern, at most 128.0 KiB at once, exact\n";
        assert!(shown(&stats).contains(readahead), "{text}");
        stats.tree_readahead = Some(TreeReadaheadStats {
            directories_ahead: 16,
            directories_used: 1,
        });
        let text = shown(&stats);
        assert!(text.contains("16 directories ahead, 1 used\n"), "{text}");
    }

    #[test]
    fn trees_show_no_buckets_and_tables_show_given_name() {
        let mut stats = Stats::default();
        stats.tables = "D+page=rbtree".parse().unwrap();
        stats.page.finder = Finder::RedBlackTrees;
        stats.page.objects = 100;
        let text = shown(&stats);
        let page: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(page[..3], ["page", "-", "100"]);
        assert!(
            text.contains("tables     D+page=rbtree\n           page rbtree,"),
            "{text}"
        );
    }

    fn shown(stats: &Stats) -> String {
        let mut out = Vec::new();
        print_text(&mut out, stats).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn shared_attributes_fit_80_columns() {
        let mut stats = Stats::default();
        assert!(!shown(&stats).contains("attributes"));
        stats.attributes = Some(AttributeStats {
            variant: MbCacheVariant::ListLru,
            blocks: MbCacheStats {
                entries: 12,
                limit_entries: 16_384,
                entry_bytes: 32,
                lookups: u64::from(u32::MAX),
                hits: 123,
                dropped_by_limit: 4,
                dropped_by_shrinker: 5,
                ..MbCacheStats::default()
            },
            shares: 120,
            saved_bytes: 120 << 12,
            ..AttributeStats::default()
        });
        let text = shown(&stats);
        let expected = "\
attributes list-lru, 120 shares, 480.0 KiB saved on the image
  blocks   12 of 16384 entries, 32 bytes each
           4294967295 lookups, 123 hits
           4 dropped by the limit, 5 by the shrinker
device ";
        assert!(text.contains(expected), "{text}");
        assert!(expected.lines().all(|line| line.len() <= 80));

        stats.attributes.as_mut().unwrap().inodes.limit_entries = 16_384;
        assert!(shown(&stats).contains("  inodes   0 of 16384 entries"));
        stats.attributes.as_mut().unwrap().variant = MbCacheVariant::Off;
        assert!(shown(&stats).contains("attributes off: none are shared"));
    }

    #[test]
    fn recording_shows_counts_and_failure() {
        let mut stats = Stats::default();
        assert!(!shown(&stats).contains("recording"));
        stats.recording = Some(RecordingStats {
            file: "disk.trace".to_owned(),
            events: 12,
            lost: 3,
            failure: Some("No space left on device".to_owned()),
        });
        let text = shown(&stats);
        let expected = "\
recording  12 events to disk.trace, 3 lost
           ended: the trace cannot be written any more: No space left on device
";
        assert!(text.ends_with(expected), "{text}");
        stats.recording.as_mut().unwrap().failure = None;
        assert!(shown(&stats).ends_with("3 lost\n"));
    }

    #[test]
    fn writing_shows_dirty_bytes_and_read_only_reason() {
        let mut stats = Stats::default();
        assert!(!shown(&stats).contains("writing"));
        stats.device.flushes = 7;
        stats.writing = Some(WritingStats {
            dirty_bytes: 5 << 20,
            dirty_metadata_bytes: 3 << 20,
            read_only_because: Some("the disk is full".to_owned()),
            ..WritingStats::default()
        });
        let text = shown(&stats);
        assert!(
            text.contains("7 flushes")
                && text.contains("5.0 MiB of content and 3.0 MiB of metadata not yet written"),
            "{text}"
        );
        assert!(
            text.contains("turned read-only: the disk is full"),
            "{text}"
        );
    }
}
