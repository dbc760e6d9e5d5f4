//! Pairs of timed runs.

use crate::hash::Outcome;
use crate::run_report::quotient;

/// The selected table must be faster than the current one in at least this share of all pairs of timed runs.
pub(super) const MIN_FASTER_SHARE: f64 = 0.95;

/// Returns the share of all pairs of timed runs, one run of each table, in which `selected` was faster than
/// `current`.
pub(super) fn faster_share(selected: &Outcome, current: &Outcome) -> f64 {
    let (selected, current) = (runs(selected), runs(current));
    let pairs = selected.len() * current.len();
    let faster = selected.iter().map(|selected| {
        let slower = current.iter().filter(|current| selected < current);
        slower.count()
    });
    quotient(faster.sum::<usize>() as u64, pairs as u64)
}

/// Returns the duration of each timed run of a table, in seconds.
fn runs(outcome: &Outcome) -> Vec<f64> {
    let runs = outcome.timing.iter().flat_map(|timing| &timing.runs);
    runs.map(std::time::Duration::as_secs_f64).collect()
}
