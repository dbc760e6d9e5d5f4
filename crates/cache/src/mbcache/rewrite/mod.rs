//! The rewrite of 2016: the default variant `referenced`, and the part that `lru` and `list-lru` share with
//! it.
//!
//! # Model
//! `fs/mbcache.c` as of Linux 4.6, with later fixes. Each entry is in a bucket with a lock, and in an
//! eviction order ([`Order`]), which consists of lists. The eviction of entries depends on their number:
//!
//! | number of entries | what an insertion does |
//! |---|---|
//! | the limit or more | It wakes a worker, which examines entries for eviction. Their number is 1/16 of the limit. |
//! | twice the limit or more | In addition, the insertion itself examines 64 entries for eviction. |
//!
//! The arena has slots for twice the limit and for 64 more entries. If no slot is free, and no memory is left
//! for more slots, an insertion evicts entries until a slot is free. An insertion fails if all entries in the
//! slots are held. It also fails if its chain is full, and all entries of the chain are held.
//!
//! # Insertion and removal of an entry
//! The thread that inserts an entry holds it, adds it to its bucket and then to the order, and releases it. A
//! thread that removes an entry first claims it. This fails if a thread holds the entry. Once the entry is
//! claimed, no thread can hold it any more. The sequence of the following steps depends on the cause:
//!
//! | cause | locked during the claim | removed from |
//! |---|---|---|
//! | deletion, or eviction from a full chain | the bucket | the bucket, then the order |
//! | any other eviction | the list | the list, then the bucket |
//!
//! Finally the thread frees the slot.
//!
//! # Invariants
//! 1. A live entry that is not held is in its bucket and in the order.
//! 2. When no operation is in progress, buckets and order contain the same entries.
//!
//! # Locking
//! A thread locks a bucket or a list, but never both at the same time.
//!
//! # Cost
//! An entry takes 32 bytes, and a bucket 8. A search locks a bucket. Holding or releasing an entry writes its
//! state word.

mod buckets;
mod order;
mod worker;

pub(crate) use order::{Order, Referenced};

use super::entries::Entries;
use super::list::ENTRIES_MAX;
use super::probe::Probe;
use super::{Config, Deletion, EntryOperations, Held, Inserted, MbCache, Sizes, Stats, Variant};
use crate::shrink::Shrinker;
use crate::sync::Relaxed;
use crate::table::{Counters, Growth, Room, Slot, State, Vacant};
use buckets::{Buckets, Chain};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use worker::Worker;

/// The number of entries that the worker examines for each request is the limit divided by this number.
const WORKER_DIVISOR: u32 = 16;

/// The number of entries that an insertion examines when the cache has at least twice its limit of entries.
const INSERT_PASSES: u32 = 64;

/// The sizes of the rewrite. There are slots for twice the limit, plus [`INSERT_PASSES`].
pub(crate) const SIZES: Sizes = Sizes {
    entry_bytes: size_of::<Slot<2>>(),
    bucket_bytes: buckets::BUCKET_BYTES,
    slots_per_entry: 2,
    spare_slots: INSERT_PASSES,
};

/// A variant with the eviction order `O`, described in the [module](self).
#[derive(Debug)]
pub(crate) struct Rewrite<O: Order<P>, P: Probe> {
    worker: Worker<Core<O, P>>,
    core: Arc<Core<O, P>>,
}

/// The part of the variant that the worker accesses.
#[derive(Debug)]
struct Core<O: Order<P>, P: Probe> {
    entries: Entries<P, 2>,
    buckets: Buckets,
    order: O,
    limit: u32,
    counters: Counters,
}

impl<O: Order<P>, P: Probe> Rewrite<O, P> {
    pub fn new(order: O, config: Config, growth: Growth, probe: P) -> io::Result<Self> {
        let limit = config.limit_entries.min(ENTRIES_MAX / 2 - INSERT_PASSES);
        let limited = Config {
            limit_entries: limit,
            ..config
        };
        let core = Arc::new(Core {
            order,
            entries: Entries::new(SIZES, limited, growth, probe)?,
            buckets: Buckets::new(config.bits),
            limit,
            counters: Counters::new(),
        });
        Ok(Self {
            worker: Worker::new(Arc::clone(&core), Core::drop_part),
            core,
        })
    }

    /// Returns true if the worker's thread was started.
    #[cfg(test)]
    pub fn has_worker(&self) -> bool {
        self.worker.is_started()
    }

