//! The sizes of a run.

use larder_lab::xattr_bench::{BenchConfig, Case};
use serde::{Deserialize, Serialize};

/// The sizes of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The numbers of processes.
    pub processes: Vec<u32>,
    /// The sizes of the pool of values.
    pub values: Vec<u32>,
    /// The number of files of each process.
    pub files: u32,
    /// The number of calls of setxattr(2) by all processes together.
    pub sets: u32,
    /// The number of rounds. Results are medians over them.
    pub rounds: usize,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Plan {
    /// Returns the plan of the full run: the numbers of processes in the published measurement
    /// ([`Case::PROCESSES`]), and three pools, whose values repeat often, sometimes and seldom.
    #[must_use]
    pub fn full() -> Self {
        Self {
            processes: Case::PROCESSES.to_vec(),
            values: vec![10, 1_000, 100_000],
            files: 100,
            sets: 32_000,
            rounds: 3,
            seed: 1,
        }
    }

    /// Returns a plan with fewer numbers of processes, half of the calls, and one round, to try a change.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            processes: vec![1, 2, 8, 64],
            sets: 16_000,
            rounds: 1,
            ..Self::full()
        }
    }

    /// Returns the plan of a run that takes about a second, for the test.
    #[must_use]
    pub fn tiny() -> Self {
        Self {
            processes: vec![1, 3],
            values: vec![2],
            files: 3,
            sets: 30,
            ..Self::quick()
        }
    }

    /// Returns all cases, ordered by pool and then by the number of processes.
    #[must_use]
    pub fn cases(&self) -> Vec<Case> {
        let of = |&values: &u32| {
            self.processes.iter().map(move |&processes| Case {
                processes,
                files: self.files,
                values,
            })
        };
        self.values.iter().flat_map(of).collect()
    }

    /// Returns the configuration of one run of a case.
    pub(super) fn config(&self, case: Case) -> BenchConfig {
        BenchConfig {
            operations: self.sets / case.processes,
            is_warm: false,
            runs: 1,
            seed: self.seed,
        }
    }
}
