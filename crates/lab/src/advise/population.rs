//! Distinguishes evictions from invalidations.
//!
//! # Model
//! Some traces contain removals, but not their reason. If an object was *evicted* because the recorded cache was
//! full, a larger cache still contains it. If it was *invalidated*, for example because its file was deleted, no
//! cache contains it. A removal is regarded as an eviction if the recorded cache was nearly full at that time: it
//! contained at least 90% of the objects for which the mount has memory. The number of objects in the cache is the
//! number of insertions minus the number of removals.

use larder_cache::budget::{BudgetConfig, Division};
use larder_cache::inode::{InodeCache, RAW_INODE_WORDS};
use larder_cache::tape::CacheKind;

/// Assumed block size of the mounted image: the default of `mke2fs`.
const BLOCK_BYTES: usize = 4096;

/// Number of objects that the caches of a mount can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Pages and buffers, which share the frames.
    pub frames: u64,
    /// Names.
    pub dentries: u64,
    /// Inodes.
    pub inodes: u64,
}

impl Capacity {
    /// Returns the capacity of a mount with `cache_size_bytes` whose arenas contain `dentries` names and `inodes`
    /// inodes, or the maximum number if these are more. An arena that grows takes its memory from frames, which are
    /// retired.
    #[must_use]
    pub fn of(cache_size_bytes: u64, dentries: u64, inodes: u64) -> Self {
        let config = BudgetConfig::new(cache_size_bytes, BLOCK_BYTES);
        let division = Division::new(&config, InodeCache::<RAW_INODE_WORDS>::SLOT_BYTES);
        let (short, long) = (division.short_names, division.long_names);
        let name_slots = u64::from(short.slots) + u64::from(long.slots);
        let inode_slots = u64::from(division.inodes.slots);
        let chunks =
            |objects: u64, chunk: u32| objects.div_ceil(u64::from(chunk.max(1))).saturating_sub(1);
        let retired = chunks(dentries.min(name_slots), short.chunk)
            + chunks(inodes.min(inode_slots), division.inodes.chunk);
        let frames = division.frames;
        let retired = retired.min(u64::from(frames.max_retired));
        Self {
            frames: u64::from(frames.frames) - retired.min(u64::from(frames.frames) - 1),
            dentries: name_slots,
            inodes: inode_slots,
        }
    }
}

/// The number of objects in each recorded cache, as far as the trace contains their insertion.
#[derive(Clone, Debug)]
pub(super) struct Population {
    cache_size_bytes: u64,
    objects: [u64; 4],
    /// The capacity, which is computed again after many changes because the arenas take frames.
    capacity: Capacity,
    changes: u32,
    evictions: u64,
    invalidations: u64,
    exceeds: bool,
    /// Whether the trace contained an eviction, and so distinguishes evictions from other removals.
    records_evictions: bool,
}

/// Number of changes after which the capacity is computed again.
const REFRESH: u32 = 1 << 12;

impl Population {
    pub(super) fn new(cache_size_bytes: u64) -> Self {
        Self {
            cache_size_bytes,
            objects: [0; 4],
            capacity: Capacity::of(cache_size_bytes, 0, 0),
            changes: 0,
            evictions: 0,
            invalidations: 0,
            records_evictions: false,
            exceeds: false,
        }
    }

    fn count(&self, cache: CacheKind) -> u64 {
        self.objects[cache as usize]
    }

    /// Returns the number of objects and the capacity of the memory that `cache` uses.
    fn fill(&self, cache: CacheKind) -> (u64, u64) {
        match cache {
            CacheKind::Page | CacheKind::Buffer => (
                self.count(CacheKind::Page) + self.count(CacheKind::Buffer),
                self.capacity.frames,
            ),
            CacheKind::Dentry => (self.count(cache), self.capacity.dentries),
            CacheKind::Inode => (self.count(cache), self.capacity.inodes),
        }
    }

    pub(super) fn insert(&mut self, cache: CacheKind) {
        self.objects[cache as usize] += 1;
        self.changes += 1;
        if self.changes >= REFRESH {
            self.changes = 0;
            let [dentries, inodes] =
                [CacheKind::Dentry, CacheKind::Inode].map(|one| self.count(one));
            self.capacity = Capacity::of(self.cache_size_bytes, dentries, inodes);
            let (objects, capacity) = self.fill(cache);
            self.exceeds |= objects > capacity + capacity / 8;
        }
    }

    /// Counts an eviction that the trace distinguishes from other removals.
    pub(super) fn evict(&mut self, cache: CacheKind) {
        self.records_evictions = true;
        self.leave(cache);
        self.evictions += 1;
    }

    fn leave(&mut self, cache: CacheKind) {
        let count = &mut self.objects[cache as usize];
        *count = count.saturating_sub(1);
    }

    /// Counts a removal, and returns whether it is regarded as an eviction. If the trace distinguishes evictions from
    /// other removals, the result is always false.
    pub(super) fn remove(&mut self, cache: CacheKind) -> bool {
        let (objects, capacity) = self.fill(cache);
        let is_eviction = !self.records_evictions && objects >= capacity - capacity / 10;
        self.leave(cache);
        if is_eviction {
            self.evictions += 1;
        } else {
            self.invalidations += 1;
        }
        is_eviction
    }

    /// Returns the numbers of removals that were regarded as evictions and as invalidations.
    pub(super) fn removals(&self) -> (u64, u64) {
        (self.evictions, self.invalidations)
    }

    /// Returns whether a recorded cache contained more objects than the assumed memory can hold.
    pub(super) fn exceeds_memory(&self) -> bool {
        self.exceeds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_from_a_full_cache_is_an_eviction() {
        let memory = 4 << 20;
        let frames = Capacity::of(memory, 0, 0).frames;
        assert!((500..1024).contains(&frames), "{frames}");
        let mut population = Population::new(memory);
        for _ in 0..100 {
            population.insert(CacheKind::Page);
        }
        assert!(!population.remove(CacheKind::Page));
        for _ in 0..frames {
            population.insert(CacheKind::Page);
        }
        assert!(population.remove(CacheKind::Page));
        assert!(
            population.remove(CacheKind::Buffer),
            "buffers use the same frames"
        );
        assert!(!population.remove(CacheKind::Inode));
        assert_eq!(population.removals(), (2, 2));
        assert!(!population.exceeds_memory());
        for _ in 0..5 * REFRESH {
            population.insert(CacheKind::Page);
        }
        assert!(population.exceeds_memory());
    }

    #[test]
    fn capacity_grows_with_memory_and_shrinks_with_names() {
        let [small, large] = [64 << 20, 256 << 20].map(|bytes| Capacity::of(bytes, 0, 0));
        assert!(small.frames < large.frames && small.inodes < large.inodes);
        let used = Capacity::of(64 << 20, u64::MAX, u64::MAX);
        assert!(used.frames < small.frames && used.frames > small.frames / 2);
        assert_eq!(used.dentries, small.dentries);
    }
}
