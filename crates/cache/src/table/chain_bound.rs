//! The maximum length of chains whose hashes an attacker can choose.
//!
//! # Model
//! An attacker who chooses the hashes could put all entries into one chain, and each insertion would
//! walk this chain with its bucket locked. Therefore the length of such a chain is limited. With a
//! random distribution of hashes, a chain practically never reaches the limit. A new entry in a full
//! chain replaces the oldest evictable entry.

use super::Arena;

/// The maximum length of a chain, as a multiple of the mean length when the arena is full.
const MEAN_FACTOR: u32 = 4;

/// The lower bound of the maximum length, for tables whose mean length is small.
const MIN_BOUND: u32 = 64;

/// Whether a chain has room for one more entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The chain has room.
    Free,
    /// The chain is full. The entry in the slot with this number, the oldest evictable entry, must be
    /// evicted first.
    Evict(u32),
    /// The chain is full, and contains no evictable entry.
    None,
}

impl<const W: usize> Arena<W> {
    /// Returns the maximum length of a chain in a table of 2^`bits` buckets.
    pub(crate) fn chain_max(&self, bits: u32) -> u32 {
        let share = self.capacity() >> bits;
        share.saturating_mul(MEAN_FACTOR).max(MIN_BOUND)
    }

    /// Returns whether `chain` has room for an entry if the maximum length is `most`. `chain` must be
    /// the slots of a locked chain, the newest first.
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
