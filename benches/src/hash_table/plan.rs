//! How much a run does.

use std::path::PathBuf;

use serde::Serialize;

/// The size of everything in a run.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Objects in each map; of a trace so many at most.
    pub objects: u32,
    /// Lookups of each thread in one measurement.
    pub lookups: usize,
    /// Rounds; the medians count.
    pub rounds: usize,
    /// What chance is drawn from.
    pub seed: u64,
    /// The trace that recorded keys are from; if there is none, a volume is recorded first.
    pub trace: Option<PathBuf>,
    /// Files on that volume.
    pub files: u32,
}

impl Plan {
    /// A million objects, two million lookups, 21 rounds.
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

    /// Five rounds: to try a change.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            rounds: 5,
            ..Self::full()
        }
    }

    /// A fraction of a second: what the test runs.
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
