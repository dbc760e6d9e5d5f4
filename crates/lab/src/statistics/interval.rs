//! Estimates with 95% confidence intervals.
//!
//! # Model
//! There are two kinds of repetitions. Runs of two kernels that take turns form *pairs*: a change in the
//! machine's speed affects both runs of a pair, so that their ratio has less noise than each of them.
//! [`Interval::of_paired_ratio`] is the geometric mean of these ratios, with a bootstrap interval over pairs. If pairs
//! differ systematically, such as those under several loads, they form groups ([`Interval::of_grouped_ratio`]).
//! Simulations with different seeds are independent, and their distribution is unknown.
//! [`Interval::of_median`] is their median, with the interval between two of the sorted figures. This interval is
//! valid for any distribution.

use super::bootstrap::percentile_range_of_groups;
use super::figures::{Figures, mean, median};
use crate::run_report::as_f64;
use crate::workload::chance::generator;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

/// Minimum degrees of freedom for an interval of pairs: the number of pairs minus the number of their groups.
const MIN_DEGREES: usize = 4;

/// Seed of the bootstrap, so that the same pairs have the same interval.
const BOOTSTRAP_SEED: u64 = 1979;

/// The 97.5% quantile of the normal distribution.
const NORMAL_QUANTILE: f64 = 1.959_964;

/// An estimate, and its 95% confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// The lower end of the interval; `None` if there are too few repetitions.
    pub low: Option<f64>,
    /// The upper end of the interval; `None` if `low` is `None`.
    pub high: Option<f64>,
}

impl Interval {
    /// Returns the interval of a figure without noise, such as a count that is the same in each run.
    pub fn exact(value: f64) -> Self {
        Self::new(value, [value; 2])
    }

    /// Returns an estimate without an interval, for which there are too few repetitions.
    pub fn unknown(value: f64) -> Self {
        Self {
            value,
            low: None,
            high: None,
        }
    }

    /// Returns an estimate with the ends of its interval.
    pub(crate) fn new(value: f64, [low, high]: [f64; 2]) -> Self {
        Self {
            value,
            low: Some(low),
            high: Some(high),
        }
    }

    /// Returns the median of figures from different seeds.
    ///
    /// The interval extends from the k-th smallest to the k-th largest figure. It must contain the median of the
    /// distribution with a probability of at least 95%; k is the largest number for which it does. This requires
    /// six figures; with ten, k is 2.
    pub fn of_median(figures: &[f64]) -> Self {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let value = median(figures);
        match discarded_of_median(sorted.len()) {
            Some(discarded) => {
                let last = sorted.len() - 1;
                Self::new(value, [sorted[discarded], sorted[last - discarded]])
            }
            None => Self::unknown(value),
        }
    }

    /// Returns the geometric mean, over all pairs, of the first figure divided by the second one. All figures
    /// must be positive. The interval requires five pairs.
    ///
    /// The bootstrap interval of few pairs is too narrow, since it has the width of a normal distribution with
    /// the deviation of the sample. Therefore the interval of n pairs is widened by two factors: the quantile of
    /// Student's distribution divided by that of the normal distribution, and the square root of n / (n - 1) (T.
    /// Hesterberg, "What Teachers Should Know About the Bootstrap", 2015).
    pub fn of_paired_ratio(pairs: &[(f64, f64)]) -> Self {
        Self::of_grouped_ratio(&[pairs.to_vec()])
    }

    /// Returns the ratio of [`Self::of_paired_ratio`] for pairs in groups, whose ratios may differ: the geometric mean
    /// of the ratios of the groups. Each group has the same weight, however many pairs it has. The bootstrap draws
    /// pairs within each group. With g groups, n - g replaces n - 1, and the interval requires that it is at least 4.
    pub fn of_grouped_ratio(groups: &[Vec<(f64, f64)>]) -> Self {
        let logarithms = groups.iter().map(|pairs| {
            let pairs = pairs.iter();
            pairs
                .map(|(one, other)| (one / other).ln())
                .collect::<Vec<f64>>()
        });
        Self::of_grouped_mean(&logarithms.collect::<Vec<_>>()).map(f64::exp)
    }

    /// Returns the mean, over all pairs, of the first figure minus the second one. The interval is computed as in
    /// [`Self::of_paired_ratio`].
    pub fn of_paired_difference(pairs: &[(f64, f64)]) -> Self {
        let differences = pairs.iter().map(|(one, other)| one - other);
        Self::of_grouped_mean(&[differences.collect()])
    }

