//! A table as a shrinker, which evicts unused entries and gives back their memory.
//!
//! # Model
//! `prune_dcache` and `prune_icache`, with the clock hand instead of their lists. The kernel frees
//! objects, and a slab when all its objects are free. Here entries move until the last slots of the
//! arena are free ([`give_back`](super::give_back)).
//!
//! This is for tables with an arena of their own whose entries are copied by lookups: a lookup may
//! miss an entry for a moment while the entry moves.

use super::{HashFunction, Layout, Table};
use crate::shrink::Shrinker;

impl<L: Layout<W>, H: HashFunction<L::Hashed>, const W: usize> Shrinker for Table<L, H, W>
where
    L::Hashed: PartialEq,
{
    fn count_objects(&self) -> u64 {
        // All slots that the hand passes over, so that this many steps are a full turn.
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
