//! The cases of a bench, its parameters, and the result of a run.

use super::Commits;
use larder::AttributeStats;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The name of the attribute.
pub const ATTRIBUTE: &str = "user.xattr-bench";

/// Size of a value in bytes: too large for an inode of 256 bytes, so that it is stored in a block.
pub const VALUE_BYTES: usize = 256;

/// Numbers of processes, files of each process, and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Number of processes or threads (P).
    pub processes: u32,
    /// Number of files of each process (F).
    pub files: u32,
    /// Number of values in the pool (V).
    pub values: u32,
}

impl Case {
    /// The letter's numbers of processes.
    pub const PROCESSES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
    /// The letter's numbers of files.
    pub const FILES: [u32; 3] = [10, 100, 1000];
    /// The letter's numbers of values.
    pub const VALUES: [u32; 5] = [10, 100, 1000, 10_000, 100_000];

    /// Returns all combinations of these numbers, in the order of the letter: by V, then F, then P.
    #[must_use]
    pub fn matrix(processes: &[u32], files: &[u32], values: &[u32]) -> Vec<Self> {
        let mut cases = Vec::new();
        for &values in values {
            for &files in files {
                cases.extend(processes.iter().map(|&processes| Self {
                    processes,
                    files,
                    values,
                }));
            }
        }
        cases
    }

    /// Returns the number of files of all processes.
    #[must_use]
    pub fn all_files(&self) -> u64 {
        u64::from(self.processes) * u64::from(self.files)
    }
}

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchConfig {
    /// Number of measured sets by each process; 50,000 in the letter.
    pub operations: u32,
    /// Whether each process sets each of its files once before the measured time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_warm: bool,
    /// Number of runs of each case; 5 in the letter.
    pub runs: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl BenchConfig {
    /// Returns the number of sets by each process before the measured time.
    pub(super) fn unmeasured(&self, case: Case) -> u32 {
        if self.is_warm { case.files } else { 0 }
    }
}

/// One run of a case.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) elapsed: Duration,
    pub(super) stats: Option<AttributeStats>,
    /// The commits during the run; `None` if the target has no journal, or does not report commits.
    pub(super) commits: Option<Commits>,
}
