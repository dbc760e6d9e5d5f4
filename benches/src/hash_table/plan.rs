//! The sizes of a run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The sizes of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The number of objects in each map. With recorded keys, this is the maximum.
    pub objects: u32,
    /// The number of lookups of each thread in one measurement.
    pub lookups: usize,
    /// The number of rounds. Results are medians over them.
    pub rounds: usize,
    /// The seed of all random choices.
    pub seed: u64,
    /// The trace that contains the recorded keys. Without one, a volume is recorded first.
    pub trace: Option<PathBuf>,
    /// The number of files on that volume.
    pub files: u32,
}

impl Plan {
    /// Returns the plan of the full run: a million objects, two million lookups, 21 rounds.
    #[must_use]
    pub fn full() -> Self {
        Self {
            objects: 1_000_000,
            lookups: 2_000_000,
            rounds: 21,
            seed: 1,
            trace: None,
            files: 100_000,
        }
    }

    /// Returns the plan of a run with five rounds, to try a change.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            rounds: 5,
            ..Self::full()
        }
    }

    /// Returns the plan of a run that takes a fraction of a second, for the test.
    #[must_use]
    pub fn tiny() -> Self {
        Self {
            objects: 1_000,
            lookups: 2_000,
            rounds: 2,
            files: 200,
            ..Self::full()
        }
    }
}
