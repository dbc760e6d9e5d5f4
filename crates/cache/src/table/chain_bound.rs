//! The bound of chains whose hashes an attacker can choose.
//!
//! # Model
//! An attacker who chooses the hashes could put all entries into one chain, and each insertion would
//! walk this chain with its bucket locked. Therefore the length of such a chain is limited to more than
//! a random distribution ever causes. A new entry in a full chain replaces the oldest evictable one.

use super::Arena;

/// The limit of a chain's length, as a multiple of the mean length when the arena is full.
const MEAN_FACTOR: u32 = 4;

/// The smallest limit of a chain's length.
const MIN_BOUND: u32 = 64;

/// Whether a chain has room for one more entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The chain has room.
    Free,
    /// The chain is full. The entry in the slot with this number must be evicted first: the oldest of
    /// those that are evictable.
    Evict(u32),
    /// The chain is full, and contains no evictable entry.
    None,
}

impl<const W: usize> Arena<W> {
    /// Returns the limit of the length of each of 2^`bits` chains.
    pub(crate) fn chain_max(&self, bits: u32) -> u32 {
        let share = self.capacity() >> bits;
        share.saturating_mul(MEAN_FACTOR).max(MIN_BOUND)
    }

    /// Returns whether `chain` has room for an entry if at most `most` are allowed. `chain` must be the
    /// slots of a locked chain, the newest first.
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
