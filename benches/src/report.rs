//! The report of a run as Markdown, for the terminal and for the documentation.

use std::fmt::Write;

use crate::measure::{Measure, Target, Unit};
use crate::peer::Peer;
use crate::results::{MeasureResult, Results};
use crate::verdict::{self, Verdict};

/// The columns of values. System calls use the kernel's mount, so they share its column.
const COLUMNS: [(&str, &[Peer]); 8] = [
    ("larder", &[Peer::Larder, Peer::Volume]),
    ("fuse2fs", &[Peer::Fuse2fs]),
    ("squashfuse", &[Peer::Squashfuse]),
    ("kernel", &[Peer::Kernel, Peer::Syscall]),
    ("floor", &[Peer::Floor]),
    ("device", &[Peer::Device]),
    ("direct", &[Peer::Direct]),
    ("fio", &[Peer::Fio]),
];

/// Returns the whole report.
#[must_use]
pub fn page(results: &Results) -> String {
    let measures: Vec<Measure> = results.measures.iter().map(|result| result.name).collect();
    let mut text = format!("{}\n\n{}", origin(results), table(results, &measures));
    let verdicts = verdicts(results, &measures);
    if !verdicts.is_empty() {
        let _ = write!(text, "\n{}", verdict::table(&verdicts));
    }
    for (what, lines) in [("skipped", &results.skipped), ("failed", &results.failures)] {
        for line in lines {
            let _ = writeln!(text, "\n{what}: {line}");
        }
    }
    text
}

/// Returns a sentence on the sizes, the machine and the commit of the run.
#[must_use]
pub fn origin(results: &Results) -> String {
    let plan = &results.plan;
    format!(
        "{} files, and one file of {} MiB; medians of {} on {}.",
        thousands(u64::from(plan.files)),
        plan.big_file_bytes >> 20,
        counted(plan.runs, "run"),
        results.origin,
    )
}

/// Returns a table of those of `measures` that were selected. Columns without values are left out.
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

/// The columns of the table in the README: peers, and their heads.
const OVERVIEW_PEERS: [(Peer, &str); 4] = [
    (Peer::Larder, "larder"),
    (Peer::Kernel, "kernel, loop mount as root"),
    (Peer::Fuse2fs, "fuse2fs"),
    (Peer::Squashfuse, "squashfuse"),
];

/// The rows of the table in the README: a measure, and its description.
const OVERVIEW: [(Measure, &str); 7] = [
    (Measure::WarmFind, "warm `find`"),
    (Measure::WarmTar, "warm `tar`"),
    (Measure::ColdFind, "cold `find`"),
    (Measure::ColdTar, "cold `tar`"),
    (Measure::Sequential, "cold sequential read, as root"),
    (
        Measure::SequentialUnprivileged,
        "cold sequential read, without root",
    ),
    (Measure::Random, "cold random reads of 4 KiB, by 4 threads"),
];

/// Returns the table of reads in the README. The best value of each row is bold.
#[must_use]
pub fn overview(results: &Results) -> String {
    let heads = OVERVIEW_PEERS.map(|(_, head)| head).join(" | ");
    let mut text = format!("| measure | {heads} |\n|---|---|---|---|---|\n");
    for (measure, description) in OVERVIEW {
        let row = results.of(measure);
        let cells = OVERVIEW_PEERS.map(|(peer, _)| {
            let cell = row.and_then(|row| overview_cell(row, peer));
            cell.unwrap_or_else(|| "-".to_owned())
        });
        let _ = writeln!(text, "| {description} | {} |", cells.join(" | "));
    }
    text
}

fn overview_cell(row: &MeasureResult, peer: Peer) -> Option<String> {
    let value = *row.medians.get(&peer)?;
    let peers = OVERVIEW_PEERS.iter();
    let values = peers.filter_map(|(peer, _)| row.medians.get(peer).copied());
    let best = match row.unit {
        Unit::MegabytesPerSecond | Unit::PerSecond => values.max_by(f64::total_cmp),
        Unit::Seconds | Unit::Milliseconds | Unit::Nanoseconds | Unit::Percent | Unit::Count => {
            values.min_by(f64::total_cmp)
        }
    };
    let text = format!("{} {}", number(value, row.unit), row.unit.symbol());
    Some(if Some(value) == best {
        format!("**{text}**")
    } else {
        text
    })
}

/// Returns the verdicts of `measures` that were measured.
#[must_use]
pub fn verdicts(results: &Results, measures: &[Measure]) -> Vec<Verdict> {
    let rows = measures.iter().filter_map(|&one| results.of(one));
    let verdicts = rows.flat_map(|row| {
        row.targets.iter().map(|result| {
            Verdict::new(
                &format!("`{}`", row.name.name()),
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

/// Formats a cell that marks a `ratio` that misses its target.
pub(crate) fn judged(ratio: Option<f64>, is_met: impl Fn(f64) -> bool) -> String {
    match ratio {
        Some(ratio) if !is_met(ratio) => format!("{ratio:.2} **missed**"),
        ratio => figure(ratio, 2),
    }
}

fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => format!("{value:.3}"),
        Unit::MegabytesPerSecond | Unit::PerSecond => grouped(&format!("{value:.0}")),
        Unit::Nanoseconds | Unit::Milliseconds => format!("{value:.1}"),
        Unit::Count if value >= 100.0 => grouped(&format!("{value:.0}")),
        Unit::Percent | Unit::Count => format!("{value:.2}"),
    }
}

fn thousands(number: u64) -> String {
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

    #[test]
    fn thousands_are_separated_by_commas() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1,000");
        assert_eq!(thousands(1_234_567), "1,234,567");
    }
}
