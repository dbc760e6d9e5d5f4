//! `clock`, Larder's own variant: it finds entries without a lock, and evicts them with a clock hand
//! instead of a list.
//!
//! # Model
//! Entries are in the [`table`](crate::table) that all other caches use. A search walks a chain without a
//! lock, and pins the entry that it finds. Instead of a list in the order of use, a clock hand scans the
//! slots of the arena in a circle. It evicts entries that are not held and were not touched since the hand
//! last passed them.
//!
//! # Locking
//! An insertion, a deletion, or a lookup by key and value ([`MbCache::get`]) locks one bucket while it walks
//! the chain. A search by key takes no lock. A touch, a release, or a change of the reusable flag only writes
//! the state word of the entry.
//!
//! # Cost
//! An entry takes 24 bytes, and a bucket 4. A search and the release of its result each change the state
//! word of the entry by one atomic instruction.

use crate::mbcache::entries::Entries;
use crate::mbcache::probe::{Probe, Touch, place};
use crate::mbcache::{Config, Deletion, Held, Inserted, MbCache, Sizes, Stats, Variant};
use crate::shrink::Shrinker;
use crate::table::{Added, Growth, Hash64, Layout, Pin, Removal, Slot, State, Table, Vacant};
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The sizes of `clock`. A bucket contains the number of its first slot.
pub(crate) const SIZES: Sizes = Sizes {
    entry_bytes: size_of::<Slot<1>>(),
    bucket_bytes: size_of::<u32>(),
    slots_per_entry: 1,
    spare_slots: 0,
};

/// The layout of a slot: the key is the half word, and the value is the word.
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
    type HashInput = u32;

    #[inline]
    fn hash_input(entry: &Entry) -> u32 {
        entry.key
    }

    #[inline]
    fn hash_input_in(slot: &Slot<1>) -> u32 {
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

/// The variant `clock`, described in the module.
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

    /// Allocates a slot for a new entry. If no slot is free, evicts other entries.
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

    /// Calls `change`, and reports to the probe that the bucket of `key` is locked during the call.
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
        // One object is one slot that the hand passes over, so a scan of all objects is a full turn.
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
        // If the entry exists, no slot is necessary, and nothing needs to be evicted.
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
