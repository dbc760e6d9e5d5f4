//! The report of a run as Markdown, for the terminal and for the documentation.

use std::fmt::Write;

use crate::measure::{self, Measure, Target, Unit};
use crate::outcome::absent;
use crate::peer::Peer;
use crate::results::{MeasureResult, Results};
use crate::verdict::{self, Verdict};

/// The columns of values. System calls use the kernel's mount, so they share its column.
const COLUMNS: [(&str, &[Peer]); 16] = [
    ("larder", &[Peer::Larder, Peer::Volume]),
    ("larder-dev", &[Peer::LarderDev]),
    ("larder-direct", &[Peer::LarderDirect]),
    ("larder-dev-direct", &[Peer::LarderDevDirect]),
    ("fs", &[Peer::Fs]),
    ("fuse2fs", &[Peer::Fuse2fs]),
    ("squashfuse", &[Peer::Squashfuse]),
    ("kernel", &[Peer::Kernel, Peer::Syscall]),
    ("floor", &[Peer::Floor]),
    ("floor-dev", &[Peer::FloorDev]),
    ("device", &[Peer::Device]),
    ("direct", &[Peer::Direct]),
    ("fio", &[Peer::Fio]),
    ("larder-qcow2", &[Peer::Qcow2]),
    ("larder-overlay", &[Peer::Overlay]),
    ("qemu", &[Peer::Qemu]),
];

/// Returns the whole report.
#[must_use]
pub fn page(results: &Results) -> String {
    let measures: Vec<Measure> = results.measures.iter().map(|result| result.name).collect();
    let mut text = format!("{}\n\n{}", origin(results), table(results, &measures));
    if let Some(ratios) = ratios(results, &measures) {
        let _ = write!(text, "\n{ratios}");
    }
    let verdicts = verdicts(results, &measures);
    if !verdicts.is_empty() {
        let _ = write!(text, "\n{}", verdict::table(&verdicts));
    }
    text.push_str(&absent(&results.skipped, &results.failures));
    text
}

/// Returns a sentence on the sizes, the machine and the commit of the run.
#[must_use]
pub fn origin(results: &Results) -> String {
    let plan = &results.plan;
    let measured = |peer| {
        results
            .measures
            .iter()
            .any(|row| row.medians.contains_key(&peer))
    };
    format!(
        "{} files, and one file of {} MiB; {}medians of {} on {}.",
        thousands(u64::from(plan.files)),
        plan.big_file_bytes >> 20,
        if measured(Peer::LarderDev) {
            "`larder` receives FUSE requests through io_uring, and `larder-dev` by reading /dev/fuse; "
        } else {
            ""
        },
        counted(plan.runs, "run"),
        results.origin,
    )
}

/// Returns a table with a row for each of `measures` that was selected in the run. Columns without values
/// are left out.
#[must_use]
pub fn table(results: &Results, measures: &[Measure]) -> String {
    let rows: Vec<&MeasureResult> = measures.iter().filter_map(|&one| results.of(one)).collect();
    let columns: Vec<_> = COLUMNS
        .into_iter()
        .filter(|(_, peers)| rows.iter().any(|row| median(row, peers).is_some()))
        .collect();
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut text = format!(
        "| measure | {} | unit |\n|---|{}---|\n",
        names.join(" | "),
        "---:|".repeat(names.len())
    );
    for row in rows {
        let _ = write!(text, "| `{}` |", row.name.name());
        for (_, peers) in &columns {
            let value = median(row, peers).map(|value| number(value, row.unit));
            let _ = write!(text, " {} |", value.as_deref().unwrap_or("-"));
        }
        let _ = writeln!(text, " {} |", row.unit.symbol());
    }
    text
}

/// The ratios that are printed: a peer's value divided by another's.
const RATIOS: [(Peer, Peer); 3] = [
    (Peer::Larder, Peer::Kernel),
    (Peer::LarderDev, Peer::Kernel),
    (Peer::Fuse2fs, Peer::Larder),
];

