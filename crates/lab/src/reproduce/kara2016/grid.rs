//! Times of xattr-bench by case and variant: published, measured and simulated.

use larder::MbCacheVariant::{self, Clock, ListLru, Lru, Off, Old, Referenced};
use serde::{Serialize, Serializer};

use crate::published::kara2016::xattr_bench;
use crate::reproduce::finding::{Mutable, Mutation};
use crate::statistics::{Interval, geometric_mean, median};
use crate::xattr_bench::Case;

/// The variants in the order of the columns: those of the letter, then Larder's own.
pub const ORDER: [MbCacheVariant; 6] = [Old, Lru, ListLru, Referenced, Off, Clock];

/// The minimum noise of a table, as a relative difference. Smaller differences are never significant.
pub const LEAST_NOISE: f64 = 0.05;

/// Times of the cases under the variants, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grid {
    /// One row for each case.
    pub rows: Vec<GridRow>,
    /// The largest relative difference between two times that may be due to noise.
    pub noise: f64,
    /// One table for each run or seed that all cases have; empty if only averages are known.
    #[serde(skip)]
    pub repetitions: Vec<Self>,
}

/// Minimum number of repetitions for an interval over them.
const MIN_REPETITIONS: usize = 6;

/// The times of a case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GridRow {
    pub case: Case,
    /// Seconds for 50,000 sets by each process, in [`ORDER`]; `None` if the figure is missing. In JSON each
    /// figure has the name of its variant.
    #[serde(serialize_with = "by_variant")]
    pub seconds: [Option<f64>; ORDER.len()],
}

/// The runs of a case under a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    pub case: Case,
    pub variant: MbCacheVariant,
    /// Duration of each run in seconds.
    pub seconds: Vec<f64>,
}

impl GridRow {
    /// Returns the seconds under `variant`.
    pub fn of(&self, variant: MbCacheVariant) -> Option<f64> {
        let figures = ORDER.into_iter().zip(self.seconds);
        figures
            .filter(|(named, _)| *named == variant)
            .find_map(|(_, seconds)| seconds)
    }

    /// Returns the time of `slow` divided by the time of `fast`.
    fn ratio(&self, slow: MbCacheVariant, fast: MbCacheVariant) -> Option<f64> {
        Some(self.of(slow)? / self.of(fast)?)
    }
}

fn by_variant<S: Serializer>(
    seconds: &[Option<f64>; ORDER.len()],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(ORDER.into_iter().zip(seconds))
}

impl Grid {
    /// Returns the published table.
    ///
    /// The letter contains only averages, from which the noise is estimated. With `off`, there are no
    /// lookups, so the five times with the same P and F should be equal. For each P and F, the relative
    /// difference between the largest and the smallest of these times is computed. The noise is the median of
    /// these differences, but at least [`LEAST_NOISE`].
    pub fn published() -> Self {
        let rows = xattr_bench().into_iter().map(|row| GridRow {
            case: row.case(),
            seconds: ORDER.map(|variant| row.seconds(variant)),
        });
        let rows: Vec<GridRow> = rows.collect();
        let spreads = rows
            .iter()
            .filter(|row| row.case.values == Case::VALUES[0])
            .map(|first| {
                let same = rows.iter().filter(|row| {
                    (row.case.processes, row.case.files) == (first.case.processes, first.case.files)
                });
                let off = same.filter_map(|row| row.of(MbCacheVariant::Off));
                spread(off.collect())
            });
        let noise = median(&spreads.collect::<Vec<_>>()).max(LEAST_NOISE);
        Self {
            rows,
            noise,
            repetitions: Vec::new(),
        }
    }

    /// Returns a table of measured times. Each time is the median of its runs, scaled from `operations` to
    /// 50,000 sets.
    ///
    /// For each case and variant, the relative difference between the longest and the shortest run is computed.
    /// The noise is the median of these differences, but at least [`LEAST_NOISE`].
    pub fn measured(measured: &[Timed], operations: u32) -> Self {
        let scale = f64::from(crate::published::kara2016::OPERATIONS) / f64::from(operations);
        let spreads = measured.iter().map(|one| spread(one.seconds.clone()));
        let noise = median(&spreads.collect::<Vec<_>>()).max(LEAST_NOISE);
        let rows = |figure: &dyn Fn(&Timed) -> f64| rows(measured, |one| figure(one) * scale);
        let least = measured.iter().map(|one| one.seconds.len()).min();
        let repetitions = (0..least.unwrap_or(0)).map(|run| Self {
            rows: rows(&|one| one.seconds[run]),
            noise,
            repetitions: Vec::new(),
        });
        Self {
            rows: rows(&|one| median(&one.seconds)),
            noise,
            repetitions: repetitions.collect(),
        }
    }