    /// Returns the [mean](mean_of_groups) of figures in groups, with one figure of each pair.
    fn of_grouped_mean(groups: &[Vec<f64>]) -> Self {
        let value = mean_of_groups(groups);
        let mut random = generator(BOOTSTRAP_SEED, 1);
        let range = percentile_range_of_groups(groups, &mut random, mean_of_groups);
        let count: usize = groups.iter().map(Vec::len).sum();
        let degrees = count.saturating_sub(groups.len());
        match range.filter(|_| degrees >= MIN_DEGREES) {
            Some(range) => {
                let [count, degrees] = [count, degrees].map(|number| as_f64(number as u64));
                let student = student_quantile(degrees);
                let widened = student / NORMAL_QUANTILE * (count / degrees).sqrt();
                Self::new(value, range.map(|end| value + widened * (end - value)))
            }
            None => Self::unknown(value),
        }
    }

    /// Returns whether the interval contains 0, or is unknown.
    #[must_use]
    pub fn may_be_zero(self) -> bool {
        !matches!((self.low, self.high), (Some(low), Some(high)) if low > 0.0 || high < 0.0)
    }

    /// Returns the ratio of the means of two independent groups of runs, of which only the statistics are
    /// known, as in published tables. If `groups` contains several pairs of groups, returns the geometric mean
    /// of their ratios. `runs` is the size of each group.
    pub fn of_mean_ratio(groups: &[(Figures, Figures)], runs: usize) -> Self {
        let ratios: Vec<f64> = groups
            .iter()
            .map(|(one, other)| (one.mean / other.mean).ln())
            .collect();
        let value = mean(&ratios);
        let relative = |figures: &Figures| Some(figures.s? / figures.mean);
        let squares: Option<Vec<f64>> = groups
            .iter()
            .map(|(one, other)| Some(relative(one)?.powi(2) + relative(other)?.powi(2)))
            .collect();
        let (count, runs) = (as_f64(groups.len() as u64), as_f64(runs as u64));
        match squares {
            Some(squares) => {
                let deviation = (squares.iter().sum::<f64>() / runs).sqrt() / count;
                let distance = student_quantile(2.0 * (runs - 1.0) * count) * deviation;
                Self::new(value, [value - distance, value + distance])
            }
            None => Self::unknown(value),
        }
        .map(f64::exp)
    }

    /// Returns the ratio of the relative deviations of two groups of runs. A relative deviation is the standard
    /// deviation divided by the mean. If `groups` contains several pairs of groups, returns the geometric mean of
    /// their ratios. `runs` is the size of each group; an interval requires four.
    ///
    /// The interval assumes that runs are normally distributed. Then the logarithm of a ratio has a standard
    /// deviation of about 1 / sqrt(runs - 2), which matches Fisher's distribution to 10%.
    pub fn of_deviation_ratio(groups: &[(Figures, Figures)], runs: usize) -> Self {
        let relative = |figures: &Figures| Some(figures.s? / figures.mean);
        let logarithms: Option<Vec<f64>> = groups
            .iter()
            .map(|(one, other)| Some((relative(one)? / relative(other)?).ln()))
            .collect();
        let Some(logarithms) = logarithms else {
            return Self::unknown(f64::NAN);
        };
        let ratio = mean(&logarithms).exp();
        if runs < 4 {
            return Self::unknown(ratio);
        }
        let factor = Self::deviation_factor(groups.len(), runs);
        Self::new(ratio, [ratio / factor, ratio * factor])
    }

    /// Returns the factor between a ratio of deviations and each end of its interval. `groups` is the number of
    /// pairs of groups; `runs` is the size of each group, at least three.
    pub fn deviation_factor(groups: usize, runs: usize) -> f64 {
        let degrees = as_f64(groups as u64) * (as_f64(runs as u64) - 2.0);
        (NORMAL_QUANTILE / degrees.sqrt()).exp()
    }

    /// Returns half of the interval's width.
    pub fn half_width(self) -> Option<f64> {
        Some((self.high? - self.low?) / 2.0)
    }

    /// Applies an increasing function to the estimate and to both ends.
    pub fn map(self, increasing: impl Fn(f64) -> f64) -> Self {
        Self {
            value: increasing(self.value),
            low: self.low.map(&increasing),
            high: self.high.map(&increasing),
        }
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3}", self.value)?;
        match (self.low, self.high) {
            (Some(low), Some(high)) if low < high => write!(f, " ({low:.3} to {high:.3})"),
            _ => Ok(()),
        }
    }
}

/// Returns the mean of the means of all groups.
fn mean_of_groups(groups: &[Vec<f64>]) -> f64 {
    let means: Vec<f64> = groups.iter().map(|figures| mean(figures)).collect();
    mean(&means)
}