/// Returns a table of the ratios of times and of processor times. It has a row for each of `measures` with
/// processor times on a mount of Larder. Returns `None` if there is no such measure.
#[must_use]
pub fn ratios(results: &Results, measures: &[Measure]) -> Option<String> {
    let has_ratio = |row: &&MeasureResult| {
        let has_time = |peer| row.processor_seconds.contains_key(&peer);
        RATIOS
            .iter()
            .any(|&(peer, other)| has_time(peer) && has_time(other))
    };
    let rows = measures.iter().filter_map(|&one| results.of(one));
    let rows: Vec<_> = rows.filter(has_ratio).collect();
    if rows.is_empty() {
        return None;
    }
    let names = RATIOS.map(|(peer, other)| format!("{} / {}", peer.name(), other.name()));
    let mut text = format!(
        "| measure | time: {} | processor time: {} |\n|---|{}\n",
        names.join(" | "),
        names.join(" | "),
        "---:|".repeat(2 * RATIOS.len())
    );
    for row in rows {
        let _ = write!(text, "| `{}` |", row.name.name());
        for ratio in [time_ratio, processor_ratio] {
            for (peer, other) in RATIOS {
                let _ = write!(text, " {} |", figure(ratio(row, peer, other), 2));
            }
        }
        text.push('\n');
    }
    Some(text)
}

/// Returns the ratio of times. For a measure of rates, this is the inverse of the ratio of the values.
fn time_ratio(row: &MeasureResult, peer: Peer, other: Peer) -> Option<f64> {
    let ratio = row.medians.get(&peer)? / row.medians.get(&other)?;
    Some(if row.unit.is_rate() {
        1.0 / ratio
    } else {
        ratio
    })
}

/// Returns the ratio of processor times. Returns `None` if the divisor is zero: shorter than the
/// resolution of processor times.
fn processor_ratio(row: &MeasureResult, peer: Peer, other: Peer) -> Option<f64> {
    let seconds = |peer| measure::median(row.processor_seconds.get(&peer)?);
    let divisor = seconds(other).filter(|&divisor| divisor > 0.0)?;
    Some(seconds(peer)? / divisor)
}

/// The columns of the table in the README: the peer, and the column's head.
const OVERVIEW_PEERS: [(Peer, &str); 5] = [
    (Peer::Larder, "larder"),
    (Peer::LarderDev, "larder-dev"),
    (Peer::Kernel, "kernel, loop mount as root"),
    (Peer::Fuse2fs, "fuse2fs"),
    (Peer::Squashfuse, "squashfuse"),
];

/// The rows of the table in the README: the measure, and its description.
const OVERVIEW: [(Measure, &str); 7] = [
    (Measure::WarmFind, "warm `find`"),
    (Measure::WarmTar, "warm `tar`"),
    (Measure::ColdFind, "cold `find`"),
    (Measure::ColdTar, "cold `tar`"),
    (
        Measure::Sequential,
        "cold sequential read, server and reader as root",
    ),
    (
        Measure::SequentialUnprivileged,
        "cold sequential read, server and reader as `nobody`",
    ),
    (Measure::Random, "cold random reads of 4 KiB, by 4 threads"),
];

/// Returns the table of reads in the README. The best value of each row is bold.
#[must_use]
pub fn overview(results: &Results) -> String {
    let rows = OVERVIEW.map(|(measure, description)| (results.of(measure), description));
    let is_measured = |peer| {
        let mut rows = rows.iter().filter_map(|(row, _)| *row);
        rows.any(|row| row.medians.contains_key(&peer))
    };
    let columns = OVERVIEW_PEERS.into_iter();
    let (peers, heads): (Vec<Peer>, Vec<&str>) =
        columns.filter(|(peer, _)| is_measured(*peer)).unzip();
    let mut text = format!(
        "| measure | {} |\n|---|{}\n",
        heads.join(" | "),
        "---|".repeat(heads.len())
    );
    for (row, description) in rows {
        let cells = peers.iter().map(|&peer| {
            let cell = row.and_then(|row| overview_cell(row, peer));
            cell.unwrap_or_else(|| "-".to_owned())
        });
        let cells = cells.collect::<Vec<_>>().join(" | ");
        let _ = writeln!(text, "| {description} | {cells} |");
    }
    text
}

fn overview_cell(row: &MeasureResult, peer: Peer) -> Option<String> {
    let value = *row.medians.get(&peer)?;
    let peers = OVERVIEW_PEERS.iter();
    let values = peers.filter_map(|(peer, _)| row.medians.get(peer).copied());
    let best = if row.unit.is_rate() {
        values.max_by(f64::total_cmp)
    } else {
        values.min_by(f64::total_cmp)
    };
    let text = format!("{} {}", number(value, row.unit), row.unit.symbol());
    Some(if Some(value) == best {
        format!("**{text}**")
    } else {
        text
    })
}

