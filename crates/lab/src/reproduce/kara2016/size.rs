//! The size of a reproduction.

use serde::{Deserialize, Serialize};

use super::plan::{Batch, Cell, Comparison, Source};
use crate::published::kara2016::{FLAG_FILES, FLAG_GAINS, FLAG_VALUES, OPERATIONS};
use crate::xattr_bench::{BenchConfig, Case};

/// The size of a reproduction, and the seed of its random numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// The cases.
    pub cases: Vec<Case>,
    /// Number of runs of each cell.
    pub runs: u32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Numbers of sets in a run on the volume.
    pub volume: Sets,
    /// Numbers of sets in a run of the cache alone.
    pub engine: Sets,
    /// Numbers of sets in a run on the kernel's ext4.
    pub kernel: Sets,
    /// Number of measured sets of each process in the runs with and without a journal.
    pub journal_sets: u32,
    /// Number of simulated sets of all processes together.
    pub simulated_sets: u32,
    /// Number of seeds with which each case is simulated.
    pub simulated_seeds: u32,
    /// Number of seeds with which each case is simulated with other assumptions.
    pub assumed_seeds: u32,
    /// Number of files of each process in the cases with and without the reusable flag.
    pub flagged_files: u32,
    /// Number of files of each process in the plots and the tables of handovers.
    pub pictured_files: u32,
}

/// The number of sets of each process in a run. A process sets each of its files at least twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sets {
    /// Minimum number of sets of all processes together, which determines the duration of a run.
    pub all: u32,
    /// Minimum number of sets of each process.
    pub each: u32,
}

impl Sets {
    /// As many sets as in the letter.
    const PUBLISHED: Self = Self {
        all: 0,
        each: OPERATIONS,
    };

    /// Returns the number of sets of each process in a case.
    fn of(self, case: Case) -> u32 {
        let shared = self.all.div_ceil(case.processes);
        self.each.max(2 * case.files).max(shared)
    }
}

