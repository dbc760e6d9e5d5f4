//! Times of xattr-bench by case and variant: published, measured and simulated.

use larder::MbCacheVariant::{self, Referenced};
use serde::{Serialize, Serializer};

use super::plan::{Cell, ORDER, Setting};
use super::residual::Residual;
use crate::published::kara2016::{FLAG_FILES, FLAG_GAINS, FLAG_VALUES, xattr_bench};
use crate::reproduce::finding::{Mutable, Mutation};
use crate::statistics::{Interval, geometric_mean, median};
use crate::xattr_bench::Case;

/// The minimum noise of a table, as a relative difference. Smaller differences are never significant.
pub const LEAST_NOISE: f64 = 0.05;

/// The times from one source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grid {
    /// The letter's table: one row for each case.
    pub rows: Vec<GridRow>,
    /// The times after each file was set once.
    pub with_journal: Vec<GridRow>,
    /// As [`Self::with_journal`], on a file system without a journal.
    pub without_journal: Vec<GridRow>,
    /// The gains of the reusable flag.
    pub gains: Vec<Gain>,
    /// The mean number of commits in a run of [`REPEATED`](super::plan::REPEATED) with a journal, under `referenced` and
    /// under `off`; `None` if they were not counted.
    pub commits: Option<[f64; 2]>,
    /// The largest relative difference between two times that may be due to noise.
    pub noise: f64,
    /// One table for each run or seed; empty if only averages are known.
    #[serde(skip)]
    pub repetitions: Vec<Self>,
    /// What remains unexplained of the published times with `off`, to which the table was fitted; empty if it was not
    /// fitted.
    #[serde(skip)]
    pub residuals: Vec<Residual>,
}

/// The gain of the reusable flag in a case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    #[serde(flatten)]
    pub case: Case,
    /// Seconds with and without the flag; `None` if only their ratio is known.
    pub seconds: Option<[f64; 2]>,
    /// The time without the flag divided by the time with the flag.
    pub ratio: f64,
}

/// The times of a case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GridRow {
    pub case: Case,
    /// Seconds for 50,000 sets by each process, in [`ORDER`]; `None` if the figure is missing. In JSON each
    /// figure has the name of its variant.
    #[serde(serialize_with = "by_variant")]
    pub seconds: [Option<f64>; ORDER.len()],
}

