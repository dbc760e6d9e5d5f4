//! `old`: what the rewrite replaced.
//!
//! # Model
//! `fs/mbcache.c` as of Linux 4.4. One lock guards all. An entry is in two indexes: by its value, and
//! by its key. Entries that nobody holds are on one list, in the order in which they were let go; the
//! first goes when there are too many. An entry found by its value ([`MbCache::get`]) is held alone;
//! one found by its key, or that was to be deleted, is held with others who found it so. Who finds it
//! held the other way parks, on one queue for all entries, which everyone who lets go of anything wakes
//! whole.
//!
//! Where the trait promises more than there was: entries that are not reusable are passed by, which
//! came with the rewrite; an entry in use is not waited for in order to delete it, but held
//! ([`Deleted::InUse`]), and waited for by [`Held::wait_unused`]; and there is never one more than the
//! limit, but no room.
//!
//! # What callers must not do
//! With an entry held, ask for the same by its value, or with it held by its value, ask for it at all:
//! they would wait for themselves. Nor may two threads each hold one by its value and ask for the
//! other's. A file system that lets go of each entry before it asks for the next but for
//! [`MbCache::find_next`], as `larder-ext4` does, does neither: whoever waits holds nothing by
//! value, and whoever does waits for nothing.
//!
//! # Invariants
//! 1. Each entry is once in each index.
//! 2. It is on the list of the unused unless it is held.
//!
//! # Locking
//! `indexes` guards all, also the holds in the entries' state words. Memory for a new entry is
//! asked for before it is taken, since whoever has to find some may ask this cache to shrink.
//!
//! # Cost
//! 40 bytes an entry, 8 for a bucket of both indexes: 40.5 together at Linux's limit.

mod index;

use crate::mbcache::entries::Entries;
use crate::mbcache::list::{ENTRIES_MAX, List};
use crate::mbcache::probe::{Locked, Probe, Touch, place};
use crate::mbcache::{Config, Deleted, Held, Holds, Inserted, MbCache, Sizes, Stats, Variant};
use crate::shrink::Shrinker;
use crate::sync::{Condvar, Mutex, Relaxed};
use crate::table::{Counters, Growth, Room, Slot, State, Vacant};
use index::Index;
use std::io;
use std::sync::atomic::AtomicU64;

/// A bucket of each index.
pub(crate) const SIZES: Sizes = Sizes {
    entry_bytes: size_of::<Slot<3>>(),
    bucket_bytes: 2 * size_of::<u32>(),
    slots_per_entry: 1,
    spare_slots: 0,
};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Old<P: Probe> {
    entries: Entries<P, 3>,
    indexes: Mutex<Indexes>,
    let_go: Condvar,
    counters: Counters,
}

