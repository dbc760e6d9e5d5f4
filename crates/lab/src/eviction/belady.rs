//! Belady's optimum: evicts the object whose next access is the latest. No policy that inserts each missed
//! object has fewer misses. L. A. Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer",
//! IBM Systems Journal 5(2), 1966.

use super::access::{Access, Object, Policy};
use std::collections::BinaryHeap;

/// A cache with Belady's policy.
#[derive(Debug)]
pub(super) struct Belady {
    capacity: usize,
    /// The next access of each cached object; `None` if it is not cached.
    next: Vec<Option<u32>>,
    /// The next accesses with their objects. Entries that `next` contradicts are outdated.
    latest: BinaryHeap<(u32, Object)>,
    cached: usize,
}

impl Belady {
    pub fn new(capacity: usize, objects: usize) -> Self {
        Self {
            capacity,
            next: vec![None; objects],
            latest: BinaryHeap::new(),
            cached: 0,
        }
    }

    fn evict(&mut self) {
        while let Some((next, object)) = self.latest.pop() {
            if self.next[object as usize] == Some(next) {
                self.next[object as usize] = None;
                self.cached -= 1;
                return;
            }
        }
    }
}

impl Policy for Belady {
    fn access(&mut self, Access { object, next }: Access) -> bool {
        let hit = self.next[object as usize].is_some();
        if !hit {
            if self.cached == self.capacity {
                self.evict();
            }
            self.cached += 1;
        }
        self.next[object as usize] = Some(next);
        self.latest.push((next, object));
        hit
    }

    fn remove(&mut self, object: Object) {
        if self.next[object as usize].take().is_some() {
            self.cached -= 1;
        }
    }

    fn cached(&self) -> usize {
        self.cached
    }
}
