//! Counters of table operations. They are cheap enough to be enabled always.
//!
//! # Model
//! Per-CPU counters. Up to 64 threads own a shard each, and count by a plain load and store in a cache
//! line that no other thread writes. All further threads share the last shard and add atomically. The
//! sums are computed when they are requested.
//!
//! # Cost
//! The counters of a table take 8 KiB. Most hits cost a load and a store in a line that stays in the
//! L1 cache. In a loop of random lookups in a table of a million entries, counting takes about 5% to
//! 10% of the time of a lookup that copies. In a lookup that pins, the cost is not measurable.

use crate::thread_number::{NUMBERED, Uncounted, assigned_number, thread_number};
use crossbeam_utils::CachePadded;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counts of one thread. The first link of a lookup that hits is not counted, so that most hits
/// increment only one counter.
#[derive(Debug, Default)]
struct Shard {
    hits: AtomicU64,
    further_links_on_hits: AtomicU64,
    misses: AtomicU64,
    links_on_misses: AtomicU64,
    inserted: AtomicU64,
    removed: AtomicU64,
}

/// Counts of lookups since the table was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Lookups that found their object.
    pub hits: u64,
    /// Lookups that did not find their object.
    pub misses: u64,
    /// Links walked by lookups that hit. Each entry that a lookup examines is one link.
    pub links_on_hits: u64,
    /// Links walked by lookups that missed.
    pub links_on_misses: u64,
}

impl Counts {
    /// Returns the number of lookups.
    #[must_use]
    pub fn lookups(&self) -> u64 {
        self.hits + self.misses
    }

    /// Returns the number of links walked.
    #[must_use]
    pub fn links(&self) -> u64 {
        self.links_on_hits + self.links_on_misses
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            links_on_hits: self.links_on_hits + other.links_on_hits,
            links_on_misses: self.links_on_misses + other.links_on_misses,
        }
    }
}

impl std::ops::Sub for Counts {
    type Output = Self;

    /// Returns the counts since `earlier`.
    fn sub(self, earlier: Self) -> Self {
        Self {
            hits: self.hits - earlier.hits,
            misses: self.misses - earlier.misses,
            links_on_hits: self.links_on_hits - earlier.links_on_hits,
            links_on_misses: self.links_on_misses - earlier.links_on_misses,
        }
    }
}

/// Sharded counters. While a thread has an [`Uncounted`], its lookups are not counted.
#[derive(Debug)]
pub(crate) struct Counters {
    shards: Box<[CachePadded<Shard>; NUMBERED + 1]>,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            shards: Box::new(std::array::from_fn(|_| CachePadded::default())),
        }
    }

    /// Counts a lookup that hit after `links` links. `links` must be at least 1.
    #[inline]
    pub(crate) fn hit(&self, links: u64) {
        self.count_lookup(|shard, add| {
            add(&shard.hits, 1);
            if links > 1 {
                add(&shard.further_links_on_hits, links - 1);
            }
        });
    }

    /// Counts a lookup that missed after `links` links.
    #[inline]
    pub(crate) fn miss(&self, links: u64) {
        self.count_lookup(|shard, add| {
            add(&shard.misses, 1);
            if links > 0 {
                add(&shard.links_on_misses, links);
            }
        });
    }

    /// Counts an insertion.
    pub(crate) fn insert(&self) {
        self.count(|shard, add| add(&shard.inserted, 1));
    }

    /// Counts a removal.
    pub(crate) fn remove(&self) {
        self.count(|shard, add| add(&shard.removed, 1));
    }

    #[inline]
    fn count_lookup(&self, count: impl FnOnce(&Shard, Add)) {
        self.count_unless(Uncounted::is_active, count);
    }

    #[inline]
    fn count(&self, count: impl FnOnce(&Shard, Add)) {
        self.count_unless(|| false, count);
    }

    /// Counts, unless the thread has no number of its own and `is_uncounted` returns true.
    #[inline]
    fn count_unless(&self, is_uncounted: fn() -> bool, count: impl FnOnce(&Shard, Add)) {
        let shard = assigned_number();
        if shard < NUMBERED {
            count(&self.shards[shard], add_owned);
        } else {
            self.count_slow(is_uncounted, count);
        }
    }

    #[cold]
    fn count_slow(&self, is_uncounted: fn() -> bool, count: impl FnOnce(&Shard, Add)) {
        if !is_uncounted() {
            count(&self.shards[thread_number()], add_shared);
        }
    }

    /// Returns the number of insertions.
    pub(crate) fn inserted(&self) -> u64 {
        let shards = self.shards.iter();
        shards.map(|shard| shard.inserted.load(Relaxed)).sum()
    }

    /// Returns the number of insertions minus removals.
    pub(crate) fn objects(&self) -> u64 {
        let shards = self.shards.iter();
        // Removals are summed first. Otherwise, an entry that is inserted and removed while the sums
        // are computed could make the difference too small.
        let removed: u64 = shards.map(|shard| shard.removed.load(Relaxed)).sum();
        self.inserted().saturating_sub(removed)
    }

    /// Returns the counts of lookups of all threads.
    pub(crate) fn sum(&self) -> Counts {
        let mut sum = Counts::default();
        for shard in self.shards.iter() {
            let hits = shard.hits.load(Relaxed);
            sum.hits += hits;
            sum.links_on_hits += hits + shard.further_links_on_hits.load(Relaxed);
            sum.misses += shard.misses.load(Relaxed);
            sum.links_on_misses += shard.links_on_misses.load(Relaxed);
        }
        sum
    }
}

/// A function that adds to a counter.
type Add = fn(&AtomicU64, u64);

/// Adds to a counter that no other thread writes.
#[inline]
fn add_owned(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed) + count, Relaxed);
}

/// Adds to a counter that other threads may write.
fn add_shared(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}
