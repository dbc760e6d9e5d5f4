//! `old`: the implementation in Linux before the rewrite of 2016.
//!
//! # Model
//! `fs/mbcache.c` as of Linux 4.4. One lock guards all data. An entry is in two indexes: by its value, and
//! by its key. The entries that are not held are on one list, in the order of their release. When there are
//! too many entries, the first entry of the list is evicted. A lookup by key and value ([`MbCache::get`])
//! holds the entry exclusively. A search by key holds the entry in shared mode, and so does a deletion of
//! an entry in use. If another thread holds the entry in a conflicting mode, the calling thread parks. All
//! entries have one wait queue, and the release of any entry wakes all threads in the queue.
//!
//! The implementation differs from Linux 4.4 in three respects, as the trait requires. A search skips
//! entries that are not reusable; Linux has done so since the rewrite. A thread that deletes an entry in
//! use does not wait, but holds the entry ([`Deletion::InUse`]) and can call [`Held::wait_unused`]. The
//! limit of entries is never exceeded: an insertion fails instead.
//!
//! # What callers must not do
//! 1. A thread that holds an entry must not call [`MbCache::get`] for it, because the thread would wait for
//!    itself. For the same reason, a thread that holds an entry exclusively must not look it up in any way.
//! 2. Two threads must not each hold an entry exclusively and look up the entry of the other: they would
//!    wait for each other.
//!
//! A caller satisfies both rules if it releases each entry before it looks up the next. The exception is
//! [`MbCache::find_next`], which requires a shared hold. `larder-ext4` satisfies the rules in this way.
//!
//! # Invariants
//! 1. Each entry is once in each index.
//! 2. An entry is on the list of unused entries if and only if it is not held.
//!
//! # Locking
//! `indexes` guards all data, including the holds in the state words of entries. Memory for a new entry is
//! requested before the lock is acquired, since the request may shrink this cache.
//!
//! # Cost
//! An entry takes 40 bytes. A pair of buckets, one in each index, takes 8 bytes. At Linux's limit of
//! entries and number of buckets, the total is 40.5 bytes for each entry.

mod index;

use crate::mbcache::entries::Entries;
use crate::mbcache::list::{ENTRIES_MAX, List};
use crate::mbcache::probe::{Locked, Probe, Touch, place};
use crate::mbcache::{
    Config, Deletion, EntryOperations, Held, Inserted, MbCache, Sizes, Stats, Variant,
};
use crate::shrink::Shrinker;
use crate::sync::{Condvar, Mutex, Relaxed};
use crate::table::{Counters, Growth, Room, Slot, State, Vacant};
use index::Index;
use std::io;
use std::sync::atomic::AtomicU64;

/// The sizes of `old`. `bucket_bytes` is the size of two buckets, one in each index.
pub(crate) const SIZES: Sizes = Sizes {
    entry_bytes: size_of::<Slot<3>>(),
    bucket_bytes: 2 * size_of::<u32>(),
    slots_per_entry: 1,
    spare_slots: 0,
};

/// The variant `old`, described in the [module](self).
#[derive(Debug)]
pub(crate) struct Old<P: Probe> {
    entries: Entries<P, 3>,
    indexes: Mutex<Indexes>,
    released: Condvar,
    counters: Counters,
}

/// The state that the lock guards.
#[derive(Debug)]
struct Indexes {
    by_key: Index,
    by_value: Index,
    unused: List,
    count: u32,
    /// For each thread in `wait_unused`, the entry for which it waits.
    parked: Vec<u32>,
}

impl<P: Probe> Old<P> {
    pub fn new(config: Config, growth: Growth, probe: P) -> io::Result<Self> {
        let limited = Config {
            limit_entries: config.limit_entries.min(ENTRIES_MAX),
            ..config
        };
        Ok(Self {
            entries: Entries::new(SIZES, limited, growth, probe)?,
            indexes: Mutex::new(Indexes {
                by_key: Index::new(config.bits, 0),
                by_value: Index::new(config.bits, 1),
                unused: List::new(0),
                count: 0,
                parked: Vec::new(),
            }),
            released: Condvar::new(),
            counters: Counters::new(),
        })
    }

