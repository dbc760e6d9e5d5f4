//! A run as Markdown.

use std::fmt::Write;

use crate::outcome::absent;
use crate::python::plan::{Side, Workload};
use crate::python::results::Results;
use crate::report::{counted, thousands};

/// Returns the whole report.
#[must_use]
pub fn page(results: &Results) -> String {
    let mut text = format!("{}\n\n{}", table(results), origin(results));
    text.push_str(&absent(&results.outcome.skipped, &results.outcome.failures));
    text
}

/// Returns a table with a row for each workload, cold and warm, and a column for each side.
#[must_use]
pub fn table(results: &Results) -> String {
    let names = Side::ALL.map(Side::name).join(" | ");
    let lines = Side::ALL.map(|_| "---:").join("|");
    let mut text = format!("| per second | {names} |\n|---|{lines}|\n");
    for workload in Workload::ALL {
        let what = match workload {
            Workload::Random => "random reads of 4 KiB",
            Workload::Files => "small files, each opened, read and closed",
        };
        for (state, is_warm) in [("cold", false), ("warm", true)] {
            let rates = Side::ALL.map(|side| rate(results.rate(workload, side, is_warm)));
            let _ = writeln!(text, "| {state} {what} | {} |", rates.join(" | "));
        }
    }
    text
}

/// Returns a sentence on the sizes, the machine and the commit of the run.
#[must_use]
pub fn origin(results: &Results) -> String {
    let plan = &results.plan;
    format!(
        "{} small files and one of {} MiB; {} random reads ({} of fsspec-zip); medians of {} with {} on {}.",
        thousands(plan.files.into()),
        plan.big_file_bytes >> 20,
        thousands(plan.reads.into()),
        plan.zip_reads,
        counted(plan.rounds, "round"),
        results.python,
        results.origin,
    )
}

/// Returns a rate with at least two digits.
fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rates are positive and small"
        )]
        Some(rate) => thousands(rate.round() as u64),
    }
}
