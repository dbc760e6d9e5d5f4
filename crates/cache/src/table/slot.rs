//! A slot: one cached entry, and the state word that every protocol turns on.
//!
//! # Model
//! `struct page`'s flags, reference count and hash link in one place. There is
//! no `struct list_head`: the clock hand walks the arena itself.
//!
//! # State word
//! ```text
//! 63            32 31        20 19           0
//! | generation    | flags      | pins         |
//! ```
//! A slot's words change only while it is out of every chain and owned by one
//! thread. It was taken by [`State::claimed`], which steps the generation; so a
//! reader that finds the generation unchanged after reading read one entry.
//!
//! # Cost
//! 16 bytes and 8 for each word: 32 bytes for a page.

use crate::sync::{AcqRel, Acquire, AtomicU32, AtomicU64, Backoff, Release};
use crate::table::link::{END_OF_FREE, Link};

/// The state word's value at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u64);

const PIN: u64 = 1;
const PINS: u64 = (1 << 20) - 1;
const GENERATION: u64 = 1 << 32;

impl State {
    /// Can be found.
    pub const LIVE: u64 = 1 << 20;
    /// Was found since the clock hand passed.
    pub const REFERENCED: u64 = 1 << 21;
    /// Is being filled or changed by its one owner; nobody else comes to look at its contents.
    pub const BUSY: u64 = 1 << 22;
    /// Somebody is parked until it is no longer busy, or until nobody else holds it.
    pub const WAITERS: u64 = 1 << 23;
    /// Reaching this page triggers the next readahead.
    pub const MARKER: u64 = 1 << 24;
    /// Was read ahead and not asked for since.
    pub const READAHEAD: u64 = 1 << 25;
    /// Holds a buffer, not a page, where both share an arena.
    pub const BUFFER: u64 = 1 << 26;
    /// Lies on a free list.
    pub(super) const FREE: u64 = 1 << 27;
    /// Was read because somebody asked for it, who has not used it yet.
    pub const WANTED: u64 = 1 << 28;
    /// Differs from what the device has: may not be evicted.
    pub const DIRTY: u64 = 1 << 29;
    /// Searches by hash may find it.
    pub const REUSABLE: u64 = 1 << 30;

    /// Whether any of `flags` is set.
    #[must_use]
    #[inline]
    pub fn has(self, flags: u64) -> bool {
        self.0 & flags != 0
    }

    /// Can be found, and was since the clock hand passed.
    #[inline]
    pub(super) fn is_found_again(self) -> bool {
        self.0 & (Self::LIVE | Self::REFERENCED) == Self::LIVE | Self::REFERENCED
    }

    /// How many pins hold the entry in place.
    #[must_use]
    pub fn pins(self) -> u32 {
        u32::try_from(self.0 & PINS).unwrap_or(u32::MAX)
    }

    /// Whether `self` and `other` are states of the same entry.
    #[inline]
    pub(crate) fn is_same_entry(self, other: Self) -> bool {
        self.0 / GENERATION == other.0 / GENERATION
    }

    /// Whether `self` and `other` are states of the same entry, in which it can be found in both or in
    /// neither.
    #[inline]
    pub(super) fn is_found_as(self, other: Self) -> bool {
        (self.0 ^ other.0) & (Self::LIVE | !(GENERATION - 1)) == 0
    }

    /// Can be found and has no owner, so that one can make it busy.
    #[inline]
    pub(super) fn can_lock(self) -> bool {
        self.0 & (Self::LIVE | Self::BUSY) == Self::LIVE
    }

    /// Busy, and used.
    #[inline]
    pub(super) fn locked(self) -> Self {
        self.used().with(Self::BUSY)
    }

    /// Can be found, is full, and can take one more pin.
    #[inline]
    pub(crate) fn can_pin(self) -> bool {
        self.0 & (Self::LIVE | Self::BUSY) == Self::LIVE && self.0 & PINS != PINS
    }

    /// The clock hand and removal may take it.
    pub(crate) fn can_claim(self) -> bool {
        self.0 & (Self::LIVE | Self::BUSY | Self::DIRTY | PINS) == Self::LIVE
    }

    /// One pin more. The first use of a page that was read ahead or is wanted
    /// stands for the read that brought it in, so only the next one counts as a
    /// reference: a file read once from end to end leaves no referenced pages.
    #[inline]
    pub(super) fn pinned(self) -> Self {
        Self(self.used().0 + PIN)
    }

    /// One pin more, which says nothing of use.
    #[inline]
    pub(crate) fn held(self) -> Self {
        Self(self.0 + PIN)
    }

    /// As after being found.
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

    /// All flags.
    pub(super) fn flags(self) -> u64 {
        self.0 & (GENERATION - 1) & !PINS
    }

    /// Of a slot that was not used before, or is zero again: of this generation.
    pub(super) fn first(generation: u32) -> Self {
        Self(u64::from(generation) * GENERATION)
    }

    /// How often the slot was taken out of use.
    pub(super) fn generation(self) -> u32 {
        u32::try_from(self.0 / GENERATION).unwrap_or(u32::MAX)
    }

