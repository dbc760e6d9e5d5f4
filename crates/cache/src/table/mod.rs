//! The hash table of all caches: chained, over a fixed arena of slots.
//!
//! # Model
//! The kernel's `hlist` tables under RCU (`inode_hashtable`, `dentry_hashtable`, the page hash of 2.4),
//! with slot numbers instead of pointers. Instead of RCU's grace period, slots remain slots: they are
//! reused, or become zero, and nothing else.
//!
//! # Correctness of readers without a lock
//! The slot that a reader looks at may be evicted and reused meanwhile. The reader can then see:
//! - *another key in the slot*: the reader compares the state word before and after ([`Table::copy`]),
//!   or pins by a compare-exchange of the state word that it saw before the comparison ([`Table::get`]).
//!   The generation in that word reveals the change;
//! - *another chain after the slot*, or nothing: that chain ends with another bucket's number, so the
//!   reader starts again;
//! - *its own chain, from the front*: slots are inserted at the front only, so the rest of the chain
//!   contains all entries that were in it when the reader started, except for an entry that was replaced
//!   meanwhile ([`Table::replace`]): its new slot is at the front, and the old one is removed. So a
//!   reader that finds nothing checks the front again: if that is the same entry, nothing was inserted.
//!
//! So an entry that stays in the table is always found, and the result is consistent. [`give_back`]
//! describes how entries move to other slots and memory is given back, and [`same_hash`] how entries are
//! found by their hash alone.
//!
//! # Invariants
//! Checked by [`Table::check_invariants`] when there are no writers:
//! 1. A chain ends with the number of its own bucket.
//! 2. Every entry in it hashes to its bucket, and is live.
//! 3. No two entries of a chain have the same key.
//! 4. The chains together have as many entries as are counted.
//!
//! An entry that the clock hand has claimed stays in its chain until the bucket is locked. If an entry
//! of the same key is inserted before that, the insertion removes the old one, so that a tape gets the
//! removal first.
//!
//! # Locking
//! One bucket at a time, for one walk ([`buckets`]). A slot is taken, or evicted elsewhere, before the
//! lock, so locks never nest.
//!
//! # Cost
//! A hit reads the head and the slots up to the wanted one, one cache line each. A pin writes that line.
//! A copy does not, unless the entry was not yet referenced. 4 bytes for each bucket.

mod arena;
mod arena_config;
mod buckets;
mod chain_bound;
mod counters;
mod free_list;
mod give_back;
mod hash;
pub mod histogram;
mod hold;
mod inspect;
mod link;
#[cfg(test)]
mod number;
mod same_hash;
mod shrink;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod slot;
#[cfg(all(test, not(shuttle)))]
pub(crate) mod tests;
mod tree_depths;

pub use arena::{Arena, Charge, Growth, Vacant};
pub use arena_config::ArenaConfig;
pub(crate) use chain_bound::Room;
pub(crate) use counters::Counters;
pub use counters::Counts;
pub(crate) use free_list::FREE_LISTS;
pub(crate) use hash::SeededHash;
pub use hash::{Hash64, HashFunction};
pub use histogram::Histogram;
pub(crate) use hold::{Added, Removed, Taken, Visit};
pub use hold::{Found, Pin};
use link::END_OF_FREE;
pub(crate) use link::Link;
pub use link::NUMBERS;
pub use slot::{Slot, State};
pub use tree_depths::TreeDepths;

use crate::hash::HashKey;
use crate::tape::{CacheKind, Operation, Tape, Tracepoint};
pub(crate) use buckets::{Buckets, Locked};
use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

