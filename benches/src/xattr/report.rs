//! A run as Markdown.

use std::fmt::Write;

use larder_lab::xattr_bench::Case;

use crate::report::{counted, figure, judged};
use crate::xattr::results::Results;
use crate::xattr::side::Side;

/// The minimum time of a call in fuse2fs relative to Larder, for any number of processes.
const MIN_RATIO_OF_FUSE2FS: f64 = 3.0;

/// The maximum time of a call relative to `mbcache=off`, where values seldom repeat.
const MAX_RATIO_TO_OFF: f64 = 1.05;

/// Returns all tables, one for each size of the pool.
#[must_use]
pub fn page(results: &Results) -> String {
    let plan = &results.plan;
    let mut text = format!(
        "{}\n\
         {} sets in total, {} files per process; microseconds per set, medians of {}\n",
        results.origin,
        plan.sets,
        plan.files,
        counted(plan.rounds, "round"),
    );
    let cases = plan.cases();
    for values in &plan.values {
        let of_pool = |case: &&Case| {
            case.values == *values
                && results
                    .outcome
                    .samples
                    .iter()
                    .any(|sample| sample.case == **case)
        };
        let cases: Vec<Case> = cases.iter().filter(of_pool).copied().collect();
        if !cases.is_empty() {
            text.push_str(&table(results, *values, &cases));
        }
    }
    for (what, lines) in [
        ("skipped", &results.outcome.skipped),
        ("failed", &results.outcome.failures),
    ] {
        for line in lines {
            let _ = writeln!(text, "\n{what}: {line}");
        }
    }
    text
}

fn table(results: &Results, values: u32, cases: &[Case]) -> String {
    let names = Side::ALL.map(Side::name).join(" | ");
    let mut text = format!(
        "\n{values} values:\n\n\
         | processes | {names} | fuse2fs / larder | larder / larder-off |\n\
         |---|---|---|---|---|---|---|\n"
    );
    let values_repeat = results.plan.values.iter().any(|&more| more > values);
    for case in cases {
        let of_side = |side| figure(results.microseconds(*case, side), 1);
        let against_fuse2fs = results.ratio(*case, Side::Fuse2fs, Side::Larder);
        let against_off = results.ratio(*case, Side::Larder, Side::LarderOff);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            case.processes,
            Side::ALL.map(of_side).join(" | "),
            judged(against_fuse2fs, |ratio| ratio >= MIN_RATIO_OF_FUSE2FS),
            judged(against_off, |ratio| ratio <= MAX_RATIO_TO_OFF
                || values_repeat),
        );
    }
    let (Some(first), Some(last)) = (cases.first(), cases.last()) else {
        return text;
    };
    let climb = |side| {
        let climb = results.microseconds(*last, side)? / results.microseconds(*first, side)?;
        Some(format!("{} {climb:.2}", side.name()))
    };
    let climbs: Vec<String> = Side::ALL.into_iter().filter_map(climb).collect();
    let _ = writeln!(
        text,
        "\nTime of a set with {} processes, relative to {}: {}.",
        last.processes,
        first.processes,
        climbs.join(", ")
    );
    text
}
