//! Estimates how much a gain depends on the particular lookups of a trace.

use crate::run_report::ratio;
use crate::workload::chance::generator;
use rand::Rng;
use serde::Serialize;

/// Number of random samples.
const DRAWS: usize = 1000;

/// Number of samples that are discarded at either end of the interval: 95% remain.
const DISCARDED: usize = DRAWS / 40;

/// Minimum number of parts with lookups. With fewer, the samples do not represent other lookups.
const MIN_PARTS: usize = 8;

/// A figure, with the interval that contains it in 95% of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The figure over all parts.
    pub value: f64,
    /// The lower end; `None` if there are too few parts.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

/// Returns the relative decrease of the sum of the first figures compared with the second: over all
/// parts, and over random samples of the same number of parts, drawn with replacement. Parts whose
/// second figure is 0 are omitted.
pub(super) fn bootstrap(parts: &[(f64, f64)], seed: u64) -> Interval {
    let gain = |parts: &mut dyn Iterator<Item = (f64, f64)>| {
        let (less, more) = parts.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        ratio(more - less, more)
    };
    let parts: Vec<_> = parts.iter().copied().filter(|part| part.1 > 0.0).collect();
    let value = gain(&mut parts.iter().copied());
    if parts.len() < MIN_PARTS {
        let (low, high) = (None, None);
        return Interval { value, low, high };
    }
    let mut random = generator(seed, 2);
    let mut gains: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn = |_| parts[random.random_range(0..parts.len())];
            gain(&mut (0..parts.len()).map(drawn))
        })
        .collect();
    gains.sort_by(f64::total_cmp);
    let at = |place: usize| gains.get(place).copied();
    Interval {
        value,
        low: at(DISCARDED),
        high: at(DRAWS - 1 - DISCARDED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_contains_the_gain_and_is_a_point_for_equal_parts() {
        let ends = |interval: Interval| (interval.low.unwrap(), interval.high.unwrap());
        let (low, high) = ends(bootstrap(&[(9.0, 10.0); MIN_PARTS], 1));
        assert!((low - 0.1).abs() < 1e-12 && (high - 0.1).abs() < 1e-12);
        let parts: Vec<_> = (0..16)
            .map(|part| (5.0 + f64::from(part % 4), 10.0))
            .collect();
        let interval = bootstrap(&parts, 1);
        let (low, high) = ends(interval);
        assert!(low < interval.value && interval.value < high);
        assert!(low > 0.2 && high < 0.5, "{interval:?}");
    }

    #[test]
    fn interval_of_too_few_parts_with_lookups_has_no_ends() {
        let mut parts = vec![(9.0, 10.0); MIN_PARTS - 1];
        parts.extend([(0.0, 0.0); MIN_PARTS]);
        let interval = bootstrap(&parts, 1);
        assert!((interval.value - 0.1).abs() < 1e-12);
        assert_eq!((interval.low, interval.high), (None, None));
        assert!(bootstrap(&[], 1).value.abs() < 1e-12);
    }
}