    /// Returns a statistic with its interval. With at least six repetitions, the result is the median over the
    /// repetitions. Otherwise the interval is computed as for a mean of `figures` figures, each of which may differ
    /// by the noise.
    pub(super) fn estimate(
        &self,
        figures: usize,
        statistic: impl Fn(&Self) -> Option<f64>,
    ) -> Option<Interval> {
        let mut estimate = self.estimate_exact(statistic)?;
        if self.repetitions.len() < MIN_REPETITIONS {
            let count = u32::try_from(figures).ok()?;
            let factor = 1.0 + self.noise / f64::from(count).sqrt();
            estimate.low = Some(estimate.value / factor);
            estimate.high = Some(estimate.value * factor);
        }
        Some(estimate)
    }

    /// Returns a statistic whose own definition allows for noise. With at least six repetitions, the result is the
    /// median over the repetitions, with an interval. Otherwise the result counts as exact.
    pub(super) fn estimate_exact(
        &self,
        statistic: impl Fn(&Self) -> Option<f64>,
    ) -> Option<Interval> {
        if self.repetitions.len() < MIN_REPETITIONS {
            return Some(Interval::exact(statistic(self)?));
        }
        let figures = self.repetitions.iter().map(statistic);
        Some(Interval::of_median(&figures.collect::<Option<Vec<_>>>()?))
    }

    /// Returns the time of `slow` divided by the time of `fast` in each of the selected cases that
    /// has both figures.
    pub(super) fn ratios(
        &self,
        slow: MbCacheVariant,
        fast: MbCacheVariant,
        wanted: impl Fn(Case) -> bool,
    ) -> Vec<f64> {
        let rows = self.rows.iter().filter(|row| wanted(row.case));
        rows.filter_map(|row| row.ratio(slow, fast)).collect()
    }

    /// Returns the mean of [`Self::ratios`].
    pub(super) fn mean_ratio(
        &self,
        slow: MbCacheVariant,
        fast: MbCacheVariant,
        wanted: impl Fn(Case) -> bool,
    ) -> Option<f64> {
        geometric_mean(&self.ratios(slow, fast, wanted))
    }

    /// Returns the time with `processes` divided by the time with one process, as the mean over the
    /// cases with `values`.
    pub(super) fn growth(
        &self,
        variant: MbCacheVariant,
        processes: u32,
        values: u32,
    ) -> Option<f64> {
        let many = self
            .rows
            .iter()
            .filter(|row| row.case.processes == processes && row.case.values == values);
        let growths = many.filter_map(|many| {
            let one = self.row(Case {
                processes: 1,
                ..many.case
            })?;
            Some(many.of(variant)? / one.of(variant)?)
        });
        geometric_mean(&growths.collect::<Vec<_>>())
    }

    /// Returns the seconds of a case under `variant`, with their interval over the repetitions, if there are enough.
    pub(super) fn seconds(&self, case: Case, variant: MbCacheVariant) -> Option<Interval> {
        let of = |grid: &Self| grid.row(case)?.of(variant);
        let repetitions = self.repetitions.iter().map(of);
        let repetitions = repetitions.collect::<Option<Vec<f64>>>()?;
        if repetitions.is_empty() {
            return Some(Interval::unknown(of(self)?));
        }
        Some(Interval::of_median(&repetitions))
    }

    /// Returns the row of a case.
    pub fn row(&self, case: Case) -> Option<&GridRow> {
        self.rows.iter().find(|row| row.case == case)
    }
}

/// In each case, the time under each variant is changed relative to the time under `referenced`. Each repetition
/// has its own noise.
impl Mutable for Grid {
    fn mutated(&self, mutation: Mutation) -> Self {
        let figures = (self.rows.len() * ORDER.len()) as u64;
        let repetitions = self.repetitions.iter().zip(1..);
        Self {
            rows: self.mutated_rows(mutation, 0),
            noise: self.noise,
            repetitions: repetitions
                .map(|(one, number)| Self {
                    rows: one.mutated_rows(mutation, number * figures),
                    noise: one.noise,
                    repetitions: Vec::new(),
                })
                .collect(),
        }
    }
}

impl Grid {
    /// Returns the mutated rows. Figures have indices from `first` on.
    fn mutated_rows(&self, mutation: Mutation, first: u64) -> Vec<GridRow> {
        let mut index = first..;
        let rows = self.rows.iter().map(|row| {
            let reference = row.of(Referenced);
            let mut row = *row;
            for (seconds, index) in row.seconds.iter_mut().zip(&mut index) {
                *seconds = seconds
                    .zip(reference)
                    .map(|(seconds, reference)| mutation.apply(reference, seconds, index));
            }
            row
        });
        rows.collect()
    }
}

