//! Gives back the memory of an arena: its last slots, so that the rest remains contiguous.
//!
//! # Model
//! Compaction: when enough slots are free, the entries of the last slots move into free slots below
//! them. Other code decides which entries are evicted before, to free slots.
//!
//! # Readers of a slot that is given back
//! The slot becomes zero by ordinary stores, and stays zero when the kernel takes the page. A zero slot
//! cannot be found, its link is that of a free list, and no entry ever had its generation, 0. So the
//! reader detects that the entry is no longer there, as when the slot is reused. When memory is granted
//! again, the generations of its slots start above all those that were given back.
//!
//! # Locking
//! `growing` is held throughout, so that the arena does not grow meanwhile. It is only tried, because a
//! thread that waits for memory in order to grow may hold it. Nothing is allocated, and no thread waits.

use super::arena::{Arena, Extent, Growth, Vacant};
use super::link::{END_OF_FREE, Link};
use super::slot::State;
use crate::sync::{Relaxed, Release};
use std::ops::Range;

/// Slots that one thread owns, each with a link to the next.
struct OwnedSlots {
    first: Link,
    count: u32,
}

impl<const W: usize> Arena<W> {
    /// Gives back the last `chunks`, if there are as many free slots, but not the first chunk, and only
    /// those after the last held entry. Returns the number of chunks given back.
    ///
    /// `relocate` moves the entry in the given slot to the vacant one, and leaves the old slot claimed,
    /// in no chain. It returns false if it cannot.
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
        // From here on, threads take slots of the tail only from the free lists.
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

    /// Returns the number of chunks that have to stay if at least `left` do. They end with the last slot
    /// that is neither free nor used by an entry that can be claimed.
    fn immovable(&self, left: u32) -> u32 {
        let stays = |index: &u32| {
            let state = self.slot(*index).state();
            !state.has(State::FREE) && !state.can_claim()
        };
        let mut tail = left * self.chunk()..self.touched();
        tail.rfind(stays)
            .map_or(left, |index| index / self.chunk() + 1)
    }

    /// Takes the slots of `tail`, the last of the arena, from the free lists or from their entries,
    /// which move.
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

    /// Takes a free slot below `from`. Slots above it that are found first are added to `owned`.
    fn free_slot_below(&self, from: u32, owned: &mut OwnedSlots) -> Option<Vacant<'_, W>> {
        loop {
            let index = self.free.pop(&self.slots)?;
            if index < from {
                return Some(self.vacant(index));
            }
            self.add_owned(owned, index);
        }
    }

    /// Adds the slot `index`, which the caller owns and which is in no chain, to `owned`.
    fn add_owned(&self, owned: &mut OwnedSlots, index: u32) {
        let slot = self.slot(index);
        // A reader on the slot must see this before the link.
        slot.set_state(slot.state().with(State::FREE));
        slot.set_next(owned.first);
        owned.first = Link::Slot(index);
        owned.count += 1;
    }

    /// Zeroes these slots, which the caller owns.
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
