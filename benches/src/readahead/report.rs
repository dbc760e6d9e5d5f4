//! The report of a run as Markdown, for the terminal and for the documentation.

use std::fmt::Write;

use larder_readahead::PolicyName;

use crate::measure::{as_f64, megabytes};
use crate::readahead::case::INTERLEAVED_READERS;
use crate::readahead::peer::Peer;
use crate::readahead::plan::{Disk, Plan, READ_AHEAD_BYTES, REQUEST_BYTES, SLOW_DISK};
use crate::readahead::results::{Results, Sample};
use crate::report::counted;
use crate::verdict::{self, Verdict};

/// The cases with a target, and the minimum rate of the mount with [`MODERN`] relative to the kernel's.
const TARGETS: [(&str, f64); 4] = [
    ("interleaved", 0.9),
    ("streams", 1.0),
    ("slow-streams", 1.0),
    ("slow-thrashing", 1.0),
];

const MODERN: Peer = Peer::Policy(PolicyName::Modern);

/// Returns the whole report, without a title.
#[must_use]
pub fn page(results: &Results) -> String {
    let mut text = heading(results);
    for disk in [Disk::Fast, Disk::Slow] {
        let cases = results.cases();
        let cases: Vec<&str> = cases
            .into_iter()
            .filter_map(|(of, case)| (of == disk).then_some(case))
            .collect();
        let mut peers = sides(results, &cases);
        peers.retain(|peer| !peer.is_exact());
        if peers.is_empty() {
            continue;
        }
        let _ = writeln!(text, "## {}\n", disk_title(disk));
        text.push_str(&rates(results, &peers, &cases));
        text.push_str(&device_reads(results, &peers, &cases));
    }
    text.push_str(&thrashing(results));
    let _ = write!(
        text,
        "## Targets\n\n{}\n",
        verdict::table(&verdicts(results))
    );
    for (title, lines) in [
        ("Not measured", &results.outcome.skipped),
        ("Failed", &results.outcome.failures),
    ] {
        if !lines.is_empty() {
            let _ = writeln!(text, "## {title}\n");
            for line in lines {
                let _ = writeln!(text, "- {line}");
            }
            text.push('\n');
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn heading(results: &Results) -> String {
    let mut text = String::new();
    let (origin, plan) = (&results.origin, &results.plan);
    let _ = writeln!(
        text,
        "`{}` ran for {:.0} minutes on {} with {}.",
        results.command,
        (results.seconds / 60.0).ceil(),
        origin,
        results.versions.join(" and "),
    );
    let _ = writeln!(
        text,
        "Medians of {} on the fast disk and {} on the slow one. Compare rates only within a row.\n",
        counted(plan.rounds, "round"),
        counted(plan.slow_rounds, "round"),
    );
    let cases = results.cases();
    let cases: Vec<&str> = cases.into_iter().map(|(_, case)| case).collect();
    let has_exact = sides(results, &cases).into_iter().any(Peer::is_exact);
    text.push_str(&explanation(plan, has_exact));
    text
}

/// Describes the measurements, and their deviations from the published ones. `has_exact` states whether exact
/// policies were measured.
fn explanation(plan: &Plan, has_exact: bool) -> String {
    let mib = |bytes: u64| bytes >> 20;
    let exact = if has_exact {
        "| legacy-exact, ondemand-exact | the same with the option `readahead_exact`, as in Linux 2.6.20 and 2.6.23: \
         windows are not limited to a stream's share of the cache; only in published measurements |\n"
    } else {
        ""
    };
    format!(
        "| side | description |\n|---|---|\n\
         | kernel | the kernel's ext4 |\n\
         | larder | `larder mount` with its defaults: FUSE's cache and readahead above it, the readahead of the block device below it |\n\
         | off, legacy, … | `larder mount --readahead NAME -o direct_io,direct_device`: every read reaches the policy, and the device receives only the reads of the policy |\n{exact}\n\
         All sides read the same image, each time on a new loop device and a new mount. The loop device \
         uses direct I/O, so that the image is not cached below it. Windows have at most {} KiB. The block \
         layer counts the reads of the device. A control group limits the memory of the readers and their \
         page cache, and for Larder also of the server. The cache of a policy's mount is three quarters \
         of the limit. The cache of `larder` is one quarter, because FUSE's page cache is limited too.\n\n\
         - `read` to `pread`: fio with requests of {} KiB and one reader, in iozone's patterns; {} MiB of memory \
         for a file of {} MiB (slow disk: {} and {}). Stride is one request in 17; mixed is half sequential \
         and half random. The patterns that write are omitted, because the mount is read-only.\n\
         - `sysbench-N`: N threads with random reads of {} KiB in sysbench's default distribution (some parts \
         are hot), in the same memory. sysbench's fileio opens files for writing even if it only reads, so \
         a script for sysbench repeats its `rndrd`; `rndrw` requires a read-write mount.\n\
         - `interleaved`: {} readers of one cold file; each reads its own region from start to end, through its \
         own descriptor. `interleaved-one-fd`: the same reads in turns through one descriptor. Memory is not \
         limited.\n\
         - `streams`: {} streams on separate files, without a limit of their rates, in {} MiB of memory.\n\
         - `thrashing`: the same with {} KB/s each; {} more start each second, then all run for {} s.\n\n",
        READ_AHEAD_BYTES >> 10,
        REQUEST_BYTES >> 10,
        mib(plan.fast.memory_bytes),
        mib(plan.fast.sequential_bytes),
        mib(plan.slow.memory_bytes),
        mib(plan.slow.sequential_bytes),
        REQUEST_BYTES >> 10,
        INTERLEAVED_READERS,
        plan.streams,
        mib(plan.stream_memory_bytes),
        plan.paced.bytes_per_second / 1000,
        plan.paced.starts_per_second,
        plan.paced.together_seconds,
    )
}

fn disk_title(disk: Disk) -> String {
    match disk {
        Disk::Fast => "The machine's storage".to_owned(),
        Disk::Slow => format!(
            "A disk with {} MB/s and {} reads per second",
            SLOW_DISK.bytes_per_second / 1_000_000,
            SLOW_DISK.reads_per_second
        ),
    }
}

/// Returns the sides on which any of `cases` was measured.
fn sides(results: &Results, cases: &[&str]) -> Vec<Peer> {
    let is_measured = |peer: &Peer| {
        let mut cases = cases.iter();
        cases.any(|case| results.of(case, *peer).next().is_some())
    };
    Peer::all().into_iter().filter(is_measured).collect()
}

/// Returns a table with a row for each case and a column for each side.
fn table(
    title: &str,
    peers: &[Peer],
    cases: &[&str],
    cell: impl Fn(&str, Peer) -> String,
) -> String {
    let mut text = format!("| {title} |");
    for peer in peers {
        let _ = write!(text, " {} |", peer.name());
    }
    text.push_str("\n|---|");
    text.push_str(&"---:|".repeat(peers.len()));
    text.push('\n');
    for case in cases {
        let _ = write!(text, "| {case} |");
        for peer in peers {
            let _ = write!(text, " {} |", cell(case, *peer));
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

fn rates(results: &Results, peers: &[Peer], cases: &[&str]) -> String {
    table("MB/s (ratio to the kernel)", peers, cases, |case, peer| {
        rate_cell(results, case, peer, |sample| {
            Some(sample.megabytes_per_second())
        })
    })
}

/// Returns the median of a rate, and its ratio to the kernel's.
fn rate_cell(
    results: &Results,
    case: &str,
    peer: Peer,
    rate: fn(&Sample) -> Option<f64>,
) -> String {
    let Some(median) = results.median(case, peer, rate) else {
        return "-".to_owned();
    };
    let number = if median < 100.0 {
        format!("{median:.1}")
    } else {
        format!("{median:.0}")
    };
    match results.median(case, Peer::Kernel, rate) {
        Some(kernel) if peer != Peer::Kernel => format!("{number} ({:.2})", median / kernel),
        _ => number,
    }
}

fn device_reads(results: &Results, peers: &[Peer], cases: &[&str]) -> String {
    let title = "device MB per MB read, mean device read in KiB";
    table(title, peers, cases, |case, peer| {
        let share = |sample: &Sample| {
            (sample.bytes > 0).then(|| megabytes(sample.device.bytes) / megabytes(sample.bytes))
        };
        match (
            results.median(case, peer, share),
            results.median(case, peer, mean_read_kib),
        ) {
            (Some(share), Some(kib)) => format!("{share:.2}, {kib:.0}"),
            _ => "-".to_owned(),
        }
    })
}

fn mean_read_kib(sample: &Sample) -> Option<f64> {
    (sample.device.reads > 0).then(|| kib(sample.device.mean_bytes()))
}

fn kib(bytes: u64) -> f64 {
    as_f64(bytes) / 1024.0
}

/// Returns the section on thrashing, with the same figures as in the published measurement.
fn thrashing(results: &Results) -> String {
    let case = "slow-thrashing";
    let rows: Vec<String> = Peer::all()
        .into_iter()
        .filter_map(|peer| {
            let value = |value: fn(&Sample) -> Option<f64>| results.median(case, peer, value);
            Some(format!(
                "| {} | {:.1} | {:.1} | {:.0} | {:.0} |\n",
                peer.name(),
                value(Sample::max_megabytes_per_second)?,
                value(Sample::last_megabytes_per_second)?,
                value(|sample| sample.min_mean_read_bytes().map(kib))?,
                value(mean_read_kib)?,
            ))
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let plan = &results.plan;
    format!(
        "## Thrashing\n\n\
         {} streams of {} KB/s request {} MB/s at the end. Published, with 128 MB of memory and one new \
         stream per second: at most 5 MB/s in reads that shrank to 16 KB with Linux 2.6.20 (`legacy`), and \
         15 MB/s in reads of 140 KB with on-demand readahead (`ondemand`). The largest and smallest values \
         are over intervals of 5 seconds.\n\n\
         | side | largest rate, MB/s | at the end, MB/s | smallest mean read, KiB | mean read, KiB |\n\
         |---|---:|---:|---:|---:|\n{}\n",
        plan.streams,
        plan.paced.bytes_per_second / 1000,
        megabytes(u64::from(plan.streams) * plan.paced.bytes_per_second),
        rows.concat(),
    )
}

/// Returns the verdicts of the run. They judge the rate of the mount with [`MODERN`], relative to the
/// kernel's rate.
#[must_use]
pub fn verdicts(results: &Results) -> Vec<Verdict> {
    let verdicts = TARGETS.iter().map(|(case, least)| {
        let ratio = results
            .rate(case, MODERN)
            .zip(results.rate(case, Peer::Kernel))
            .map(|(rate, kernel)| rate / kernel);
        Verdict::new(
            &format!("`{case}`, rate under `{}` / kernel", MODERN.name()),
            &format!("at least {least}"),
            ratio,
            |ratio| ratio >= *least,
        )
    });
    verdicts.filter(|one| !one.figures.is_empty()).collect()
}
