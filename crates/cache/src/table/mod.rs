//! The hash table on which the page, buffer, dentry and inode caches are built.
//!
//! Each cache has tables of its own. Each bucket of a table has a chain of entries, and each entry is stored in a
//! slot of an [`Arena`].
//!
//! # Model
//! The table is modelled on the kernel's hash tables whose readers use RCU (`inode_hashtable`, `dentry_hashtable`), but
//! has slot numbers instead of pointers. RCU delays the reuse of an object until no reader can access it. Here a slot
//! may be reused immediately. A reader can still read the slot safely: the address of a slot stays mapped, and is used
//! only for slots. After the memory of the slot is returned to the kernel, the slot reads as zero.
//!
//! # States of an entry
//! An entry is *live* from its insertion until it is evicted or removed. It is *busy* while one thread
//! fills or changes it, and *pinned* while threads read it in place. An entry is *evictable* if it is live,
//! and not busy, pinned or dirty. A thread *claims* an evictable entry: the entry is then no longer live, and
//! only this thread may reuse its slot. The thread then unlinks the entry, unless an insertion of the same key
//! has already done so.
//!
//! # Correctness of readers without a lock
//! While a reader examines a slot, another thread may evict its entry and reuse the slot. The reader can
//! then encounter:
//! - *another entry in the slot*: each reuse changes the generation in the slot's state word.
//!   [`Table::copy`] compares the generation before and after it reads the slot. [`Table::get`] pins the
//!   entry by a compare-exchange, which fails if the generation changed after the key was compared;
//! - *the slot in another list*: the slot was inserted into another chain or a free list. The last link
//!   of a chain is the number of its bucket. At the end of the other list, the reader does not find the number of
//!   its own bucket, so it starts again;
//! - *the slot at the front of its chain*: the slot was removed, and was inserted into the reader's chain
//!   again. Slots are inserted at the front only, so the slot now precedes all entries that were in the chain
//!   when the reader started, and the reader still finds them. There is one
//!   exception: if [`Table::replace`] meanwhile stores a key in a different slot, the reader can miss this key,
//!   because its new entry precedes the reader's position, and its old entry is already unlinked. Therefore, a
//!   reader that finds nothing examines the front of the chain again. The reader starts again if
//!   another slot is at the front, if the generation of the front slot changed, or if the entry in this slot
//!   has become live, or has ceased to be live.
//!
//! So a reader finds every entry that stays in its slot, and gets a consistent copy or a pin of the entry. To
//! give back the memory of a slot, a thread moves its entry to another slot ([`give_back`]). A reader can miss
//! the entry during the move, because a move, unlike `replace`, claims the old entry before it links the new
//! one. [`same_hash`] describes how entries are found by their hash alone.
//!
//! # Invariants
//! Checked by [`Table::check_invariants`] when there are no writers:
//! 1. A chain ends with the number of its own bucket.
//! 2. Every entry of a chain is live, and its key hashes to the bucket of the chain.
//! 3. No two entries of a chain have the same key.
//! 4. All chains together contain [`Table::objects`] entries.
//!
//! The clock hand claims an entry before it locks the entry's bucket, so a chain may contain a claimed
//! entry for a moment. If a thread then inserts an entry with the same key, the inserting thread unlinks the
//! claimed entry. It reports the removal to the [`Tape`] (a receiver of cache events) before the insertion.
//!
//! # Locking
//! A writer locks one bucket while it walks and changes the chain ([`buckets`]). The slot for a new entry is
//! allocated before the bucket is locked, because the allocation may evict another entry, and so lock
//! another bucket. A thread never holds the locks of two buckets.
//!
//! # Cost
//! A hit reads the bucket head, and all slots of the chain up to the entry. A slot of a page or of a short name
//! takes one cache line, and other slots can take several. A pin writes the first cache line of the entry's
//! slot. A copy writes this line only if the entry was not marked as referenced. A bucket takes 4 bytes.

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
pub(crate) use hold::{Added, LockAttempt, Removal, Visit};
pub use hold::{Found, Pin};
use link::END_OF_FREE;
pub(crate) use link::Link;
pub use link::NUMBER_LIMIT;
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
    /// The input of the hash function for a key. Each slot stores the hash input of its key.
    type HashInput: Copy + Debug + Into<HashKey>;

    /// Returns the input of the hash function for `key`.
    fn hash_input(key: &Self::Key<'_>) -> Self::HashInput;
    /// Returns the input of the hash function for the key in `slot`.
    fn hash_input_in(slot: &Slot<W>) -> Self::HashInput;
    /// Returns `key` in the form in which it is reported to a tape.
    #[inline]
    fn tape_key(key: &Self::Key<'_>) -> HashKey {
        Self::hash_input(key).into()
    }
    /// Returns the key in `slot` in the form in which it is reported to a tape.
    fn tape_key_in(slot: &Slot<W>) -> HashKey {
        Self::hash_input_in(slot).into()
    }
    /// Returns true if the entry in `slot` has `key`. While another thread changes the slot, the method
    /// may return either value.
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
    /// The new entry is in the vacant slot, which has this number.
    New(u32),
    /// An entry with the key existed already. The vacant slot is freed.
    Existing(Found<'a, W>),
}

impl<L: Layout<W>, H: HashFunction<L::HashInput>, const W: usize> Table<L, H, W> {
    /// Creates a table of 2^`bits` buckets over `arena`. The table uses the bucket numbers from
    /// `first_bucket` on. Tables that share an arena must use different bucket numbers.
    ///
    /// # Errors
    /// Returns the kernel's error, most likely because there is not enough address space.
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

    /// Connects `tape`. From then on, the table reports its events to it, as events of `cache`.
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

    /// Returns the number of entries inserted so far. The move of an entry to another slot is not counted.
    pub(crate) fn inserted(&self) -> u64 {
        self.counters.inserted()
    }

    /// Returns the counts of lookups so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.sum()
    }

    /// Allocates a slot for a new entry. If no slot is free, evicts entries with the clock hand. Returns
    /// `None` if no entry could be evicted. The method must not be called if another table shares the
    /// arena.
    pub fn allocate(&self) -> Option<Vacant<'_, W>> {
        self.allocate_evicting(|_| {})
    }

    /// Allocates a slot as [`Table::allocate`] does, and calls `evicted` with the slot number of each
    /// evicted entry.
    pub(crate) fn allocate_evicting(&self, evicted: impl Fn(u32)) -> Option<Vacant<'_, W>> {
        // The hand passes over several slots before the free lists are checked again, so that it also frees
        // slots for the next callers.
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

    /// Moves the clock hand over `count` slots. Calls `evicted` with the slot number of each entry that the
    /// hand evicts. Returns the number of evicted entries.
    pub(crate) fn scan(&self, count: u32, evicted: impl Fn(u32)) -> u32 {
        self.arena.scan(count, |index, _| {
            evicted(index);
            self.unlink(index);
        })
    }

    /// Finds the entry of `key` and pins it. A busy entry is not pinned, but counts as a hit, since
    /// another thread is already filling or changing it.
    #[inline]
    pub fn get(&self, key: &L::Key<'_>) -> Option<Found<'_, W>> {
        let (found, links) = self.walk(key, |_, index, state| self.arena.pin(index, state));
        self.count(|| L::tape_key(key), found.is_some(), links);
        found
    }

    /// Finds and pins an entry as [`Table::get`] does, but counts no lookup. This is for the second
    /// attempt after a miss.
    #[inline]
    pub fn get_again(&self, key: &L::Key<'_>) -> Option<Found<'_, W>> {
        self.walk(key, |_, index, state| self.arena.pin(index, state))
            .0
    }

    /// Finds the entry of `key` and returns the result of `read` for its slot. If the slot is reused while
    /// `read` runs, the result is dropped and the lookup starts again. A hit writes to the slot only if the
    /// entry is not marked as referenced.
    #[inline]
    pub fn copy<T>(&self, key: &L::Key<'_>, read: impl Fn(&Slot<W>) -> T) -> Option<T> {
        let found = self.copy_with_index(key, read);
        found.map(|(_, value)| value)
    }

    /// Finds an entry as [`Table::copy`] does, and also returns the number of its slot.
    #[inline]
    pub(crate) fn copy_with_index<T>(
        &self,
        key: &L::Key<'_>,
        read: impl Fn(&Slot<W>) -> T,
    ) -> Option<(u32, T)> {
        let (found, links) = self.walk(key, |slot, index, state| {
            Arena::copy(slot, state, &read).map(|value| (index, value))
        });
        self.count(|| L::tape_key(key), found.is_some(), links);
        found
    }

    /// Returns the result of `read` for slot `index` if the slot contains the entry of `key`. If so, reports a hit to
    /// the tape. The counters of the table do not include this hit, because no chain is walked.
    #[inline]
    pub(crate) fn copy_at<T>(
        &self,
        index: u32,
        key: &L::Key<'_>,
        read: impl Fn(&Slot<W>) -> T,
    ) -> Option<T> {
        let slot = self.arena.slot(index);
        let state = slot.state();
        if !L::matches(key, slot) {
            return None;
        }
        match Arena::copy(slot, state, &read) {
            Visit::Found(value) => {
                let hit = Operation::Lookup { hit: true };
                self.tracepoint.record(hit, || L::tape_key(key));
                Some(value)
            }
            Visit::Pass | Visit::Raced => None,
        }
    }

    /// Prefetches the bucket head of `key`. This is the first of three steps for a caller that knows the
    /// key some time before it looks the key up.
    #[inline]
    pub fn prefetch_bucket(&self, key: &L::Key<'_>) {
        self.buckets.prefetch(self.bucket(L::hash_input(key)));
    }

    /// Prefetches the first slot in the chain of `key`. This is the second step, when the bucket head is
    /// in the processor's cache.
    #[inline]
    pub fn prefetch_entry(&self, key: &L::Key<'_>) {
        if let Link::Slot(index) = self.buckets.first(self.bucket(L::hash_input(key))) {
            self.arena.prefetch(index);
        }
    }

    /// Prefetches the second slot in the chain of `key`, unless the first has the key. This is the third
    /// step, when the first slot is in the processor's cache.
    #[inline]
    pub fn prefetch_next(&self, key: &L::Key<'_>) {
        if let Link::Slot(index) = self.buckets.first(self.bucket(L::hash_input(key))) {
            let slot = self.arena.slot(index);
            if !L::matches(key, slot)
                && let Link::Slot(next) = slot.next()
            {
                self.arena.prefetch(next);
            }
        }
    }

    /// Returns true if `key` is in the table. Counts no lookup, and does not mark the entry as
    /// referenced.
    pub fn contains(&self, key: &L::Key<'_>) -> bool {
        self.walk(key, |_, index, state| {
            self.arena.check_present(index, state)
        })
        .0
        .is_some()
    }

    /// Returns true if the table contains an entry of `key`, and no thread fills or changes the entry. Counts
    /// no lookup, and does not mark the entry as referenced.
    pub(crate) fn is_uptodate(&self, key: &L::Key<'_>) -> bool {
        let found = self.walk(key, |_, index, state| {
            self.arena.check_uptodate(index, state)
        });
        found.0.unwrap_or(false)
    }

    /// Clears the flag `flag` of the entry of `key`. Returns true if the flag was set and this call cleared
    /// it. Counts no lookup, and does not mark the entry as referenced.
    pub(crate) fn take_flag(&self, key: &L::Key<'_>, flag: u64) -> bool {
        let taken = self.walk(key, |_, index, state| {
            self.arena.take_flag(index, state, flag)
        });
        taken.0.unwrap_or(false)
    }

    /// Finds the entry of `key` and makes it busy, unless it is busy already. Counts no lookup.
    pub(crate) fn lock(&self, key: &L::Key<'_>) -> Option<LockAttempt> {
        self.walk(key, |_, index, state| self.arena.lock(index, state))
            .0
    }

    /// Inserts an entry of `key` in the slot `vacant`, unless `key` is in the table already. The new
    /// entry gets `flags`, and `fill` writes its value into the slot.
    pub fn get_or_insert<'a>(
        &'a self,
        key: &L::Key<'_>,
        vacant: Vacant<'a, W>,
        flags: u64,
        fill: impl FnOnce(&Slot<W>),
    ) -> Inserted<'a, W> {
        let bucket = self.bucket(L::hash_input(key));
        let mut locked = self.buckets.lock(bucket);
        if let Some(index) = self.find(&locked, key) {
            loop {
                match self.arena.pin(index, self.arena.slot(index).state()) {
                    Visit::Found(found) => return Inserted::Existing(found),
                    Visit::Pass => break,
                    Visit::Raced => {}
                }
            }
            // Another thread has claimed the entry to evict it.
            self.remove_from_chain(&mut locked, index, Operation::Evict);
        }
        L::store(key, vacant.slot());
        fill(vacant.slot());
        Inserted::New(self.push(&mut locked, vacant, flags))
    }

    /// Inserts an entry of `key` in the slot `vacant`, and removes an old entry of `key`. At any time a
    /// reader finds the old entry or the new one. Returns the number of the slot.
    ///
    /// May be called only for a table whose entries are never pinned, busy or dirty. A pinned, busy or
    /// dirty old entry could not be claimed, and would stay in the chain after the new one.
    pub fn replace(
        &self,
        key: &L::Key<'_>,
        vacant: Vacant<'_, W>,
        fill: impl FnOnce(&Slot<W>),
    ) -> u32 {
        L::store(key, vacant.slot());
        fill(vacant.slot());
        let bucket = self.bucket(L::hash_input(key));
        let mut locked = self.buckets.lock(bucket);
        let Some(old) = self.find(&locked, key) else {
            return self.push(&mut locked, vacant, 0);
        };
        // The new entry must be linked before the old entry is unlinked, so that readers always find one of
        // them. The removal is nevertheless reported to the tape first.
        let new = Self::link(&mut locked, vacant, 0);
        let is_claimed = self.arena.claim(old).is_some();
        if is_claimed || !self.is_live(old) {
            self.remove_from_chain(&mut locked, old, Operation::Remove);
        }
        self.note_inserted(new);
        if is_claimed {
            drop(locked);
            drop(self.arena.vacant(old));
        }
        new
    }

    /// Removes the entry of `key`. Returns false if `key` is not in the table, or its entry is not
    /// evictable.
    pub fn remove(&self, key: &L::Key<'_>) -> bool {
        self.remove_entry(key).is_some()
    }

    /// Removes the entry of `key`, and returns its last state. Returns `None` if `key` is not in the
    /// table, or its entry is not evictable.
    pub(crate) fn remove_entry(&self, key: &L::Key<'_>) -> Option<State> {
        let bucket = self.bucket(L::hash_input(key));
        let mut locked = self.buckets.lock(bucket);
        let index = self.find_live(&locked, key)?;
        let state = self.arena.claim(index)?;
        self.remove_from_chain(&mut locked, index, Operation::Remove);
        drop(locked);
        drop(self.arena.vacant(index));
        Some(state)
    }

    /// Removes the entry in slot `index` from its chain. The caller must have claimed the entry for its eviction.
    /// Has no effect if an insertion of the same key has removed the entry already.
    pub(crate) fn unlink(&self, index: u32) {
        self.unlink_reporting(index, Operation::Evict);
    }

    /// Removes the entry in slot `index` as [`Self::unlink`] does, and reports `operation`.
    fn unlink_reporting(&self, index: u32, operation: Operation) {
        let slot = self.arena.slot(index);
        let mut locked = self.buckets.lock(self.bucket(L::hash_input_in(slot)));
        if slot.next() != END_OF_FREE {
            self.remove_from_chain(&mut locked, index, operation);
        }
    }

    /// Removes the busy entry in slot `index`, which the caller could not fill. Returns true if a thread
    /// waits for the entry and must be woken.
    pub(crate) fn abandon(&self, index: u32) -> bool {
        let state = self.arena.claim_busy(index);
        self.unlink_reporting(index, Operation::Remove);
        drop(self.arena.vacant(index));
        state.has(State::WAITERS)
    }

    /// Returns the bucket of a hash input.
    #[inline]
    pub(crate) fn bucket(&self, hash_input: L::HashInput) -> u32 {
        self.hash.bucket(hash_input, self.buckets.bits())
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

    /// Walks the chain of `key`, and calls `visit` for each slot with `key` until `visit` returns
    /// [`Visit::Found`]. Returns the value in `Found`, if any, and the number of links walked, including
    /// those before a restart.
    #[inline]
    fn walk<T>(
        &self,
        key: &L::Key<'_>,
        visit: impl Fn(&Slot<W>, u32, State) -> Visit<T>,
    ) -> (Option<T>, u64) {
        let bucket = self.bucket(L::hash_input(key));
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
                    // A slot on the way was reused, and led the walk into a free list. The walk would
                    // detect that at the end of the list, but the list may be long.
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
            // The walk saw the whole chain if nothing was inserted meanwhile. That is so if the same
            // slot is at the front, the slot has the same entry, and this entry did not become live
            // after the walk passed it.
            let is_same = |(slot, seen): (&Slot<W>, State)| slot.state().has_same_liveness(seen);
            if at == self.buckets.end(bucket)
                && self.buckets.first(bucket) == first
                && front.is_none_or(is_same)
            {
                return (None, links);
            }
        }
    }

    /// Inserts the entry in `vacant` at the front of a locked chain. Counts and reports the insertion.
    /// Returns the number of the slot.
    fn push(&self, locked: &mut Locked<'_>, vacant: Vacant<'_, W>, flags: u64) -> u32 {
        let index = Self::link(locked, vacant, flags);
        self.note_inserted(index);
        index
    }

    /// Counts and reports the insertion of the entry in slot `index`, which must be in a locked chain.
    fn note_inserted(&self, index: u32) {
        self.counters.insert();
        let key = || L::tape_key_in(self.arena.slot(index));
        self.tracepoint.record(Operation::Insert, key);
    }

    /// Links `vacant` at the front of a locked chain, so that readers can find its entry. Neither counts
    /// nor reports the insertion.
    fn link(locked: &mut Locked<'_>, vacant: Vacant<'_, W>, flags: u64) -> u32 {
        let slot = vacant.slot();
        slot.set_next(locked.first());
        locked.set_first(Link::Slot(vacant.index()));
        slot.set_state(slot.state().with(State::LIVE | flags));
        vacant.into_index()
    }

    /// Returns the number of the slot of `key` in a locked chain. Until the bucket is unlocked, the slot
    /// stays in the chain and keeps its key, but the clock hand may claim its entry at any time.
    fn find(&self, locked: &Locked<'_>, key: &L::Key<'_>) -> Option<u32> {
        self.arena
            .chain(locked.first())
            .find(|&index| L::matches(key, self.arena.slot(index)))
    }

    /// Returns the number of the slot of `key` in a locked chain, if its entry has not been claimed.
    fn find_live(&self, locked: &Locked<'_>, key: &L::Key<'_>) -> Option<u32> {
        self.find(locked, key).filter(|&index| self.is_live(index))
    }

    fn is_live(&self, index: u32) -> bool {
        self.arena.slot(index).state().has(State::LIVE)
    }

    /// Unlinks slot `index` from a locked chain. Counts the removal of its entry, and reports it as `operation`.
    fn remove_from_chain(&self, locked: &mut Locked<'_>, index: u32, operation: Operation) {
        self.unlink_slot(locked, index);
        self.counters.remove();
        let key = || L::tape_key_in(self.arena.slot(index));
        self.tracepoint.record(operation, key);
    }

    /// Unlinks slot `index` from a locked chain. Neither counts nor reports a removal, since the function
    /// is also used for the old slot of an entry that has moved.
    fn unlink_slot(&self, locked: &mut Locked<'_>, index: u32) {
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
        // A reader that is at this slot must not return a miss. When it reaches `END_OF_FREE`, it starts
        // again.
        self.arena.slot(index).set_next(END_OF_FREE);
    }
}
