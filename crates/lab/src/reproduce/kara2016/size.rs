//! The size of a reproduction.

use serde::{Deserialize, Serialize};

use crate::published::kara2016::{OPERATIONS, RUNS};
use crate::xattr_bench::{BenchConfig, Case};

/// The size of a reproduction, and the seed of its random numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// The cases.
    pub cases: Vec<Case>,
    /// Number of sets by each process, and of runs.
    #[serde(flatten)]
    pub config: BenchConfig,
    /// Number of simulated sets of all processes together.
    pub simulated_sets: u32,
    /// Number of seeds with which each case is simulated.
    pub simulated_seeds: u32,
    /// Number of files of each process in the cases with and without the reusable flag.
    pub flagged_files: u32,
    /// Number of files of each process in the plots and the tables of handovers.
    pub pictured_files: u32,
}

/// The published gains of the reusable flag, with their numbers of processes.
const FLAG_GAINS: [(u32, f64); 2] = [(8, 3.0), (64, 25.0)];

/// Numbers of values, and of files of each process, in the published cases with and without the reusable flag.
const FLAG_VALUES: u32 = 5;
const FLAG_FILES: u32 = 20_000;

impl Size {
    /// Returns all cases, with a number of sets that takes about an hour on two processors.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self {
            cases: Case::matrix(&Case::PROCESSES, &Case::FILES, &Case::VALUES),
            config: BenchConfig {
                operations: 2000,
                runs: 10,
                seed,
            },
            simulated_sets: 24_000,
            simulated_seeds: 10,
            flagged_files: FLAG_FILES,
            pictured_files: 100,
        }
    }

    /// Returns the published sizes: as many sets and runs as in the letter. The number of simulated sets is the
    /// same as in [`Size::full`].
    #[must_use]
    pub fn published(seed: u64) -> Self {
        Self {
            config: BenchConfig {
                operations: OPERATIONS,
                runs: RUNS,
                seed,
            },
            ..Self::full(seed)
        }
    }

    /// Returns few cases and sets. The report takes only seconds, but is not a reproduction.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        Self {
            cases: Case::matrix(&[1, 64], &[10], &[10, 100_000]),
            config: BenchConfig {
                operations: 40,
                runs: 1,
                seed,
            },
            simulated_sets: 1280,
            simulated_seeds: 2,
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
        } else if self.config == Self::published(self.config.seed).config {
            " --full"
        } else {
            ""
        }
    }

    /// Returns the cases that the findings about the kernel need: cases in which values hardly repeat, and
    /// cases with many processes or files in which values repeat most.
    pub(super) fn kernel_cases(&self) -> impl Iterator<Item = Case> {
        let cases = self.cases.iter().copied();
        cases.filter(|case| {
            let is_unique = case.values == 100_000;
            let is_repeated = case.values <= 100 && case.files >= 100 && case.processes == 64;
            is_unique || is_repeated || (case.values == 10 && case.files == 1000)
        })
    }

    /// Returns the cases with and without the reusable flag, with the published gains.
    pub(super) fn flagged_cases(&self) -> [(Case, f64); FLAG_GAINS.len()] {
        FLAG_GAINS.map(|(processes, gain)| {
            let case = Case {
                processes,
                files: self.flagged_files,
                values: FLAG_VALUES,
            };
            (case, gain)
        })
    }

    /// Returns the parameters of the cases with and without the reusable flag. Each file is set as often as in the
    /// letter: two and a half times. Searches meet full blocks mostly after the first time.
    pub(super) fn flagged_config(&self) -> BenchConfig {
        BenchConfig {
            operations: self.flagged_files * OPERATIONS / FLAG_FILES,
            ..self.config
        }
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
    fn flag_is_measured_with_as_many_sets_of_a_file_as_published() {
        assert_eq!(Size::full(1).flagged_config().operations, OPERATIONS);
        assert_eq!(Size::quick(1).flagged_config().operations, 500);
    }

    #[test]
    fn kernel_is_measured_in_the_cases_of_its_findings() {
        let size = Size::full(1);
        assert_eq!(size.kernel_cases().count(), 31);
        let is_repeated = |case: &Case| case.values == 10 && case.files == 1000;
        assert_eq!(size.kernel_cases().filter(is_repeated).count(), 7);
    }
}
