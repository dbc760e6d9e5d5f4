//! The bound of chains whose hashes an attacker can choose.
//!
//! # Model
//! Forged hashes can put all entries into one chain, which is then walked with its bucket locked.
//! Therefore, where that is possible, the oldest entry of a chain is evicted for a new one when the
//! chain is longer than chance would make it.

use super::Arena;

/// The longest chain, as a multiple of the length if the arena were full and all chains were equally
/// long.
const MEAN_FACTOR: u32 = 4;

/// Chains up to this length are never too long.
const MIN_BOUND: u32 = 64;

/// Whether a chain has room for one more entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The chain has room.
    Free,
    /// This entry, the oldest that is not held, has to be evicted first.
    Evict(u32),
    /// The chain is full of held entries.
    None,
}

impl<const W: usize> Arena<W> {
    /// Returns the largest number of entries in each of 2^`bits` chains.
    pub(crate) fn chain_max(&self, bits: u32) -> u32 {
        let share = self.capacity() >> bits;
        share.saturating_mul(MEAN_FACTOR).max(MIN_BOUND)
    }

    /// Checks for room in a chain with these entries, the newest first, and at most `most` entries.
    /// The chain must be locked.
    pub(crate) fn room(&self, chain: impl Iterator<Item = u32>, most: u32) -> Room {
        let (mut length, mut oldest) = (0, Room::None);
        for index in chain {
            length += 1;
            if self.slot(index).state().can_claim() {
                oldest = Room::Evict(index);
            }
        }
        if length < most { Room::Free } else { oldest }
    }
}
