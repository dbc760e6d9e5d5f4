//! Returns the memory of an arena's last slots to the pool. The remaining slots are contiguous, as before.
//!
//! # Model
//! Compaction: when enough slots are free, the entries of the last slots move to free slots below them.
//! The caller first evicts entries to free slots.
//!
//! # Readers of a slot that is given back
//! The slot is zeroed by ordinary stores, and still reads as zero after its page is returned to the
//! kernel. A zeroed slot is not live, its link is the end of a free list, and its generation is 0, which
//! no entry has. So a reader detects that its entry is no longer in the slot. When the slot is used again,
//! its generation starts above those of all slots that were given back.
//!
//! # Locking
//! A thread holds `growing` while it gives memory back, so that the arena does not grow meanwhile. It only
//! tries to lock `growing`, because a thread that holds `growing` may wait for memory. The code here
//! allocates no memory and does not wait.

use super::arena::{Arena, Extent, Growth, Vacant};
use super::link::{END_OF_FREE, Link};
use super::slot::State;
use crate::sync::{Relaxed, Release};
use std::ops::Range;

/// A list of slots that one thread owns. Each slot has a link to the next.
struct OwnedSlots {
    first: Link,
    count: u32,
}

impl<const W: usize> Arena<W> {
    /// Gives back up to `chunks` chunks at the end of the arena, but never the first chunk, and only
    /// chunks after the last entry that is not evictable. Gives back nothing if too few slots are free to
    /// move the entries of these chunks. Returns the number of chunks given back.
    ///
    /// `relocate` must move the entry in the given slot to the vacant slot, and leave the old slot claimed
    /// and in no chain. If the entry cannot be moved, `relocate` must return false.
    pub(crate) fn give_back(
        &self,
        chunks: u32,
        relocate: impl FnMut(u32, Vacant<'_, W>) -> bool,
    ) -> u32 {
        let Some(growth) = self.growing.try_lock() else {
            return 0;
        };
        let Growth::Charged { charge, .. } = &*growth else {
            return 0;
        };
        let Extent { granted, .. } = self.extent();
        let all = granted.div_ceil(self.chunk());
        let left = self.immovable(all.saturating_sub(chunks).max(1));
        if left >= all {
            return 0;
        }
        let from = left * self.chunk();
        self.grant(from);
        // From here on, other threads can get slots of the tail only from the free lists.
        let tail = from..self.touched().max(from);
        let owned = self.own_tail(tail.clone(), relocate);
        if owned.count < tail.end - tail.start {
            self.chain(owned.first)
                .for_each(|index| drop(self.vacant(index)));
            self.grant(granted);
            return 0;
        }
        self.zero(tail);
        self.set_extent(|extent| {
            let touched = extent.touched.min(from);
            Some(Extent { touched, ..extent })
        });
        self.slots.discard_from(from as usize);
        (left..all).for_each(|_| charge.uncharge());
        all - left
    }

    /// Returns the number of chunks that must stay: at least `left`, and all chunks up to the last slot
    /// that is neither free nor used by an evictable entry.
    fn immovable(&self, left: u32) -> u32 {
        let stays = |index: &u32| {
            let state = self.slot(*index).state();
            !state.has(State::FREE) && !state.can_claim()
        };
        let mut tail = left * self.chunk()..self.touched();
        tail.rfind(stays)
            .map_or(left, |index| index / self.chunk() + 1)
    }

    /// Takes ownership of the slots in `tail`, the end of the arena: removes the free slots from their
    /// lists, and moves the entries of the other slots. Stops at an entry that cannot be moved.
    fn own_tail(
        &self,
        tail: Range<u32>,
        mut relocate: impl FnMut(u32, Vacant<'_, W>) -> bool,
    ) -> OwnedSlots {
        let mut owned = OwnedSlots {
            first: END_OF_FREE,
            count: 0,
        };
        for list in self.free.iter() {
            for index in self.chain(list.take_all()) {
                if index < tail.start {
                    list.push(&self.slots, index);
                } else {
                    self.add_owned(&mut owned, index);
                }
            }
        }
        for index in tail.clone() {
            if self.slot(index).state().has(State::FREE) {
                continue;
            }
            let has_moved = self
                .free_slot_below(tail.start, &mut owned)
                .is_some_and(|vacant| relocate(index, vacant));
            if !has_moved {
                break;
            }
            self.add_owned(&mut owned, index);
        }
        owned
    }

    /// Returns a free slot below `from`. If it finds free slots at or above `from` first, adds them to
    /// `owned`.
    fn free_slot_below(&self, from: u32, owned: &mut OwnedSlots) -> Option<Vacant<'_, W>> {
        loop {
            let index = self.free.pop(&self.slots)?;
            if index < from {
                return Some(self.vacant(index));
            }
            self.add_owned(owned, index);
        }
    }

    /// Adds the slot `index` to `owned`. The caller must own the slot, and it must be in no chain.
    fn add_owned(&self, owned: &mut OwnedSlots, index: u32) {
        let slot = self.slot(index);
        // A reader at the slot must not see the link before it can see the flag.
        slot.set_state(slot.state().with(State::FREE));
        slot.set_next(owned.first);
        owned.first = Link::Slot(index);
        owned.count += 1;
    }

    /// Zeroes `slots`, which the caller must own. Raises `first_generation` above their generations.
    fn zero(&self, slots: Range<u32>) {
        let first = slots.clone().fold(0, |first, index| {
            let generation = self.slot(index).state().generation();
            first.max(generation.wrapping_add(1))
        });
        let first = first.max(self.first_generation.load(Relaxed));
        self.first_generation.store(first, Release);
        slots.for_each(|index| self.slot(index).zero());
    }
}
