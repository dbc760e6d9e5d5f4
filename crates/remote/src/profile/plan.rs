//! Divides the units of a profile into requests.
//!
//! # Model
//! Ranges of units are joined across the smallest gaps first, so that few requests are sent. The units in these gaps
//! are fetched, too:
//!
//! - Ranges are joined across a gap of at most [`MAX_GAP_UNITS`], because fetching the gap takes less time than another
//!   request.
//! - Ranges are joined across a larger gap only if there are more than [`REQUESTS`] requests.
//! - At most a fifth of all fetched units are in gaps. Therefore, if the units of a profile are far apart, more than
//!   [`REQUESTS`] requests can remain. A pack needs only one.
//!
//! The requests have the order of the first use of their units. At most [`REQUESTS`] are in flight at once, so that the
//! units that are needed first arrive first. Requests that a thread waits for are not counted.

use std::collections::HashMap;
use std::ops::Range;

/// The maximum number of requests in flight, not counting those that a thread waits for.
pub(super) const REQUESTS: usize = 16;
/// The maximum length of a gap that is joined even if there are at most [`REQUESTS`] requests: 256 KiB.
const MAX_GAP_UNITS: u64 = 4;
/// The units in gaps are at most the units of the profile divided by this number.
const GAPS_DIVISOR: u64 = 4;

/// Returns the runs of units to request for `units`, which are in the order of their first use. The runs do not
/// overlap.
pub(super) fn plan(units: &[u64]) -> Vec<Range<u64>> {
    let mut sorted = units.to_vec();
    sorted.sort_unstable();
    let gaps = joined_gaps(&sorted);
    let mut runs: Vec<Range<u64>> = Vec::new();
    for unit in sorted {
        match runs.last_mut() {
            Some(run) if run.end == unit || gaps.contains_key(&unit) => run.end = unit + 1,
            _ => runs.push(unit..unit + 1),
        }
    }
    in_order(runs, units)
}

/// Divides `runs` into runs of at most `max_units`, and at least 1.
pub(super) fn divided(runs: Vec<Range<u64>>, max_units: usize) -> Vec<Range<u64>> {
    let max_units = max_units.max(1);
    let parts = |run: Range<u64>| {
        let end = run.end;
        let starts = run.step_by(max_units);
        starts.map(move |start| start..end.min(start + max_units as u64))
    };
    runs.into_iter().flat_map(parts).collect()
}

/// Returns the gaps that are joined: the unit after each gap, and the length of the gap.
fn joined_gaps(sorted: &[u64]) -> HashMap<u64, u64> {
    let pairs = sorted.iter().zip(sorted.iter().skip(1));
    let gaps = pairs.map(|(unit, next)| (next - unit - 1, *next));
    let mut gaps: Vec<(u64, u64)> = gaps.filter(|&(len, _)| len > 0).collect();
    gaps.sort_unstable();
    let mut requests = gaps.len() + 1;
    let mut room = sorted.len() as u64 / GAPS_DIVISOR;
    let mut joined = HashMap::new();
    for (len, next) in gaps {
        let is_worth = len <= MAX_GAP_UNITS || requests > REQUESTS;
        if len > room || !is_worth {
            break;
        }
        room -= len;
        requests -= 1;
        joined.insert(next, len);
    }
    joined
}

/// Sorts `runs` by the first use of their units.
fn in_order(runs: Vec<Range<u64>>, units: &[u64]) -> Vec<Range<u64>> {
    let mut first_use = vec![usize::MAX; runs.len()];
    for (rank, unit) in units.iter().enumerate() {
        // Each unit is in the last run that does not start after it.
        let after = runs.partition_point(|run| run.start <= *unit);
        if let Some(rank_of_run) = after.checked_sub(1).and_then(|run| first_use.get_mut(run)) {
            *rank_of_run = rank.min(*rank_of_run);
        }
    }
    let mut ordered: Vec<(usize, Range<u64>)> = first_use.into_iter().zip(runs).collect();
    ordered.sort_unstable_by_key(|(rank, _)| *rank);
    ordered.into_iter().map(|(_, run)| run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn adjacent_units_are_one_request_in_order_of_first_use() {
        assert_eq!(plan(&[]), [0..0; 0]);
        assert_eq!(plan(&[90, 5, 4, 3, 91]), [90..92, 3..6]);
    }

    #[test]
    fn small_gaps_are_joined_up_to_a_fifth_of_the_fetched_units() {
        let mut units: Vec<u64> = (0..20).collect();
        units.extend(22..30);
        units.extend(35..40);
        assert_eq!(plan(&units), [0..30, 35..40]);
        // Nine units allow two units in gaps: the gap of 1 is joined, and the gap of 21 is not.
        assert_eq!(plan(&[0, 1, 2, 3, 5, 6, 7, 8, 30]), [0..9, 30..31]);
        assert_eq!(plan(&[0, 2]), [0..1, 2..3]);
    }

    #[test]
    fn larger_gaps_are_joined_only_for_fewer_requests() {
        let spread = |runs: u64| -> Vec<u64> {
            (0..runs)
                .flat_map(|run| run * 110..run * 110 + 100)
                .collect()
        };
        assert_eq!(plan(&spread(16)).len(), 16);
        assert_eq!(plan(&spread(40)).len(), 16);
    }

    #[test]
    fn long_runs_are_divided() {
        assert_eq!(divided(vec![7..8, 0..7], 3), [7..8, 0..3, 3..6, 6..7]);
        assert_eq!(divided(vec![5..7, 9..10], 0), [5..6, 6..7, 9..10]);
    }

    proptest! {
        #[test]
        fn plan_has_all_units_and_few_others(
            units in prop::collection::hash_set(0_u64..2000, 0..300),
        ) {
            let units: Vec<u64> = units.into_iter().collect();
            let runs = plan(&units);
            let fetched: Vec<u64> = runs.iter().cloned().flatten().collect();
            let mut distinct = fetched.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), fetched.len());
            prop_assert!(units.iter().all(|unit| distinct.binary_search(unit).is_ok()));
            prop_assert!(fetched.len() <= units.len() + units.len() / 4);
            let rank = |run: &Range<u64>| units.iter().position(|unit| run.contains(unit));
            prop_assert!(runs.is_sorted_by_key(rank));
        }
    }
}
