//! SIEVE: like CLOCK, but an object whose bit is set stays in its place in the queue, and the hand continues
//! with the next newer object. So new objects are examined earlier than old ones. Y. Zhang et al., "SIEVE is
//! Simpler than LRU", NSDI 2024.

use super::access::{Access, Object, Policy};
use super::lists::Lists;

const CACHED: usize = 0;

/// A cache with the policy SIEVE.
#[derive(Debug)]
pub(super) struct Sieve {
    capacity: usize,
    lists: Lists<1>,
    visited: Vec<bool>,
    /// The next object to examine; `None` for the tail.
    hand: Option<Object>,
}

impl Sieve {
    pub fn new(capacity: usize, objects: usize) -> Self {
        Self {
            capacity,
            lists: Lists::new(objects),
            visited: vec![false; objects],
            hand: None,
        }
    }

    fn evict(&mut self) {
        let mut at = self.hand.or_else(|| self.lists.tail(CACHED));
        while let Some(object) = at {
            let newer = self.lists.newer(object);
            if !std::mem::take(&mut self.visited[object as usize]) {
                self.lists.remove(object);
                self.hand = newer;
                return;
            }
            at = newer.or_else(|| self.lists.tail(CACHED));
        }
    }
}

impl Policy for Sieve {
    fn access(&mut self, Access { object, .. }: Access) -> bool {
        if self.lists.contains(CACHED, object) {
            self.visited[object as usize] = true;
            return true;
        }
        if self.cached() == self.capacity {
            self.evict();
        }
        self.lists.push(CACHED, object);
        false
    }

    fn remove(&mut self, object: Object) {
        if self.hand == Some(object) {
            self.hand = self.lists.newer(object);
        }
        self.lists.remove(object);
        self.visited[object as usize] = false;
    }

    fn cached(&self) -> usize {
        self.lists.len(CACHED)
    }
}