/// The runs of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    pub cell: Cell,
    /// Duration of each run in seconds, for 50,000 sets by each process.
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
        let gains = FLAG_GAINS.map(|(processes, ratio)| Gain {
            case: Case {
                processes,
                files: FLAG_FILES,
                values: FLAG_VALUES,
            },
            seconds: None,
            ratio,
        });
        Self {
            rows,
            with_journal: Vec::new(),
            without_journal: Vec::new(),
            gains: gains.into(),
            commits: None,
            noise,
            repetitions: Vec::new(),
            residuals: Vec::new(),
        }
    }

    /// Returns a table of measured times. Each time is the median of its runs.
    ///
    /// For each cell, the relative difference between the longest and the shortest run is computed. The noise is the
    /// median of these differences, but at least [`LEAST_NOISE`].
    pub fn measured(measured: &[Timed]) -> Self {
        let spreads = measured.iter().map(|one| spread(one.seconds.clone()));
        let noise = median(&spreads.collect::<Vec<_>>()).max(LEAST_NOISE);
        let least = measured.iter().map(|one| one.seconds.len()).min();
        let repetitions = (0..least.unwrap_or(0))
            .map(|run| Self::of(measured, noise, &|one: &Timed| one.seconds[run]));
        Self {
            repetitions: repetitions.collect(),
            ..Self::of(measured, noise, &|one: &Timed| median(&one.seconds))
        }
    }

    /// Returns a table of one figure of each cell, without repetitions.
    fn of(measured: &[Timed], noise: f64, figure: &dyn Fn(&Timed) -> f64) -> Self {
        let gains = in_setting(measured, Setting::Flag).filter_map(|with| {
            let mut without = in_setting(measured, Setting::NoFlag);
            let without = without.find(|one| one.cell.case == with.cell.case)?;
            let [with_s, without_s] = [figure(with), figure(without)];
            Some(Gain {
                case: with.cell.case,
                seconds: Some([with_s, without_s]),
                ratio: without_s / with_s,
            })
        });
        Self {
            rows: rows(in_setting(measured, Setting::Letter), figure),
            with_journal: rows(in_setting(measured, Setting::Journal), figure),
            without_journal: rows(in_setting(measured, Setting::NoJournal), figure),
            gains: gains.collect(),
            commits: None,
            noise,
            repetitions: Vec::new(),
            residuals: Vec::new(),
        }
    }

    /// Returns whether only averages are known, as of the published table.
    pub(super) fn is_averages(&self) -> bool {
        self.repetitions.is_empty()
    }

    /// Returns the median of a statistic over the repetitions, with its interval if there are at least six. If only
    /// averages are known, the statistic has a range instead, which is not an interval: that of a mean of `figures`
    /// figures, each of which may differ by the noise.
    pub(super) fn estimate(
        &self,
        figures: usize,
        statistic: impl Fn(&Self) -> Option<f64>,
    ) -> Option<Interval> {
        if self.is_averages() {
            let value = statistic(self)?;
            let count = u32::try_from(figures).ok()?;
            let factor = 1.0 + self.noise / f64::from(count).sqrt();
            return Some(Interval::new(value, [value / factor, value * factor]));
        }
        let figures = self.repetitions.iter().map(statistic);
        Some(Interval::of_median(&figures.collect::<Option<Vec<_>>>()?))
    }

    /// Returns the time of `slow` divided by the time of `fast` in each of the selected cases that has both figures.
    /// Each ratio has the interval of its own repetitions.
    pub(super) fn case_ratios(
        &self,
        slow: MbCacheVariant,
        fast: MbCacheVariant,
        wanted: impl Fn(Case) -> bool,
    ) -> Vec<Interval> {
        let rows = self.rows.iter().filter(|row| wanted(row.case));
        let ratios =
            rows.filter_map(|row| self.estimate(1, |grid| grid.row(row.case)?.ratio(slow, fast)));
        ratios.collect()
    }

    /// Returns the gain of the reusable flag with a number of processes.
    pub(super) fn gain(&self, processes: u32) -> Option<Interval> {
        self.estimate(1, |grid| {
            let mut gains = grid.gains.iter();
            let of = gains.find(|of| of.case.processes == processes)?;
            Some(of.ratio)
        })
    }

    /// Returns simulated / published of the times with `off`, as the mean over F; `None` if the table was not fitted to
    /// them.
    pub(super) fn residual(&self, processes: u32) -> Option<f64> {
        let of = self.residuals.iter().filter(|of| of.processes == processes);
        geometric_mean(&of.map(Residual::ratio).collect::<Vec<_>>())
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

    /// Returns the seconds of a cell, with their interval over the repetitions, if there are enough.
    pub(super) fn seconds(&self, cell: Cell) -> Option<Interval> {
        let repetitions = self.repetitions.iter().map(|grid| grid.figure(cell));
        let repetitions = repetitions.collect::<Option<Vec<f64>>>()?;
        if repetitions.is_empty() {
            return Some(Interval::unknown(self.figure(cell)?));
        }
        Some(Interval::of_median(&repetitions))
    }

    /// Returns the seconds of a cell.
    fn figure(&self, cell: Cell) -> Option<f64> {
        let rows = match cell.setting {
            Setting::Letter => &self.rows,
            Setting::Journal => &self.with_journal,
            Setting::NoJournal => &self.without_journal,
            Setting::Flag | Setting::NoFlag => {
                let gain = self.gains.iter().find(|of| of.case == cell.case)?;
                let [with, without] = gain.seconds?;
                return Some(if cell.setting == Setting::Flag {
                    with
                } else {
                    without
                });
            }
        };
        row_in(rows, cell.case)?.of(cell.variant)
    }

    /// Returns the cells of all rows and of all gains, in each setting.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let rows = [
            (Setting::Letter, &self.rows),
            (Setting::Journal, &self.with_journal),
            (Setting::NoJournal, &self.without_journal),
        ];
        let rows = rows.into_iter().flat_map(|(setting, rows)| {
            let cases = rows.iter().map(|row| row.case);
            cases.flat_map(move |case| {
                ORDER.map(|variant| Cell {
                    case,
                    setting,
                    variant,
                })
            })
        });
        let gains = self.gains.iter().flat_map(|gain| {
            [Setting::Flag, Setting::NoFlag].map(|setting| Cell {
                case: gain.case,
                setting,
                variant: Referenced,
            })
        });
        rows.chain(gains).collect()
    }

    /// Returns the row of a case.
    pub fn row(&self, case: Case) -> Option<&GridRow> {
        row_in(&self.rows, case)
    }
}

