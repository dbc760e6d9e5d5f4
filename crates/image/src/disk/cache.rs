//! The cache of a disk image: parts of its tables, and decompressed units.
//!
//! Model: a clock, as in the page cache. A hit sets the referenced bit of a part. When memory is needed, the hand clears
//! the bits that it passes, and evicts the first part whose bit is clear. A new part has a clear bit.
//!
//! Invariants:
//! 1. `bytes` is the sum of the lengths of `parts`, with [`ENTRY_BYTES`] for each.
//! 2. `order` contains each key of `parts` exactly once.
//! 3. No key is both in `parts` and in `filling`.
//!
//! Locking: one mutex for all fields. It is never held while the file is read or a unit is decompressed. Several threads
//! that need the same part wait for the first of them (`filled`).

use larder_block::Result;
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// The memory for the entry of a part, in bytes, about.
const ENTRY_BYTES: u64 = 128;

/// What a part contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A part of a table, by its offset in the file.
    Table(u64),
    /// A decompressed unit, by its offset on the disk.
    Unit(u64),
}

/// Parts of tables and units, up to a limit of memory.
#[derive(Debug)]
pub(crate) struct PartCache {
    max_bytes: u64,
    state: Mutex<State>,
    /// Notified when a key is removed from [`State::filling`].
    filled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    parts: HashMap<Key, Part>,
    /// The keys in the order of the clock hand.
    order: VecDeque<Key>,
    bytes: u64,
    /// The keys whose parts a thread reads at present.
    filling: HashSet<Key>,
}

#[derive(Debug)]
struct Part {
    bytes: Arc<[u8]>,
    is_referenced: bool,
}

impl Part {
    fn memory_bytes(&self) -> u64 {
        self.bytes.len() as u64 + ENTRY_BYTES
    }
}

impl State {
    fn get(&mut self, key: Key) -> Option<Arc<[u8]>> {
        let part = self.parts.get_mut(&key)?;
        part.is_referenced = true;
        Some(Arc::clone(&part.bytes))
    }

    /// Inserts a part, and evicts others until all parts have at most `max_bytes`. The new part is kept even if it alone
    /// has more.
    fn insert(&mut self, key: Key, bytes: Arc<[u8]>, max_bytes: u64) {
        let part = Part {
            bytes,
            is_referenced: false,
        };
        let new_bytes = part.memory_bytes();
        while self.bytes + new_bytes > max_bytes
            && let Some(oldest) = self.order.pop_front()
        {
            match self.parts.get_mut(&oldest) {
                Some(part) if part.is_referenced => {
                    part.is_referenced = false;
                    self.order.push_back(oldest);
                }
                _ => {
                    let evicted = self.parts.remove(&oldest);
                    self.bytes -= evicted.map_or(0, |part| part.memory_bytes());
                }
            }
        }
        self.bytes += new_bytes;
        self.parts.insert(key, part);
        self.order.push_back(key);
    }
}

/// A key in [`State::filling`], which is removed when this value is dropped: `fill` has failed or panicked.
struct Filling<'c> {
    cache: &'c PartCache,
    key: Key,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.cache.state.lock().filling.remove(&self.key);
        self.cache.filled.notify_all();
    }
}

impl PartCache {
    /// Creates a cache of `max_bytes`.
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            state: Mutex::default(),
            filled: Condvar::new(),
        }
    }

    /// Returns the part of `key` if it is cached.
    pub(crate) fn get(&self, key: Key) -> Option<Arc<[u8]>> {
        self.state.lock().get(key)
    }

    /// Returns the part of `key`. If it is not cached, calls `fill`, unless another thread already does so.
    ///
    /// # Errors
    /// The error of `fill`. It is not cached.
    pub(crate) fn get_or_fill(
        &self,
        key: Key,
        fill: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Arc<[u8]>> {
        let mut state = self.state.lock();
        loop {
            if let Some(bytes) = state.get(key) {
                return Ok(bytes);
            }
            if state.filling.insert(key) {
                break;
            }
            self.filled.wait(&mut state);
        }
        drop(state);
        let filling = Filling { cache: self, key };
        let bytes: Arc<[u8]> = fill()?.into();
        let mut state = self.state.lock();
        state.insert(key, Arc::clone(&bytes), self.max_bytes);
        state.filling.remove(&key);
        drop(state);
        self.filled.notify_all();
        // By now, another thread may fill the same part again.
        std::mem::forget(filling);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_block::Error;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Checks the invariants 1 to 3.
    fn check(cache: &PartCache) {
        let state = cache.state.lock();
        let bytes: u64 = state.parts.values().map(Part::memory_bytes).sum();
        assert_eq!(state.bytes, bytes);
        let in_order: HashSet<Key> = state.order.iter().copied().collect();
        assert_eq!(in_order.len(), state.order.len());
        assert_eq!(in_order, state.parts.keys().copied().collect());
        assert!(state.filling.is_disjoint(&in_order));
    }

    fn fill(cache: &PartCache, number: u64) {
        let bytes = cache.get_or_fill(Key::Unit(number), || Ok(vec![7; 1000]));
        assert_eq!(bytes.unwrap().len(), 1000);
        check(cache);
    }

    #[test]
    fn parts_that_are_used_again_stay_cached() {
        let cache = PartCache::new(4 * (1000 + ENTRY_BYTES));
        for number in 0..4 {
            fill(&cache, number);
        }
        assert!(cache.get(Key::Unit(0)).is_some());
        fill(&cache, 4);
        let is_cached = |number| cache.state.lock().parts.contains_key(&Key::Unit(number));
        let cached: Vec<u64> = (0..5).filter(|&number| is_cached(number)).collect();
        assert_eq!(cached, [0, 2, 3, 4]);
    }

    #[test]
    fn part_larger_than_the_cache_is_kept_alone() {
        let cache = PartCache::new(1500);
        fill(&cache, 0);
        let large = cache.get_or_fill(Key::Table(0), || Ok(vec![1; 9000]));
        assert_eq!(large.unwrap().len(), 9000);
        check(&cache);
        assert!(cache.get(Key::Table(0)).is_some());
        assert!(cache.get(Key::Unit(0)).is_none());
    }

    #[test]
    fn failure_is_not_cached() {
        let cache = PartCache::new(1 << 20);
        let failed = cache.get_or_fill(Key::Unit(1), || Err(Error::Cancelled));
        assert!(matches!(failed, Err(Error::Cancelled)));
        check(&cache);
        fill(&cache, 1);
    }

    #[test]
    fn several_threads_fill_a_part_once() {
        const THREADS: usize = 4;
        let cache = PartCache::new(1 << 20);
        let (fills, start) = (AtomicUsize::new(0), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    let bytes = cache.get_or_fill(Key::Unit(0), || {
                        fills.fetch_add(1, Ordering::Relaxed);
                        Ok(vec![3; 10])
                    });
                    assert_eq!(*bytes.unwrap(), [3; 10]);
                });
            }
        });
        assert_eq!(fills.into_inner(), 1);
        check(&cache);
    }
}