    /// Returns a slot for a new entry. If there are too many entries, or if no slot is free, evicts entries
    /// or wakes the worker.
    fn make_room(&self) -> Option<Vacant<'_, 2>> {
        let core = &*self.core;
        let count = core.order.count();
        if count >= core.limit {
            self.worker.request();
        }
        if count >= 2 * core.limit {
            core.drop_entries(INSERT_PASSES.into(), &core.entries.dropped_by_limit);
        }
        core.allocate()
    }

    fn held(&self, index: u32) -> Held<'_> {
        Held::new(self, index, self.core.entries.slot(index))
    }
}

impl<O: Order<P>, P: Probe> Core<O, P> {
    /// Locks the bucket of `key`.
    fn chain(&self, key: u32) -> Chain<'_, P> {
        self.buckets.lock(&self.entries, key)
    }

    /// Does the work of the worker: examines a part of the entries for eviction.
    fn drop_part(&self) {
        let part = u64::from(self.limit / WORKER_DIVISOR).max(1);
        self.drop_entries(part, &self.entries.dropped_by_limit);
    }

    /// Examines `count` entries, and evicts those that the order does not spare. Adds the number of evicted
    /// entries to `dropped`.
    fn drop_entries(&self, count: u64, dropped: &AtomicU64) {
        let mut left = count;
        while self.drop_next(&mut left, dropped) {}
    }

    /// Examines up to `left` entries until one is evicted, and decrements `left` for each examined entry.
    /// Returns false if no entry is evicted.
    fn drop_next(&self, left: &mut u64, dropped: &AtomicU64) -> bool {
        let entries = &self.entries;
        let Some(index) = self.order.claim_next(entries, left) else {
            return false;
        };
        let key = entries.slot(index).aux();
        self.chain(key).remove(index);
        entries.free(index);
        dropped.fetch_add(1, Relaxed);
        true
    }

    /// Returns a slot for a new entry. If no slot is free, evicts other entries first.
    fn allocate(&self) -> Option<Vacant<'_, 2>> {
        // The order may have to be scanned twice: the first scan may spare all entries, because they are
        // referenced.
        let mut left = 2 * u64::from(self.order.count());
        loop {
            let vacant = self.entries.take_free();
            if vacant.is_some() || !self.drop_next(&mut left, self.entries.dropped_for_room()) {
                return vacant;
            }
        }
    }

    /// Inserts `vacant`, which must contain a key and a value, as an entry, unless an equal entry exists.
    fn insert(&self, vacant: Vacant<'_, 2>, reusable: bool) -> Inserted {
        let entries = &self.entries;
        let (key, value) = (vacant.slot().aux(), vacant.slot().word(0));
        let mut chain = self.chain(key);
        if chain.find(key, value).is_some() {
            drop(chain);
            entries.free(vacant.into_index());
            return Inserted::Existing;
        }
        let room = chain.make_room();
        if room == Room::None {
            drop(chain);
            entries.free(vacant.into_index());
            return Inserted::NoRoom;
        }
        let index = entries.publish(vacant, reusable);
        chain.push(index);
        drop(chain);
        self.order.add(entries, index);
        self.counters.insert();
        entries.release(index);
        if let Room::Evict(oldest) = room {
            self.order.remove(entries, oldest);
            entries.free(oldest);
            entries.dropped_by_limit.fetch_add(1, Relaxed);
        }
        Inserted::New
    }

    /// Moves the entry in slot `index` to `vacant`. The old slot is then claimed, and no chain or list refers
    /// to it. Returns false if the entry is held, or was removed meanwhile.
    fn relocate(&self, index: u32, vacant: Vacant<'_, 2>) -> bool {
        let entries = &self.entries;
        let slot = entries.slot(index);
        let seen = slot.state();
        if !seen.has(State::LIVE) {
            return false;
        }
        let mut chain = self.chain(slot.aux());
        // If the slot still has the same entry, the locked bucket is the bucket of this entry.
        if !slot.state().is_same_entry(seen) {
            return false;
        }
        let Some(state) = entries.claim(index) else {
            return false;
        };
        vacant.slot().copy_from(slot);
        self.order.init(vacant.slot());
        let moved = entries.publish(vacant, state.has(State::REUSABLE));
        if state.has(State::REFERENCED) {
            entries.slot(moved).set_flags(State::REFERENCED);
        }
        chain.remove(index);
        chain.push(moved);
        drop(chain);
        self.order.replace(entries, index, moved);
        entries.release(moved);
        true
    }
}

