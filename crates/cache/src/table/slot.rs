//! A slot: the memory of one cached entry, with a state word that is changed atomically.
//!
//! # Model
//! `struct page`: the slot itself contains the flags, the reference count and the hash link. It has no
//! `struct list_head`, since the clock hand scans the slots of the arena in order.
//!
//! # State word
//! ```text
//! 63            32 31        20 19           0
//! | generation    | flags      | pins         |
//! ```
//! The words of key and value change only while the slot is in no chain and is owned by one thread. That
//! thread became the owner when it stored [`State::claimed`], which increments the generation. So if a
//! reader finds the same generation before and after it reads the words, all of them belong to one entry.
//!
//! # Cost
//! A slot takes 16 bytes plus 8 for each word: 32 bytes for a page.

use crate::sync::{AcqRel, Acquire, AtomicU32, AtomicU64, Backoff, Release};
use crate::table::link::{END_OF_FREE, Link};

/// The value of the state word at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u64);

const PIN: u64 = 1;
const PINS: u64 = (1 << 20) - 1;
const GENERATION: u64 = 1 << 32;

impl State {
    /// The entry can be found: it was inserted, and was not evicted or removed since.
    pub const LIVE: u64 = 1 << 20;
    /// The entry was used since the clock hand last passed its slot, so the hand spares it once.
    pub const REFERENCED: u64 = 1 << 21;
    /// One thread fills or changes the entry. No other thread reads the contents.
    pub const BUSY: u64 = 1 << 22;
    /// A thread is parked until the entry is no longer busy, or until no other thread has it pinned.
    pub const WAITERS: u64 = 1 << 23;
    /// A read of this page triggers the next readahead.
    pub const MARKER: u64 = 1 << 24;
    /// The page was read ahead, and was not requested yet.
    pub const READAHEAD: u64 = 1 << 25;
    /// The frame contains buffers, not a page of a file. The flag is used in an arena that pages and
    /// buffers share.
    pub const BUFFER: u64 = 1 << 26;
    /// The slot is on a free list.
    pub(super) const FREE: u64 = 1 << 27;
    /// The page was read for a request, and the request has not used it yet.
    pub const WANTED: u64 = 1 << 28;
    /// The device does not have the present contents, so the entry must not be evicted.
    pub const DIRTY: u64 = 1 << 29;
    /// A search by the hash alone may return the entry.
    pub const REUSABLE: u64 = 1 << 30;

    /// Returns true if any of `flags` is set.
    #[must_use]
    #[inline]
    pub fn has(self, flags: u64) -> bool {
        self.0 & flags != 0
    }

    /// Returns true if the entry is live and referenced, so that a hit need not change the state.
    #[inline]
    pub(super) fn is_live_and_referenced(self) -> bool {
        self.0 & (Self::LIVE | Self::REFERENCED) == Self::LIVE | Self::REFERENCED
    }

    /// Returns the number of pins, which prevent eviction.
    #[must_use]
    pub fn pins(self) -> u32 {
        u32::try_from(self.0 & PINS).unwrap_or(u32::MAX)
    }

    /// Returns true if `self` and `other` are states of the same entry.
    #[inline]
    pub(crate) fn is_same_entry(self, other: Self) -> bool {
        self.0 / GENERATION == other.0 / GENERATION
    }

    /// Returns true if `self` and `other` are states of the same entry, and the entry is live in both
    /// or in neither.
    #[inline]
    pub(super) fn has_same_liveness(self, other: Self) -> bool {
        (self.0 ^ other.0) & (Self::LIVE | !(GENERATION - 1)) == 0
    }

    /// Returns true if the entry can be made busy: it is live, and not busy already.
    #[inline]
    pub(super) fn can_lock(self) -> bool {
        self.0 & (Self::LIVE | Self::BUSY) == Self::LIVE
    }

    /// Returns the state after a lookup has made the entry busy.
    #[inline]
    pub(super) fn locked(self) -> Self {
        self.used().with(Self::BUSY)
    }

    /// Returns true if the entry can be pinned: it is live, not busy, and has room for one more pin.
    #[inline]
    pub(crate) fn can_pin(self) -> bool {
        self.0 & (Self::LIVE | Self::BUSY) == Self::LIVE && self.0 & PINS != PINS
    }

    /// Returns true if the entry is evictable: it is live, and not busy, dirty or pinned.
    pub(crate) fn can_claim(self) -> bool {
        self.0 & (Self::LIVE | Self::BUSY | Self::DIRTY | PINS) == Self::LIVE
    }