/// What the lock guards.
#[derive(Debug)]
struct Indexes {
    by_key: Index,
    by_value: Index,
    unused: List,
    count: u32,
    /// The entries held by those who wait for them to be unused, once for each.
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
            let_go: Condvar::new(),
            counters: Counters::new(),
        })
    }

    fn lock(&self) -> Locked<'_, Indexes, P> {
        Locked::new(&self.indexes, place::GLOBAL, &self.entries.probe)
    }

    fn state(&self, index: u32) -> State {
        self.entries.slot(index).state()
    }

    /// The entry with `key` and `value`.
    fn find(&self, indexes: &Indexes, key: u32, value: u64) -> Option<u32> {
        let mut chain = indexes.by_value.chain(&self.entries.arena, value);
        chain.find(|&index| {
            let slot = self.entries.slot(index);
            slot.aux() == key && slot.word(0) == value
        })
    }

    /// Holds the first reusable entry with `key`: of those behind the entry `after`, which the
    /// caller holds, if there is one.
    fn search(&self, key: u32, after: Option<u32>) -> Option<Held<'_>> {
        let slots = &self.entries.arena;
        let mut indexes = self.lock();
        loop {
            let fits = |index: &u32| {
                slots.slot(*index).aux() == key && self.state(*index).has(State::REUSABLE)
            };
            let found = match after {
                Some(after) => indexes.by_key.behind(slots, after).find(fits),
                None => indexes.by_key.chain(slots, key.into()).find(fits),
            };
            let index = found?;
            if !self.state(index).has(State::BUSY) {
                return Some(self.hold(&mut indexes, index));
            }
            indexes = indexes.wait(&self.let_go);
        }
    }

    /// Holds the entry `index`, which nobody holds alone.
    fn hold(&self, indexes: &mut Indexes, index: u32) -> Held<'_> {
        if self.state(index).pins() == 0 {
            indexes.unused.remove(&self.entries.arena, index);
        }
        self.entries.hold(index, State::LIVE);
        self.tell(Touch::HoldShared(place::entry(index)));
        self.held(index)
    }

    /// Holds the entry `index`, which nobody holds, alone.
    fn hold_alone(&self, indexes: &mut Indexes, index: u32) -> Held<'_> {
        indexes.unused.remove(&self.entries.arena, index);
        self.entries.hold(index, State::LIVE);
        self.set_alone(index);
        self.held(index)
    }

    /// The entry `index` is held by the caller, alone.
    fn set_alone(&self, index: u32) {
        self.entries.slot(index).set_flags(State::BUSY);
        self.tell(Touch::HoldAlone(place::entry(index)));
    }

    fn held(&self, index: u32) -> Held<'_> {
        Held::new(self, index, self.entries.slot(index))
    }

    fn tell(&self, touch: Touch) {
        self.entries.probe.touched(touch);
    }

    /// A slot for a new entry; where there is none left, the first of the unused goes.
    fn take(&self) -> Option<Vacant<'_, 3>> {
        loop {
            let vacant = self.entries.take();
            if vacant.is_some() || !self.drop_first(self.entries.dropped_for_room()) {
                return vacant;
            }
        }
    }

    /// Makes room for one entry more in the chains of its `key` and its `value`; false if one is full
    /// of entries that are held.
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

    /// Drops the entry that is in the way; false if there can be no room.
    fn clear(&self, room: Room, indexes: &mut Indexes) -> bool {
        if let Room::Instead(oldest) = room {
            self.remove(indexes, oldest);
            self.entries.dropped_by_limit.fetch_add(1, Relaxed);
        }
        room != Room::None
    }

    /// Drops the entry that has been unused for longest; false if there is none.
    fn drop_first(&self, dropped: &AtomicU64) -> bool {
        let mut indexes = self.lock();
        let Some(index) = indexes.unused.first() else {
            return false;
        };
        self.remove(&mut indexes, index);
        dropped.fetch_add(1, Relaxed);
        true
    }

    /// Takes out the entry `index`, which nobody holds.
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

    /// Moves the entry in slot `index` to `vacant`, and leaves the slot claimed, with nothing that
    /// leads to it; false if it is held or gone.
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

impl<P: Probe> Holds for Old<P> {
    // Letting go of an entry puts it at the end of the list, used or not.
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
            indexes = indexes.wait(&self.let_go);
        }
        let mine = indexes.parked.iter().position(|&held| held == index);
        mine.map(|mine| indexes.parked.swap_remove(mine));
    }

    fn release(&self, index: u32) {
        let mut indexes = self.lock();
        self.tell(Touch::Release(place::entry(index)));
        self.entries.slot(index).clear_flags(State::BUSY);
        self.entries.release(index);
        if self.state(index).pins() == 0 {
            let slots = &self.entries.arena;
            indexes.unused.append(slots, index);
        }
        drop(indexes);
        self.let_go.notify_all();
    }
}

impl<P: Probe> MbCache for Old<P> {
    fn variant(&self) -> Variant {
        Variant::Old
    }

    fn insert(&self, key: u32, value: u64, reusable: bool) -> Inserted {
        let vacant = match self.entries.take() {
            Some(vacant) => vacant,
            // Nothing need go for what is there.
            None if self.find(&self.lock(), key, value).is_some() => return Inserted::Existing,
            None => match self.take() {
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
        self.set_alone(index);
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
                return Some(self.hold_alone(&mut indexes, index));
            }
            indexes = indexes.wait(&self.let_go);
        }
    }

    fn delete_or_get(&self, key: u32, value: u64) -> Deleted<'_> {
        let mut indexes = self.lock();
        while let Some(index) = self.find(&indexes, key, value) {
            let state = self.state(index);
            if state.pins() == 0 {
                self.remove(&mut indexes, index);
                break;
            }
            if !state.has(State::BUSY) {
                return Deleted::InUse(self.hold(&mut indexes, index));
            }
            indexes = indexes.wait(&self.let_go);
        }
        Deleted::Gone
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
            "in both indexes"
        );
        indexes.unused.check_invariants(slots);
        let used = indexes.count + slots.count_free();
        assert_eq!(used, slots.touched(), "no slot is lost");
    }
}
