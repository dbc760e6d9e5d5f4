//! The size of a reproduction.

use super::kernels::{Memory, TABLES};
use serde::Serialize;

/// The size of a reproduction, and the seed of its random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Number of runs of each kernel under each load.
    pub runs: u32,
    /// Divisor of the numbers of concurrent scripts and of the memory.
    pub divisor: u32,
    /// Seed of the content of all files.
    pub seed: u64,
}

impl Size {
    /// Returns a size with as many scripts as in the document. Measuring takes several minutes and 4 GiB of
    /// memory.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self {
            runs: 5,
            divisor: 1,
            seed,
        }
    }

    /// Returns a size with few scripts, which produces a report in seconds but is not a reproduction.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        Self {
            runs: 2,
            divisor: 16,
            seed,
        }
    }

    /// Returns whether there are as many scripts as in the document, so that the measurements can be
    /// judged.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.divisor == 1
    }

    /// Returns the number of users for a number of scripts in the document, at least 1.
    pub(super) fn users(&self, published: u32) -> u32 {
        (published / self.divisor).max(1)
    }

    /// Returns the memory of a volume: that of the full reproduction divided by the divisor, but at least 8
    /// MiB.
    pub(super) fn memory_bytes(&self, memory: Memory) -> u64 {
        (memory.bytes() / u64::from(self.divisor)).max(8 << 20)
    }

    /// Returns the number of runs of all kernels under all loads.
    pub(super) fn total_runs(&self) -> usize {
        let runs = TABLES
            .iter()
            .map(|table| table.kernels.len() * table.loads.len());
        runs.sum::<usize>() * self.runs as usize
    }
}