    fn lock(&self) -> Locked<'_, Indexes, P> {
        Locked::new(&self.indexes, place::GLOBAL, &self.entries.probe)
    }

    fn state(&self, index: u32) -> State {
        self.entries.slot(index).state()
    }

    /// Returns the entry with `key` and `value`.
    fn find(&self, indexes: &Indexes, key: u32, value: u64) -> Option<u32> {
        let mut chain = indexes.by_value.chain(&self.entries.arena, value);
        chain.find(|&index| {
            let slot = self.entries.slot(index);
            slot.aux() == key && slot.word(0) == value
        })
    }

    /// Holds and returns the first reusable entry with `key` after the entry `after`, which the caller must
    /// hold. If `after` is `None`, searches the whole chain.
    fn search(&self, key: u32, after: Option<u32>) -> Option<Held<'_>> {
        let slots = &self.entries.arena;
        let mut indexes = self.lock();
        loop {
            let fits = |index: &u32| {
                slots.slot(*index).aux() == key && self.state(*index).has(State::REUSABLE)
            };
            let found = match after {
                Some(after) => indexes.by_key.after(slots, after).find(fits),
                None => indexes.by_key.chain(slots, key.into()).find(fits),
            };
            let index = found?;
            if !self.state(index).has(State::BUSY) {
                return Some(self.hold(&mut indexes, index));
            }
            indexes = indexes.wait(&self.released);
        }
    }

    /// Holds the entry `index` in shared mode. No thread may hold it exclusively.
    fn hold(&self, indexes: &mut Indexes, index: u32) -> Held<'_> {
        if self.state(index).pins() == 0 {
            indexes.unused.remove(&self.entries.arena, index);
        }
        self.entries.hold(index, State::LIVE);
        self.report(Touch::HoldShared(place::entry(index)));
        self.held(index)
    }

    /// Holds the entry `index` exclusively. No thread may hold it.
    fn hold_exclusive(&self, indexes: &mut Indexes, index: u32) -> Held<'_> {
        indexes.unused.remove(&self.entries.arena, index);
        self.entries.hold(index, State::LIVE);
        self.set_exclusive(index);
        self.held(index)
    }

    /// Marks the entry `index` as held exclusively by the caller.
    fn set_exclusive(&self, index: u32) {
        self.entries.slot(index).set_flags(State::BUSY);
        self.report(Touch::HoldExclusive(place::entry(index)));
    }

    fn held(&self, index: u32) -> Held<'_> {
        Held::new(self, index, self.entries.slot(index))
    }

    fn report(&self, touch: Touch) {
        self.entries.probe.touched(touch);
    }

    /// Allocates a slot for a new entry. If no slot is free, evicts the first unused entry.
    fn allocate(&self) -> Option<Vacant<'_, 3>> {
        loop {
            let vacant = self.entries.take_free();
            if vacant.is_some() || !self.drop_first(self.entries.dropped_for_room()) {
                return vacant;
            }
        }
    }

    /// Makes room for one more entry in the chains of `key` and `value`. Returns false if one of the chains
    /// is full, and all of its entries are held.
    fn make_room(&self, indexes: &mut Indexes, key: u32, value: u64) -> bool {
        let by_key = self.room(&indexes.by_key, key.into());
        self.clear(by_key, indexes) && self.clear(self.room(&indexes.by_value, value), indexes)
    }

    fn room(&self, index: &Index, number: u64) -> Room {
        let Entries {
            arena, chain_max, ..
        } = &self.entries;
        arena.room(index.chain(arena, number), *chain_max)
    }

    /// Evicts the entry that `room` contains, if there is one. Returns false if the chain has no room.
    fn clear(&self, room: Room, indexes: &mut Indexes) -> bool {
        if let Room::Evict(oldest) = room {
            self.remove(indexes, oldest);
            self.entries.dropped_by_limit.fetch_add(1, Relaxed);
        }
        room != Room::None
    }

    /// Evicts the entry that has been unused for the longest time. Returns false if no entry is unused.
    fn drop_first(&self, dropped: &AtomicU64) -> bool {
        let mut indexes = self.lock();
        let Some(index) = indexes.unused.first() else {
            return false;
        };
        self.remove(&mut indexes, index);
        dropped.fetch_add(1, Relaxed);
        true
    }

    /// Removes the entry `index`, which must not be held.
    fn remove(&self, indexes: &mut Indexes, index: u32) {
        indexes.unused.remove(&self.entries.arena, index);
        self.unindex(indexes, index);
        self.entries.claim(index);
        self.entries.free(index);
    }

    fn index(&self, indexes: &mut Indexes, index: u32) {
        let (slots, slot) = (&self.entries.arena, self.entries.slot(index));
        indexes.by_key.add(slots, index, slot.aux().into());
        indexes.by_value.add(slots, index, slot.word(0));
        indexes.count += 1;
    }

    fn unindex(&self, indexes: &mut Indexes, index: u32) {
        let (slots, slot) = (&self.entries.arena, self.entries.slot(index));
        indexes.by_key.remove(slots, index, slot.aux().into());
        indexes.by_value.remove(slots, index, slot.word(0));
        indexes.count -= 1;
    }

    /// Moves the entry in slot `index` to `vacant`. The old slot is then claimed, and no index or list
    /// refers to it. Returns false if the entry is held or was removed.
    fn relocate(&self, index: u32, vacant: Vacant<'_, 3>) -> bool {
        let mut indexes = self.lock();
        let Some(state) = self.entries.claim(index) else {
            return false;
        };
        self.unindex(&mut indexes, index);
        vacant.slot().copy_from(self.entries.slot(index));
        let moved = self.entries.publish(vacant, state.has(State::REUSABLE));
        self.index(&mut indexes, moved);
        indexes.unused.replace(&self.entries.arena, index, moved);
        self.entries.release(moved);
        true
    }
}

impl<P: Probe> Shrinker for Old<P> {
    fn count_objects(&self) -> u64 {
        self.lock().unused.len().into()
    }