/// In each case, the time under each variant is changed relative to the time under `referenced`. A gain is changed
/// relative to 1. The noise is that of the table.
impl Mutable for Grid {
    fn mutated(&self, mutation: Mutation) -> Self {
        let mut index = 0;
        let repetitions = self.repetitions.iter();
        let repetitions = repetitions.map(|one| one.mutated_figures(mutation, &mut index));
        let repetitions = repetitions.collect();
        Self {
            repetitions,
            ..self.mutated_figures(mutation, &mut index)
        }
    }
}

impl Grid {
    /// Returns the table with mutated figures, and without repetitions. `index` is the index of the last figure.
    fn mutated_figures(&self, mutation: Mutation, index: &mut u64) -> Self {
        // Two figures differ by the noise if one is too small and the other is too large, each by half of the noise.
        let noise = self.noise / 2.0;
        let mut change = |reference, figure| {
            *index += 1;
            mutation.apply(reference, figure, *index, noise)
        };
        let mut mutated_rows = |rows: &[GridRow]| -> Vec<GridRow> {
            let rows = rows.iter().map(|row| {
                let reference = row.of(Referenced);
                let seconds = row.seconds.map(|seconds| {
                    let figures = reference.zip(seconds);
                    figures.map(|(reference, seconds)| change(reference, seconds))
                });
                GridRow { seconds, ..*row }
            });
            rows.collect()
        };
        Self {
            rows: mutated_rows(&self.rows),
            with_journal: mutated_rows(&self.with_journal),
            without_journal: mutated_rows(&self.without_journal),
            gains: (self.gains.iter())
                .map(|of| Gain {
                    ratio: change(1.0, of.ratio),
                    ..*of
                })
                .collect(),
            commits: self.commits,
            noise: self.noise,
            repetitions: Vec::new(),
            residuals: self.residuals.clone(),
        }
    }
}

/// Returns the time of `slow` divided by the time of `fast` in a case.
pub(super) fn ratio_in(
    rows: &[GridRow],
    case: Case,
    slow: MbCacheVariant,
    fast: MbCacheVariant,
) -> Option<f64> {
    row_in(rows, case)?.ratio(slow, fast)
}

fn row_in(rows: &[GridRow], case: Case) -> Option<&GridRow> {
    rows.iter().find(|row| row.case == case)
}

fn in_setting(measured: &[Timed], setting: Setting) -> impl Iterator<Item = &Timed> {
    let measured = measured.iter();
    measured.filter(move |one| one.cell.setting == setting)
}

