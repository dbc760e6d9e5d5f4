//! Counts of the results of calls.

use std::fmt;

/// Counts of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls that completed.
    pub done: u32,
    /// Writes and copies with a short count.
    pub short: u32,
    /// Calls that failed for lack of space.
    pub refused: u32,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: Self) {
        self.done += other.done;
        self.short += other.short;
        self.refused += other.refused;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            done,
            short,
            refused,
        } = self;
        write!(
            f,
            "calls: {done} complete, {short} short, {refused} refused"
        )
    }
}