/// Returns the rows of all cases with a figure of their runs.
fn rows(measured: &[Timed], figure: impl Fn(&Timed) -> f64) -> Vec<GridRow> {
    let mut rows: Vec<GridRow> = Vec::new();
    for one in measured {
        let at = rows.iter().position(|row| row.case == one.case);
        let at = at.unwrap_or_else(|| {
            rows.push(GridRow {
                case: one.case,
                seconds: Default::default(),
            });
            rows.len() - 1
        });
        for (variant, seconds) in ORDER.iter().zip(&mut rows[at].seconds) {
            if one.variant == *variant {
                *seconds = Some(figure(one));
            }
        }
    }
    rows
}

/// Returns the relative difference between the largest and the smallest figure.
fn spread(figures: Vec<f64>) -> f64 {
    let most = figures.iter().copied().fold(f64::MIN, f64::max);
    let least = figures.into_iter().fold(f64::MAX, f64::min);
    most / least - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: Case = Case {
        processes: 1,
        files: 10,
        values: 10,
    };

    fn timed(variant: MbCacheVariant, processes: u32, seconds: &[f64]) -> Timed {
        Timed {
            case: Case { processes, ..CASE },
            variant,
            seconds: seconds.to_vec(),
        }
    }

    #[test]
    fn published_noise_is_the_spread_of_off() {
        let published = Grid::published();
        assert_eq!(published.rows.len(), 105);
        assert!(
            (0.088..0.090).contains(&published.noise),
            "{}",
            published.noise
        );
    }

    #[test]
    fn measured_figures_are_medians_scaled_to_the_sets_of_the_letter() {
        let grid = Grid::measured(
            &[
                timed(MbCacheVariant::Old, 1, &[0.5, 0.1, 0.2]),
                timed(MbCacheVariant::Off, 1, &[0.1, 0.1, 0.1]),
                timed(MbCacheVariant::Old, 64, &[3.0, 1.0]),
            ],
            5000,
        );
        assert_eq!(grid.rows.len(), 2);
        let row = grid.row(CASE).unwrap();
        assert_eq!(row.of(MbCacheVariant::Old), Some(2.0));
        assert_eq!(row.of(MbCacheVariant::Off), Some(1.0));
        assert_eq!(row.of(MbCacheVariant::Lru), None);
        // The spreads are 400%, 0% and 200%.
        assert!((grid.noise - 2.0).abs() < 1e-9, "{}", grid.noise);
        let growth = grid.growth(MbCacheVariant::Old, 64, 10).unwrap();
        assert!((growth - 10.0).abs() < 1e-9, "{growth}");
        assert_eq!(grid.growth(MbCacheVariant::Off, 64, 10), None);
    }

    #[test]
    fn estimate_is_the_median_over_repetitions_or_has_the_noise_of_the_table() {
        let growth = |runs: &[f64]| {
            let measured = [
                timed(MbCacheVariant::Old, 1, &[1.0; 10][..runs.len()]),
                timed(MbCacheVariant::Old, 64, runs),
            ];
            let grid = Grid::measured(&measured, 50_000);
            let estimate = grid.estimate(4, |grid| grid.growth(MbCacheVariant::Old, 64, 10));
            (estimate.unwrap(), grid.noise)
        };
        let (seeds, _) = growth(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((seeds.value - 5.5).abs() < 1e-9);
        let ends = [seeds.low.unwrap(), seeds.high.unwrap()];
        assert!(
            (ends[0] - 2.0).abs() < 1e-9 && (ends[1] - 9.0).abs() < 1e-9,
            "{seeds:?}"
        );
        let (few, noise) = growth(&[4.0, 6.0, 5.0]);
        // The spreads are 0% and 50%.
        assert!((noise - 0.25).abs() < 1e-9 && (few.value - 5.0).abs() < 1e-9);
        assert!((few.high.unwrap() - 5.0 * 1.125).abs() < 1e-9, "{few:?}");
    }

    #[test]
    fn seconds_have_an_interval_with_enough_repetitions() {
        let seconds = |runs: &[f64]| {
            let grid = Grid::measured(&[timed(MbCacheVariant::Old, 1, runs)], 25_000);
            let seconds = grid.seconds(CASE, MbCacheVariant::Old).unwrap();
            assert_eq!(grid.seconds(CASE, MbCacheVariant::Off), None);
            (seconds.value, seconds.low, seconds.high)
        };
        let ten = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
        assert_eq!(seconds(&ten), (11.0, Some(4.0), Some(18.0)));
        assert_eq!(seconds(&ten[..3]), (4.0, None, None));
        let published = Grid::published();
        let figure = published.seconds(CASE, MbCacheVariant::Old);
        assert_eq!(figure, Some(Interval::unknown(0.158)));
    }

    #[test]
    fn figures_as_json_have_the_names_of_their_variants() {
        let published = Grid::published();
        let json = serde_json::to_string(&published.rows[0]).unwrap();
        let seconds = r#""seconds":{"old":0.158,"lru":0.157,"list-lru":0.209,"referenced":0.155,"off":0.135,"#;
        assert!(json.contains(seconds), "{json}");
        assert!(json.ends_with(r#""clock":null}}"#), "{json}");
    }
}
