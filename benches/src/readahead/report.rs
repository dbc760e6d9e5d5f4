//! The report of a run as Markdown, for the terminal and for the documentation.

use std::fmt::Write;

use larder_readahead::PolicyName;

use crate::measure::{as_f64, median, megabytes};
use crate::readahead::case::{Case, INTERLEAVED_READERS};
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
            .filter(|(of, case)| *of == disk && Case::oltp_threads(case).is_none())
            .map(|(_, case)| case)
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
    text.push_str(&oltp(results));
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
        listed(&results.versions),
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

/// Returns `items` as a list in words, such as `a, b and c`.
fn listed(items: &[String]) -> String {
    match items {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        items => items.concat(),
    }
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

const THRASHING: &str = "slow-thrashing";

/// Returns the section on thrashing, with the same figures as in the published measurement.
fn thrashing(results: &Results) -> String {
    let rows: Vec<String> = Peer::all()
        .into_iter()
        .filter_map(|peer| {
            let cell = |value: fn(&Sample) -> Option<f64>, decimals: usize| {
                rounds_cell(results, peer, value, decimals)
            };
            Some(format!(
                "| {} | {} | {} | {} | {} |\n",
                peer.name(),
                cell(Sample::max_megabytes_per_second, 1)?,
                cell(Sample::last_megabytes_per_second, 1)?,
                cell(min_mean_read_kib, 0)?,
                cell(mean_read_kib, 0)?,
            ))
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let plan = &results.plan;
    let rounds = if plan.slow_rounds > 1 {
        " The values of the rounds are in parentheses."
    } else {
        ""
    };
    format!(
        "## Thrashing\n\n\
         {} streams of {} KB/s request {} MB/s at the end. Published, with 128 MB of memory and one new \
         stream per second: at most 5 MB/s in reads that shrank to 16 KB with Linux 2.6.20 (`legacy`), and \
         15 MB/s in reads of 140 KB with on-demand readahead (`ondemand`). The largest and smallest values \
         are over intervals of 5 seconds.{rounds}\n\n\
         | side | largest rate, MB/s | at the end, MB/s | smallest mean read, KiB | mean read, KiB |\n\
         |---|---:|---:|---:|---:|\n{}\n{}",
        plan.streams,
        plan.paced.bytes_per_second / 1000,
        megabytes(u64::from(plan.streams) * plan.paced.bytes_per_second),
        rows.concat(),
        thrashing_gains(results),
    )
}

fn min_mean_read_kib(sample: &Sample) -> Option<f64> {
    sample.min_mean_read_bytes().map(kib)
}

/// Returns the median of a value under thrashing, and the value of each round if there are several.
fn rounds_cell(
    results: &Results,
    peer: Peer,
    value: fn(&Sample) -> Option<f64>,
    decimals: usize,
) -> Option<String> {
    let rounds = results.of(THRASHING, peer).filter_map(value);
    let rounds: Vec<f64> = rounds.collect();
    let text = format!("{:.decimals$}", median(&rounds)?);
    if rounds.len() == 1 {
        return Some(text);
    }
    let each = rounds.iter().map(|round| format!("{round:.decimals$}"));
    let each: Vec<String> = each.collect();
    Some(format!("{text} ({})", each.join(", ")))
}

/// A figure under thrashing: its name, its value, and the published gain.
type ThrashingGain = (&'static str, fn(&Sample) -> Option<f64>, f64);

const THRASHING_GAINS: [ThrashingGain; 2] = [
    ("largest rate", Sample::max_megabytes_per_second, 15.0 / 5.0),
    ("smallest mean read", min_mean_read_kib, 140.0 / 16.0),
];

/// Returns a table of the gains under thrashing with the exact policies, if they were measured.
fn thrashing_gains(results: &Results) -> String {
    let rows = THRASHING_GAINS
        .iter()
        .filter_map(|(name, value, published)| {
            let gains = exact_gains(results, THRASHING, *value);
            let each: Vec<String> = gains.iter().map(|gain| format!("{gain:.2}")).collect();
            Some(format!(
                "| {name} | {:.2} | {} | {published:.2} |\n",
                median(&gains)?,
                each.join(", ")
            ))
        });
    let rows: String = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "| `ondemand-exact` / `legacy-exact` | median | in each round | published |\n\
         |---|---:|---:|---:|\n{rows}\n"
    )
}

/// Returns a value of `ondemand-exact` divided by the same value of `legacy-exact`, for each round that has both.
fn exact_gains(results: &Results, case: &str, value: fn(&Sample) -> Option<f64>) -> Vec<f64> {
    let values = |peer| {
        let samples = results.of(case, peer);
        samples.filter_map(move |sample| Some((sample.round, value(sample)?)))
    };
    let gains = values(Peer::ExactOnDemand).filter_map(|(round, ondemand)| {
        let (_, legacy) = values(Peer::ExactLegacy).find(|(of, _)| *of == round)?;
        Some(ondemand / legacy)
    });
    gains.collect()
}

/// Numbers of threads, and for each the published gain of 10,000 transactions in percent.
const OLTP_GAINS: [(u32, f64); 3] = [(1, 2.8), (8, 3.5), (64, 7.5)];

/// Returns the section on OLTP, with the published gains.
fn oltp(results: &Results) -> String {
    let cases = results.cases().into_iter().map(|(_, case)| case);
    let cases: Vec<&str> = cases
        .filter(|case| Case::oltp_threads(case).is_some())
        .collect();
    let peers = sides(results, &cases);
    if peers.is_empty() {
        return String::new();
    }
    let rates = table(
        "transactions per second (ratio to the kernel)",
        &peers,
        &cases,
        |case, peer| rate_cell(results, case, peer, Sample::transactions_per_second),
    );
    let reads = table(
        "device reads per transaction, mean device read in KiB",
        &peers,
        &cases,
        |case, peer| match (
            results.median(case, peer, Sample::reads_per_transaction),
            results.median(case, peer, mean_read_kib),
        ) {
            (Some(reads), Some(kib)) => format!("{reads:.2}, {kib:.0}"),
            _ => "-".to_owned(),
        },
    );
    let gains: String = cases.iter().map(|case| gain_row(results, case)).collect();
    let oltp = &results.plan.oltp;
    format!(
        "## OLTP\n\n\
         `oltp-N`: sysbench's `oltp_read_only` with N threads and its distribution `special`, on a MariaDB server that \
         reads its table through the mount. {} transactions read a table of {} rows (published: 10,000 and 10,000,000). \
         The buffer pool has 8 MB, the default of 2007. The cache of a policy's mount holds 85% of the table, as the \
         published memory did. On the kernel's side, more of the limit is left for the page cache. Each run starts with \
         an empty cache. `legacy` and `ondemand` are measured only exactly.\n\n{rates}{reads}\
         | gain of `ondemand-exact` over `legacy-exact` | median | in each round | published |\n\
         |---|---:|---:|---:|\n{gains}\n",
        oltp.transactions, oltp.rows,
    )
}

/// Returns a row with the gains of an OLTP case in percent.
fn gain_row(results: &Results, case: &str) -> String {
    let gains = exact_gains(results, case, Sample::transactions_per_second).into_iter();
    let gains: Vec<f64> = gains.map(|gain| (gain - 1.0) * 100.0).collect();
    let Some(median) = median(&gains) else {
        return String::new();
    };
    let each: Vec<String> = gains.iter().map(|gain| format!("{gain:+.1}%")).collect();
    let published = OLTP_GAINS
        .iter()
        .find(|(threads, _)| Some(*threads) == Case::oltp_threads(case));
    let published = published.map_or_else(|| "-".to_owned(), |(_, gain)| format!("{gain:+.1}%"));
    format!(
        "| {case} | {median:+.1}% | {} | {published} |\n",
        each.join(", ")
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    use crate::origin::Origin;
    use crate::outcome::Outcome;
    use crate::readahead::device::Reads;

    fn sample(peer: Peer, round: usize, seconds: f64) -> Sample {
        Sample {
            case: "slow-oltp-8".to_owned(),
            disk: Disk::Slow,
            peer: peer.name().to_owned(),
            round,
            bytes: 0,
            seconds,
            device: Reads {
                reads: 5000,
                bytes: 5000 << 14,
            },
            transactions: Some(2500),
            bytes_by_second: Vec::new(),
            device_by_second: Vec::new(),
        }
    }

    #[test]
    fn oltp_has_a_section_with_the_gain_of_each_round() {
        let samples = vec![
            sample(Peer::Kernel, 0, 20.0),
            sample(Peer::ExactLegacy, 0, 25.0),
            sample(Peer::ExactOnDemand, 0, 20.0),
            sample(Peer::ExactLegacy, 1, 22.0),
            sample(Peer::ExactOnDemand, 1, 20.0),
        ];
        let outcome = Outcome {
            samples,
            ..Outcome::default()
        };
        let results = Results::new(Origin::now(), Plan::standard(), Instant::now(), outcome);
        let page = page(&results);
        for line in [
            "| slow-oltp-8 | 125 | 107 (0.85) | 125 (1.00) |",
            "| slow-oltp-8 | 2.00, 16 | 2.00, 16 | 2.00, 16 |",
            "| slow-oltp-8 | +17.5% | +25.0%, +10.0% | +3.5% |",
            "| legacy-exact, ondemand-exact |",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        assert!(!page.contains("MB/s (ratio to the kernel)"), "{page}");
    }

    /// Returns a run of the streams with a rate in MB/s, and reads of this size.
    fn streams(peer: Peer, round: usize, megabytes: u64, read_kib: u64) -> Sample {
        let reads = |seconds: u64| Reads {
            reads: 10 * seconds,
            bytes: (10 * seconds * read_kib) << 10,
        };
        Sample {
            case: THRASHING.to_owned(),
            device: reads(2),
            transactions: None,
            bytes_by_second: vec![megabytes * 1_000_000; 2],
            device_by_second: (0..3).map(reads).collect(),
            ..sample(peer, round, 2.0)
        }
    }

    #[test]
    fn thrashing_has_the_values_of_each_round_and_the_gain_of_the_exact_policies() {
        let page = |samples| {
            let outcome = Outcome {
                samples,
                ..Outcome::default()
            };
            thrashing(&Results::new(
                Origin::now(),
                Plan::standard(),
                Instant::now(),
                outcome,
            ))
        };
        let kernel = streams(Peer::Kernel, 0, 12, 128);
        let text = page(vec![
            kernel.clone(),
            streams(Peer::ExactLegacy, 0, 5, 16),
            streams(Peer::ExactOnDemand, 0, 15, 128),
            streams(Peer::ExactLegacy, 1, 8, 16),
            streams(Peer::ExactOnDemand, 1, 16, 160),
        ]);
        for line in [
            "| kernel | 12.0 | 12.0 | 128 | 128 |\n",
            "| legacy-exact | 6.5 (5.0, 8.0) | 6.5 (5.0, 8.0) | 16 (16, 16) | 16 (16, 16) |\n",
            "| largest rate | 2.50 | 3.00, 2.00 | 3.00 |\n",
            "| smallest mean read | 9.00 | 8.00, 10.00 | 8.75 |\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let without = page(vec![kernel]);
        assert!(!without.contains("exact"), "{without}");
    }

    #[test]
    fn programs_are_listed_in_words() {
        let items = ["a", "b", "c"].map(str::to_owned);
        let texts: Vec<String> = (0..=3).map(|count| listed(&items[..count])).collect();
        assert_eq!(texts, ["", "a", "a and b", "a, b and c"]);
    }
}
