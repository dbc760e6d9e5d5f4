//! CLOCK with one bit, as a FIFO queue: an object at the tail whose bit is set is not evicted, but returns to the head
//! with its bit cleared. In the variant in which the first use counts, the insertion of an object sets its bit.
//! F. J. Corbató, "A Paging Experiment with the Multics System", 1968.

use super::access::{Access, Object, Policy};
use super::lists::Lists;

const CACHED: usize = 0;

/// A cache with the policy CLOCK.
#[derive(Debug)]
pub(super) struct Clock {
    capacity: usize,
    lists: Lists<1>,
    /// Whether an object was used again since it was inserted or reinserted.
    referenced: Vec<bool>,
    /// Whether a new object is referenced.
    counts_first_use: bool,
}

impl Clock {
    pub fn new(capacity: usize, objects: usize, counts_first_use: bool) -> Self {
        Self {
            capacity,
            lists: Lists::new(objects),
            referenced: vec![false; objects],
            counts_first_use,
        }
    }

    fn evict(&mut self) {
        while let Some(tail) = self.lists.pop(CACHED) {
            if !std::mem::take(&mut self.referenced[tail as usize]) {
                return;
            }
            self.lists.push(CACHED, tail);
        }
    }
}

impl Policy for Clock {
    fn access(&mut self, Access { object, .. }: Access) -> bool {
        if self.lists.contains(CACHED, object) {
            self.referenced[object as usize] = true;
            return true;
        }
        if self.cached() == self.capacity {
            self.evict();
        }
        self.referenced[object as usize] = self.counts_first_use;
        self.lists.push(CACHED, object);
        false
    }

    fn remove(&mut self, object: Object) {
        self.lists.remove(object);
        self.referenced[object as usize] = false;
    }

    fn cached(&self) -> usize {
        self.lists.len(CACHED)
    }
}
