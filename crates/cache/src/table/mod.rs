//! The hash table through which everything cached is found: chained, over a
//! fixed arena of slots.
//!
//! # Model
//! The kernel's `hlist` tables under RCU (`inode_hashtable`, `dentry_hashtable`,
//! the page hash of 2.4), with slot numbers for pointers and, instead of RCU's
//! grace period, slots that stay slots: they are reused, or become zero, nothing else.
//!
//! # How a reader stays right without a lock
//! A reader may stand on a slot while it is evicted and reused. What it can
//! then see is:
//! - *another key in the slot*: it compares the state word before and after
//!   ([`Table::copy`]), or pins by exchanging the state word it saw before the
//!   comparison ([`Table::get`]); the generation in that word gives it away;
//! - *another chain behind the slot*, or nothing: that chain ends in another bucket's
//!   number, so the reader starts again;
//! - *its own chain, from the front*: slots are inserted at the front only, so
//!   what is behind contains all that was there when the reader started, but for an entry that
//!   was replaced meanwhile ([`Table::replace`]): its new slot is in front, and the old one gone.
//!   So who finds nothing looks at the front again: as long as that is the same entry, nothing came.
//!
//! So an entry that stays in the table is always found, and what is found is
//! whole. How it may move to another slot, and memory be given back, [`give_back`] says; how
//! entries are found by their hash alone, [`same_hash`].
//!
//! # Invariants
//! Checked by [`Table::check_invariants`] when nobody writes:
//! 1. A chain ends in its own bucket's number.
//! 2. Every entry in it hashes to its bucket, and is live.
//! 3. No two entries of a chain have the same key.
//! 4. The chains together hold as many entries as are counted.
//!
//! An entry that the clock hand has claimed stays in its chain until that is locked. A new one of the
//! same key that comes meanwhile takes it out, so that a tape is told of its going first.
//!
//! # Locking
//! One bucket at a time, for one walk ([`buckets`]). A slot is taken, or
//! evicted elsewhere, before the lock, so locks never nest.
//!
//! # Cost
//! A hit reads the head and the slots up to the one sought, one cache line each;
//! pinning writes that line, copying does not unless the entry was not yet
//! referenced. 4 bytes a bucket.

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