/// Returns the number of figures outside of the interval of the median at each end; `None` if there are too few
/// figures.
fn discarded_of_median(count: usize) -> Option<usize> {
    const MAX_OUTSIDE: f64 = 0.025;
    let below_median = Binomial::new(0.5, count as u64).ok()?;
    let discarded =
        (0..count / 2).take_while(|below| below_median.cdf(*below as u64) <= MAX_OUTSIDE);
    discarded.last()
}

/// Returns the 97.5% quantile of Student's distribution.
fn student_quantile(degrees_of_freedom: f64) -> f64 {
    let student = StudentsT::new(0.0, 1.0, degrees_of_freedom);
    student.map_or(f64::NAN, |student| student.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::{Distribution, Normal};
    use std::cmp::Ordering;

    /// Compares an estimate with `value`. Returns `Equal` if the interval contains `value`, and `None`
    /// without an interval.
    fn compare(interval: Interval, value: f64) -> Option<Ordering> {
        let (low, high) = (interval.low?, interval.high?);
        Some(if low > value {
            Ordering::Greater
        } else if high < value {
            Ordering::Less
        } else {
            Ordering::Equal
        })
    }

    #[test]
    fn median_of_ten_seeds_is_between_the_second_and_the_ninth() {
        let figures: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        let interval = Interval::of_median(&figures);
        assert!((interval.value - 5.5).abs() < 1e-12);
        assert_eq!((interval.low, interval.high), (Some(2.0), Some(9.0)));
    }

    #[test]
    fn number_of_discarded_figures_follows_the_binomial_distribution() {
        // Published tables of the sign test, two-sided at 5%.
        let table = [
            (5, None),
            (6, Some(0)),
            (8, Some(0)),
            (9, Some(1)),
            (12, Some(2)),
            (20, Some(5)),
        ];
        for (count, discarded) in table {
            assert_eq!(discarded_of_median(count), discarded, "{count}");
        }
        assert_eq!(Interval::of_median(&[1.0; 5]), Interval::unknown(1.0));
        assert!(Interval::of_median(&[]).value.is_nan());
    }

    #[test]
    fn student_quantile_matches_published_values() {
        for (degrees, quantile) in [(4.0, 2.776), (6.0, 2.447), (9.0, 2.262), (30.0, 2.042)] {
            let relative = student_quantile(degrees) / quantile - 1.0;
            assert!(relative.abs() < 0.02, "{degrees}: {relative}");
        }
    }

    #[test]
    fn common_noise_of_a_pair_cancels() {
        // The machine is up to three times as slow in some rounds; the first kernel is 1% slower in each.
        let pairs: Vec<_> = [1.0, 3.0, 1.5, 2.0, 1.2]
            .map(|slow| (1.01 * slow, slow))
            .into();
        let interval = Interval::of_paired_ratio(&pairs);
        assert!((interval.value - 1.01).abs() < 1e-9);
        assert!(interval.half_width().unwrap() < 1e-9, "{interval:?}");
        assert_eq!(compare(interval, 1.0), Some(Ordering::Greater));
    }

    #[test]
    fn common_noise_does_not_widen_the_interval_of_a_paired_difference() {
        let pairs: Vec<_> = [1.0, 3.0, 1.5, 2.0, 1.2]
            .map(|slow| (slow + 0.25, slow))
            .into();
        let interval = Interval::of_paired_difference(&pairs);
        assert!((interval.value - 0.25).abs() < 1e-9 && !interval.may_be_zero());
        assert!(interval.half_width().unwrap() < 1e-9, "{interval:?}");
        let noise = [(1.0, 1.1), (1.2, 1.0), (1.0, 1.05), (1.1, 1.0), (1.0, 1.02)];
        assert!(Interval::of_paired_difference(&noise).may_be_zero());
        assert!(Interval::of_paired_difference(&pairs[..4]).may_be_zero());
    }

    #[test]
    fn few_pairs_have_no_interval() {
        let interval = Interval::of_paired_ratio(&[(2.0, 1.0); 4]);
        assert!((interval.value - 2.0).abs() < 1e-9);
        assert_eq!((interval.low, compare(interval, 1.0)), (None, None));
        let groups = [1.0, 2.0].map(|ratio| vec![(ratio, 1.0); 3]);
        assert!(Interval::of_grouped_ratio(&groups).low.is_some());
        assert_eq!(Interval::of_grouped_ratio(&groups[..1]).low, None);
        assert_eq!(Interval::of_grouped_ratio(&[]).low, None);
    }

    #[test]
    fn difference_between_groups_does_not_widen_the_interval() {
        let groups = [0.5, 2.0].map(|ratio| vec![(ratio, 1.0); 5]);
        let interval = Interval::of_grouped_ratio(&groups);
        assert!((interval.value - 1.0).abs() < 1e-9);
        assert!(interval.half_width().unwrap() < 1e-9, "{interval:?}");
        let pooled = Interval::of_paired_ratio(&groups.concat());
        assert!(pooled.half_width().unwrap() > 0.2, "{pooled:?}");
    }

    #[test]
    fn weight_of_a_group_does_not_depend_on_its_number_of_pairs() {
        let groups = [(0.5, 3), (2.0, 9)].map(|(ratio, pairs)| vec![(ratio, 1.0); pairs]);
        let interval = Interval::of_grouped_ratio(&groups);
        assert!((interval.value - 1.0).abs() < 1e-9);
        assert!(interval.half_width().unwrap() < 1e-9, "{interval:?}");
    }

    /// The share of intervals that contain the true ratio, for several numbers of pairs.
    #[test]
    fn interval_of_pairs_contains_the_ratio_in_95_of_100_samples() {
        const SAMPLES: u32 = 1000;
        let noise = Normal::new(0.0_f64, 0.1).unwrap();
        for count in [5_u32, 7, 10, 20] {
            let mut random = generator(7, u64::from(count));
            let hits = (0..SAMPLES).filter(|_| {
                let pairs: Vec<(f64, f64)> = (0..count)
                    .map(|_| (1.5 * noise.sample(&mut random).exp(), 1.0))
                    .collect();
                compare(Interval::of_paired_ratio(&pairs), 1.5) == Some(Ordering::Equal)
            });
            let hits = hits.count();
            assert!(
                (930..=975).contains(&hits),
                "{count} pairs: {hits} of {SAMPLES}"
            );
        }
    }

    #[test]
    fn published_ratio_has_the_interval_of_its_deviations() {
        let figures = |mean, s| Figures { mean, s: Some(s) };
        let group = (figures(110.0, 1.1), figures(100.0, 1.0));
        let interval = Interval::of_mean_ratio(&[group], 5);
        assert!((interval.value - 1.1).abs() < 1e-9);
        // The relative deviation of each mean is 1% / sqrt(5); Student's quantile with 8 degrees is 2.306.
        let expected = 1.1 * 2.306 * 0.01 * (2.0_f64 / 5.0).sqrt();
        let half_width = interval.half_width().unwrap();
        assert!(
            (half_width / expected - 1.0).abs() < 0.01,
            "{half_width} {expected}"
        );
        let four = Interval::of_mean_ratio(&[group; 4], 5);
        assert!((four.value - 1.1).abs() < 1e-9);
        // Four groups have half the deviation, and more degrees of freedom.
        let narrower = four.half_width().unwrap() / half_width;
        assert!((0.4..0.5).contains(&narrower), "{narrower}");
        let single = Figures { mean: 1.0, s: None };
        let unknown = Interval::of_mean_ratio(&[(single, single)], 1);
        assert_eq!(unknown, Interval::unknown(1.0));
    }

    #[test]
    fn deviation_ratio_has_the_interval_of_fishers_distribution() {
        let figures = |mean, s| Figures { mean, s: Some(s) };
        // Square roots of the 97.5% quantiles of F(4, 4) and F(9, 9).
        for (runs, quantile) in [(5, 3.099), (10, 2.007)] {
            let group = (figures(10.0, 1.0), figures(20.0, 4.0));
            let interval = Interval::of_deviation_ratio(&[group], runs);
            assert!((interval.value - 0.5).abs() < 1e-9);
            let relative = interval.high.unwrap() / (0.5 * quantile) - 1.0;
            assert!(relative.abs() < 0.1, "{runs} runs: {relative}");
            // Four groups have half the deviation.
            let four = Interval::of_deviation_ratio(&[group; 4], runs);
            let [one, four] = [interval, four].map(|ratio| (ratio.high.unwrap() / 0.5).ln());
            assert!((one / four - 2.0).abs() < 1e-9, "{one} {four}");
        }
        let equal = (figures(1.0, 0.1), figures(1.0, 0.1));
        let three = Interval::of_deviation_ratio(&[equal], 3);
        assert_eq!(three, Interval::unknown(1.0));
    }

    #[test]
    fn interval_is_printed_unless_it_is_a_point() {
        let interval = Interval::new(1.0, [0.9994, 1.25]);
        assert_eq!(interval.to_string(), "1.000 (0.999 to 1.250)");
        assert_eq!(Interval::exact(2.0).to_string(), "2.000");
        assert_eq!(Interval::unknown(2.0).to_string(), "2.000");
    }
}
