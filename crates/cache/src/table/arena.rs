//! The arena: the slots of one or more tables, their free lists and clock hand.
//!
//! # Model
//! A slab whose slots a reader may look at at any time, also when their memory was given
//! back ([`give_back`](super::give_back)): `SLAB_TYPESAFE_BY_RCU`, without the RCU. And instead of an LRU
//! list, a clock hand over the slots: an entry that was referenced since the
//! hand last passed survives the turn, any other is evicted.
//!
//! # Invariants
//! 1. A slot is in exactly one place: untouched, on a free list, owned by one
//!    thread ([`Vacant`], or being evicted), in one chain, or retired.
//! 2. Slots from `touched` on are not used, and zero.
//! 3. No generation of a slot comes twice, and none that can be found is 0.
//!
//! # Locking
//! None on the free lists, the extent and the hand; `growing` is held while memory for more slots
//! is asked for, and tried, never waited for, while some is given back.

use super::free_list::{FreeList, FreeLists};
use super::link::{Link, NUMBERS};
use super::slot::{Slot, State};
use crate::memory::{Array, Pages};
use crate::sync::{AcqRel, Acquire, AtomicU32, AtomicU64, Mutex, Relaxed};
use std::fmt;
use std::io;
use std::sync::Arc;

/// Who accounts for the memory of an arena, a chunk of slots at a time.
pub trait Charge: Send + Sync {
    /// Accounts for one chunk more; false if there is no memory for it.
    fn charge(&self) -> bool;
    /// A chunk that was accounted for is not used any more.
    fn uncharge(&self);
}

/// How an arena may use memory.
pub enum Growth {
    /// All of it is accounted for.
    Prepaid,
    /// `chunk` slots are accounted for; each time so many more are needed,
    /// `charge` is asked, and if it refuses the arena makes do with what it has.
    Charged {
        /// Slots for one charge.
        chunk: u32,
        /// Accounts for the chunks behind the first.
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

/// A fixed number of slots.
#[derive(Debug)]
pub struct Arena<const W: usize> {
    pub(super) slots: Array<Slot<W>>,
    pub(super) extent: AtomicU64,
    /// The generation of slots that are touched: above all of those that were given back.
    pub(super) first_generation: AtomicU32,
    pub(super) free: FreeLists,
    /// Slots that were given up, for as long as their arena can do without.
    retired: FreeList,
    hand: AtomicU64,
    /// Slots that are accounted for together.
    chunk: u32,
    pub(super) growing: Mutex<Growth>,
}

/// How much of an arena is in use. In one word, so that growing and giving back agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Slots below have been used.
    pub touched: u32,
    /// Slots below are accounted for.
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

    /// Slots to touch next: those that share lines with one another, for one thread; when few are left,
    /// one by one, so that nobody finds none while another has several in hand.
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

/// A slot that the holder owns and that is in no chain. Dropped, it goes to a
/// free list.
#[derive(Debug)]
pub struct Vacant<'a, const W: usize> {
    arena: &'a Arena<W>,
    index: u32,
}

impl<const W: usize> Arena<W> {
    /// An arena of `capacity` slots.
    ///
    /// # Errors
    /// The kernel's, for want of address space most likely.
    ///
    /// # Panics
    /// If `capacity` is more than [`NUMBERS`].
    pub fn new(capacity: u32, growth: Growth) -> io::Result<Self> {
        assert!(capacity <= NUMBERS, "more slots than numbers");
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

    /// Slots in all.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(NUMBERS)
    }

    /// Slots that are accounted for together.
    pub(crate) fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Slots that are in use, or were and can be again at once.
    #[must_use]
    pub fn touched(&self) -> u32 {
        self.extent().touched
    }

    pub(super) fn extent(&self) -> Extent {
        Extent::from_raw(self.extent.load(Acquire))
    }

    /// Changes the extent as `to` says, and returns what it was; `None` if it is to stay.
    pub(super) fn set_extent(&self, to: impl Fn(Extent) -> Option<Extent>) -> Option<Extent> {
        let to = |raw| to(Extent::from_raw(raw)).map(Extent::raw);
        let before = self.extent.fetch_update(AcqRel, Acquire, to);
        before.ok().map(Extent::from_raw)
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> &Slot<W> {
        &self.slots[index as usize]
    }

    /// The slots from `first` on, each linked to the next when it is passed: it may be put elsewhere.
    pub(crate) fn chain(&self, first: Link) -> impl Iterator<Item = u32> {
        let mut at = first;
        std::iter::from_fn(move || {
            let Link::Slot(index) = at else { return None };
            at = self.slot(index).next();
            Some(index)
        })
    }

    /// The slot `index` will be read soon.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        self.slots.prefetch(index as usize);
    }

    /// A slot that is free or was never used; `None` if something has to be
    /// evicted first.
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

    /// Takes a slot that was given up back into use; false if there is none.
    pub(crate) fn reinstate(&self) -> bool {
        let retired = self.retired.pop(&self.slots);
        retired.is_some_and(|index| {
            drop(self.vacant(index));
            true
        })
    }

    /// Passes the hand over `count` slots: evicts what is neither referenced nor
    /// held, and lets `unlink` take each from its chain; it gets the slot's number
    /// and the state that the entry had. Returns how many slots were freed.
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

    /// The hand passes over one slot; if the entry is to go, claims it.
    pub(super) fn pass(&self, index: u32) -> Option<State> {
        let slot = self.slot(index);
        let state = slot.state();
        if !state.can_claim() {
            return None;
        }
        if state.has(State::REFERENCED) {
            // If it changed meanwhile it is in use: as good as referenced.
            let _ = slot.exchange(state, state.unreferenced());
            return None;
        }
        slot.exchange(state, state.claimed()).ok().map(|()| state)
    }

    /// The slot `index`, which the caller owns and which is in no chain.
    pub(crate) fn vacant(&self, index: u32) -> Vacant<'_, W> {
        Vacant { arena: self, index }
    }

    /// A slot that was not used, and is accounted for. What else was touched with it goes to the
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

    /// Asks for a chunk more; false if no slots can be had without evicting.
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
            // Someone just did, or gave slots back.
            return true;
        }
        if !charge.charge() {
            return false;
        }
        let granted = extent.granted.saturating_add(self.chunk);
        self.grant(granted.min(self.capacity()));
        true
    }

    /// Lets as many slots be used. Only with `growing` held.
    pub(super) fn grant(&self, granted: u32) {
        self.set_extent(|extent| Some(Extent { granted, ..extent }));
    }

    /// Counts the slots on the free lists. Only when nobody changes them.
    pub(crate) fn count_free(&self) -> u32 {
        self.free.iter().map(|list| list.count(&self.slots)).sum()
    }
}

impl<'a, const W: usize> Vacant<'a, W> {
    /// The slot's number.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn slot(&self) -> &'a Slot<W> {
        self.arena.slot(self.index)
    }

    /// Gives the slot up, until [`Arena::reinstate`].
    pub(crate) fn retire(self) {
        let arena = self.arena;
        arena.retired.push(&arena.slots, self.into_index());
    }

    /// Keeps the slot from the free lists, for whoever answers for it next.
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
