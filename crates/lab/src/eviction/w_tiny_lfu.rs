//! W-TinyLFU: a small LRU window, and a main cache that an object enters only if it was used more often than the
//! object that it would displace. G. Einziger, R. Friedman and B. Manes, "`TinyLFU`: A Highly Efficient Cache
//! Admission Policy", ACM Transactions on Storage 13(4), 2017.
//!
//! # Model
//! The window has 1% of the capacity. The main cache is a segmented LRU: an object enters the probation
//! segment, which has a fifth of the main cache, and moves to the protected segment at the next use. All accesses are
//! counted. The counters are halved after ten accesses for each object of the capacity.
//!
//! The window first grows to the whole capacity. At the first eviction, objects move from the window to the main cache
//! until the main cache is full.

use super::access::{Access, Object, Policy};
use super::frequency::Frequency;
use super::lists::Lists;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

/// The number of accesses, for each object of the capacity, after which the counters are halved.
const SAMPLE: usize = 10;

/// A cache with the policy W-TinyLFU.
#[derive(Debug)]
pub(super) struct WTinyLfu {
    capacity: usize,
    main_capacity: usize,
    lists: Lists<3>,
    frequency: Frequency,
    /// The number of accesses since the counters were halved.
    sampled: usize,
}

impl WTinyLfu {
    pub fn new(capacity: usize, objects: usize) -> Self {
        let main_capacity = capacity - (capacity / 100).max(1);
        Self {
            capacity,
            main_capacity,
            lists: Lists::new(objects),
            frequency: Frequency::new(capacity),
            sampled: 0,
        }
    }

    /// Counts an access.
    fn count(&mut self, object: Object) {
        self.frequency.add(object);
        self.sampled += 1;
        if self.sampled == SAMPLE * self.capacity {
            self.sampled = 0;
            self.frequency.halve();
        }
    }

    fn main_len(&self) -> usize {
        self.lists.len(PROBATION) + self.lists.len(PROTECTED)
    }

    fn probation_capacity(&self) -> usize {
        self.main_capacity / 5
    }

    fn protected_capacity(&self) -> usize {
        self.main_capacity * 4 / 5
    }

    /// Uses an object of the main cache.
    fn use_main(&mut self, object: Object) {
        self.lists.push(PROTECTED, object);
        if self.lists.len(PROTECTED) > self.protected_capacity()
            && let Some(oldest) = self.lists.pop(PROTECTED)
        {
            self.lists.push(PROBATION, oldest);
        }
    }

    /// Adds an object to the main cache, which must not be full.
    fn insert_main(&mut self, object: Object) {
        let has_probation_room = self.lists.len(PROBATION) < self.probation_capacity();
        let has_protected_room = self.lists.len(PROTECTED) < self.protected_capacity();
        let segment = if has_probation_room || !has_protected_room {
            PROBATION
        } else {
            PROTECTED
        };
        self.lists.push(segment, object);
    }

    /// Returns the object that the main cache would evict.
    fn main_victim(&self) -> Option<Object> {
        let probation = self.lists.tail(PROBATION);
        probation.or_else(|| self.lists.tail(PROTECTED))
    }

    /// Evicts an object of the full cache. The window is not empty, because the main cache is smaller than the cache.
    fn evict(&mut self) {
        while let Some(candidate) = self.lists.pop(WINDOW) {
            if self.main_len() == self.main_capacity {
                self.contend(candidate);
                return;
            }
            self.insert_main(candidate);
        }
    }

    /// Replaces an object of the main cache by `candidate`, if `candidate` was used more often. Evicts one of the two.
    fn contend(&mut self, candidate: Object) {
        let Some(victim) = self.main_victim() else {
            return;
        };
        if self.frequency.estimate(candidate) > self.frequency.estimate(victim) {
            self.lists.remove(victim);
            self.insert_main(candidate);
        }
    }
}

impl Policy for WTinyLfu {
    fn access(&mut self, Access { object, .. }: Access) -> bool {
        self.count(object);
        let list = self.lists.list_of(object);
        match list {
            Some(WINDOW) => self.lists.push(WINDOW, object),
            Some(_) => self.use_main(object),
            None => {
                if self.cached() == self.capacity {
                    self.evict();
                }
                self.lists.push(WINDOW, object);
            }
        }
        list.is_some()
    }

    fn remove(&mut self, object: Object) {
        self.lists.remove(object);
    }

    fn cached(&self) -> usize {
        self.lists.len(WINDOW) + self.main_len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::access::NEVER;
    use super::*;

    #[test]
    fn scan_of_objects_used_once_does_not_evict_frequent_ones() {
        let mut cache = WTinyLfu::new(100, 2000);
        let mut hits = |objects: std::ops::Range<Object>| {
            objects
                .map(|object| {
                    u32::from(cache.access(Access {
                        object,
                        next: NEVER,
                    }))
                })
                .sum::<u32>()
        };
        for _ in 0..5 {
            hits(0..90);
        }
        assert_eq!(hits(100..400), 0);
        assert_eq!(hits(0..90), 90);
        // After many accesses, the old frequencies have been halved to nothing.
        for _ in 0..40 {
            hits(1000..1090);
        }
        assert!(hits(1000..1090) > 80);
    }
}
