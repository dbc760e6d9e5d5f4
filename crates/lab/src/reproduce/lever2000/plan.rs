//! How the rounds of a load are divided.

use serde::{Deserialize, Serialize};

/// The plan of the rounds of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Number of passes of a round, at least 1.
    pub(super) passes: u32,
    /// Number of parts of a pass, at least 1. In a turn, a kernel executes one part.
    pub(super) parts: u32,
}

impl Plan {
    /// Returns the number of turns of each kernel in a round.
    pub(super) fn turns(self) -> u64 {
        u64::from(self.passes) * u64::from(self.parts)
    }
}
