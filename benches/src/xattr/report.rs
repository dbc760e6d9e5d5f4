//! A run as Markdown.

use std::fmt::Write;

use larder_lab::xattr_bench::Case;

use crate::outcome::absent;
use crate::report::{counted, figure, judged};
use crate::verdict::{self, Verdict};
use crate::xattr::results::Results;
use crate::xattr::side::Side;

/// The minimum ratio of fuse2fs's time of a call to Larder's, for any number of processes.
const MIN_RATIO_OF_FUSE2FS: f64 = 3.0;

/// The maximum ratio of Larder's time of a call to that with `mbcache=off`, in the pool whose values seldom
/// repeat.
const MAX_RATIO_TO_OFF: f64 = 1.05;

/// Returns the whole report.
#[must_use]
pub fn page(results: &Results) -> String {
    let mut text = format!("{}\n\n{}", origin(results), tables(results));
    let _ = write!(text, "\n{}", verdict::table(&verdicts(results)));
    text.push_str(&absent(&results.outcome.skipped, &results.outcome.failures));
    text
}

/// Returns a sentence on the sizes, the machine and the commit of the run.
#[must_use]
pub fn origin(results: &Results) -> String {
    let plan = &results.plan;
    format!(
        "Microseconds per set, averaged over the {} sets of all processes, with {} files per process; \
         medians of {} on {}.",
        plan.sets,
        plan.files,
        counted(plan.rounds, "round"),
        results.origin,
    )
}

/// Returns all tables, one for each size of the pool.
#[must_use]
pub fn tables(results: &Results) -> String {
    let tables = results.plan.values.iter().filter_map(|&values| {
        let cases = cases(results, values);
        (!cases.is_empty()).then(|| table(results, values, &cases))
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// Returns the measured cases with a pool of `values` values.
fn cases(results: &Results, values: u32) -> Vec<Case> {
    let samples = &results.outcome.samples;
    let mut cases = results.plan.cases();
    cases.retain(|case| case.values == values && samples.iter().any(|one| one.case == *case));
    cases
}

/// Returns whether the values of this pool repeat: true for each pool except the plan's largest.
fn values_repeat(results: &Results, values: u32) -> bool {
    results.plan.values.iter().any(|&more| more > values)
}

/// Returns the verdicts of the run.
#[must_use]
pub fn verdicts(results: &Results) -> Vec<Verdict> {
    let measured = |values: u32| cases(results, values);
    let all = results.plan.values.iter().copied();
    let seldom = all
        .clone()
        .filter(|&values| !values_repeat(results, values));
    vec![
        Verdict::new(
            "time of a set in fuse2fs / larder",
            &format!("at least {MIN_RATIO_OF_FUSE2FS}"),
            all.flat_map(measured)
                .filter_map(|case| results.ratio(case, Side::Fuse2fs, Side::Larder)),
            |ratio| ratio >= MIN_RATIO_OF_FUSE2FS,
        ),
        Verdict::new(
            "time of a set / the same with `mbcache=off`, where few values repeat",
            &format!("at most {MAX_RATIO_TO_OFF}"),
            seldom
                .flat_map(measured)
                .filter_map(|case| results.ratio(case, Side::Larder, Side::LarderOff)),
            |ratio| ratio <= MAX_RATIO_TO_OFF,
        ),
    ]
}

fn table(results: &Results, values: u32, cases: &[Case]) -> String {
    let names = Side::ALL.map(Side::name).join(" | ");
    let mut text = format!(
        "Pool of {values} values:\n\n\
         | processes | {names} | fuse2fs / larder | larder / larder-off |\n\
         |---|---|---|---|---|---|---|\n"
    );
    let values_repeat = values_repeat(results, values);
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
    text
}
