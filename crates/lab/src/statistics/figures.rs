//! Means, deviations and medians.

use crate::run_report::as_f64;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Mean and deviation of a measurement over several runs with the same parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The average.
    pub mean: f64,
    /// The standard deviation; `None` for a single run.
    pub s: Option<f64>,
}

impl Figures {
    /// Computes the statistics of `figures`, the results of the runs.
    pub fn of(figures: &[f64]) -> Self {
        Self {
            mean: mean(figures),
            s: (figures.len() > 1).then(|| deviation(figures)),
        }
    }

    /// Computes the statistics of all `figures` except the first. Returns `None` if there are no others.
    pub fn without_first(figures: &[f64]) -> Option<Self> {
        let rest = figures.get(1..).filter(|rest| !rest.is_empty());
        rest.map(Self::of)
    }

    /// Compares the means of `self` and `other`. Returns `Equal` if they differ by at most twice the sum of
    /// both standard deviations. Returns `None` if `self` or `other` is the result of a single run.
    pub fn beyond_noise(self, other: Self) -> Option<Ordering> {
        let noise = 2.0 * (self.s? + other.s?);
        let difference = self.mean - other.mean;
        Some(if difference.abs() > noise {
            difference.total_cmp(&0.0)
        } else {
            Ordering::Equal
        })
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1}", self.mean)?;
        self.s.map_or(Ok(()), |s| write!(f, " s={s:.1}"))
    }
}

/// Returns the mean, or NaN if there are no figures.
pub fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / as_f64(figures.len() as u64)
}

/// Returns the geometric mean, so that the mean of 1/2 and 2 is 1. Returns `None` if there are no ratios.
pub fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let count = u32::try_from(ratios.len())
        .ok()
        .filter(|count| *count > 0)?;
    let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    Some((logarithms / f64::from(count)).exp())
}

/// Returns the sample standard deviation; 0 for fewer than two figures.
pub fn deviation(figures: &[f64]) -> f64 {
    let others = figures.len().saturating_sub(1);
    if others == 0 {
        return 0.0;
    }
    let mean = mean(figures);
    let squares = figures.iter().map(|figure| (figure - mean).powi(2));
    (squares.sum::<f64>() / as_f64(others as u64)).sqrt()
}

/// Returns the median: the middle figure, or the mean of the two middle figures. Returns NaN if there are no
/// figures.
pub fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    let last = figures.len().saturating_sub(1);
    let middle = |at: usize| figures.get(at).copied().unwrap_or(f64::NAN);
    middle(last / 2).midpoint(middle(last.div_ceil(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_figure_or_the_mean_of_two() {
        assert!((median(&[9.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[9.0, 1.0, 2.0, 4.0]) - 3.0).abs() < 1e-12);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn mean_and_deviation_of_runs() {
        let runs = [1.0, 2.0, 3.0];
        assert_eq!((mean(&runs), deviation(&runs)), (2.0, 1.0));
        assert_eq!((mean(&[5.0]), deviation(&[5.0])), (5.0, 0.0));
    }

    #[test]
    fn difference_is_significant_beyond_twice_both_deviations() {
        let figures = |mean, s| Figures { mean, s };
        let steady = figures(10.0, Some(1.0));
        assert_eq!(
            steady.beyond_noise(figures(14.0, Some(1.0))),
            Some(Ordering::Equal)
        );
        let higher = figures(14.1, Some(1.0));
        assert_eq!(steady.beyond_noise(higher), Some(Ordering::Less));
        assert_eq!(higher.beyond_noise(steady), Some(Ordering::Greater));
        let single = Figures::of(&[20.0]);
        assert_eq!(single.beyond_noise(steady), None);
        assert_eq!(single.to_string(), "20.0");
        assert_eq!(higher.to_string(), "14.1 s=1.0");
    }

    #[test]
    fn geometric_mean_of_half_and_two_is_one() {
        assert!((geometric_mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(geometric_mean(&[]), None);
    }
}