impl<O: Order<P>, P: Probe> Shrinker for Rewrite<O, P> {
    fn count_objects(&self) -> u64 {
        self.core.order.count().into()
    }

    fn scan_objects(&self, count: u64) -> u64 {
        let core = &self.core;
        core.drop_entries(count, &core.entries.dropped_by_shrinker);
        core.entries
            .give_back(core.order.count().into(), |index, vacant| {
                core.relocate(index, vacant)
            })
    }
}

impl<O: Order<P>, P: Probe> EntryOperations for Rewrite<O, P> {
    fn touch(&self, index: u32) {
        self.core.order.used(&self.core.entries, index);
    }

    fn set_reusable(&self, index: u32, reusable: bool) {
        self.core.entries.set_reusable(index, reusable);
    }

    fn wait_unused(&self, index: u32) {
        self.core.entries.wait_unused(index);
    }

    fn release(&self, index: u32) {
        self.core.entries.release(index);
    }
}

impl<O: Order<P>, P: Probe> MbCache for Rewrite<O, P> {
    fn variant(&self) -> Variant {
        self.core.order.variant()
    }

    fn insert(&self, key: u32, value: u64, reusable: bool) -> Inserted {
        let core = &*self.core;
        let is_below = core.order.count() < core.limit;
        let vacant = match is_below.then(|| core.entries.take_free()).flatten() {
            Some(vacant) => vacant,
            // If the entry exists, nothing needs to be evicted.
            None if core.chain(key).find(key, value).is_some() => return Inserted::Existing,
            None => match self.make_room() {
                Some(vacant) => vacant,
                None => return Inserted::NoRoom,
            },
        };
        let slot = vacant.slot();
        slot.set_aux(key);
        slot.set_word(0, value);
        core.order.init(slot);
        core.insert(vacant, reusable)
    }

    fn find_first(&self, key: u32) -> Option<Held<'_>> {
        let counters = &self.core.counters;
        let found = self.core.chain(key).hold_reusable(key, None);
        match found {
            Some(_) => counters.hit(1),
            None => counters.miss(1),
        }
        found.map(|index| self.held(index))
    }

    fn find_next<'c>(&'c self, held: Held<'c>) -> Option<Held<'c>> {
        let chain = self.core.chain(held.key);
        let next = chain.hold_reusable(held.key, Some(held.index));
        drop(chain);
        next.map(|index| self.held(index))
    }

    fn get(&self, key: u32, value: u64) -> Option<Held<'_>> {
        let entries = &self.core.entries;
        let chain = self.core.chain(key);
        let found = chain.find(key, value);
        let held = found.filter(|&index| entries.hold(index, State::LIVE));
        held.map(|index| self.held(index))
    }

    fn delete_or_get(&self, key: u32, value: u64) -> Deletion<'_> {
        let entries = &self.core.entries;
        let mut chain = self.core.chain(key);
        while let Some(index) = chain.find(key, value) {
            if entries.claim(index).is_some() {
                chain.remove(index);
                drop(chain);
                self.core.order.remove(entries, index);
                entries.free(index);
                return Deletion::Absent;
            }
            // If the hold fails, the entry was released after the failed claim, and another thread has claimed it. The
            // entry is then looked up again.
            if entries.hold(index, State::LIVE) {
                return Deletion::InUse(self.held(index));
            }
        }
        Deletion::Absent
    }

    fn stats(&self) -> Stats {
        let Core {
            entries,
            buckets,
            order,
            limit,
            counters,
        } = &*self.core;
        // If the worker evicts an entry between these two reads, it can be counted as present and as evicted. If the
        // worker has removed an entry, but not yet counted the eviction, the entry is counted as neither.
        let count = order.count();
        let stats = entries.stats(counters.sum(), counters.inserted());
        Stats {
            entries: count.into(),
            limit_entries: (*limit).into(),
            buckets: buckets.count(),
            bytes: stats.bytes + buckets.bytes() + order.bytes(),
            ..stats
        }
    }

    fn check_invariants(&self) {
        let _paused = self.worker.pause();
        let Core {
            entries,
            buckets,
            order,
            ..
        } = &*self.core;
        order.check_invariants(entries);
        assert_eq!(
            buckets.check_invariants(entries),
            order.count(),
            "entries in the buckets and in the eviction order"
        );
        let used = order.count() + entries.arena.count_free();
        assert_eq!(
            used,
            entries.arena.touched(),
            "slots used, free and touched"
        );
    }
}