    /// Returns the state after a lookup has found the entry and pinned it.
    #[inline]
    pub(super) fn pinned(self) -> Self {
        Self(self.used().0 + PIN)
    }

    /// Returns the state with one more pin, which does not count as a use of the entry.
    #[inline]
    pub(crate) fn with_pin(self) -> Self {
        Self(self.0 + PIN)
    }

    /// Returns the state after a lookup has found the entry. The first lookup of a page that was read
    /// ahead or read for a request does not make the page referenced, but the next one does. So a file
    /// that is read once from end to end leaves no referenced pages.
    #[inline]
    fn used(self) -> Self {
        if self.has(Self::READAHEAD | Self::WANTED) {
            Self(self.0 & !(Self::READAHEAD | Self::WANTED))
        } else {
            Self(self.0 | Self::REFERENCED)
        }
    }

    #[inline]
    pub(super) fn referenced(self) -> Self {
        Self(self.0 | Self::REFERENCED)
    }

    pub(crate) fn unreferenced(self) -> Self {
        Self(self.0 & !Self::REFERENCED)
    }

    /// Returns all flags.
    pub(super) fn flags(self) -> u64 {
        self.0 & (GENERATION - 1) & !PINS
    }

    /// Returns the state of an unused slot whose generation is `generation`.
    pub(super) fn first(generation: u32) -> Self {
        Self(u64::from(generation) * GENERATION)
    }

    /// Returns the generation, which is incremented each time the slot is claimed.
    pub(super) fn generation(self) -> u32 {
        u32::try_from(self.0 / GENERATION).unwrap_or(u32::MAX)
    }

    /// Returns the state after the slot was claimed: the generation is incremented, and flags and pins
    /// are cleared.
    pub(crate) fn claimed(self) -> Self {
        Self((self.0 & !(GENERATION - 1)).wrapping_add(GENERATION))
    }

    pub(crate) fn with(self, flags: u64) -> Self {
        Self(self.0 | flags)
    }

    /// Returns the state after a busy entry was filled: it is no longer busy, has no waiters, and has
    /// `pins` more pins.
    fn filled(self, pins: u32) -> Self {
        Self((self.0 & !(Self::BUSY | Self::WAITERS)) + PIN * u64::from(pins))
    }
}

/// One entry of a table: its state, the link to the next slot, and `W` words for key and value.
#[derive(Debug)]
pub struct Slot<const W: usize> {
    state: AtomicU64,
    next: AtomicU32,
    aux: AtomicU32,
    words: [AtomicU64; W],
}

impl<const W: usize> Default for Slot<W> {
    fn default() -> Self {
        Self {
            state: AtomicU64::new(0),
            next: AtomicU32::new(0),
            aux: AtomicU32::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl<const W: usize> Slot<W> {
    /// Returns word `index` of key and value.
    #[must_use]
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        // Acquire: a later check of the generation is not reordered before this load.
        self.words[index].load(Acquire)
    }

    /// Sets word `index`. Only a function that fills a new entry may call this method, and only for the
    /// slot of that entry.
    #[inline]
    pub fn set_word(&self, index: usize, value: u64) {
        // Release: the earlier increment of the generation is not reordered after this store.
        self.words[index].store(value, Release);
    }

    /// Returns the half word: 32 bits next to the link. Their meaning depends on the kind of entry.
    #[must_use]
    #[inline]
    pub fn aux(&self) -> u32 {
        self.aux.load(Acquire)
    }

    /// Sets the half word. Only a function that fills a new entry may call this method, and only for the
    /// slot of that entry.
    pub fn set_aux(&self, value: u32) {
        self.aux.store(value, Release);
    }

    /// Sets `bits` in the half word. The caller must have pinned the entry or made it busy.
    pub(crate) fn set_aux_bits(&self, bits: u32) {
        self.aux.fetch_or(bits, AcqRel);
    }

    /// Copies key and value from `other`. The caller must own this slot, and must have claimed the entry
    /// in `other`.
    pub(crate) fn copy_from(&self, other: &Self) {
        self.set_aux(other.aux());
        (0..W).for_each(|word| self.set_word(word, other.word(word)));
    }

    /// Zeroes the slot, which the caller must own.
    pub(super) fn zero(&self) {
        self.set_state(State(0));
        self.set_next(END_OF_FREE);
        self.set_aux(0);
        (0..W).for_each(|word| self.set_word(word, 0));
    }

    /// Returns the present state.
    #[must_use]
    #[inline]
    pub fn state(&self) -> State {
        State(self.state.load(Acquire))
    }

    #[inline]
    pub(crate) fn exchange(&self, from: State, to: State) -> Result<(), State> {
        match self.state.compare_exchange(from.0, to.0, AcqRel, Acquire) {
            Ok(_) => Ok(()),
            Err(now) => Err(State(now)),
        }
    }

    /// Replaces the state by `to(state)`, and returns the previous state. If `to` returns `None`, returns
    /// the present state as an error. `seen` is the state that the first attempt expects.
    #[inline]
    pub(crate) fn update(
        &self,
        seen: State,
        to: impl Fn(State) -> Option<State>,
    ) -> Result<State, State> {
        let mut state = seen;
        while let Some(next) = to(state) {
            match self.exchange(state, next) {
                Ok(()) => return Ok(state),
                Err(now) => state = now,
            }
        }
        Err(state)
    }

    /// Sets the state of a slot, which the caller must own.
    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state.0, Release);
    }

