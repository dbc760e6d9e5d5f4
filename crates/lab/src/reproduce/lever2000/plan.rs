//! How many passes the rounds of a load have.

use serde::{Deserialize, Serialize};

/// The plan of the rounds of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Number of turns of each kernel in a round.
    pub(super) turns: u32,
    /// Number of passes of a turn.
    pub(super) turn_passes: u32,
}
