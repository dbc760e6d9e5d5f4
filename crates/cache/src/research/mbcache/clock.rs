//! `clock`, Larder's own variant: no list, and no lock to find an entry.
//!
//! # Model
//! Entries are in the [`table`](crate::table) that all other caches use. A chain is walked without a
//! lock, and an entry that is found is pinned in place. Instead of a list in the order of use, a
//! clock hand moves over the arena. An entry that was touched since it last passed survives the
//! turn; any other is evicted.
//!
//! # Locking
//! Insertions and deletions lock one bucket, for one walk of its chain. To find, touch, release or
//! mark an entry writes its state word, and takes no lock.
//!
//! # Cost
//! 24 bytes for each entry, and 4 for its bucket. A search that finds an entry at once exchanges its
//! state word once, and the release exchanges it once more.

use crate::mbcache::entries::Entries;
use crate::mbcache::probe::{Probe, Touch, place};
use crate::mbcache::{Config, Deletion, Held, Inserted, MbCache, Sizes, Stats, Variant};
use crate::shrink::Shrinker;
use crate::table::{Added, Growth, Hash64, Layout, Pin, Removal, Slot, State, Table, Vacant};
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A bucket is the number of its first slot.
pub(crate) const SIZES: Sizes = Sizes {
    entry_bytes: size_of::<Slot<1>>(),
    bucket_bytes: size_of::<u32>(),
    slots_per_entry: 1,
    spare_slots: 0,
};

/// The layout of a slot: the key is the half word, the value is the word.
#[derive(Debug)]
struct EntryLayout;

/// A key and a value, which together are unique.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    value: u64,
}

impl Layout<1> for EntryLayout {
    type Key<'k> = Entry;
    type Hashed = u32;

    #[inline]
    fn hashed(entry: &Entry) -> u32 {
        entry.key
    }

    #[inline]
    fn hashed_in(slot: &Slot<1>) -> u32 {
        slot.aux()
    }

    #[inline]
    fn matches(entry: &Entry, slot: &Slot<1>) -> bool {
        slot.aux() == entry.key && slot.word(0) == entry.value
    }

    fn store(entry: &Entry, slot: &Slot<1>) {
        slot.set_aux(entry.key);
        slot.set_word(0, entry.value);
    }
}

/// The variant; see the module.
#[derive(Debug)]
pub(crate) struct Clock<P: Probe> {
    entries: Entries<P, 1>,
    table: Table<EntryLayout, Hash64, 1>,
}

impl<P: Probe> Clock<P> {
    pub fn new(config: Config, growth: Growth, probe: P) -> io::Result<Self> {
        let entries = Entries::new(SIZES, config, growth, probe)?;
        let table = Table::new(Arc::clone(&entries.arena), config.bits, 0, Hash64)?;
        Ok(Self { entries, table })
    }

    /// Returns a slot for a new entry. If no slot is free, evicts other entries.
    fn allocate(&self) -> Option<Vacant<'_, 1>> {
        self.entries.wrote_free_list();
        let dropped = Cell::new(0);
        let vacant = self.table.allocate_evicting(|index| {
            dropped.update(|dropped| dropped + 1);
            self.entries.wrote(index);
        });
        self.entries.wrote_free_list();
        if dropped.get() > 0 {
            let total_dropped = self.entries.dropped_for_room();
            total_dropped.fetch_add(dropped.get(), Relaxed);
        }
        vacant
    }

    fn held(&self, pin: Pin<'_, 1>) -> Held<'_> {
        self.entries.held(pin.into_index())
    }

    /// Reports to the probe that `change` runs with the bucket of `key` locked.
    fn locking<T>(&self, key: u32, change: impl FnOnce() -> T) -> T {
        let bucket = place::bucket(self.table.bucket(key));
        self.entries.probe.touched(Touch::Lock(bucket));
        let changed = change();
        self.entries.probe.touched(Touch::Unlock(bucket));
        changed
    }
}

impl<P: Probe> Shrinker for Clock<P> {
    fn count_objects(&self) -> u64 {
        // All slots that the hand passes over, so that this many steps are a full turn.
        self.entries.arena.touched().into()
    }

    fn scan_objects(&self, count: u64) -> u64 {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let dropped = self.table.scan(count, |index| self.entries.wrote(index));
        self.entries
            .dropped_by_shrinker
            .fetch_add(dropped.into(), Relaxed);
        self.entries
            .give_back(self.table.objects(), |index, vacant| {
                self.entries.wrote(index);
                self.table.relocate(index, vacant)
            })
    }
}

impl<P: Probe> MbCache for Clock<P> {
    fn variant(&self) -> Variant {
        Variant::Clock
    }

    fn insert(&self, key: u32, value: u64, reusable: bool) -> Inserted {
        let entry = Entry { key, value };
        // The first attempt takes no slot: an existing entry needs no eviction.
        if self.table.contains(&entry) {
            return Inserted::Existing;
        }
        let Some(vacant) = self.allocate() else {
            return Inserted::NoRoom;
        };
        let flags = if reusable { State::REUSABLE } else { 0 };
        let evicted = |index| {
            self.entries.dropped_by_limit.fetch_add(1, Relaxed);
            self.entries.wrote(index);
        };
        let most = self.entries.chain_max;
        let added = self.locking(key, || {
            self.table
                .insert_absent(&entry, vacant, flags, most, evicted)
        });
        match added {
            Added::New => Inserted::New,
            Added::Existing => Inserted::Existing,
            Added::NoRoom => Inserted::NoRoom,
        }
    }

    #[inline]
    fn find_first(&self, key: u32) -> Option<Held<'_>> {
        let pin = self.table.find_first(key, State::REUSABLE)?;
        Some(self.held(pin))
    }

    fn find_next<'c>(&'c self, held: Held<'c>) -> Option<Held<'c>> {
        let slot = self.entries.slot(held.index);
        let pin = self.table.find_next(slot, State::REUSABLE)?;
        Some(self.held(pin))
    }

    fn get(&self, key: u32, value: u64) -> Option<Held<'_>> {
        let pin = self.locking(key, || self.table.pin(&Entry { key, value }))?;
        Some(self.held(pin))
    }

    fn delete_or_get(&self, key: u32, value: u64) -> Deletion<'_> {
        let entry = Entry { key, value };
        match self.locking(key, || self.table.remove_or_pin(&entry)) {
            Removal::Removed => {
                self.entries.wrote_free_list();
                Deletion::Absent
            }
            Removal::Absent => Deletion::Absent,
            Removal::Pinned(pin) => Deletion::InUse(self.held(pin)),
        }
    }

    fn stats(&self) -> Stats {
        let stats = (self.entries).stats(self.table.counts(), self.table.inserted());
        let buckets = u64::from(self.table.bucket_count());
        Stats {
            entries: self.table.objects(),
            limit_entries: self.entries.arena.capacity().into(),
            buckets,
            bytes: stats.bytes + buckets * SIZES.bucket_bytes as u64,
            ..stats
        }
    }

    fn check_invariants(&self) {
        let is_same = |a: &Slot<1>, b: &Slot<1>| a.aux() == b.aux() && a.word(0) == b.word(0);
        self.table.check_invariants(is_same);
        let arena = self.table.arena();
        let used = self.table.objects() + u64::from(arena.count_free());
        assert_eq!(
            used,
            u64::from(arena.touched()),
            "slots used, free and touched"
        );
    }
}
