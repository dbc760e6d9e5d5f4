//! How much a gain depends on what just happened to be asked.

use crate::run_report::ratio;
use crate::workload::chance::generator;
use rand::Rng;
use serde::Serialize;

/// Draws.
const DRAWS: usize = 1000;

/// Of these, so many are left out at either end of the interval: 95% remain.
const LEFT_OUT: usize = DRAWS / 40;

/// A figure, and between what 95% of the draws have it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Of all parts.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// By how much less the first figures sum up to than the second, as a share of these: of all parts,
/// and of as many of them drawn at random, again and again.
pub(super) fn bootstrap(parts: &[(f64, f64)], seed: u64) -> Interval {
    let gain = |parts: &mut dyn Iterator<Item = (f64, f64)>| {
        let (less, more) = parts.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        ratio(more - less, more)
    };
    let value = gain(&mut parts.iter().copied());
    let mut random = generator(seed, 2);
    let mut gains: Vec<f64> = (0..DRAWS)
        .filter(|_| !parts.is_empty())
        .map(|_| {
            let drawn = |_| parts[random.random_range(0..parts.len())];
            gain(&mut (0..parts.len()).map(drawn))
        })
        .collect();
    gains.sort_by(f64::total_cmp);
    let at = |place: usize| gains.get(place).copied().unwrap_or(value);
    Interval {
        value,
        low: at(LEFT_OUT),
        high: at(DRAWS - 1 - LEFT_OUT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_holds_the_gain_and_is_a_point_where_all_parts_agree() {
        let same = bootstrap(&[(9.0, 10.0); 8], 1);
        assert!((same.low - 0.1).abs() < 1e-12 && (same.high - 0.1).abs() < 1e-12);
        let parts: Vec<_> = (0..16)
            .map(|part| (5.0 + f64::from(part % 4), 10.0))
            .collect();
        let interval = bootstrap(&parts, 1);
        assert!(interval.low < interval.value && interval.value < interval.high);
        assert!(interval.low > 0.2 && interval.high < 0.5, "{interval:?}");
        assert!(bootstrap(&[], 1).value.abs() < 1e-12);
    }
}