/// The layout of one kind of entry in a slot of `W` words.
pub trait Layout<const W: usize>: Debug + Send + Sync + 'static {
    /// The key of an entry.
    type Key<'k>;
    /// The input of the hash function, which is stored in the slot.
    type Hashed: Copy + Debug + Into<HashKey>;

    /// Returns the hash input of `key`.
    fn hashed(key: &Self::Key<'_>) -> Self::Hashed;
    /// Returns the hash input of the key in `slot`.
    fn hashed_in(slot: &Slot<W>) -> Self::Hashed;
    /// Returns `key` in the form that a tape gets.
    #[inline]
    fn tape_key(key: &Self::Key<'_>) -> HashKey {
        Self::hashed(key).into()
    }
    /// Returns the key in `slot` in the form that a tape gets.
    fn tape_key_in(slot: &Slot<W>) -> HashKey {
        Self::hashed_in(slot).into()
    }
    /// Returns true if `slot` has `key`. This may be called for a slot that is being changed; any result
    /// is then allowed.
    fn matches(key: &Self::Key<'_>, slot: &Slot<W>) -> bool;
    /// Writes `key` into `slot`.
    fn store(key: &Self::Key<'_>, slot: &Slot<W>);
}

/// A chained hash table with lookups that take no lock.
#[derive(Debug)]
pub struct Table<L: Layout<W>, H, const W: usize> {
    arena: Arc<Arena<W>>,
    buckets: Buckets,
    hash: H,
    counters: Counters,
    tracepoint: Tracepoint,
    layout: PhantomData<L>,
}

/// The result of an insertion with a vacant slot.
#[derive(Debug)]
pub enum Inserted<'a, const W: usize> {
    /// The slot holds the new entry.
    New(u32),
    /// The entry existed already; the slot was freed.
    Existing(Found<'a, W>),
}

impl<L: Layout<W>, H: HashFunction<L::Hashed>, const W: usize> Table<L, H, W> {
    /// Creates a table of 2^`bits` buckets over `arena`. Tables that share an arena need separate bucket
    /// numbers: those of this table start at `first_bucket`.
    ///
    /// # Errors
    /// Those of the kernel, most likely because there is not enough address space.
    pub fn new(arena: Arc<Arena<W>>, bits: u32, first_bucket: u32, hash: H) -> io::Result<Self> {
        Ok(Self {
            arena,
            buckets: Buckets::new(bits, first_bucket)?,
            hash,
            counters: Counters::new(),
            tracepoint: Tracepoint::new(),
            layout: PhantomData,
        })
    }

    /// Returns the arena of the entries.
    #[must_use]
    pub fn arena(&self) -> &Arena<W> {
        &self.arena
    }

    /// Returns the number of buckets.
    #[must_use]
    pub fn bucket_count(&self) -> u32 {
        self.buckets.count()
    }

    /// Reports all further events to `tape`, as a table of `cache`.
    pub fn set_tape(&self, tape: Arc<dyn Tape>, cache: CacheKind) {
        self.tracepoint.enable(tape, cache);
    }

    /// Returns the hash function.
    pub(crate) fn hash(&self) -> &H {
        &self.hash
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.counters.objects()
    }

    /// Returns the number of entries inserted so far. A move does not count.
    pub(crate) fn inserted(&self) -> u64 {
        self.counters.inserted()
    }

    /// Returns the counts of lookups so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.sum()
    }

    /// Takes a slot for a new entry from this table's arena, which must not be shared. If no slot is
    /// left, the clock hand evicts an entry. Returns `None` if all entries are held.
    pub fn take(&self) -> Option<Vacant<'_, W>> {
        self.take_from(|_| {})
    }

    /// Does what [`Table::take`] does, and calls `evicted` with the slot of each evicted entry.
    pub(crate) fn take_from(&self, evicted: impl Fn(u32)) -> Option<Vacant<'_, W>> {
        // The hand passes over this many slots between two checks, so that a few slots are free for the
        // next callers.
        let batch = (self.arena.touched() / 4).clamp(1, 8);
        let mut turns = self.arena.touched() / batch * 2 + 2;
        loop {
            if let Some(vacant) = self.arena.take_free() {
                return Some(vacant);
            }
            turns = turns.checked_sub(1)?;
            self.scan(batch, &evicted);
        }
    }

    /// Moves the clock hand over `count` slots. Calls `evicted` with the slot of each evicted entry, and
    /// returns their number.
    pub(crate) fn scan(&self, count: u32, evicted: impl Fn(u32)) -> u32 {
        self.arena.scan(count, |index, _| {
            evicted(index);
            self.unlink(index);
        })
    }

    /// Finds `key` and pins it. An entry that is busy counts as a hit, since it need not be read again.
    #[inline]
    pub fn get(&self, key: &L::Key<'_>) -> Option<Found<'_, W>> {
        let (found, links) = self.walk(key, |_, index, state| self.arena.pin(index, state));
        self.count(|| L::tape_key(key), found.is_some(), links);
        found
    }

    /// Does what [`Table::get`] does without counting, for a second attempt after a miss.
    #[inline]
    pub fn get_again(&self, key: &L::Key<'_>) -> Option<Found<'_, W>> {
        self.walk(key, |_, index, state| self.arena.pin(index, state))
            .0
    }

    /// Finds `key` and returns the result of `read` for its slot. `read` may see a slot that is being
    /// changed; its result is then dropped and the walk starts again. Writes no shared memory, except
    /// for the first hit since the clock hand passed.
    #[inline]
    pub fn copy<T>(&self, key: &L::Key<'_>, read: impl Fn(&Slot<W>) -> T) -> Option<T> {
        let (found, links) = self.walk(key, |slot, _, state| {
            let value = read(slot);
            let after = slot.state();
            if after == state && state.is_found_again() {
                Visit::Found(value)
            } else {
                Arena::check_copy(slot, state, after).map(|()| value)
            }
        });
        self.count(|| L::tape_key(key), found.is_some(), links);
        found
    }

    /// Prefetches the bucket head of `key`, which will be looked up soon. This is a hint for callers
    /// that know the key well in advance.
    #[inline]
    pub fn prefetch_bucket(&self, key: &L::Key<'_>) {
        self.buckets.prefetch(self.bucket(L::hashed(key)));
    }

    /// The second step, when the head is in the processor's cache: prefetches the first entry of the
    /// chain.
    #[inline]
    pub fn prefetch_entry(&self, key: &L::Key<'_>) {
        if let Link::Slot(index) = self.buckets.first(self.bucket(L::hashed(key))) {
            self.arena.prefetch(index);
        }
    }

    /// The third step, when that entry is in the processor's cache: prefetches the next one if the first
    /// has another key.
    #[inline]
    pub fn prefetch_next(&self, key: &L::Key<'_>) {
        if let Link::Slot(index) = self.buckets.first(self.bucket(L::hashed(key))) {
            let slot = self.arena.slot(index);
            if !L::matches(key, slot)
                && let Link::Slot(next) = slot.next()
            {
                self.arena.prefetch(next);
            }
        }
    }

    /// Returns true if `key` is in the table. Neither counts nor references.
    pub fn contains(&self, key: &L::Key<'_>) -> bool {
        self.walk(key, |_, index, state| {
            self.arena.check_present(index, state)
        })
        .0
        .is_some()
    }

    /// Clears `flag` of the entry of `key`. Returns whether this call cleared it. Neither counts nor
    /// references.
    pub(crate) fn take_flag(&self, key: &L::Key<'_>, flag: u64) -> bool {
        let taken = self.walk(key, |_, index, state| {
            self.arena.take_flag(index, state, flag)
        });
        taken.0.unwrap_or(false)
    }

    /// Finds `key` and makes its entry busy, unless it is busy already. Counts no lookup.
    pub(crate) fn lock(&self, key: &L::Key<'_>) -> Option<Taken> {
        self.walk(key, |_, index, state| self.arena.lock(index, state))
            .0
    }

    /// Inserts `key` with `vacant` unless it is in the table already. The new entry has `flags`; `fill`
    /// writes its value.
    pub fn get_or_insert<'a>(
        &'a self,
        key: &L::Key<'_>,
        vacant: Vacant<'a, W>,
        flags: u64,
        fill: impl FnOnce(&Slot<W>),
    ) -> Inserted<'a, W> {
        let bucket = self.bucket(L::hashed(key));
        let mut locked = self.buckets.lock(bucket);
        if let Some(index) = self.find(&locked, key) {
            loop {
                match self.arena.pin(index, self.arena.slot(index).state()) {
                    Visit::Found(found) => return Inserted::Existing(found),
                    Visit::Pass => break,
                    Visit::Raced => {}
                }
            }
            self.unlink_locked(&mut locked, index);
        }
        L::store(key, vacant.slot());
        fill(vacant.slot());
        Inserted::New(self.push(&mut locked, vacant, flags))
    }

    /// Inserts `key` with `vacant`, and replaces an existing entry of `key`. A reader finds one or the
    /// other. This is for entries that are copied: an entry that is pinned or busy would stay, after the
    /// new one.
    pub fn replace(&self, key: &L::Key<'_>, vacant: Vacant<'_, W>, fill: impl FnOnce(&Slot<W>)) {
        L::store(key, vacant.slot());
        fill(vacant.slot());
        let bucket = self.bucket(L::hashed(key));
        let mut locked = self.buckets.lock(bucket);
        let Some(old) = self.find(&locked, key) else {
            self.push(&mut locked, vacant, 0);
            return;
        };
        // Readers must find the new one before the old one is removed. A tape gets the reverse order.
        let new = Self::link(&mut locked, vacant, 0);
        let is_claimed = self.arena.claim(old).is_some();
        if is_claimed || !self.is_live(old) {
            self.unlink_locked(&mut locked, old);
        }
        self.note_inserted(new);
        if is_claimed {
            drop(locked);
            drop(self.arena.vacant(old));
        }
    }

    /// Removes `key`. Returns false if it is not in the table, or is held.
    pub fn remove(&self, key: &L::Key<'_>) -> bool {
        self.take_out(key).is_some()
    }

    /// Does what [`Table::remove`] does, and returns the state that the entry had.
    pub(crate) fn take_out(&self, key: &L::Key<'_>) -> Option<State> {
        let bucket = self.bucket(L::hashed(key));
        let mut locked = self.buckets.lock(bucket);
        let index = self.find_live(&locked, key)?;
        let state = self.arena.claim(index)?;
        self.unlink_locked(&mut locked, index);
        drop(locked);
        drop(self.arena.vacant(index));
        Some(state)
    }

    /// Removes the slot `index`, which the caller has claimed, from its chain, unless an insertion of
    /// its key has done so.
    pub(crate) fn unlink(&self, index: u32) {
        let slot = self.arena.slot(index);
        let mut locked = self.buckets.lock(self.bucket(L::hashed_in(slot)));
        if slot.next() != END_OF_FREE {
            self.unlink_locked(&mut locked, index);
        }
    }

    /// Removes the busy entry `index`, which the caller did not fill. Returns true if a thread is parked
    /// on it.
    pub(crate) fn abandon(&self, index: u32) -> bool {
        let state = self.arena.claim_busy(index);
        self.unlink(index);
        drop(self.arena.vacant(index));
        state.has(State::WAITERS)
    }

    /// Returns the bucket of a hash input.
    #[inline]
    pub(crate) fn bucket(&self, hashed: L::Hashed) -> u32 {
        self.hash.bucket(hashed, self.buckets.bits())
    }

    #[inline]
    fn count(&self, key: impl FnOnce() -> HashKey, hit: bool, links: u64) {
        if hit {
            self.counters.hit(links);
        } else {
            self.counters.miss(links);
        }
        self.tracepoint.record(Operation::Lookup { hit }, key);
    }

    /// Walks the chain of `key`, and calls `visit` for slots that have it. Returns its result and the
    /// number of links walked, including those of restarted walks.
    #[inline]
    fn walk<T>(
        &self,
        key: &L::Key<'_>,
        visit: impl Fn(&Slot<W>, u32, State) -> Visit<T>,
    ) -> (Option<T>, u64) {
        let bucket = self.bucket(L::hashed(key));
        let mut links = 0;
        'start: loop {
            let first = self.buckets.first(bucket);
            let mut at = first;
            let mut front: Option<(&Slot<W>, State)> = None;
            while let Link::Slot(index) = at {
                let slot = self.arena.slot(index);
                links += 1;
                let state = slot.state();
                if state.has(State::FREE) {
                    // The walk was led into a free list. It would end with a different mark, but may be
                    // long.
                    continue 'start;
                }
                if L::matches(key, slot) {
                    match visit(slot, index, state) {
                        Visit::Found(found) => return (Some(found), links),
                        Visit::Pass => {}
                        Visit::Raced => continue 'start,
                    }
                }
                front = front.or(Some((slot, state)));
                at = slot.next();
            }
            // Nothing was inserted at the front since. The front may be the same slot with another
            // entry, or an entry that was not live yet when the walk passed it.
            let is_same = |(slot, seen): (&Slot<W>, State)| slot.state().is_found_as(seen);
            if at == self.buckets.end(bucket)
                && self.buckets.first(bucket) == first
                && front.is_none_or(is_same)
            {
                return (None, links);
            }
        }
    }

    /// Inserts at the front, where readers can find it.
    fn push(&self, locked: &mut Locked<'_>, vacant: Vacant<'_, W>, flags: u64) -> u32 {
        let index = Self::link(locked, vacant, flags);
        self.note_inserted(index);
        index
    }

    /// Counts the entry in slot `index` of a locked chain, and reports its insertion.
    fn note_inserted(&self, index: u32) {
        self.counters.insert();
        let key = || L::tape_key_in(self.arena.slot(index));
        self.tracepoint.record(Operation::Insert, key);
    }

    /// Links `vacant` at the front. Does not count or report it.
    fn link(locked: &mut Locked<'_>, vacant: Vacant<'_, W>, flags: u64) -> u32 {
        let slot = vacant.slot();
        slot.set_next(locked.first());
        locked.set_first(Link::Slot(vacant.index()));
        slot.set_state(slot.state().with(State::LIVE | flags));
        vacant.into_index()
    }

    /// Returns the slot of `key` in a locked chain. The slot stays there with its key while the lock is
    /// held, but its entry may be evicted at any time.
    fn find(&self, locked: &Locked<'_>, key: &L::Key<'_>) -> Option<u32> {
        self.arena
            .chain(locked.first())
            .find(|&index| L::matches(key, self.arena.slot(index)))
    }

    /// Does what [`Table::find`] does, for an entry that was not evicted before.
    fn find_live(&self, locked: &Locked<'_>, key: &L::Key<'_>) -> Option<u32> {
        self.find(locked, key).filter(|&index| self.is_live(index))
    }

    fn is_live(&self, index: u32) -> bool {
        self.arena.slot(index).state().has(State::LIVE)
    }

    fn unlink_locked(&self, locked: &mut Locked<'_>, index: u32) {
        self.unlink_moved(locked, index);
        self.counters.remove();
        let key = || L::tape_key_in(self.arena.slot(index));
        self.tracepoint.record(Operation::Remove, key);
    }

    /// Does what [`Table::unlink_locked`] does, for an entry that has another slot now.
    fn unlink_moved(&self, locked: &mut Locked<'_>, index: u32) {
        let after = self.arena.slot(index).next();
        if locked.first() == Link::Slot(index) {
            locked.set_first(after);
        } else {
            let before = self
                .arena
                .chain(locked.first())
                .find(|&at| self.arena.slot(at).next() == Link::Slot(index));
            match before {
                Some(before) => self.arena.slot(before).set_next(after),
                None => debug_assert!(false, "slot {index} is not in its chain"),
            }
        }
        // A reader on this slot is on the wrong path, and must detect that.
        self.arena.slot(index).set_next(END_OF_FREE);
    }
}