    /// As taken out of use: the generation steps, nothing else remains.
    pub(crate) fn claimed(self) -> Self {
        Self((self.0 & !(GENERATION - 1)).wrapping_add(GENERATION))
    }

    pub(crate) fn with(self, flags: u64) -> Self {
        Self(self.0 | flags)
    }

    /// Filled: what waited for it may have it. `pins` of them are the caller's.
    fn filled(self, pins: u32) -> Self {
        Self((self.0 & !(Self::BUSY | Self::WAITERS)) + PIN * u64::from(pins))
    }
}

/// One entry of a table: state, link, and `W` words of key and value.
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
    /// Word `index` of key and value.
    #[must_use]
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        // Acquire keeps the check of the generation after it.
        self.words[index].load(Acquire)
    }

    /// Sets word `index`. Only for a layout that fills a slot it was handed.
    #[inline]
    pub fn set_word(&self, index: usize, value: u64) {
        // Release keeps it after the step of the generation.
        self.words[index].store(value, Release);
    }

    /// The half word beside the link: a layout's to use.
    #[must_use]
    #[inline]
    pub fn aux(&self) -> u32 {
        self.aux.load(Acquire)
    }

    /// Sets the half word. Only for a layout that fills a slot it was handed.
    pub fn set_aux(&self, value: u32) {
        self.aux.store(value, Release);
    }

    /// Sets bits of the half word of an entry that the caller has pinned.
    pub(crate) fn set_aux_bits(&self, bits: u32) {
        self.aux.fetch_or(bits, AcqRel);
    }

    /// Copies key and value from `other`, whose entry the caller has claimed. Only for a slot that
    /// he owns.
    pub(crate) fn copy_from(&self, other: &Self) {
        self.set_aux(other.aux());
        (0..W).for_each(|word| self.set_word(word, other.word(word)));
    }

    /// Makes a slot that the caller owns zero, as it was at first.
    pub(super) fn zero(&self) {
        self.set_state(State(0));
        self.set_next(END_OF_FREE);
        self.set_aux(0);
        (0..W).for_each(|word| self.set_word(word, 0));
    }

    /// The state at this moment.
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

    /// Changes the state, which the caller has `seen`, as `to` says, and returns what it was. An error
    /// is the state that `to` left as it is.
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

    /// Sets the state of a slot that the caller owns.
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

    /// Gives a pin back; returns the state before.
    #[inline]
    pub(crate) fn unpin(&self) -> State {
        // Release: the reads through the pin come before the slot's next owner.
        let before = State(self.state.fetch_sub(PIN, Release));
        debug_assert!(before.pins() > 0, "unpinned more often than pinned");
        before
    }

    /// Sets flags of an entry that the caller has pinned or is filling; returns the state before.
    pub(crate) fn set_flags(&self, flags: u64) -> State {
        State(self.state.fetch_or(flags, AcqRel))
    }

    /// Clears flags of an entry that the caller has pinned.
    pub(crate) fn clear_flags(&self, flags: u64) {
        self.state.fetch_and(!flags, AcqRel);
    }

    /// Clears `flag` of an entry that the caller has pinned; says whether this
    /// call cleared it.
    #[inline]
    pub(crate) fn take_flag(&self, flag: u64) -> bool {
        self.state().has(flag) && State(self.state.fetch_and(!flag, AcqRel)).has(flag)
    }

    /// As [`Slot::take_flag`], of the entry `seen`, which the caller need not hold.
    pub(crate) fn take_flag_of(&self, seen: State, flag: u64) -> bool {
        let taken = self.update(self.state(), |state| {
            let has_it = state.is_same_entry(seen) && state.has(flag);
            has_it.then_some(State(state.0 & !flag))
        });
        taken.is_ok()
    }

    /// Waits until nobody has pinned the entry any more, which the caller has made busy, so that
    /// no pins join; false if `gives_up` says so before.
    ///
    /// The wait does not park: it is for pins that last as long as a copy.
    pub(crate) fn wait_unpinned(&self, gives_up: impl Fn() -> bool) -> bool {
        let backoff = Backoff::new();
        // The state is acquired: what was read through the pins comes before what the caller does.
        while self.state().pins() > 0 {
            if gives_up() {
                return false;
            }
            backoff.snooze();
        }
        true
    }

    /// Ends the filling of a busy entry with `pins` for the caller; says whether
    /// somebody is parked on it.
    pub(crate) fn fill(&self, pins: u32) -> bool {
        let busy = self.update(self.state(), |state| {
            debug_assert!(state.has(State::BUSY), "filled twice");
            Some(state.filled(pins))
        });
        busy.is_ok_and(|state| state.has(State::WAITERS))
    }

    /// Notes that somebody will park until the entry `seen` is no longer busy;
    /// false if it is not busy any more.
    pub(crate) fn announce_waiter(&self, seen: State) -> bool {
        let announced = self.update(self.state(), |state| {
            let is_busy = state.is_same_entry(seen) && state.has(State::BUSY);
            is_busy.then_some(state.with(State::WAITERS))
        });
        announced.is_ok()
    }
}
