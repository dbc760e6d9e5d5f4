//! How much a run does.

use serde::Serialize;

/// The size of everything in a run.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Objects in each map.
    pub objects: u32,
    /// Lookups of each thread in one measurement.
    pub lookups: usize,
    /// Rounds; the medians count.
    pub rounds: usize,
    /// What chance is drawn from.
    pub seed: u64,
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
            ..Self::full()
        }
    }
}