/// How a kind of entry lies in a slot of `W` words.
pub trait Layout<const W: usize>: Debug + Send + Sync + 'static {
    /// What finds an entry.
    type Key<'k>;
    /// What the hash function gets to see of a key; kept in the slot.
    type Hashed: Copy + Debug + Into<HashKey>;

    /// What the hash function sees of `key`.
    fn hashed(key: &Self::Key<'_>) -> Self::Hashed;
    /// What the hash function saw of the key in `slot`.
    fn hashed_in(slot: &Slot<W>) -> Self::Hashed;
    /// What a tape is told of `key`.
    #[inline]
    fn told(key: &Self::Key<'_>) -> HashKey {
        Self::hashed(key).into()
    }
    /// What a tape is told of the key in `slot`.
    fn told_in(slot: &Slot<W>) -> HashKey {
        Self::hashed_in(slot).into()
    }
    /// Whether `slot` has `key`. May be asked of a slot that is being changed,
    /// and must then return something.
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

/// What became of a slot offered for an entry.
#[derive(Debug)]
pub enum Inserted<'a, const W: usize> {
    /// It holds the entry now.
    New(u32),
    /// The entry was there already; the slot went back.
    Existing(Found<'a, W>),
}

impl<L: Layout<W>, H: HashFunction<L::Hashed>, const W: usize> Table<L, H, W> {
    /// A table of 2^`bits` buckets over `arena`. Tables that share an arena need
    /// bucket numbers of their own: this one's start at `first_bucket`.
    ///
    /// # Errors
    /// The kernel's, for want of address space most likely.
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

    /// The arena that the entries lie in.
    #[must_use]
    pub fn arena(&self) -> &Arena<W> {
        &self.arena
    }

    /// Number of buckets.
    #[must_use]
    pub fn bucket_count(&self) -> u32 {
        self.buckets.count()
    }

    /// Tells `tape` of what happens from now on, as a table of `cache`.
    pub fn set_tape(&self, tape: Arc<dyn Tape>, cache: CacheKind) {
        self.tracepoint.enable(tape, cache);
    }

    /// The hash function.
    pub(crate) fn hash(&self) -> &H {
        &self.hash
    }

    /// Number of entries.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.counters.objects()
    }

    /// Entries inserted so far; one that moves is none.
    pub(crate) fn inserted(&self) -> u64 {
        self.counters.inserted()
    }

    /// What lookups did so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.sum()
    }

    /// A slot to put an entry into, from this table's arena, which it does not
    /// share: where none is left, the clock hand evicts. `None` if all are held.
    pub fn take(&self) -> Option<Vacant<'_, W>> {
        self.take_from(|_| {})
    }

    /// [`Table::take`] that tells `evicted` of each entry that goes, by its slot.
    pub(crate) fn take_from(&self, evicted: impl Fn(u32)) -> Option<Vacant<'_, W>> {
        // What the hand passes over before another look, so that a few slots are
        // free for those who come next.
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

    /// Passes the clock hand over `count` slots. Tells `evicted` of each entry that goes, by its
    /// slot, and returns how many do.
    pub(crate) fn scan(&self, count: u32, evicted: impl Fn(u32)) -> u32 {
        self.arena.scan(count, |index, _| {
            evicted(index);
            self.unlink(index);
        })
    }

    /// Finds `key` and pins it. An entry that is busy counts as a hit: it need
    /// not be read again.
    #[inline]
    pub fn get(&self, key: &L::Key<'_>) -> Option<Found<'_, W>> {
        let (found, links) = self.walk(key, |_, index, state| self.arena.pin(index, state));
        self.count(|| L::told(key), found.is_some(), links);
        found
    }

    /// [`Table::get`] without counting, for a second look after a miss.
    #[inline]
    pub fn get_again(&self, key: &L::Key<'_>) -> Option<Found<'_, W>> {
        self.walk(key, |_, index, state| self.arena.pin(index, state))
            .0
    }

    /// Finds `key` and returns what `read` makes of its slot. `read` may see a
    /// slot that is being changed; then what it returned is dropped and the walk
    /// starts again. Writes nothing that is shared, but for the first hit since
    /// the clock hand passed.
    #[inline]
    pub fn copy<T>(&self, key: &L::Key<'_>, read: impl Fn(&Slot<W>) -> T) -> Option<T> {
        let (found, links) = self.walk(key, |slot, _, state| {
            let value = read(slot);
            let after = slot.state();
            if after == state && state.is_found_again() {
                Visit::Found(value)
            } else {
                Arena::judge_copy(slot, state, after).map(|()| value)
            }
        });
        self.count(|| L::told(key), found.is_some(), links);
        found
    }

    /// Says that `key` will be looked for: a hint, for who knows it well before. Its bucket's head comes
    /// closer to the processor.
    #[inline]
    pub fn prefetch_bucket(&self, key: &L::Key<'_>) {
        self.buckets.prefetch(self.bucket(L::hashed(key)));
    }

    /// The second step, once the head is there: the first entry of the chain comes closer.
    #[inline]
    pub fn prefetch_entry(&self, key: &L::Key<'_>) {
        if let Link::Slot(index) = self.buckets.first(self.bucket(L::hashed(key))) {
            self.arena.prefetch(index);
        }
    }

    /// The third step, once that is there: if it is another's, the entry behind it comes closer.
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

    /// Whether `key` is in the table. Neither counts nor references.
    pub fn contains(&self, key: &L::Key<'_>) -> bool {
        self.walk(key, |_, index, state| self.arena.see(index, state))
            .0
            .is_some()
    }

    /// Clears `flag` of the entry of `key`; says whether this call cleared it.
    /// Neither counts nor references.
    pub(crate) fn take_flag(&self, key: &L::Key<'_>, flag: u64) -> bool {
        let taken = self.walk(key, |_, index, state| {
            self.arena.take_flag(index, state, flag)
        });
        taken.0.unwrap_or(false)
    }

    /// Finds `key` and makes its entry busy, unless it is. Counts no lookup.
    pub(crate) fn lock(&self, key: &L::Key<'_>) -> Option<Taken> {
        self.walk(key, |_, index, state| self.arena.lock(index, state))
            .0
    }

    /// Puts `key` into `vacant` unless it is in the table already. `flags` are
    /// the new entry's; `fill` writes what comes with the key.
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

    /// Puts `key` into `vacant`, in place of the entry that the table has for it
    /// if any; a reader finds the one or the other. For entries that are copied:
    /// one that is pinned or busy would stay, behind the new one.
    pub fn replace(&self, key: &L::Key<'_>, vacant: Vacant<'_, W>, fill: impl FnOnce(&Slot<W>)) {
        L::store(key, vacant.slot());
        fill(vacant.slot());
        let bucket = self.bucket(L::hashed(key));
        let mut locked = self.buckets.lock(bucket);
        let Some(old) = self.find(&locked, key) else {
            self.push(&mut locked, vacant, 0);
            return;
        };
        // Readers find the new one before the old one goes; a tape is told the other way round.
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

    /// Takes `key` out; false if it is not there, or held.
    pub fn remove(&self, key: &L::Key<'_>) -> bool {
        self.take_out(key).is_some()
    }

    /// [`Table::remove`] that returns the state the entry had.
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

    /// Takes the slot `index`, which the caller has claimed, out of its chain, unless a new entry of
    /// its key has done so.
    pub(crate) fn unlink(&self, index: u32) {
        let slot = self.arena.slot(index);
        let mut locked = self.buckets.lock(self.bucket(L::hashed_in(slot)));
        if slot.next() != END_OF_FREE {
            self.unlink_locked(&mut locked, index);
        }
    }

    /// Takes back the busy entry `index`, which the caller was to fill. Returns
    /// whether somebody is parked on it.
    pub(crate) fn abandon(&self, index: u32) -> bool {
        let state = self.arena.claim_busy(index);
        self.unlink(index);
        drop(self.arena.vacant(index));
        state.has(State::WAITERS)
    }

    /// The bucket of what hashes so.
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
        self.tracepoint.tell(Operation::Lookup { hit }, key);
    }

    /// Walks the chain of `key` and lets `visit` judge the slots that have it.
    /// Returns its finding and the links walked, those of false starts too.
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
                    // Led into a free list. It would end in its own mark, but
                    // may be long.
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
            // Nothing was put in front since, where a slot may be the same and its entry another, or
            // where it was when it was passed, but not yet live.
            let is_same = |(slot, seen): (&Slot<W>, State)| slot.state().is_found_as(seen);
            if at == self.buckets.end(bucket)
                && self.buckets.first(bucket) == first
                && front.is_none_or(is_same)
            {
                return (None, links);
            }
        }
    }

    /// Inserts at the front, for readers to see.
    fn push(&self, locked: &mut Locked<'_>, vacant: Vacant<'_, W>, flags: u64) -> u32 {
        let index = Self::link(locked, vacant, flags);
        self.note_inserted(index);
        index
    }

    /// Counts the entry in slot `index` of a locked chain, and tells of it.
    fn note_inserted(&self, index: u32) {
        self.counters.insert();
        let key = || L::told_in(self.arena.slot(index));
        self.tracepoint.tell(Operation::Insert, key);
    }

    /// Puts `vacant` at the front, neither counted nor told of.
    fn link(locked: &mut Locked<'_>, vacant: Vacant<'_, W>, flags: u64) -> u32 {
        let slot = vacant.slot();
        slot.set_next(locked.first());
        locked.set_first(Link::Slot(vacant.index()));
        slot.set_state(slot.state().with(State::LIVE | flags));
        vacant.into_index()
    }

    /// The slot of `key` in a locked chain. It stays there, with its key, as long as the lock is held;
    /// its entry may have been evicted, or be meanwhile.
    fn find(&self, locked: &Locked<'_>, key: &L::Key<'_>) -> Option<u32> {
        self.arena
            .chain(locked.first())
            .find(|&index| L::matches(key, self.arena.slot(index)))
    }

    /// [`Table::find`] of an entry that was not evicted before.
    fn find_live(&self, locked: &Locked<'_>, key: &L::Key<'_>) -> Option<u32> {
        self.find(locked, key).filter(|&index| self.is_live(index))
    }

    fn is_live(&self, index: u32) -> bool {
        self.arena.slot(index).state().has(State::LIVE)
    }

    fn unlink_locked(&self, locked: &mut Locked<'_>, index: u32) {
        self.unlink_moved(locked, index);
        self.counters.remove();
        let key = || L::told_in(self.arena.slot(index));
        self.tracepoint.tell(Operation::Remove, key);
    }

    /// [`Table::unlink_locked`] of an entry that has another slot now.
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
        // Who stands on it has lost his way, and is to know.
        self.arena.slot(index).set_next(END_OF_FREE);
    }
}
