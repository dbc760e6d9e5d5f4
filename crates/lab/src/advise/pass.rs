//! The single pass over a trace: counts events, computes the curves of all caches, and collects reads and
//! lookups for later simulations.
//!
//! # Insertions
//! A curve counts the pages or blocks that a cache of each size has to fetch, on demand or by readahead. An insertion of a
//! page or a block is not a use, and does not change the stacks or the clocks. It shows only that the recorded mount
//! fetched the object, perhaps by readahead. A cache of another size fetches the object when a lookup misses. If an
//! insertion were a use, each page that was read ahead would hit at every size. Because it is not a use, the first
//! lookup of such a page is a miss in the curve. So for a recording with readahead, the curve has more misses than the
//! recording. A page that was read ahead and never used is not counted. A page that a
//! program wrote counts at its first lookup, like one that was fetched.
//!
//! An insertion of a name or an inode is a use, because a program has created or found it.
//!
//! # Cost
//! The pass needs at most about 600 MB of memory, whatever the length of the trace: each of the five stacks contains up
//! to two million objects, and if there are more, a sample of them. The example `advise_trace` writes a long trace.

use super::curve::{
    ClockMisses, ClockSimulations, Depths, LruStack, MissCurve, StackLimits, identify,
};
use super::population::Population;
use super::reads::ReadSample;
use super::segment::Segment;
use super::table_sample::TableSample;
use larder_cache::tape::{CacheKind, Operation};
use larder_trace::{Row, TraceEvent};

/// Number of segments into which the trace is divided. All have the same number of events. The bootstrap resamples
/// segments.
pub(super) const SEGMENTS: u64 = 64;

/// The counts of one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) lookups: u64,
    /// The lookups that missed in the recorded cache.
    pub(super) recorded_misses: u64,
    pub(super) inserts: u64,
    pub(super) removals: u64,
}

/// The curves of one kind of object on a mount, where pages and buffers share one pool of memory, and names and inodes
/// have a pool each.
#[derive(Clone, Debug)]
pub(super) struct PoolCurve {
    pub(super) lru: MissCurve,
    pub(super) clock: ClockMisses,
}

impl PoolCurve {
    /// Returns the number of misses in a mount's cache of `size` objects, which evicts by a clock.
    pub(super) fn misses(&self, size: u64) -> f64 {
        self.clock.at(size, |size| self.lru.misses(size))
    }
}

/// The result of the pass.
#[derive(Debug)]
pub(super) struct Observation {
    pub(super) events: u64,
    /// Time from the earliest to the latest event.
    pub(super) recording_ns: u64,
    /// The memory of the recorded mount.
    pub(super) recorded_bytes: u64,
    /// The counts, indexed by cache.
    pub(super) counts: [Counts; 4],
    /// The LRU curve of each cache alone.
    pub(super) curves: [MissCurve; 4],
    /// The curve of each cache in its pool. Pages and buffers share a pool.
    pub(super) pools: [PoolCurve; 4],
    pub(super) segments: Vec<Segment>,
    pub(super) reads: ReadSample,
    pub(super) table_sample: TableSample,
    pub(super) population: Population,
}

/// The state of the pass.
#[derive(Debug)]
pub(super) struct Pass {
    recorded_bytes: u64,
    segment_events: u64,
    /// Number of events that are still to be added to the current segment.
    segment_left: u64,
    events: u64,
    first_ns: u64,
    last_ns: u64,
    counts: [Counts; 4],
    stacks: [LruStack; 4],
    depths: [Depths; 4],
    /// Pages and buffers together.
    frames: LruStack,
    frame_depths: [Depths; 2],
    /// Frames, dentries and inodes.
    clocks: [ClockSimulations; 3],
    segments: Vec<Segment>,
    reads: ReadSample,
    table_sample: TableSample,
    population: Population,
}

impl Pass {
    /// Begins a pass over `events` events, which were recorded with `cache_size_bytes`. `reads` must be empty.
    pub(super) fn new(
        events: u64,
        cache_size_bytes: u64,
        limits: StackLimits,
        reads: ReadSample,
    ) -> Self {
        Self {
            recorded_bytes: cache_size_bytes,
            segment_events: events.div_ceil(SEGMENTS).max(1),
            segment_left: 0,
            events: 0,
            first_ns: u64::MAX,
            last_ns: 0,
            counts: [Counts::default(); 4],
            stacks: std::array::from_fn(|_| LruStack::new(limits)),
            depths: Default::default(),
            frames: LruStack::new(limits),
            frame_depths: Default::default(),
            clocks: std::array::from_fn(|_| ClockSimulations::new()),
            segments: Vec::new(),
            reads,
            table_sample: TableSample::new(events),
            population: Population::new(cache_size_bytes),
        }
    }

