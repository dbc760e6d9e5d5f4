//! A table as a shrinker: entries that were not used go, and with them memory.
//!
//! # Model
//! `prune_dcache` and `prune_icache`, with the clock hand for their lists. Where a kernel frees an
//! object, and a slab once all of it is free, entries move here until the last slots of the arena
//! are free ([`give_back`](super::give_back)).
//!
//! For tables with an arena of their own whose entries are copied when they are found: one that
//! moves may for a moment not be found.

use super::{HashFunction, Layout, Table};
use crate::shrink::Shrinker;

impl<L: Layout<W>, H: HashFunction<L::Hashed>, const W: usize> Shrinker for Table<L, H, W>
where
    L::Hashed: PartialEq,
{
    fn count_objects(&self) -> u64 {
        // All that the hand passes over, so that as many steps are a full turn.
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
