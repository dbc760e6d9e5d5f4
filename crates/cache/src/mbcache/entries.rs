//! Entries in an arena, held by pins, whatever finds them and whichever goes first.
//!
//! # Model
//! `struct mb_cache_entry` with `e_refcnt` and its flags, in one slot of [`table`](crate::table): the
//! pins count those who hold the entry; that the cache itself has it is the flag `LIVE`. The key
//! is the slot's half word, the value its first word.
//!
//! # Waiting
//! Who waits until an entry is unused holds it himself. Others who wait for the same do not count, so
//! that two who do never wait for one another; one returns at a time.

use super::probe::{Probe, Touch, place};
use super::sizes::Sizes;
use super::{Config, Held, Holds, Stats};
use crate::table::{Arena, Counts, FREE_LISTS, Growth, Slot, State, Vacant};
use crate::wait::WaitQueues;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The entries of one cache, in slots of `W` words.
#[derive(Debug)]
pub(crate) struct Entries<P: Probe, const W: usize> {
    pub arena: Arc<Arena<W>>,
    pub probe: P,
    /// Entries at most in a chain of those with equal or colliding keys.
    pub chain_max: u32,
    waits: WaitQueues,
    pub dropped_by_limit: AtomicU64,
    pub dropped_by_shrinker: AtomicU64,
}

impl<P: Probe, const W: usize> Entries<P, W> {
    /// Room for entries in slots of these `sizes`, whose memory `growth` accounts for.
    pub fn new(sizes: Sizes, config: Config, growth: Growth, probe: P) -> io::Result<Self> {
        let arena = Arena::new(sizes.slots(config.limit_entries), growth)?;
        Ok(Self {
            chain_max: arena.chain_max(config.bits),
            arena: Arc::new(arena),
            probe,
            waits: WaitQueues::new(),
            dropped_by_limit: AtomicU64::new(0),
            dropped_by_shrinker: AtomicU64::new(0),
        })
    }

    #[inline]
    pub fn slot(&self, index: u32) -> &Slot<W> {
        self.arena.slot(index)
    }

    /// The entry in slot `index`, on which the caller has taken a pin.
    #[inline]
    pub fn held(&self, index: u32) -> Held<'_> {
        self.wrote(index);
        Held::new(self, index, self.slot(index))
    }

    /// A slot for a new entry; `None` if another has to go first.
    pub fn take(&self) -> Option<Vacant<'_, W>> {
        self.wrote_free_list();
        self.arena.take_free()
    }

    /// Makes an entry of `vacant`, held once.
    pub fn publish(&self, vacant: Vacant<'_, W>, reusable: bool) -> u32 {
        let index = vacant.into_index();
        let slot = self.slot(index);
        let flags = if reusable { State::REUSABLE } else { 0 };
        slot.set_state(slot.state().with(State::LIVE | flags).held());
        self.wrote(index);
        index
    }

    /// Holds the entry `index`, which the caller's lock keeps from being reused, if it has `flag`
    /// and is not claimed.
    pub fn hold(&self, index: u32, flag: u64) -> bool {
        let hold = |state: State| (state.can_pin() && state.has(flag)).then(|| state.held());
        self.update(index, hold).is_some()
    }

    /// Takes the entry `index` out of use, so that nobody can hold it any more; returns the state that
    /// it had, unless somebody holds it, or another claimed it.
    pub fn claim(&self, index: u32) -> Option<State> {
        self.update(index, |state| state.can_claim().then(|| state.claimed()))
    }

    fn update(&self, index: u32, to: impl Fn(State) -> Option<State>) -> Option<State> {
        let slot = self.slot(index);
        let before = slot.update(slot.state(), to).ok()?;
        self.wrote(index);
        Some(before)
    }

    /// Gives back the slot of an entry that the caller has claimed, and that nothing leads to.
    pub fn free(&self, index: u32) {
        self.wrote_free_list();
        drop(self.arena.vacant(index));
    }

    /// What counts entries that go so that another has room.
    pub fn dropped_for_room(&self) -> &AtomicU64 {
        if self.arena.touched() == self.arena.capacity() {
            &self.dropped_by_limit
        } else {
            &self.dropped_by_shrinker
        }
    }

    /// Tells the probe that the head of the free list of the processor was written.
    #[inline]
    pub fn wrote_free_list(&self) {
        let list = self.probe.processor() % FREE_LISTS;
        self.probe.touched(Touch::Write(place::free_list(list)));
    }

    /// Tells the probe that the line of entry `index` was written.
    #[inline]
    pub fn wrote(&self, index: u32) {
        self.probe.touched(Touch::Write(place::entry(index)));
    }

    /// Gives memory back: as many chunks as slots are free beside the `count` entries that there are,
    /// or those behind the last entry that is held. `relocate` is to move an entry to another slot, unless
    /// it is held, and leave its own claimed; false if it cannot. Returns the frames given back.
    pub fn give_back(&self, count: u64, relocate: impl Fn(u32, Vacant<'_, W>) -> bool) -> u64 {
        let free = u64::from(self.arena.touched()).saturating_sub(count);
        let chunks = u32::try_from(free).unwrap_or(u32::MAX) / self.arena.chunk();
        self.arena.give_back(chunks, relocate).into()
    }

    /// The figures that all variants count alike, with the bytes of the entries alone.
    pub fn stats(&self, counts: Counts, inserted: u64) -> Stats {
        let entry_bytes = size_of::<Slot<W>>() as u64;
        Stats {
            entry_bytes,
            bytes: u64::from(self.arena.touched()) * entry_bytes,
            lookups: counts.lookups(),
            hits: counts.hits,
            inserted,
            dropped_by_limit: self.dropped_by_limit.load(Relaxed),
            dropped_by_shrinker: self.dropped_by_shrinker.load(Relaxed),
            ..Stats::default()
        }
    }
}

impl<P: Probe, const W: usize> Holds for Entries<P, W> {
    #[inline]
    fn touch(&self, index: u32) {
        let slot = self.slot(index);
        // A line that many share is written only if that changes something.
        if !slot.state().has(State::REFERENCED) {
            slot.set_flags(State::REFERENCED);
            self.wrote(index);
        }
    }

    fn set_reusable(&self, index: u32, reusable: bool) {
        let slot = self.slot(index);
        if reusable {
            slot.set_flags(State::REUSABLE);
        } else {
            slot.clear_flags(State::REUSABLE);
        }
        self.wrote(index);
    }

    fn wait_unused(&self, index: u32) {
        self.waits.wait_unused(self.slot(index), index);
    }

    #[inline]
    fn release(&self, index: u32) {
        self.wrote(index);
        if self.slot(index).unpin().has(State::WAITERS) {
            self.waits.wake(index);
        }
    }
}
