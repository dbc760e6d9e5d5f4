//! The entries of a cache, in an arena. They are independent of the search structure and of the eviction
//! order.
//!
//! # Model
//! An entry corresponds to `struct mb_cache_entry`, with its `e_refcnt` and its flags. It occupies one slot
//! of [`table`](crate::table). Each [`Held`] of the entry is a pin of the slot. The flag [`State::LIVE`]
//! records that the entry is in the cache. The key is stored in the slot's half word
//! ([`Slot::aux`]), and the value in its first word.
//!
//! # Waiting
//! A thread that holds an entry can wait until no other thread holds it ([`WaitQueues::wait_unused`]). If
//! several threads wait for one entry, they do not count each other as holders while they wait, so they do
//! not block each other forever. They return one after another: each returns after the previous thread has
//! released the entry.

use super::probe::{Probe, Touch, place};
use super::sizes::Sizes;
use super::{Config, EntryOperations, Held, Stats};
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
    /// The maximum number of entries in one chain of equal or colliding keys.
    pub chain_max: u32,
    waits: WaitQueues,
    pub dropped_by_limit: AtomicU64,
    pub dropped_by_shrinker: AtomicU64,
}

impl<P: Probe, const W: usize> Entries<P, W> {
    /// Creates an arena for the entries of a variant with `sizes`. `growth` accounts for its memory.
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

    /// Returns a guard for the entry in slot `index`. The caller must have pinned the entry.
    #[inline]
    pub fn held(&self, index: u32) -> Held<'_> {
        self.wrote(index);
        Held::new(self, index, self.slot(index))
    }

    /// Returns a free slot for a new entry. Returns `None` if another entry has to be evicted first.
    pub fn take_free(&self) -> Option<Vacant<'_, W>> {
        self.wrote_free_list();
        self.arena.take_free()
    }

    /// Makes the slot `vacant` a live entry, which the caller holds. Returns the number of the slot.
    pub fn publish(&self, vacant: Vacant<'_, W>, reusable: bool) -> u32 {
        let index = vacant.into_index();
        let slot = self.slot(index);
        let flags = if reusable { State::REUSABLE } else { 0 };
        slot.set_state(slot.state().with(State::LIVE | flags).with_pin());
        self.wrote(index);
        index
    }

    /// Holds the entry `index` if it has `flag` and was not claimed. Returns whether the entry is now held
    /// for the caller. The caller must hold the lock of the entry's chain, so that the slot is not reused.
    pub fn hold(&self, index: u32, flag: u64) -> bool {
        let hold = |state: State| (state.can_pin() && state.has(flag)).then(|| state.with_pin());
        self.update(index, hold).is_some()
    }

    /// Claims the entry `index`, so that it can no longer be held. Returns the previous state. Returns
    /// `None` if the entry is held, or if another thread has claimed it.
    pub fn claim(&self, index: u32) -> Option<State> {
        self.update(index, |state| state.can_claim().then(|| state.claimed()))
    }

    fn update(&self, index: u32, to: impl Fn(State) -> Option<State>) -> Option<State> {
        let slot = self.slot(index);
        let before = slot.update(slot.state(), to).ok()?;
        self.wrote(index);
        Some(before)
    }

    /// Frees the slot `index`. The caller must have claimed its entry, and no chain or list may refer to
    /// it.
    pub fn free(&self, index: u32) {
        self.wrote_free_list();
        drop(self.arena.vacant(index));
    }

    /// Returns the counter for entries that are evicted because no slot is free. An arena with its maximum number of
    /// slots cannot grow because of the limit of entries. A smaller one cannot grow because memory is short.
    pub fn dropped_for_room(&self) -> &AtomicU64 {
        if self.arena.touched() == self.arena.capacity() {
            &self.dropped_by_limit
        } else {
            &self.dropped_by_shrinker
        }
    }

    /// Reports to the probe that the head of the calling processor's free list was written.
    #[inline]
    pub fn wrote_free_list(&self) {
        let list = self.probe.processor() % FREE_LISTS;
        self.probe.touched(Touch::Write(place::free_list(list)));
    }

    /// Reports to the probe that the cache line of the entry `index` was written.
    #[inline]
    pub fn wrote(&self, index: u32) {
        self.probe.touched(Touch::Write(place::entry(index)));
    }

    /// Gives back chunks from the end of the arena, but only chunks after the last held entry. It gives back at
    /// most as many chunks as have the number of slots that are free in the whole arena. `count` is the number of entries in the
    /// cache. `relocate` must move the entry in the given slot to the vacant slot, and leave the old slot
    /// claimed. If it cannot move the entry, for example because the entry is held, it must return false.
    /// Returns the number of frames given back.
    pub fn give_back(&self, count: u64, relocate: impl Fn(u32, Vacant<'_, W>) -> bool) -> u64 {
        let free = u64::from(self.arena.touched()).saturating_sub(count);
        let chunks = u32::try_from(free).unwrap_or(u32::MAX) / self.arena.chunk();
        self.arena.give_back(chunks, relocate).into()
    }

    /// Returns the statistics that all variants count in the same way. `bytes` does not include buckets.
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

impl<P: Probe, const W: usize> EntryOperations for Entries<P, W> {
    #[inline]
    fn touch(&self, index: u32) {
        let slot = self.slot(index);
        // Several processors use the cache line, so it is not written if the flag is set already.
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