    /// Processes the next row.
    #[inline]
    pub(super) fn add_row(&mut self, row: &Row) {
        match row {
            Row::Cache(event) => self.add(event),
            Row::Read(read) => self.reads.add_read(read),
            Row::Path(path) => self.reads.add_path(path),
        }
    }

    fn add(&mut self, event: &TraceEvent) {
        if self.segment_left == 0 {
            self.segment_left = self.segment_events;
            self.segments.push(Segment::default());
        }
        self.segment_left -= 1;
        self.events += 1;
        self.first_ns = self.first_ns.min(event.time_ns);
        self.last_ns = self.last_ns.max(event.time_ns);
        self.reads.add(event);
        self.table_sample.add(event);
        let id = identify(event);
        let counts = &mut self.counts[event.cache as usize];
        match event.operation {
            Operation::Lookup { hit } => {
                counts.lookups += 1;
                counts.recorded_misses += u64::from(!hit);
                self.lookup(event.cache, id);
            }
            Operation::Insert => {
                counts.inserts += 1;
                self.population.insert(event.cache);
                self.insert(event.cache, id);
            }
            Operation::Remove => {
                counts.removals += 1;
                if !self.population.remove(event.cache) {
                    self.remove(event.cache, id);
                }
            }
            Operation::Evict => {
                counts.removals += 1;
                // The object still exists, so a larger cache would keep it.
                self.population.evict(event.cache);
            }
        }
    }

    fn lookup(&mut self, cache: CacheKind, id: u64) {
        let at = cache as usize;
        let own = self.stacks[at].touch(id);
        self.depths[at].add(id, own);
        let shared = if at < 2 {
            let shared = self.frames.touch(id);
            self.frame_depths[at].add(id, shared);
            self.clocks[0].lookup(id, at, shared);
            shared
        } else {
            self.clocks[at - 1].lookup(id, 0, own);
            own
        };
        if let (Some(reference), Some(segment)) = (shared, self.segments.last_mut()) {
            segment.add(cache, reference);
        }
    }

    fn insert(&mut self, cache: CacheKind, id: u64) {
        match cache {
            CacheKind::Page | CacheKind::Buffer => {}
            CacheKind::Dentry | CacheKind::Inode => {
                let at = cache as usize;
                self.stacks[at].touch(id);
                self.clocks[at - 1].insert(id);
            }
        }
    }

    fn remove(&mut self, cache: CacheKind, id: u64) {
        let at = cache as usize;
        self.stacks[at].remove(id);
        if at < 2 {
            self.frames.remove(id);
        }
        self.clocks[at.saturating_sub(1)].remove(id);
    }

