//! The bound of chains whose hashes others choose.
//!
//! # Model
//! Whoever can forge hashes can have all entries in one chain, which is then walked with its bucket
//! locked. So where that is possible the oldest entry of a chain goes for a new one, once the chain is
//! longer than chance would have it.

use super::Arena;

/// A chain may have so many times as many entries as it would if the arena were full and all chains
/// were equally long.
const TIMES_EQUAL: u32 = 4;

/// Chains of so many entries are never too long.
const ALWAYS: u32 = 64;

/// Whether a chain has room for one entry more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It has.
    Free,
    /// This entry, the oldest that nobody holds, has to go first.
    Instead(u32),
    /// It is full of entries that are held.
    None,
}

impl<const W: usize> Arena<W> {
    /// Entries at most in each of 2^`bits` chains.
    pub(crate) fn chain_max(&self, bits: u32) -> u32 {
        let share = self.capacity() >> bits;
        share.saturating_mul(TIMES_EQUAL).max(ALWAYS)
    }

    /// Whether a chain with these entries, the newest first, has room where `most` are allowed. Only
    /// with the chain locked.
    pub(crate) fn room(&self, chain: impl Iterator<Item = u32>, most: u32) -> Room {
        let (mut length, mut oldest) = (0, Room::None);
        for index in chain {
            length += 1;
            if self.slot(index).state().can_claim() {
                oldest = Room::Instead(index);
            }
        }
        if length < most { Room::Free } else { oldest }
    }
}
