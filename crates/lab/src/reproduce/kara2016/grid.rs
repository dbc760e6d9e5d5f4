//! Times of xattr-bench by case and variant: the published ones, measured ones, simulated ones.

use larder::MbCacheVariant::{self, Clock, ListLru, Lru, Off, Old, Referenced};
use serde::{Serialize, Serializer};

use crate::published::kara2016::xattr_bench;
use crate::statistics::median;
use crate::xattr_bench::Case;

/// The order of figures: the letter's, and ours.
pub const ORDER: [MbCacheVariant; 6] = [Old, Lru, ListLru, Referenced, Off, Clock];

/// Below this, nobody's figures tell a difference: the least noise that a table is taken to have.
pub const LEAST_NOISE: f64 = 0.05;

/// Seconds of the cases under the variants.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grid {
    /// One for each case.
    pub rows: Vec<GridRow>,
    /// How much more one figure may be than another with no reason, as a share of it.
    pub noise: f64,
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GridRow {
    pub case: Case,
    /// Seconds for 50,000 sets by each process, in [`ORDER`]; `None` where there is no
    /// figure. As JSON each has the name of its variant.
    #[serde(serialize_with = "by_variant")]
    pub seconds: [Option<f64>; ORDER.len()],
}

/// The runs of a case under a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    pub case: Case,
    pub variant: MbCacheVariant,
    /// Seconds that each run took.
    pub seconds: Vec<f64>,
}

impl GridRow {
    /// Seconds under `variant`.
    pub fn of(&self, variant: MbCacheVariant) -> Option<f64> {
        let figures = ORDER.into_iter().zip(self.seconds);
        figures
            .filter(|(named, _)| *named == variant)
            .find_map(|(_, seconds)| seconds)
    }

    /// How many times as long `slow` takes as `fast`.
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
    /// The published table.
    ///
    /// It has averages only. But `off` looks nothing up, so that its five figures with the same P
    /// and F differ by noise alone: the noise is how much more the largest is than the smallest, in
    /// the median over P and F.
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
        Self { rows, noise }
    }

    /// Figures of ours, each the median of its runs, for 50,000 sets where there were `operations`.
    ///
    /// The noise is how much more the longest run took than the shortest, in the median over cases
    /// and variants.
    pub fn measured(measured: &[Timed], operations: u32) -> Self {
        let scale = f64::from(crate::published::kara2016::OPERATIONS) / f64::from(operations);
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
                    *seconds = Some(median(&one.seconds) * scale);
                }
            }
        }
        let spreads = measured.iter().map(|one| spread(one.seconds.clone()));
        let noise = median(&spreads.collect::<Vec<_>>()).max(LEAST_NOISE);
        Self { rows, noise }
    }

    /// How many times as long `slow` takes as `fast` in each of the cases that are asked for and have
    /// both figures.
    pub(super) fn ratios(
        &self,
        slow: MbCacheVariant,
        fast: MbCacheVariant,
        wanted: impl Fn(Case) -> bool,
    ) -> Vec<f64> {
        let rows = self.rows.iter().filter(|row| wanted(row.case));
        rows.filter_map(|row| row.ratio(slow, fast)).collect()
    }

    /// The mean of [`Self::ratios`].
    pub(super) fn mean_ratio(
        &self,
        slow: MbCacheVariant,
        fast: MbCacheVariant,
        wanted: impl Fn(Case) -> bool,
    ) -> Option<f64> {
        geometric_mean(&self.ratios(slow, fast, wanted))
    }

    /// How many times as long as with one process `processes` take, in the mean over the cases with
    /// `values`.
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

    /// The row of a case.
    pub fn row(&self, case: Case) -> Option<&GridRow> {
        self.rows.iter().find(|row| row.case == case)
    }
}

/// The mean of ratios: those of a half and of two have the mean one. `None` of none.
pub(super) fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let count = u32::try_from(ratios.len())
        .ok()
        .filter(|count| *count > 0)?;
    let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    Some((logarithms / f64::from(count)).exp())
}

/// How much more the largest is than the smallest, as a share of it.
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
    fn published_noise_is_that_of_the_column_that_looks_nothing_up() {
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
        // Spreads of 400%, none, and 200%.
        assert!((grid.noise - 2.0).abs() < 1e-9, "{}", grid.noise);
        let growth = grid.growth(MbCacheVariant::Old, 64, 10).unwrap();
        assert!((growth - 10.0).abs() < 1e-9, "{growth}");
        assert_eq!(grid.growth(MbCacheVariant::Off, 64, 10), None);
    }

    #[test]
    fn figures_as_json_have_the_names_of_their_variants() {
        let published = Grid::published();
        let json = serde_json::to_string(&published.rows[0]).unwrap();
        let seconds = r#""seconds":{"old":0.158,"lru":0.157,"list-lru":0.209,"referenced":0.155,"off":0.135,"#;
        assert!(json.contains(seconds), "{json}");
        assert!(json.ends_with(r#""clock":null}}"#), "{json}");
    }

    #[test]
    fn mean_of_ratios_takes_a_half_and_two_as_one() {
        assert!((geometric_mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(geometric_mean(&[]), None);
    }
}