    /// Ends the pass.
    pub(super) fn finish(mut self) -> Observation {
        self.reads.finish();
        let curve = |depths: &Depths| MissCurve::new(depths);
        let [page, buffer] = [0, 1].map(|kind| PoolCurve {
            lru: curve(&self.frame_depths[kind]),
            clock: self.clocks[0].misses(kind),
        });
        let [dentry, inode] = [2, 3].map(|at| PoolCurve {
            lru: curve(&self.depths[at]),
            clock: self.clocks[at - 1].misses(0),
        });
        Observation {
            events: self.events,
            recording_ns: self.last_ns.saturating_sub(self.first_ns),
            recorded_bytes: self.recorded_bytes,
            counts: self.counts,
            curves: [0, 1, 2, 3].map(|at| curve(&self.depths[at])),
            pools: [page, buffer, dentry, inode],
            segments: self.segments,
            reads: self.reads,
            table_sample: self.table_sample,
            population: self.population,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::chance::generator;
    use larder_trace::TraceInfo;
    use rand::Rng as _;
    use std::collections::VecDeque;

    fn event(cache: CacheKind, operation: Operation, page: u64) -> TraceEvent {
        TraceEvent {
            time_ns: 0,
            cache,
            operation,
            device: 1,
            inode: if cache == CacheKind::Page { 12 } else { 0 },
            index: page,
            name_hash: 0,
        }
    }

    /// Replays `lookups` of a file of `pages` pages in an LRU cache of `size` pages, by brute force. After a miss, the
    /// cache also fetches those of the next `window` - 1 pages that are missing. Returns the recorded events, and the
    /// number of fetched pages.
    fn recorded(
        cache: CacheKind,
        lookups: &[u64],
        pages: u64,
        size: usize,
        window: u64,
    ) -> (Vec<TraceEvent>, u64) {
        let (mut cached, mut events, mut fetched) = (VecDeque::new(), Vec::new(), 0);
        for page in lookups {
            let hit = cached.contains(page);
            let missing = |one: &u64| !cached.contains(one);
            let fetch: Vec<u64> = if hit {
                Vec::new()
            } else {
                let end = pages.min(page + window);
                (*page..end).filter(missing).collect()
            };
            if !hit {
                events.push(event(cache, Operation::Lookup { hit }, *page));
            }
            for page in fetch {
                if cached.len() == size {
                    let evicted = cached.pop_front().unwrap();
                    events.push(event(cache, Operation::Evict, evicted));
                }
                cached.push_back(page);
                events.push(event(cache, Operation::Insert, page));
                fetched += 1;
            }
            cached.retain(|one| one != page);
            cached.push_back(*page);
            if hit {
                events.push(event(cache, Operation::Lookup { hit }, *page));
            }
        }
        (events, fetched)
    }

    fn observed(events: &[TraceEvent]) -> Observation {
        let reads = ReadSample::new(&TraceInfo::default(), 0, 0);
        let count = events.len() as u64;
        let mut pass = Pass::new(count, 64 << 20, StackLimits::DEFAULT, reads);
        for event in events {
            pass.add_row(&Row::Cache(*event));
        }
        pass.finish()
    }

    const SIZES: [usize; 8] = [16, 50, 99, 100, 149, 150, 199, 400];

    #[test]
    fn curve_with_readahead_counts_fetched_pages() {
        let pages = 200;
        let loops: Vec<u64> = (0..5 * pages).map(|place| place % pages).collect();
        for cache in [CacheKind::Page, CacheKind::Buffer] {
            let (events, _) = recorded(cache, &loops, pages, 64, 16);
            let observation = observed(&events);
            let at = cache as usize;
            for size in SIZES {
                let (_, fetched) = recorded(cache, &loops, pages, size, 16);
                let expected = if size < 200 { 1000 } else { 200 };
                assert_eq!(fetched, expected, "size {size}");
                let size = size as u64;
                for curve in [&observation.curves[at], &observation.pools[at].lru] {
                    let misses = curve.misses(size);
                    assert!(
                        (misses - crate::run_report::as_f64(fetched)).abs() < 0.5,
                        "size {size}: {misses}"
                    );
                }
            }
        }
    }

    #[test]
    fn insertions_do_not_change_the_curve_of_random_lookups() {
        let (pages, mut random) = (200, generator(51, 1));
        let lookups: Vec<u64> = (0..4000).map(|_| random.random_range(0..pages)).collect();
        for (size, window) in [(30, 8), (100, 16), (150, 1)] {
            let (events, _) = recorded(CacheKind::Page, &lookups, pages, size, window);
            let observation = observed(&events);
            for size in SIZES {
                let (_, fetched) = recorded(CacheKind::Page, &lookups, pages, size, 1);
                let misses = observation.pools[0].lru.misses(size as u64);
                assert!(
                    (misses - crate::run_report::as_f64(fetched)).abs() < 0.5,
                    "size {size}: {misses}"
                );
            }
            let is_lookup =
                |event: &&TraceEvent| matches!(event.operation, Operation::Lookup { .. });
            let without: Vec<TraceEvent> = events.iter().filter(is_lookup).copied().collect();
            let without = observed(&without);
            assert_eq!(observation.pools[0].clock, without.pools[0].clock);
        }
    }

    #[test]
    fn insertion_of_a_new_name_is_a_use() {
        let events = [
            event(CacheKind::Dentry, Operation::Insert, 1),
            event(CacheKind::Dentry, Operation::Lookup { hit: true }, 1),
        ];
        let observation = observed(&events);
        assert!(observation.pools[2].misses(128).abs() < 0.5);
    }
}
