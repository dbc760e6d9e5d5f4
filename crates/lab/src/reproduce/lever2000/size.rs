//! The size of a reproduction.

use super::kernels::{Machine, PublishedTable};
use serde::{Deserialize, Serialize};

/// The size of a reproduction, and the seed of its random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Number of runs of each kernel under each load; `None` for the numbers in the document.
    pub runs: Option<u32>,
    /// The minimum processor time of a run of any kernel, in seconds.
    pub run_s: u32,
    /// The planned number of rounds of a run; `None` for the number of each table. Each round has new volumes.
    pub run_rounds: Option<u32>,
    /// Divisor of the numbers of concurrent scripts and of the memory, at least 1.
    pub divisor: u32,
    /// Seed of the content of all files, and of the order of the kernels.
    pub seed: u64,
}

impl Size {
    /// Returns a size with as many scripts and runs as in the document. Measuring takes about 130 minutes on
    /// two processors.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self {
            runs: None,
            run_s: 10,
            run_rounds: None,
            divisor: 1,
            seed,
        }
    }

    /// Returns a size with few scripts. The report takes only seconds, but is not a reproduction.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        Self {
            runs: Some(2),
            run_s: 0,
            run_rounds: Some(1),
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

    /// Returns the memory of a volume: the memory in the full reproduction divided by the divisor, but at least 8
    /// MiB.
    pub(super) fn memory_bytes(&self, machine: Machine) -> u64 {
        ((u64::from(machine.memory_mib) << 20) / u64::from(self.divisor)).max(8 << 20)
    }

    /// Returns the number of programs: the number in the full reproduction divided by the divisor.
    pub(super) fn programs(&self, machine: Machine) -> u32 {
        machine.programs / self.divisor
    }

    /// Returns the number of runs of each kernel of `table` under each load.
    pub(super) fn runs(&self, table: &PublishedTable) -> u32 {
        self.runs.unwrap_or(table.runs)
    }

    /// Returns the planned number of rounds of each run of `table`.
    pub(super) fn run_rounds(&self, table: &PublishedTable) -> u32 {
        self.run_rounds.unwrap_or(table.run_rounds)
    }

    /// Returns the planned number of rounds of each kernel of `table` under each load.
    pub(super) fn rounds(&self, table: &PublishedTable) -> usize {
        self.runs(table) as usize * self.run_rounds(table) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernels::TABLES;
    use super::*;
    use crate::statistics::Interval;

    #[test]
    fn full_size_has_enough_rounds_of_each_table_for_an_interval() {
        for table in &TABLES {
            let rounds = Size::full(1).rounds(table) * table.loads.len();
            let ratio = Interval::of_paired_ratio(&vec![(1.0, 1.0); rounds]);
            assert!(ratio.low.is_some(), "table {}", table.number);
        }
    }
}