impl Size {
    /// Returns all cases, with numbers of sets that take about 90 minutes on two processors. A run lasts at least about 50
    /// ms; on the cache alone, runs with few processes are shorter.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self {
            cases: Case::matrix(&Case::PROCESSES, &Case::FILES, &Case::VALUES),
            runs: 10,
            seed,
            volume: Sets {
                all: 40_000,
                each: 1,
            },
            engine: Sets {
                all: 400_000,
                ..Sets::PUBLISHED
            },
            kernel: Sets {
                all: 20_000,
                each: 1,
            },
            journal_sets: 1000,
            simulated_sets: 24_000,
            simulated_seeds: 10,
            assumed_seeds: 2,
            flagged_files: FLAG_FILES,
            pictured_files: 100,
        }
    }

    /// Returns the published sizes: as many sets as in the letter. The numbers of runs and of simulated sets are those
    /// of [`Size::full`]: the letter's five runs have no intervals.
    #[must_use]
    pub fn published(seed: u64) -> Self {
        Self {
            volume: Sets::PUBLISHED,
            kernel: Sets::PUBLISHED,
            ..Self::full(seed)
        }
    }

    /// Returns few cases and sets. The report takes only seconds, but is not a reproduction.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        let sets = Sets { all: 0, each: 40 };
        Self {
            cases: Case::matrix(&[1, 64], &[10], &[10, 100_000]),
            runs: 1,
            seed,
            volume: sets,
            engine: sets,
            kernel: sets,
            journal_sets: 40,
            simulated_sets: 1280,
            simulated_seeds: 2,
            assumed_seeds: 1,
            flagged_files: 200,
            pictured_files: 10,
        }
    }

    /// Returns whether the cases are those of the letter, so that verdicts are meaningful.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.cases.len() == Self::full(0).cases.len()
    }

    /// Returns the option of `larder lab reproduce` that selects this size.
    pub(super) fn option(&self) -> &'static str {
        if !self.is_full() {
            " --quick"
        } else if *self == Self::published(self.seed) {
            " --full"
        } else {
            ""
        }
    }

    /// Returns the cases of a batch.
    pub(super) fn cases(&self, batch: Batch) -> Vec<Case> {
        let selected = |is_selected: &dyn Fn(&Case) -> bool| -> Vec<Case> {
            let cases = self.cases.iter().copied();
            cases.filter(is_selected).collect()
        };
        match (batch.comparison, batch.source) {
            // Cases in which values hardly repeat, and cases with the most files in which values repeat most.
            (Comparison::Variants, Source::Kernel) => selected(&|case| {
                case.values == 100_000 || (case.values == 10 && case.files == 1000)
            }),
            (Comparison::Variants | Comparison::Assumptions, _) => self.cases.clone(),
            (Comparison::Flag, _) => {
                let cases = FLAG_GAINS.map(|(processes, _)| Case {
                    processes,
                    files: self.flagged_files,
                    values: FLAG_VALUES,
                });
                cases.into()
            }
            // A quick run has only few files.
            (Comparison::Journal, _) => selected(&|case| {
                let has_files = case.files >= 100 || !self.is_full();
                case.processes == 64 && case.values == 10 && has_files
            }),
        }
    }

    /// Returns the cells of a batch.
    pub(super) fn cells(&self, batch: Batch) -> Vec<Cell> {
        let compared = batch.compared();
        let cells = self.cases(batch).into_iter().flat_map(|case| {
            compared.iter().map(move |&(setting, variant)| Cell {
                case,
                setting,
                variant,
            })
        });
        cells.collect()
    }

    /// Returns the parameters of a case of a batch. For a simulation, the runs are those with different seeds; it does
    /// not simulate the first set of each file.
    ///
    /// With and without the reusable flag, each file is set as often as in the description of the patch: two and a half
    /// times. Searches meet full blocks mostly after the first set of each file.
    pub(super) fn config(&self, batch: Batch, case: Case) -> BenchConfig {
        let Batch { source, comparison } = batch;
        let simulated_sets = self.simulated_sets.div_ceil(case.processes);
        let operations = match (comparison, source) {
            (_, Source::Simulated) => simulated_sets,
            (Comparison::Flag, _) => case.files * OPERATIONS / FLAG_FILES,
            (Comparison::Journal, _) => self.journal_sets,
            (_, Source::Volume) => self.volume.of(case),
            (_, Source::Engine) => self.engine.of(case),
            (_, Source::Kernel) => self.kernel.of(case),
        };
        let runs = match (comparison, source) {
            (Comparison::Assumptions, _) => self.assumed_seeds,
            (_, Source::Simulated) => self.simulated_seeds,
            _ => self.runs,
        };
        BenchConfig {
            operations,
            is_warm: comparison == Comparison::Journal,
            runs,
            seed: self.seed,
        }
    }

    /// Returns the smallest and the largest number of sets of each process in the letter's cases.
    pub(super) fn sets(&self, source: Source) -> [u32; 2] {
        let batch = Batch::new(source, Comparison::Variants);
        let cases = self.cases(batch).into_iter();
        let sets = cases.map(|case| self.config(batch, case).operations);
        sets.fold([u32::MAX, 0], |[least, most], sets| {
            [least.min(sets), most.max(sets)]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_selected_by_their_options() {
        for (size, option) in [
            (Size::full(1), ""),
            (Size::published(1), " --full"),
            (Size::quick(1), " --quick"),
        ] {
            assert_eq!(size.option(), option);
        }
    }

    #[test]
    fn sets_per_file_equal_the_published_number() {
        let batch = Batch::new(Source::Volume, Comparison::Flag);
        for (size, operations) in [(Size::full(1), OPERATIONS), (Size::quick(1), 500)] {
            for case in size.cases(batch) {
                assert_eq!(size.config(batch, case).operations, operations);
            }
        }
    }

    #[test]
    fn runs_have_enough_sets_with_any_number_of_processes() {
        let size = Size::full(1);
        let sets = |source, processes, files| {
            let case = Case {
                processes,
                files,
                values: 10,
            };
            let config = size.config(Batch::new(source, Comparison::Variants), case);
            assert_eq!((config.runs, config.is_warm), (10, false));
            config.operations
        };
        assert_eq!(sets(Source::Volume, 1, 10), 40_000);
        assert_eq!(sets(Source::Volume, 64, 10), 625);
        assert_eq!(sets(Source::Volume, 64, 1000), 2000);
        assert_eq!(sets(Source::Engine, 1, 10), 400_000);
        assert_eq!(sets(Source::Engine, 64, 1000), OPERATIONS);
        assert_eq!(sets(Source::Kernel, 8, 1000), 2500);
        assert_eq!(size.sets(Source::Volume), [625, 40_000]);
        assert_eq!(Size::published(1).sets(Source::Volume), [OPERATIONS; 2]);
        assert_eq!(size.sets(Source::Simulated), [375, 24_000]);
    }

    #[test]
    fn kernel_is_measured_in_the_cases_of_its_findings() {
        let size = Size::full(1);
        let cases = size.cases(Batch::new(Source::Kernel, Comparison::Variants));
        assert_eq!(cases.len(), 28);
        let is_repeated = |case: &&Case| case.values == 10 && case.files == 1000;
        assert_eq!(cases.iter().filter(is_repeated).count(), 7);
        for (size, files) in [(size, &[100, 1000][..]), (Size::quick(1), &[10])] {
            let journal = Batch::new(Source::Kernel, Comparison::Journal);
            let cases = size.cases(journal);
            assert!(cases.iter().map(|case| &case.files).eq(files));
            assert!(cases.iter().all(|case| size.config(journal, *case).is_warm));
            assert_eq!(size.cells(journal).len(), 4 * files.len());
        }
    }
}
