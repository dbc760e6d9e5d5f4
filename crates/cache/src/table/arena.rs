//! The arena: the slots of one or more tables, their free lists and the clock hand.
//!
//! # Model
//! A slab cache with `SLAB_TYPESAFE_BY_RCU`, but without RCU: a reader may access a slot at any time, even
//! after the slot's memory was returned to the pool ([`give_back`](super::give_back)). Instead of an LRU list
//! there is a clock hand, which scans the slots in a circle. It evicts each evictable entry that was not
//! referenced since the hand last passed the entry's slot.
//!
//! # Invariants
//! 1. A slot is in exactly one of these states: untouched, on a free list, owned by one thread
//!    ([`Vacant`], or being evicted), in one chain, or retired.
//! 2. The slots from number `touched` on are unused, and zero.
//! 3. No two entries of a slot have the same generation, and no live entry has generation 0. (A generation has
//!    32 bits. So this holds until a slot is claimed 2^32 times.)
//!
//! # Locking
//! The free lists, the extent and the hand are not guarded by a lock. A thread holds `growing` while it
//! requests memory for more slots. A thread that gives memory back only tries to lock `growing`, and never
//! waits for it.

use super::free_list::{FreeList, FreeLists};
use super::link::{Link, NUMBER_LIMIT};
use super::slot::{Slot, State};
use crate::memory::{Array, Pages};
use crate::sync::{AcqRel, Acquire, AtomicU32, AtomicU64, Mutex, Relaxed};
use std::fmt;
use std::io;
use std::sync::Arc;

/// Accounts for the memory of an arena, one chunk of slots at a time.
pub trait Charge: Send + Sync {
    /// Reserves memory for one more chunk. Returns false if there is not enough memory.
    fn charge(&self) -> bool;
    /// Releases the memory of one chunk, which must no longer be used.
    fn uncharge(&self);
}

/// The way in which an arena accounts for memory.
pub enum Growth {
    /// The memory of all slots is accounted for in advance.
    Prepaid,
    /// The memory of the first `chunk` slots is accounted for in advance. For each further chunk, the arena
    /// calls `charge`. If `charge` fails, entries must be evicted to free slots.
    Charged {
        /// The number of slots in a chunk.
        chunk: u32,
        /// Reserves and releases the memory of the chunks after the first.
        charge: Arc<dyn Charge>,
    },
}

impl fmt::Debug for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prepaid => f.write_str("Prepaid"),
            Self::Charged { chunk, .. } => write!(f, "Charged {{ chunk: {chunk} }}"),
        }
    }
}

/// An array of slots with a fixed capacity.
#[derive(Debug)]
pub struct Arena<const W: usize> {
    pub(super) slots: Array<Slot<W>>,
    pub(super) extent: AtomicU64,
    /// The generation that a slot gets when it is touched. It is greater than those of all slots whose
    /// memory was given back.
    pub(super) first_generation: AtomicU32,
    pub(super) free: FreeLists,
    /// Slots that must not be used at present, because another cache uses the memory of their frames.
    retired: FreeList,
    hand: AtomicU64,
    /// The number of slots in a chunk, the unit of accounting.
    chunk: u32,
    pub(super) growing: Mutex<Growth>,
}

/// The part of an arena that is in use. Both numbers are stored in one word and change atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The slots below this number have been initialized for use.
    pub touched: u32,
    /// The memory of the slots below this number is accounted for.
    pub granted: u32,
}

impl Extent {
    fn from_raw(raw: u64) -> Self {
        let half = |raw: u64| u32::try_from(raw & u64::from(u32::MAX)).unwrap_or_default();
        Self {
            touched: half(raw),
            granted: half(raw >> 32),
        }
    }

    /// Returns the number of slots that the next [`Arena::extend`] touches. Normally a thread gets the slots
    /// up to the next multiple of 8, so that two threads do not use slots in one cache line. When few slots
    /// are left, a thread gets only one slot. So no thread fails to get a slot while another thread has
    /// several unused slots.
    fn batch(self) -> u32 {
        const BATCH: u32 = 8;
        const FEW: u32 = 64;
        match self.granted.saturating_sub(self.touched) {
            left @ ..FEW => left.min(1),
            _ => BATCH - self.touched % BATCH,
        }
    }

