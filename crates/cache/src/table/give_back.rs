//! Giving back the memory of an arena: the last slots, so that what remains is one piece.
//!
//! # Model
//! Compaction: once enough slots are free, the entries of the last ones move into free slots below
//! them. Which entries are dropped before, so that slots are free, is not decided here.
//!
//! # How a reader on a slot that is given back stays right
//! The slot becomes zero by ordinary stores, and stays so when the kernel takes the page. A zero
//! slot cannot be found, its link leads nowhere, and no entry ever had its generation, 0: the reader
//! sees that the entry is gone, as when the slot is reused. When memory is granted again, slots
//! start at a generation above all that were given back.
//!
//! # Locking
//! `growing` is held throughout, so that the arena does not grow meanwhile, and tried only: a thread
//! that waits for memory in order to grow may hold it. Nothing is allocated and nothing waited for.

use super::arena::{Arena, Extent, Growth, Vacant};
use super::link::{END_OF_FREE, Link};
use super::slot::State;
use crate::sync::{Relaxed, Release};
use std::ops::Range;

/// Slots that one thread owns, each with a link to the next.
struct Taken {
    first: Link,
    count: u32,
}

impl<const W: usize> Arena<W> {
    /// Gives the last `chunks` back, or all but the first, or those behind the last entry that is held,
    /// if there are as many free slots. Returns how many it gave back.
    ///
    /// `relocate` is to move the entry in the given slot to the vacant one and to leave the old one
    /// claimed, in no chain; false if it cannot.
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
        // Nobody takes slots from the tail any more but off the free lists.
        let tail = from..self.touched().max(from);
        let taken = self.take_tail(tail.clone(), relocate);
        if taken.count < tail.end - tail.start {
            self.chain(taken.first)
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

    /// The chunks that have to stay if `left` are to: up to that with the last slot that is neither free
    /// nor in use by an entry that nobody holds.
    fn immovable(&self, left: u32) -> u32 {
        let stays = |index: &u32| {
            let state = self.slot(*index).state();
            !state.has(State::FREE) && !state.can_claim()
        };
        let mut tail = left * self.chunk()..self.touched();
        tail.rfind(stays)
            .map_or(left, |index| index / self.chunk() + 1)
    }

    /// Takes these slots, which are the last: off the free lists, or from their entries, which move.
    fn take_tail(
        &self,
        tail: Range<u32>,
        mut relocate: impl FnMut(u32, Vacant<'_, W>) -> bool,
    ) -> Taken {
        let mut taken = Taken {
            first: END_OF_FREE,
            count: 0,
        };
        for list in self.free.iter() {
            for index in self.chain(list.take_all()) {
                if index < tail.start {
                    list.push(&self.slots, index);
                } else {
                    self.keep(&mut taken, index);
                }
            }
        }
        for index in tail.clone() {
            if self.slot(index).state().has(State::FREE) {
                continue;
            }
            let has_moved = self
                .take_below(tail.start, &mut taken)
                .is_some_and(|vacant| relocate(index, vacant));
            if !has_moved {
                break;
            }
            self.keep(&mut taken, index);
        }
        taken
    }

    /// A free slot below `from`. Others that come first are kept.
    fn take_below(&self, from: u32, taken: &mut Taken) -> Option<Vacant<'_, W>> {
        loop {
            let index = self.free.pop(&self.slots)?;
            if index < from {
                return Some(self.vacant(index));
            }
            self.keep(taken, index);
        }
    }

    /// Adds the slot `index`, which is in no chain and the caller's, to those taken.
    fn keep(&self, taken: &mut Taken, index: u32) {
        let slot = self.slot(index);
        // Who stands on it is to see this before the link.
        slot.set_state(slot.state().with(State::FREE));
        slot.set_next(taken.first);
        taken.first = Link::Slot(index);
        taken.count += 1;
    }

    /// Makes these slots, which are the caller's, zero.
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
