//! Estimates how much a gain depends on the particular lookups of a trace: computes the gain also for random
//! samples of the trace's segments.

use crate::run_report::ratio;
use crate::statistics::{Interval, percentile_range};
use crate::workload::chance::generator;

/// Minimum number of segments with lookups. Samples of fewer segments vary too little to represent other
/// lookups.
pub(super) const MIN_SEGMENTS: usize = 8;

/// Returns the relative decrease from the sum of the second numbers to the sum of the first numbers, with its
/// range over the samples. Each pair is a segment. Segments whose second number is 0 are omitted. If fewer
/// than [`MIN_SEGMENTS`] remain, there is no range.
pub(super) fn bootstrap(segments: &[(f64, f64)], seed: u64) -> Interval {
    let gain = |segments: &[(f64, f64)]| {
        let (less, more) = segments.iter().fold((0.0, 0.0), |sum, segment| {
            (sum.0 + segment.0, sum.1 + segment.1)
        });
        ratio(more - less, more)
    };
    let segments: Vec<_> = segments
        .iter()
        .copied()
        .filter(|segment| segment.1 > 0.0)
        .collect();
    let value = gain(&segments);
    if segments.len() < MIN_SEGMENTS {
        return Interval::unknown(value);
    }
    let range = percentile_range(&segments, &mut generator(seed, 2), gain);
    Interval {
        value,
        low: range.map(|[low, _]| low),
        high: range.map(|[_, high]| high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_contains_the_gain_and_is_a_point_for_equal_parts() {
        let ends = |interval: Interval| (interval.low.unwrap(), interval.high.unwrap());
        let (low, high) = ends(bootstrap(&[(9.0, 10.0); MIN_SEGMENTS], 1));
        assert!((low - 0.1).abs() < 1e-12 && (high - 0.1).abs() < 1e-12);
        let segments: Vec<_> = (0..16)
            .map(|segment| (5.0 + f64::from(segment % 4), 10.0))
            .collect();
        let interval = bootstrap(&segments, 1);
        let (low, high) = ends(interval);
        assert!(low < interval.value && interval.value < high);
        assert!(low > 0.2 && high < 0.5, "{interval:?}");
    }

    #[test]
    fn interval_of_too_few_parts_with_lookups_has_no_ends() {
        let mut segments = vec![(9.0, 10.0); MIN_SEGMENTS - 1];
        segments.extend([(0.0, 0.0); MIN_SEGMENTS]);
        let interval = bootstrap(&segments, 1);
        assert!((interval.value - 0.1).abs() < 1e-12);
        assert_eq!((interval.low, interval.high), (None, None));
        assert!(bootstrap(&[], 1).value.abs() < 1e-12);
    }
}
