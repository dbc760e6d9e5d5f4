//! The arena: the slots of one or more tables, their free lists and the clock hand.
//!
//! # Model
//! A slab whose slots a reader may access at any time, even after their memory was given back
//! ([`give_back`](super::give_back)): `SLAB_TYPESAFE_BY_RCU`, without the RCU. Instead of an LRU list
//! there is a clock hand over the slots. An entry that was referenced since the hand last passed survives
//! the turn; any other is evicted.
//!
//! # Invariants
//! 1. A slot is in exactly one of these states: untouched, on a free list, owned by one thread
//!    ([`Vacant`], or being evicted), in one chain, or retired.
//! 2. Slots from `touched` on are unused, and zero.
//! 3. No generation of a slot occurs twice, and no entry that can be found has generation 0.
//!
//! # Locking
//! The free lists, the extent and the hand need no lock. `growing` is held while memory for more slots is
//! requested. To give memory back, a thread tries to lock it and never waits for it.

use super::free_list::{FreeList, FreeLists};
use super::link::{Link, NUMBERS};
use super::slot::{Slot, State};
use crate::memory::{Array, Pages};
use crate::sync::{AcqRel, Acquire, AtomicU32, AtomicU64, Mutex, Relaxed};
use std::fmt;
use std::io;
use std::sync::Arc;

/// Accounts for the memory of an arena, one chunk of slots at a time.
pub trait Charge: Send + Sync {
    /// Accounts for one more chunk. Returns false if there is no memory for it.
    fn charge(&self) -> bool;
    /// Releases a chunk that was accounted for and is no longer used.
    fn uncharge(&self);
}

/// The way in which an arena accounts for memory.
pub enum Growth {
    /// All memory is accounted for in advance.
    Prepaid,
    /// The first `chunk` slots are accounted for. `charge` is called each time that many more are needed.
    /// If it refuses, the arena reuses its present slots.
    Charged {
        /// Slots in one chunk.
        chunk: u32,
        /// Accounts for all chunks after the first.
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
    /// The generation of slots when they are first touched: greater than that of all slots that were
    /// given back.
    pub(super) first_generation: AtomicU32,
    pub(super) free: FreeLists,
    /// Slots that were given up, as long as the arena does not need them.
    retired: FreeList,
    hand: AtomicU64,
    /// Slots that are accounted for together.
    chunk: u32,
    pub(super) growing: Mutex<Growth>,
}

/// The part of an arena that is in use. It is one word, so that growing and giving back are consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Slots below this have been used.
    pub touched: u32,
    /// Slots below this are accounted for.
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

    /// Returns how many slots to touch next: normally those that share cache lines, for one thread. When
    /// few are left, only one, so that no thread fails while another keeps several in reserve.
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

/// A slot that the holder owns and that is in no chain. When dropped, it is added to a free list.
#[derive(Debug)]
pub struct Vacant<'a, const W: usize> {
    arena: &'a Arena<W>,
    index: u32,
}

impl<const W: usize> Arena<W> {
    /// Creates an arena of `capacity` slots.
    ///
    /// # Errors
    /// Those of the kernel, most likely because there is not enough address space.
    ///
    /// # Panics
    /// If `capacity` is more than [`NUMBERS`].
    pub fn new(capacity: u32, growth: Growth) -> io::Result<Self> {
        assert!(capacity <= NUMBERS, "too many slots: {capacity}");
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
        u32::try_from(self.slots.len()).unwrap_or(NUMBERS)
    }

    /// Returns the number of slots that are accounted for together.
    pub(crate) fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Returns the number of slots that are in use, or that were and can be reused at once.
    #[must_use]
    pub fn touched(&self) -> u32 {
        self.extent().touched
    }

    pub(super) fn extent(&self) -> Extent {
        Extent::from_raw(self.extent.load(Acquire))
    }