/// Returns the rows of all cases with a figure of their runs.
fn rows<'t>(
    measured: impl Iterator<Item = &'t Timed>,
    figure: &dyn Fn(&Timed) -> f64,
) -> Vec<GridRow> {
    let mut rows: Vec<GridRow> = Vec::new();
    for one in measured {
        let Cell { case, variant, .. } = one.cell;
        let at = rows.iter().position(|row| row.case == case);
        let at = at.unwrap_or_else(|| {
            rows.push(GridRow {
                case,
                seconds: Default::default(),
            });
            rows.len() - 1
        });
        for (column, seconds) in ORDER.iter().zip(&mut rows[at].seconds) {
            if variant == *column {
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
            cell: Cell::letter(Case { processes, ..CASE }, variant),
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
    fn measured_figures_are_medians() {
        let grid = Grid::measured(&[
            timed(MbCacheVariant::Old, 1, &[5.0, 1.0, 2.0]),
            timed(MbCacheVariant::Off, 1, &[1.0, 1.0, 1.0]),
            timed(MbCacheVariant::Old, 64, &[30.0, 10.0]),
        ]);
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
    fn estimate_is_the_median_over_repetitions_or_has_the_noise_of_averages() {
        let growth = |runs: &[f64]| {
            let measured = [
                timed(MbCacheVariant::Old, 1, &[1.0; 10][..runs.len()]),
                timed(MbCacheVariant::Old, 64, runs),
            ];
            let grid = Grid::measured(&measured);
            let growth = |grid: &Grid| grid.growth(MbCacheVariant::Old, 64, 10);
            let averages = Grid {
                repetitions: Vec::new(),
                ..grid.clone()
            };
            [grid, averages].map(|grid| grid.estimate(4, growth).unwrap())
        };
        let [seeds, _] = growth(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((seeds.value - 5.5).abs() < 1e-9);
        let ends = [seeds.low.unwrap(), seeds.high.unwrap()];
        assert!(
            (ends[0] - 2.0).abs() < 1e-9 && (ends[1] - 9.0).abs() < 1e-9,
            "{seeds:?}"
        );
        // The spreads are 0% and 50%.
        let [few, averages] = growth(&[4.0, 6.0, 5.0]);
        assert!((few.value - 5.0).abs() < 1e-9, "{few:?}");
        assert_eq!((few.low, few.high), (None, None));
        let high = averages.high.unwrap();
        assert!((high - 5.0 * 1.125).abs() < 1e-9, "{averages:?}");
    }

    #[test]
    fn each_case_has_the_interval_of_its_own_runs() {
        let steady = [1.0; 10];
        let noisy = [0.8, 0.9, 0.9, 1.0, 1.0, 1.0, 1.0, 1.1, 1.1, 1.3];
        let grid = Grid::measured(&[
            timed(MbCacheVariant::Old, 1, &steady),
            timed(MbCacheVariant::Off, 1, &steady),
            timed(MbCacheVariant::Old, 64, &noisy),
            timed(MbCacheVariant::Off, 64, &steady),
        ]);
        let ratios = grid.case_ratios(MbCacheVariant::Old, MbCacheVariant::Off, |_| true);
        let noisy = Interval::new(1.0, [0.9, 1.1]);
        assert_eq!(ratios, [Interval::exact(1.0), noisy]);
    }

    #[test]
    fn flag_and_journal_are_compared_apart_from_the_table_of_the_letter() {
        let in_setting = |setting, seconds: f64| {
            let mut timed = timed(Referenced, 8, &[seconds, seconds]);
            timed.cell.setting = setting;
            timed
        };
        let grid = Grid::measured(&[
            in_setting(Setting::Flag, 2.0),
            in_setting(Setting::NoFlag, 6.0),
            in_setting(Setting::Journal, 3.0),
            in_setting(Setting::NoJournal, 4.0),
        ]);
        assert!(grid.rows.is_empty());
        assert_eq!(grid.gains[0].seconds, Some([2.0, 6.0]));
        assert_eq!(grid.gain(8), Some(Interval::unknown(3.0)));
        assert_eq!(grid.gain(64), None);
        let journal =
            [&grid.with_journal, &grid.without_journal].map(|rows| rows[0].of(Referenced));
        assert_eq!(journal, [Some(3.0), Some(4.0)]);
        let cells = grid.cells().into_iter();
        let shown = cells.filter_map(|cell| Some((cell.setting, grid.seconds(cell)?.value)));
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                (Setting::Journal, 3.0),
                (Setting::NoJournal, 4.0),
                (Setting::Flag, 2.0),
                (Setting::NoFlag, 6.0),
            ]
        );
        let equal = grid.mutated(Mutation::Equal);
        assert_eq!(equal.gain(8), Some(Interval::unknown(1.0)));
        let published = Grid::published();
        assert!((published.gain(64).unwrap().value - 25.0).abs() < 1e-9);
        let equal = published.mutated(Mutation::Equal);
        assert!((equal.gain(64).unwrap().value - 1.0).abs() < 1e-9);
    }

    #[test]
    fn seconds_have_an_interval_with_enough_repetitions() {
        let seconds = |runs: &[f64]| {
            let grid = Grid::measured(&[timed(MbCacheVariant::Old, 1, runs)]);
            let seconds = |variant| grid.seconds(Cell::letter(CASE, variant));
            assert_eq!(seconds(MbCacheVariant::Off), None);
            let seconds = seconds(MbCacheVariant::Old).unwrap();
            (seconds.value, seconds.low, seconds.high)
        };
        let ten = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
        assert_eq!(seconds(&ten), (5.5, Some(2.0), Some(9.0)));
        assert_eq!(seconds(&ten[..3]), (2.0, None, None));
        let published = Grid::published();
        let figure = published.seconds(Cell::letter(CASE, MbCacheVariant::Old));
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