    fn scan_objects(&self, count: u64) -> u64 {
        let dropped = &self.entries.dropped_by_shrinker;
        let _ = (0..count).all(|_| self.drop_first(dropped));
        let count = self.lock().count;
        self.entries
            .give_back(count.into(), |index, vacant| self.relocate(index, vacant))
    }
}

impl<P: Probe> EntryOperations for Old<P> {
    // A touch has no effect, since the release of an entry moves the entry to the end of the list anyway.
    fn touch(&self, _: u32) {}

    fn set_reusable(&self, index: u32, reusable: bool) {
        self.entries.set_reusable(index, reusable);
    }

    fn wait_unused(&self, index: u32) {
        let mut indexes = self.lock();
        indexes.parked.push(index);
        let waits = |indexes: &Indexes| {
            let parked = indexes.parked.iter().filter(|&&held| held == index);
            self.state(index).pins() as usize > parked.count()
        };
        while waits(&indexes) {
            indexes = indexes.wait(&self.released);
        }
        let mine = indexes.parked.iter().position(|&held| held == index);
        mine.map(|mine| indexes.parked.swap_remove(mine));
    }

    fn release(&self, index: u32) {
        let mut indexes = self.lock();
        self.report(Touch::Release(place::entry(index)));
        self.entries.slot(index).clear_flags(State::BUSY);
        self.entries.release(index);
        if self.state(index).pins() == 0 {
            let slots = &self.entries.arena;
            indexes.unused.append(slots, index);
        }
        drop(indexes);
        self.released.notify_all();
    }
}

impl<P: Probe> MbCache for Old<P> {
    fn variant(&self) -> Variant {
        Variant::Old
    }

    fn insert(&self, key: u32, value: u64, reusable: bool) -> Inserted {
        let vacant = match self.entries.take_free() {
            Some(vacant) => vacant,
            // If the entry exists, nothing needs to be evicted.
            None if self.find(&self.lock(), key, value).is_some() => return Inserted::Existing,
            None => match self.allocate() {
                Some(vacant) => vacant,
                None => return Inserted::NoRoom,
            },
        };
        let slot = vacant.slot();
        slot.set_aux(key);
        slot.set_word(0, value);
        let mut indexes = self.lock();
        if self.find(&indexes, key, value).is_some() {
            self.entries.free(vacant.into_index());
            return Inserted::Existing;
        }
        if !self.make_room(&mut indexes, key, value) {
            self.entries.free(vacant.into_index());
            return Inserted::NoRoom;
        }
        let index = self.entries.publish(vacant, reusable);
        self.index(&mut indexes, index);
        self.set_exclusive(index);
        drop(indexes);
        self.counters.insert();
        self.release(index);
        Inserted::New
    }

    fn find_first(&self, key: u32) -> Option<Held<'_>> {
        let found = self.search(key, None);
        match found {
            Some(_) => self.counters.hit(1),
            None => self.counters.miss(1),
        }
        found
    }

    fn find_next<'c>(&'c self, held: Held<'c>) -> Option<Held<'c>> {
        self.search(held.key, Some(held.index))
    }

    fn get(&self, key: u32, value: u64) -> Option<Held<'_>> {
        let mut indexes = self.lock();
        loop {
            let index = self.find(&indexes, key, value)?;
            if self.state(index).pins() == 0 {
                return Some(self.hold_exclusive(&mut indexes, index));
            }
            indexes = indexes.wait(&self.released);
        }
    }

    fn delete_or_get(&self, key: u32, value: u64) -> Deletion<'_> {
        let mut indexes = self.lock();
        while let Some(index) = self.find(&indexes, key, value) {
            let state = self.state(index);
            if state.pins() == 0 {
                self.remove(&mut indexes, index);
                break;
            }
            if !state.has(State::BUSY) {
                return Deletion::InUse(self.hold(&mut indexes, index));
            }
            indexes = indexes.wait(&self.released);
        }
        Deletion::Absent
    }

    fn stats(&self) -> Stats {
        let indexes = self.lock();
        let stats = (self.entries).stats(self.counters.sum(), self.counters.inserted());
        Stats {
            entries: indexes.count.into(),
            limit_entries: self.entries.arena.capacity().into(),
            buckets: indexes.by_key.buckets() + indexes.by_value.buckets(),
            bytes: stats.bytes + indexes.by_key.bytes() + indexes.by_value.bytes(),
            ..stats
        }
    }

    fn check_invariants(&self) {
        let indexes = self.lock();
        let slots = &self.entries.arena;
        let keyed = indexes
            .by_key
            .check_invariants(slots, |slot| slot.aux().into());
        let valued = indexes
            .by_value
            .check_invariants(slots, |slot| slot.word(0));
        assert_eq!(
            (keyed, valued),
            (indexes.count, indexes.count),
            "entries in the two indexes"
        );
        indexes.unused.check_invariants(slots);
        let used = indexes.count + slots.count_free();
        assert_eq!(used, slots.touched(), "slots used, free and touched");
    }
}