    #[inline]
    pub(crate) fn next(&self) -> Link {
        Link::from_raw(self.next.load(Acquire))
    }

    pub(crate) fn set_next(&self, next: Link) {
        self.next.store(next.raw(), Release);
    }

    /// Removes one pin, and returns the previous state.
    #[inline]
    pub(crate) fn unpin(&self) -> State {
        // Release: reads through the pin happen before any later claim or change of the entry.
        let before = State(self.state.fetch_sub(PIN, Release));
        debug_assert!(before.pins() > 0, "the slot is not pinned");
        before
    }

    /// Sets `flags`, and returns the previous state. The caller must have pinned the entry or made it
    /// busy.
    pub(crate) fn set_flags(&self, flags: u64) -> State {
        State(self.state.fetch_or(flags, AcqRel))
    }

    /// Clears `flags`. The caller must have pinned the entry.
    pub(crate) fn clear_flags(&self, flags: u64) {
        self.state.fetch_and(!flags, AcqRel);
    }

    /// Clears `flag`. Returns true if the flag was set and this call cleared it. The caller must have
    /// pinned the entry.
    #[inline]
    pub(crate) fn take_flag(&self, flag: u64) -> bool {
        self.state().has(flag) && State(self.state.fetch_and(!flag, AcqRel)).has(flag)
    }

    /// Clears `flag` if the slot still has the entry that was in the state `seen`. Returns true if the
    /// flag was set and this call cleared it.
    pub(crate) fn take_flag_of(&self, seen: State, flag: u64) -> bool {
        let taken = self.update(self.state(), |state| {
            let is_set = state.is_same_entry(seen) && state.has(flag);
            is_set.then_some(State(state.0 & !flag))
        });
        taken.is_ok()
    }

    /// Waits until the entry has no pins. The caller must have made it busy, which prevents new pins.
    /// Returns false if `is_cancelled` returns true before the last pin is removed.
    ///
    /// The thread spins and does not park, because a pin usually lasts only as long as a copy of the
    /// bytes.
    pub(crate) fn wait_unpinned(&self, is_cancelled: impl Fn() -> bool) -> bool {
        let backoff = Backoff::new();
        // The state is loaded with acquire: reads through the pins happen before the caller continues.
        while self.state().pins() > 0 {
            if is_cancelled() {
                return false;
            }
            backoff.snooze();
        }
        true
    }

    /// Ends the busy state of a filled entry, and adds `pins`, which belong to the caller. Returns true
    /// if a thread waits for the entry and must be woken.
    pub(crate) fn fill(&self, pins: u32) -> bool {
        let busy = self.update(self.state(), |state| {
            debug_assert!(state.has(State::BUSY), "the slot is not busy");
            Some(state.filled(pins))
        });
        busy.is_ok_and(|state| state.has(State::WAITERS))
    }

    /// Records that the caller will park while the entry that was in the state `seen` is busy. Returns
    /// false if the busy state has already ended; the caller must then not park.
    pub(crate) fn announce_waiter(&self, seen: State) -> bool {
        let announced = self.update(self.state(), |state| {
            let is_busy = state.is_same_entry(seen) && state.has(State::BUSY);
            is_busy.then_some(state.with(State::WAITERS))
        });
        announced.is_ok()
    }
}
