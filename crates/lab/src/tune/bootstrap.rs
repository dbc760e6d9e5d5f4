//! Estimates how much a gain depends on the particular lookups of a trace, by resampling its segments.

use crate::run_report::ratio;
use crate::workload::chance::generator;
use rand::Rng;
use serde::Serialize;

/// Number of random samples.
const SAMPLES: usize = 1000;

/// Number of samples that are discarded at each end of the sorted samples, so that 95% remain.
const DISCARDED: usize = SAMPLES / 40;

/// Minimum number of segments with lookups. Samples of fewer segments vary too little to represent other
/// lookups.
const MIN_SEGMENTS: usize = 8;

/// A gain, and the interval that contains the gains of 95% of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The gain over all segments.
    pub value: f64,
    /// The lower end of the interval; `None` if there are too few segments or lookups.
    pub low: Option<f64>,
    /// The upper end of the interval; `None` if `low` is `None`.
    pub high: Option<f64>,
}

/// Returns the relative decrease from the sum of the second numbers to the sum of the first numbers. Each
/// pair is a segment. The interval is computed from random samples, each of which consists of the same
/// number of segments, drawn with replacement. Segments whose second number is 0 are omitted.
pub(super) fn bootstrap(segments: &[(f64, f64)], seed: u64) -> Interval {
    let gain = |segments: &mut dyn Iterator<Item = (f64, f64)>| {
        let (less, more) = segments.fold((0.0, 0.0), |sum, segment| {
            (sum.0 + segment.0, sum.1 + segment.1)
        });
        ratio(more - less, more)
    };
    let segments: Vec<_> = segments
        .iter()
        .copied()
        .filter(|segment| segment.1 > 0.0)
        .collect();
    let value = gain(&mut segments.iter().copied());
    if segments.len() < MIN_SEGMENTS {
        let (low, high) = (None, None);
        return Interval { value, low, high };
    }
    let mut random = generator(seed, 2);
    let mut gains: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let drawn = |_| segments[random.random_range(0..segments.len())];
            gain(&mut (0..segments.len()).map(drawn))
        })
        .collect();
    gains.sort_by(f64::total_cmp);
    let at = |index: usize| gains.get(index).copied();
    Interval {
        value,
        low: at(DISCARDED),
        high: at(SAMPLES - 1 - DISCARDED),
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