    fn raw(self) -> u64 {
        u64::from(self.granted) << 32 | u64::from(self.touched)
    }
}

/// An unused slot that is in no chain, and is owned by one thread. When the guard is dropped, the slot is
/// added to a free list.
#[derive(Debug)]
pub struct Vacant<'a, const W: usize> {
    arena: &'a Arena<W>,
    index: u32,
}

impl<const W: usize> Arena<W> {
    /// Creates an arena of `capacity` slots.
    ///
    /// # Errors
    /// Returns the kernel's error, most likely because there is not enough address space.
    ///
    /// # Panics
    /// If `capacity` is more than [`NUMBER_LIMIT`].
    pub fn new(capacity: u32, growth: Growth) -> io::Result<Self> {
        assert!(capacity <= NUMBER_LIMIT, "too many slots: {capacity}");
        let (chunk, pages) = match growth {
            Growth::Prepaid => (capacity, Pages::Huge),
            Growth::Charged { chunk, .. } => (chunk, Pages::Small),
        };
        let extent = Extent {
            touched: 0,
            granted: chunk.min(capacity),
        };
        Ok(Self {
            slots: Array::zeroed(capacity as usize, pages)?,
            extent: AtomicU64::new(extent.raw()),
            first_generation: AtomicU32::new(1),
            free: FreeLists::new(),
            retired: FreeList::new(),
            hand: AtomicU64::new(0),
            chunk: chunk.max(1),
            growing: Mutex::new(growth),
        })
    }

