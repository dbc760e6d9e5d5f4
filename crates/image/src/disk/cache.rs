//! The cache of a disk image: parts of its tables, and decompressed units.
//!
//! Model: a clock, as in the page cache. A hit sets the referenced bit of a part. When memory is needed, the hand clears
//! the bits that it passes, and evicts the first part whose bit is clear. A new part has a clear bit.
//!
//! Several threads that need the same part wait for the first of them, and return its result. If the first thread has
//! failed, a thread that needs the part later tries again.
//!
//! Invariants:
//! 1. `bytes` is the sum of the lengths of `parts`, with [`ENTRY_BYTES`] for each.
//! 2. `order` contains each key of `parts` exactly once.
//! 3. No key is both in `parts` and in `filling`.
//!
//! Locking: one mutex for all fields. It is never held while the file is read or a unit is decompressed.

use larder_block::{Error, Result};
use larder_cache::sync::{Condvar, Mutex, wait};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

/// The approximate memory for the entry of a part, in bytes.
const ENTRY_BYTES: u64 = 128;

/// What a part contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A part of a table, by its offset in the file.
    Table(u64),
    /// A decompressed unit, by its offset on the disk.
    Unit(u64),
}

/// The bytes of a part.
type Bytes = Arc<Vec<u8>>;

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
    /// The keys whose parts a thread reads at present. The result is set when the key is removed, for the threads that
    /// wait for it.
    filling: HashMap<Key, Arc<OnceLock<Result<Bytes>>>>,
}

#[derive(Debug)]
struct Part {
    bytes: Bytes,
    is_referenced: bool,
}

impl Part {
    fn memory_bytes(&self) -> u64 {
        self.bytes.len() as u64 + ENTRY_BYTES
    }
}

impl State {
    fn get(&mut self, key: Key) -> Option<Bytes> {
        let part = self.parts.get_mut(&key)?;
        part.is_referenced = true;
        Some(Arc::clone(&part.bytes))
    }

    /// Inserts a part, and evicts others until all parts have at most `max_bytes`. The new part is kept even if it alone
    /// has more.
    fn insert(&mut self, key: Key, bytes: Bytes, max_bytes: u64) {
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

/// Returns a copy of the result of a read, for another thread that needs the same part.
fn again(result: &Result<Bytes>) -> Result<Bytes> {
    match result {
        Ok(bytes) => Ok(Arc::clone(bytes)),
        Err(error) => Err(error.again()),
    }
}

/// A key in [`State::filling`]. When this value is dropped, the threads that wait for the part receive `result`.
struct Filling<'c> {
    cache: &'c PartCache,
    key: Key,
    result: Result<Bytes>,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.state.lock();
        if let Ok(bytes) = &self.result {
            state.insert(self.key, Arc::clone(bytes), self.cache.max_bytes);
        }
        if let Some(result) = state.filling.remove(&self.key) {
            // Only this thread sets it.
            let _ = result.set(again(&self.result));
        }
        drop(state);
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
    pub(crate) fn get(&self, key: Key) -> Option<Bytes> {
        self.state.lock().get(key)
    }

    /// Returns the part of `key`. If it is not cached, calls `fill`. If another thread already does so, waits for its
    /// result instead.
    ///
    /// # Errors
    /// The error of `fill`, of this thread or of the other one. It is not cached.
    pub(crate) fn get_or_fill(
        &self,
        key: Key,
        fill: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Bytes> {
        let mut state = self.state.lock();
        if let Some(bytes) = state.get(key) {
            return Ok(bytes);
        }
        if let Some(result) = state.filling.get(&key).cloned() {
            loop {
                if let Some(result) = result.get() {
                    return again(result);
                }
                state = wait(&self.filled, state);
            }
        }
        state.filling.insert(key, Arc::default());
        drop(state);
        let mut filling = Filling {
            cache: self,
            key,
            // If `fill` panics.
            result: Err(Error::Cancelled),
        };
        filling.result = fill().map(Arc::new);
        again(&filling.result)
    }
}

#[cfg(all(test, shuttle))]
mod shuttle_tests;

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Checks the invariants 1 to 3.
    fn check(cache: &PartCache) {
        let state = cache.state.lock();
        let bytes: u64 = state.parts.values().map(Part::memory_bytes).sum();
        assert_eq!(state.bytes, bytes);
        let in_order: HashSet<Key> = state.order.iter().copied().collect();
        assert_eq!(in_order.len(), state.order.len());
        assert_eq!(in_order, state.parts.keys().copied().collect());
        assert!(state.filling.keys().all(|key| !in_order.contains(key)));
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
        let failed = cache.get_or_fill(Key::Unit(1), || Err(Error::ReadOnly));
        assert!(matches!(failed, Err(Error::ReadOnly)));
        check(&cache);
        fill(&cache, 1);
    }

    #[test]
    fn part_can_be_filled_again_after_a_panic() {
        let cache = PartCache::new(1 << 20);
        let panicked = std::thread::scope(|scope| {
            let fill = || cache.get_or_fill(Key::Unit(1), || panic!("expected by the test"));
            scope.spawn(fill).join()
        });
        assert!(panicked.is_err());
        check(&cache);
        fill(&cache, 1);
    }

    /// Calls `get_or_fill` for the same key in [`THREADS`] threads. The first fill returns `result` when the other threads
    /// wait for it. Returns the number of fills, and all results.
    fn fill_by_many(cache: &PartCache, result: &Result<Vec<u8>>) -> (usize, Vec<Result<Bytes>>) {
        const THREADS: usize = 4;
        let key = Key::Unit(0);
        let fills = AtomicUsize::new(0);
        // One reference is that of the map.
        let waiting = || Arc::strong_count(&cache.state.lock().filling[&key]) - 1;
        let fill = || {
            if fills.fetch_add(1, Ordering::Relaxed) == 0 {
                while waiting() < THREADS - 1 {
                    std::thread::yield_now();
                }
            }
            match result {
                Ok(bytes) => Ok(bytes.clone()),
                Err(error) => Err(error.again()),
            }
        };
        let results = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| scope.spawn(|| cache.get_or_fill(key, fill)))
                .collect();
            let results = threads.into_iter().map(|thread| thread.join().unwrap());
            results.collect()
        });
        check(cache);
        (fills.into_inner(), results)
    }

    #[test]
    fn several_threads_fill_a_part_once() {
        let cache = PartCache::new(1 << 20);
        let (fills, results) = fill_by_many(&cache, &Ok(vec![3; 10]));
        assert_eq!(fills, 1);
        for bytes in results {
            assert_eq!(*bytes.unwrap(), [3; 10]);
        }
    }

    #[test]
    fn failed_fill_fails_all_threads_that_wait_for_it() {
        let cache = PartCache::new(1 << 20);
        let (fills, results) = fill_by_many(&cache, &Err(Error::ReadOnly));
        assert_eq!(fills, 1);
        let is_failed = |result: &Result<Bytes>| matches!(result, Err(Error::ReadOnly));
        assert!(results.iter().all(is_failed), "{results:?}");
    }
}
