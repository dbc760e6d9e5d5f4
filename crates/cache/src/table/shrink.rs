//! The shrinker of a table: evicts unused entries, and returns their memory to the pool.
//!
//! # Model
//! `prune_dcache` and `prune_icache`, with the clock hand instead of their lists. The kernel frees a
//! slab when all its objects happen to be free. Here entries are moved until the last slots of the arena
//! are free ([`give_back`](super::give_back)).
//!
//! The table must be the only one in its arena. A lookup may miss an entry while it is being moved. So
//! the shrinker is only for tables whose users can obtain a missed entry again.

use super::{HashFunction, Layout, Table};
use crate::shrink::Shrinker;

impl<L: Layout<W>, H: HashFunction<L::HashInput>, const W: usize> Shrinker for Table<L, H, W>
where
    L::HashInput: PartialEq,
{
    fn count_objects(&self) -> u64 {
        // One object is one slot that the hand passes over, so a scan of all objects is a full turn.
        self.arena.touched().into()
    }

    fn scan_objects(&self, count: u64) -> u64 {
        self.scan(u32::try_from(count).unwrap_or(u32::MAX), |_| {});
        let free = u64::from(self.arena.touched()).saturating_sub(self.objects());
        let chunks = u32::try_from(free).unwrap_or(u32::MAX) / self.arena.chunk();
        let given_back = self
            .arena
            .give_back(chunks, |index, vacant| self.relocate(index, vacant));
        given_back.into()
    }
}