    /// Returns the total number of slots.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(NUMBER_LIMIT)
    }

    /// Returns the number of slots in a chunk.
    pub(crate) fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Returns the number of slots that were initialized for use: those in use, free or retired.
    #[must_use]
    pub fn touched(&self) -> u32 {
        self.extent().touched
    }

    pub(super) fn extent(&self) -> Extent {
        Extent::from_raw(self.extent.load(Acquire))
    }

    /// Replaces the extent by `to(extent)`, and returns the previous extent. If `to` returns `None`,
    /// returns `None` without a change.
    pub(super) fn set_extent(&self, to: impl Fn(Extent) -> Option<Extent>) -> Option<Extent> {
        let to = |raw| to(Extent::from_raw(raw)).map(Extent::raw);
        let before = self.extent.fetch_update(AcqRel, Acquire, to);
        before.ok().map(Extent::from_raw)
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> &Slot<W> {
        &self.slots[index as usize]
    }

    /// Returns the numbers of the slots of the chain that starts at `first`. The link of each slot is read
    /// before the iterator returns the slot, so the caller may then change the link.
    pub(crate) fn chain(&self, first: Link) -> impl Iterator<Item = u32> {
        let mut at = first;
        std::iter::from_fn(move || {
            let Link::Slot(index) = at else { return None };
            at = self.slot(index).next();
            Some(index)
        })
    }

    /// Prefetches the slot `index`.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        self.slots.prefetch(index as usize);
    }

    /// Returns a slot that is free or was never used. Returns `None` if no such slot exists; the caller
    /// must then evict an entry first.
    ///
    /// A slot that another thread freed is used before a slot that was never used, because at the first use
    /// of a slot, the kernel has to allocate and clear memory.
    pub fn take_free(&self) -> Option<Vacant<'_, W>> {
        loop {
            let own = self.free.own().pop(&self.slots);
            let freed = own.or_else(|| self.free.pop(&self.slots));
            let free = freed.or_else(|| self.extend());
            // Another thread may have added the last untouched slots to its free list.
            match free.or_else(|| self.free.pop(&self.slots)) {
                Some(index) => return Some(self.vacant(index)),
                None if self.grow() => {}
                None => return None,
            }
        }
    }

    /// Makes a retired slot usable again. Returns false if no slot is retired.
    pub(crate) fn reinstate(&self) -> bool {
        let retired = self.retired.pop(&self.slots);
        retired.is_some_and(|index| {
            drop(self.vacant(index));
            true
        })
    }

    /// Moves the hand over `count` slots. Evicts each evictable entry that is not referenced, and clears the
    /// referenced flag of each other evictable entry. Returns the number of freed slots.
    ///
    /// `unlink` must remove each evicted entry from its chain; its arguments are the number of the slot and
    /// the last state of the entry.
    pub(crate) fn scan(&self, count: u32, mut unlink: impl FnMut(u32, State)) -> u32 {
        let touched = u64::from(self.touched());
        if touched == 0 {
            return 0;
        }
        let mut freed = 0;
        let from = self.hand.fetch_add(u64::from(count), Relaxed);
        // The order is descending, so that the freed slots are used in ascending order.
        for at in (from..from + u64::from(count)).rev() {
            let index = u32::try_from(at % touched).unwrap_or_default();
            if let Some(state) = self.pass(index) {
                unlink(index, state);
                drop(self.vacant(index));
                freed += 1;
            }
        }
        freed
    }

    /// Clears the referenced flag of an evictable entry, or claims the entry if the flag is not set.
    /// Returns the previous state of a claimed entry.
    pub(super) fn pass(&self, index: u32) -> Option<State> {
        let slot = self.slot(index);
        let state = slot.state();
        if !state.can_claim() {
            return None;
        }
        if state.has(State::REFERENCED) {
            // If the exchange fails, another thread uses the entry, so the flag may stay.
            let _ = slot.exchange(state, state.unreferenced());
            return None;
        }
        slot.exchange(state, state.claimed()).ok().map(|()| state)
    }

    /// Returns a guard for the slot `index`, which the caller must own, and which must be in no chain.
    pub(crate) fn vacant(&self, index: u32) -> Vacant<'_, W> {
        Vacant { arena: self, index }
    }

    /// Initializes a batch of untouched slots, and returns the first of them. Adds the others to the free
    /// list of the calling thread. Returns `None` if all slots whose memory is accounted for are touched.
    fn extend(&self) -> Option<u32> {
        let before = self.set_extent(|extent| {
            let touched = extent.touched + extent.batch();
            (touched > extent.touched).then_some(Extent { touched, ..extent })
        })?;
        let first = State::first(self.first_generation.load(Acquire));
        let batch = before.touched..before.touched + before.batch();
        for index in batch.clone() {
            self.slot(index).set_state(first);
        }
        // The last slot is added first, so that the slots are used in ascending order.
        for index in batch.skip(1).rev() {
            drop(self.vacant(index));
        }
        Some(before.touched)
    }

    /// Adds another chunk, if necessary and possible. Returns true if a slot may be available, and false
    /// if the caller has to evict an entry.
    fn grow(&self) -> bool {
        if self.extent().granted == self.capacity() {
            return false;
        }
        let growth = self.growing.lock();
        let Growth::Charged { charge, .. } = &*growth else {
            return false;
        };
        let extent = self.extent();
        if extent.touched < extent.granted || !self.free.is_empty() {
            // Another thread has just added a chunk, or freed a slot.
            return true;
        }
        if !charge.charge() {
            return false;
        }
        let granted = extent.granted.saturating_add(self.chunk);
        self.grant(granted.min(self.capacity()));
        true
    }

    /// Allows the use of the slots below `granted`. The caller must hold `growing`.
    pub(super) fn grant(&self, granted: u32) {
        self.set_extent(|extent| Some(Extent { granted, ..extent }));
    }

    /// Returns the number of slots on the free lists. There must be no concurrent changes.
    pub(crate) fn count_free(&self) -> u32 {
        self.free.iter().map(|list| list.count(&self.slots)).sum()
    }
}

impl<'a, const W: usize> Vacant<'a, W> {
    /// Returns the slot's number.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn slot(&self) -> &'a Slot<W> {
        self.arena.slot(self.index)
    }

    /// Retires the slot, which is then not used until [`Arena::reinstate`] returns it to a free list.
    pub(crate) fn retire(self) {
        let arena = self.arena;
        arena.retired.push(&arena.slots, self.into_index());
    }

    /// Returns the number of the slot, without adding the slot to a free list. The caller then owns the
    /// slot.
    pub(crate) fn into_index(self) -> u32 {
        let index = self.index;
        std::mem::forget(self);
        index
    }
}

impl<const W: usize> Drop for Vacant<'_, W> {
    fn drop(&mut self) {
        self.arena.free.own().push(&self.arena.slots, self.index);
    }
}
