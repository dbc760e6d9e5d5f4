//! The arena: the slots of one or more tables, their free list and clock hand.
//!
//! # Model
//! A slab that never returns a slot, so that a reader may look at any slot at
//! any time (`SLAB_TYPESAFE_BY_RCU`, without the RCU); and instead of an LRU
//! list, a clock hand over the slots: an entry that was referenced since the
//! hand last passed survives the turn, any other is evicted.
//!
//! # Invariants
//! 1. A slot is in exactly one place: untouched, on the free list, owned by one
//!    thread ([`Vacant`], or being evicted), in one chain, or retired.
//! 2. Slots from `touched` on have never been used.
//!
//! # Locking
//! None on the free list (a stack of 64-bit heads with a tag against reuse) and
//! the hand; `growing` is held while memory for more slots is asked for.

use super::link::{END_OF_FREE, Link, NUMBERS};
use super::slot::{Slot, State};
use crate::memory::{Array, Pages};
use crate::sync::{AcqRel, Acquire, AtomicU32, AtomicU64, Mutex, Relaxed};
use std::fmt;
use std::io;

/// Asked for memory whenever an arena outgrows what it was granted.
pub type Charge = Box<dyn Fn() -> bool + Send + Sync>;

/// How an arena may use memory.
pub enum Growth {
    /// All of it is accounted for.
    Prepaid,
    /// `chunk` slots are accounted for; each time so many more are needed,
    /// `charge` is asked, and if it refuses the arena makes do with what it has.
    Charged {
        /// Slots for one charge.
        chunk: u32,
        /// Accounts for a chunk; false if there is no memory for it.
        charge: Charge,
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
    slots: Array<Slot<W>>,
    /// Slots below have been used.
    touched: AtomicU32,
    /// Slots below are accounted for.
    granted: AtomicU32,
    /// Tag in the upper half, link to the first free slot in the lower.
    free: AtomicU64,
    hand: AtomicU64,
    growing: Mutex<Growth>,
}

/// A slot that the holder owns and that is in no chain. Dropped, it goes to the
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
        let (granted, pages) = match growth {
            Growth::Prepaid => (capacity, Pages::Huge),
            Growth::Charged { chunk, .. } => (chunk.min(capacity), Pages::Small),
        };
        Ok(Self {
            slots: Array::zeroed(capacity as usize, pages)?,
            touched: AtomicU32::new(0),
            granted: AtomicU32::new(granted),
            free: AtomicU64::new(u64::from(END_OF_FREE.raw())),
            hand: AtomicU64::new(0),
            growing: Mutex::new(growth),
        })
    }

    /// Slots in all.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(NUMBERS)
    }

    /// Slots that have ever been used.
    #[must_use]
    pub fn touched(&self) -> u32 {
        self.touched.load(Acquire)
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> &Slot<W> {
        &self.slots[index as usize]
    }

    /// A slot that is free or was never used; `None` if something has to be
    /// evicted first.
    pub fn take_free(&self) -> Option<Vacant<'_, W>> {
        let index = self.pop().or_else(|| self.extend())?;
        Some(self.vacant(index))
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
    fn pass(&self, index: u32) -> Option<State> {
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

    fn pop(&self) -> Option<u32> {
        let mut head = self.free.load(Acquire);
        loop {
            let Link::Slot(index) = Link::from_raw(link_of(head)) else {
                return None;
            };
            let next = self.slot(index).next();
            match self
                .free
                .compare_exchange(head, tagged(head, next), AcqRel, Acquire)
            {
                Ok(_) => {
                    let slot = self.slot(index);
                    slot.set_state(slot.state().claimed());
                    return Some(index);
                }
                Err(now) => head = now,
            }
        }
    }

    fn push(&self, index: u32) {
        let slot = self.slot(index);
        slot.set_state(slot.state().with(State::FREE));
        let mut head = self.free.load(Acquire);
        loop {
            slot.set_next(Link::from_raw(link_of(head)));
            let to = tagged(head, Link::Slot(index));
            match self.free.compare_exchange(head, to, AcqRel, Acquire) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// A slot that was never used, asking for memory where needed.
    fn extend(&self) -> Option<u32> {
        loop {
            let touched = self.touched.load(Acquire);
            if touched < self.granted.load(Acquire) {
                if self
                    .touched
                    .compare_exchange(touched, touched + 1, AcqRel, Acquire)
                    .is_ok()
                {
                    return Some(touched);
                }
            } else if touched >= self.capacity() || !self.grow(touched) {
                return None;
            }
        }
    }

    /// Asks for a chunk more than `granted` slots, unless someone just did.
    fn grow(&self, granted: u32) -> bool {
        let growth = self.growing.lock();
        if self.granted.load(Acquire) > granted {
            return true;
        }
        let Growth::Charged { chunk, charge } = &*growth else {
            return false;
        };
        if !charge() {
            return false;
        }
        let granted = granted.saturating_add((*chunk).max(1)).min(self.capacity());
        self.granted.store(granted, crate::sync::Release);
        true
    }

    /// Counts the slots on the free list. Only when nobody changes it.
    pub(crate) fn count_free(&self) -> u32 {
        let mut count = 0;
        let mut at = Link::from_raw(link_of(self.free.load(Acquire)));
        while let Link::Slot(index) = at {
            assert!(self.slot(index).state().has(State::FREE), "free list");
            count += 1;
            at = self.slot(index).next();
        }
        assert_eq!(at, END_OF_FREE, "the free list ends as such");
        count
    }
}

/// The link in the free list's head.
fn link_of(head: u64) -> u32 {
    // The lower half, whole.
    u32::try_from(head & u64::from(u32::MAX)).unwrap_or(END_OF_FREE.raw())
}

/// The free list's head after `before`: a new tag, so that a thread that read
/// `before` and slept cannot mistake it.
fn tagged(before: u64, link: Link) -> u64 {
    const TAG: u64 = 1 << 32;
    (before & !(TAG - 1)).wrapping_add(TAG) | u64::from(link.raw())
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

    /// Keeps the slot from the free list, for whoever answers for it next.
    pub(crate) fn into_index(self) -> u32 {
        let index = self.index;
        std::mem::forget(self);
        index
    }
}

impl<const W: usize> Drop for Vacant<'_, W> {
    fn drop(&mut self) {
        self.arena.push(self.index);
    }
}