/// Returns the measures of the table in the README.
#[must_use]
pub fn overview_measures() -> Vec<Measure> {
    OVERVIEW.map(|(measure, _)| measure).to_vec()
}

/// Returns the verdicts on the targets of `measures`, for those that were selected in the run.
#[must_use]
pub fn verdicts(results: &Results, measures: &[Measure]) -> Vec<Verdict> {
    let rows = measures.iter().filter_map(|&one| results.of(one));
    let verdicts = rows.flat_map(|row| {
        row.targets.iter().map(|result| {
            Verdict::new(
                &match result.side.filter(|side| *side != Peer::Volume) {
                    Some(side) => format!("`{}` of {}", row.name.name(), side.name()),
                    None => format!("`{}`", row.name.name()),
                },
                &limit(result.target, row.unit),
                result.figure,
                |figure| result.target.is_met_by(figure),
            )
        })
    });
    verdicts.collect()
}

fn limit(target: Target, unit: Unit) -> String {
    match target {
        Target::AtMostTimes(limit, peer) => format!("at most {limit} × {}", peer.name()),
        Target::AtLeastTimes(limit, peer) => format!("at least {limit} × {}", peer.name()),
        Target::AtMost(limit) => format!("at most {limit} {}", unit.symbol())
            .trim_end()
            .to_owned(),
    }
}

fn median(row: &MeasureResult, peers: &[Peer]) -> Option<f64> {
    peers.iter().find_map(|peer| row.medians.get(peer).copied())
}

/// Formats a number of things, in the singular or the plural.
pub(crate) fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// Formats a cell of a table: a dash if there is no value.
pub(crate) fn figure(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Formats `ratio` as a cell, and marks it if it misses its target.
pub(crate) fn judged(ratio: Option<f64>, is_met: impl Fn(f64) -> bool) -> String {
    match ratio {
        Some(ratio) if !is_met(ratio) => format!("{ratio:.2} **missed**"),
        ratio => figure(ratio, 2),
    }
}

/// Formats a value of a measure.
pub(crate) fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => format!("{value:.3}"),
        Unit::MegabytesPerSecond | Unit::PerSecond => grouped(&format!("{value:.0}")),
        Unit::Nanoseconds | Unit::Microseconds | Unit::Milliseconds | Unit::Megabytes => {
            format!("{value:.1}")
        }
        Unit::Count if value >= 100.0 => grouped(&format!("{value:.0}")),
        Unit::Percent | Unit::Count => format!("{value:.2}"),
    }
}

/// Formats a number with commas between the thousands.
pub(crate) fn thousands(number: u64) -> String {
    grouped(&number.to_string())
}

/// Separates the thousands of `digits` by commas.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn ratios_are_of_times_and_need_a_divisor() {
        let row = |unit| MeasureResult {
            name: Measure::WriteSequential,
            unit,
            runs: BTreeMap::new(),
            medians: [(Peer::Larder, 1.0), (Peer::Kernel, 4.0)].into(),
            processor_seconds: [
                (Peer::Larder, vec![3.0, 1.0, 2.0]),
                (Peer::Kernel, vec![0.5]),
                (Peer::Fuse2fs, vec![0.0]),
            ]
            .into(),
            targets: Vec::new(),
        };
        let (time, rate) = (row(Unit::Seconds), row(Unit::MegabytesPerSecond));
        assert_eq!(time_ratio(&time, Peer::Larder, Peer::Kernel), Some(0.25));
        assert_eq!(time_ratio(&rate, Peer::Larder, Peer::Kernel), Some(4.0));
        assert_eq!(time_ratio(&rate, Peer::LarderDev, Peer::Kernel), None);
        let processor = |peer| processor_ratio(&time, Peer::Larder, peer);
        assert_eq!(processor(Peer::Kernel), Some(4.0));
        assert_eq!(processor(Peer::Fuse2fs), None);
        assert_eq!(processor(Peer::LarderDev), None);
    }

    #[test]
    fn thousands_are_separated_by_commas() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1,000");
        assert_eq!(thousands(1_234_567), "1,234,567");
    }
}
