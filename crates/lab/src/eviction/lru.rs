//! LRU: evicts the object that was not used for the longest time.

use super::access::{Access, Object, Policy};
use super::lists::Lists;

const CACHED: usize = 0;

/// A cache with the policy LRU.
#[derive(Debug)]
pub(super) struct Lru {
    capacity: usize,
    lists: Lists<1>,
}

impl Lru {
    pub fn new(capacity: usize, objects: usize) -> Self {
        Self {
            capacity,
            lists: Lists::new(objects),
        }
    }
}

impl Policy for Lru {
    fn access(&mut self, Access { object, .. }: Access) -> bool {
        let hit = self.lists.contains(CACHED, object);
        if !hit && self.cached() == self.capacity {
            self.lists.pop(CACHED);
        }
        self.lists.push(CACHED, object);
        hit
    }

    fn remove(&mut self, object: Object) {
        self.lists.remove(object);
    }

    fn cached(&self) -> usize {
        self.lists.len(CACHED)
    }
}