    /// Changes the extent with `to`, and returns the previous one. Returns `None` if `to` refuses.
    pub(super) fn set_extent(&self, to: impl Fn(Extent) -> Option<Extent>) -> Option<Extent> {
        let to = |raw| to(Extent::from_raw(raw)).map(Extent::raw);
        let before = self.extent.fetch_update(AcqRel, Acquire, to);
        before.ok().map(Extent::from_raw)
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> &Slot<W> {
        &self.slots[index as usize]
    }

    /// Returns the slots from `first` on. The link of each is read when the slot is passed, so the caller
    /// may put it elsewhere.
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

    /// Returns a slot that is free or was never used; `None` if an entry has to be evicted first.
    pub fn take_free(&self) -> Option<Vacant<'_, W>> {
        loop {
            let own = self.free.own().pop(&self.slots);
            let free = own.or_else(|| self.extend());
            match free.or_else(|| self.free.pop(&self.slots)) {
                Some(index) => return Some(self.vacant(index)),
                None if self.grow() => {}
                None => return None,
            }
        }
    }

    /// Makes a retired slot usable again. Returns false if there is none.
    pub(crate) fn reinstate(&self) -> bool {
        let retired = self.retired.pop(&self.slots);
        retired.is_some_and(|index| {
            drop(self.vacant(index));
            true
        })
    }

    /// Moves the hand over `count` slots, and evicts entries that are neither referenced nor held.
    /// `unlink` removes each of them from its chain; it gets the slot's number and the state that the
    /// entry had. Returns the number of freed slots.
    pub(crate) fn scan(&self, count: u32, mut unlink: impl FnMut(u32, State)) -> u32 {
        let touched = u64::from(self.touched());
        if touched == 0 {
            return 0;
        }
        let mut freed = 0;
        let from = self.hand.fetch_add(u64::from(count), Relaxed);
        for at in from..from + u64::from(count) {
            let index = u32::try_from(at % touched).unwrap_or_default();
            if let Some(state) = self.pass(index) {
                unlink(index, state);
                drop(self.vacant(index));
                freed += 1;
            }
        }
        freed
    }

    /// Moves the hand over one slot. Claims the entry if it should be evicted.
    pub(super) fn pass(&self, index: u32) -> Option<State> {
        let slot = self.slot(index);
        let state = slot.state();
        if !state.can_claim() {
            return None;
        }
        if state.has(State::REFERENCED) {
            // If the state changed meanwhile, the entry is in use, which counts as referenced.
            let _ = slot.exchange(state, state.unreferenced());
            return None;
        }
        slot.exchange(state, state.claimed()).ok().map(|()| state)
    }

    /// Returns a guard for the slot `index`, which the caller owns and which is in no chain.
    pub(crate) fn vacant(&self, index: u32) -> Vacant<'_, W> {
        Vacant { arena: self, index }
    }

    /// Returns a slot that was never used and is accounted for. The others of its batch are added to the
    /// thread's free list.
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
        // The last one first, so that they are taken in order.
        for index in batch.skip(1).rev() {
            drop(self.vacant(index));
        }
        Some(before.touched)
    }

    /// Requests another chunk. Returns false if there are no slots without eviction.
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
            // Another thread just grew the arena, or gave slots back.
            return true;
        }
        if !charge.charge() {
            return false;
        }
        let granted = extent.granted.saturating_add(self.chunk);
        self.grant(granted.min(self.capacity()));
        true
    }

    /// Allows the use of this many slots. The caller must hold `growing`.
    pub(super) fn grant(&self, granted: u32) {
        self.set_extent(|extent| Some(Extent { granted, ..extent }));
    }

    /// Counts the slots on the free lists. There must be no concurrent changes.
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

    /// Retires the slot until [`Arena::reinstate`].
    pub(crate) fn retire(self) {
        let arena = self.arena;
        arena.retired.push(&arena.slots, self.into_index());
    }

    /// Keeps the slot from the free lists. The caller becomes responsible for it.
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
