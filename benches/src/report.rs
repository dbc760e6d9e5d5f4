//! The report of a run as a table.

use std::fmt::Write;

use crate::measure::{Measure, Target, Unit};
use crate::peer::Peer;
use crate::results::{Results, Samples};

/// The columns of values. System calls use the kernel's mount, so they share its column.
const COLUMNS: [(&str, &[Peer]); 6] = [
    ("larder", &[Peer::Larder, Peer::Volume]),
    ("fuse2fs", &[Peer::Fuse2fs]),
    ("squashfuse", &[Peer::Squashfuse]),
    ("kernel", &[Peer::Kernel, Peer::Syscall]),
    ("floor", &[Peer::Floor]),
    ("device", &[Peer::Device]),
];

/// Returns the whole report.
#[must_use]
pub fn table(results: &Results, measures: &[Measure], samples: &Samples) -> String {
    let mut text = heading(results);
    for measure in measures {
        text.push_str(&row(*measure, samples));
    }
    for line in &results.skipped {
        let _ = writeln!(text, "skipped: {line}");
    }
    for line in &results.failures {
        let _ = writeln!(text, "failed: {line}");
    }
    text
}

fn heading(results: &Results) -> String {
    let plan = &results.plan;
    let mut text = String::new();
    let _ = writeln!(text, "{}", results.origin);
    let _ = writeln!(
        text,
        "{} files and one file of {} MiB; medians of {}; ratios within this run\n",
        plan.files,
        plan.big_file_bytes >> 20,
        counted(plan.runs, "run"),
    );
    let _ = write!(text, "{:24}", "");
    for (name, _) in COLUMNS {
        let _ = write!(text, "{name:>12}");
    }
    let _ = writeln!(
        text,
        "  {:<5}{:>11}  {:>15}  target",
        "unit", "x fuse2fs", "ratio"
    );
    text
}

fn row(measure: Measure, samples: &Samples) -> String {
    let mut text = format!("{:24}", measure.name());
    for (_, peers) in COLUMNS {
        let value = peers.iter().find_map(|peer| samples.median(measure, *peer));
        let value = value.map_or("-".to_owned(), |value| number(value, measure.unit()));
        let _ = write!(text, "{value:>12}");
    }
    let unit = match measure.unit() {
        Unit::Seconds => "s",
        Unit::MegabytesPerSecond => "MB/s",
        Unit::PerSecond => "1/s",
        Unit::Nanoseconds => "ns",
        Unit::Percent => "%",
        Unit::Count => "",
    };
    let gain = samples
        .ratio(measure, Peer::Fuse2fs)
        .map_or("-".to_owned(), |ratio| {
            let times = if matches!(measure.unit(), Unit::Seconds | Unit::Count) {
                1.0 / ratio
            } else {
                ratio
            };
            format!("{times:.1}")
        });
    let _ = write!(text, "  {unit:<5}{gain:>11}");
    for (index, target) in measure.targets().iter().enumerate() {
        if index > 0 {
            let _ = write!(text, "\n{:114}", "");
        }
        text.push_str(&reached(measure, *target, unit, samples));
    }
    text.push('\n');
    text
}

/// Describes the result of `measure` for `target`.
fn reached(measure: Measure, target: Target, unit: &str, samples: &Samples) -> String {
    let figure = samples.figure(measure, target);
    let ratio = match (figure, target.against()) {
        (Some(figure), Some(peer)) => format!("{figure:.2} {:>7}", peer.name()),
        (Some(figure), None) => format!("{figure:.2} {unit:>7}"),
        (None, _) => "-".to_owned(),
    };
    let (sign, limit) = match target {
        Target::AtMostTimes(limit, _) | Target::AtMost(limit) => ("at most", limit),
        Target::AtLeastTimes(limit, _) => ("at least", limit),
    };
    let verdict = match figure.map(|figure| target.is_met_by(figure)) {
        Some(true) => "met",
        Some(false) => "missed",
        None => "not measured",
    };
    format!("  {ratio:>15}  {sign} {limit}: {verdict}")
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
        Unit::MegabytesPerSecond | Unit::PerSecond => format!("{value:.0}"),
        Unit::Nanoseconds => format!("{value:.1}"),
        Unit::Percent | Unit::Count => format!("{value:.2}"),
    }
}
