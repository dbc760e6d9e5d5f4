//! How much a run does.

use larder_lab::xattr_bench::{BenchConfig, Case};
use serde::Serialize;

/// The size of everything in a run.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Numbers of processes.
    pub processes: Vec<u32>,
    /// Sizes of the pool of values.
    pub values: Vec<u32>,
    /// Files of each process.
    pub files: u32,
    /// Sets by all processes together.
    pub sets: u32,
    /// Rounds; the medians count.
    pub rounds: usize,
    /// What chance is drawn from.
    pub seed: u64,
}

impl Plan {
    /// The numbers of processes in the letter; values that are few, many, and mostly unique.
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

    /// Fewer processes, half as many sets, one round: to try a change.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            processes: vec![1, 2, 8, 64],
            sets: 16_000,
            rounds: 1,
            ..Self::full()
        }
    }

    /// A second's worth: what the test runs.
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

    /// All cases, the processes of one pool after the other.
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

    /// One run of a case.
    pub(super) fn config(&self, case: Case) -> BenchConfig {
        BenchConfig {
            operations: self.sets / case.processes,
            runs: 1,
            seed: self.seed,
        }
    }
}
