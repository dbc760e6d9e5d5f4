//! Free lists: stacks of unused slots, connected by their links.
//!
//! # Model
//! `struct kmem_cache_cpu`: a thread frees slots to its own list, and takes slots from there first, so
//! that threads do not contend for one head.
//!
//! # Locking
//! Free lists use no locks. Each change of a list head increments a tag in the head. Without the tag, a
//! thread that is delayed after it reads a head might not detect that the list has changed (ABA).
//!
//! # Cost
//! The list heads of an arena take 1 KiB. A thread that finds its own list empty searches the others.

use super::link::{END_OF_FREE, Link};
use super::slot::{Slot, State};
use crate::sync::{AcqRel, Acquire, AtomicU64, thread_number};
use crossbeam_utils::CachePadded;

/// The number of lists in an arena. Threads whose numbers are equal modulo this number share a list.
pub(crate) const FREE_LISTS: usize = 8;

/// The free slots of an arena.
#[derive(Debug)]
pub(super) struct FreeLists {
    lists: [CachePadded<FreeList>; FREE_LISTS],
}

impl FreeLists {
    pub(super) fn new() -> Self {
        Self {
            lists: std::array::from_fn(|_| CachePadded::new(FreeList::new())),
        }
    }

    /// Returns the list of the calling thread.
    pub(super) fn own(&self) -> &FreeList {
        &self.lists[thread_number() % FREE_LISTS]
    }

    /// Returns all lists, starting with that of the calling thread.
    pub(super) fn iter(&self) -> impl Iterator<Item = &FreeList> {
        let own = thread_number();
        (own..own + FREE_LISTS).map(|list| &*self.lists[list % FREE_LISTS])
    }

    /// Removes a slot from any list, and returns its number. Returns `None` if all lists were empty at the
    /// same time.
    pub(super) fn pop<const W: usize>(&self, slots: &[Slot<W>]) -> Option<u32> {
        let heads = || self.lists.each_ref().map(|list| list.head.load(Acquire));
        loop {
            let before = heads();
            if let Some(index) = self.iter().find_map(|list| list.pop(slots)) {
                return Some(index);
            }
            // Another thread may have moved a slot from a list that was not checked yet to a list that was
            // checked already.
            if heads() == before {
                return None;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.iter().all(FreeList::is_empty)
    }
}

/// A list of slots, all of which have the flag [`State::FREE`].
#[derive(Debug)]
pub(super) struct FreeList {
    /// Tag in the upper half, link to the first slot in the lower.
    head: AtomicU64,
}

impl FreeList {
    pub(super) fn new() -> Self {
        Self {
            head: AtomicU64::new(u64::from(END_OF_FREE.raw())),
        }
    }

    /// Removes the first slot, and returns its number. The caller then owns the slot.
    pub(super) fn pop<const W: usize>(&self, slots: &[Slot<W>]) -> Option<u32> {
        let first = self.update(|first| match first {
            Link::Slot(index) => Some(slots[index as usize].next()),
            Link::End(_) => None,
        });
        let Link::Slot(index) = first? else {
            return None;
        };
        let slot = &slots[index as usize];
        slot.set_state(slot.state().claimed());
        Some(index)
    }

    /// Adds the slot `index`, which the caller must own.
    pub(super) fn push<const W: usize>(&self, slots: &[Slot<W>], index: u32) {
        let slot = &slots[index as usize];
        slot.set_state(slot.state().with(State::FREE));
        self.update(|first| {
            slot.set_next(first);
            Some(Link::Slot(index))
        });
    }

    /// Removes all slots, and returns the link to the first slot. Each slot is still marked as free, and
    /// still has a link to the next slot.
    pub(super) fn take_all(&self) -> Link {
        self.update(|_| Some(END_OF_FREE)).unwrap_or(END_OF_FREE)
    }

    fn is_empty(&self) -> bool {
        link_of(self.head.load(Acquire)) == END_OF_FREE
    }

    /// Replaces `first`, the start of the list, by `to(first)`, and returns the previous start. If `to`
    /// returns `None`, returns `None` without a change.
    fn update(&self, to: impl Fn(Link) -> Option<Link>) -> Option<Link> {
        const TAG: u64 = 1 << 32;
        let before = self.head.fetch_update(AcqRel, Acquire, |head| {
            let first = to(link_of(head))?;
            Some((head & !(TAG - 1)).wrapping_add(TAG) | u64::from(first.raw()))
        });
        before.ok().map(link_of)
    }

    /// Returns the number of slots. There must be no concurrent changes.
    pub(super) fn count<const W: usize>(&self, slots: &[Slot<W>]) -> u32 {
        let mut count = 0;
        let mut at = link_of(self.head.load(Acquire));
        while let Link::Slot(index) = at {
            let slot = &slots[index as usize];
            assert!(
                slot.state().has(State::FREE),
                "a slot on a free list is not free"
            );
            count += 1;
            at = slot.next();
        }
        assert_eq!(at, END_OF_FREE, "end of a free list");
        count
    }
}

/// Returns the link in a head's lower half.
fn link_of(head: u64) -> Link {
    Link::from_raw(u32::try_from(head & u64::from(u32::MAX)).unwrap_or_default())
}
