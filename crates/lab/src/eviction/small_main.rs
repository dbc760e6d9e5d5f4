//! S3-FIFO and Clock2Q+: a small FIFO queue, a main FIFO queue with reinsertion, and a ghost queue.
//!
//! # Model
//! A new object enters the small queue. If it leaves the small queue without enough uses, it is evicted, and its
//! number enters the ghost queue, which contains no contents. Otherwise it moves to the main queue. An object
//! that misses but is in the ghost queue enters the main queue directly. So objects that are used once leave
//! the cache early, and do not displace others.
//!
//! | | S3-FIFO | `Clock2Q+` |
//! |---|---|---|
//! | uses in the small queue that move an object to the main queue | 2 | 1 |
//! | uses that count in the small queue | all | all except those soon after the insertion (below) |
//! | times that the main queue spares an object | 3, one for each use | 1 |
//!
//! The *correlation window* of Clock2Q+: the uses of an object do not count until other objects have entered the small
//! queue after it, half as many as this queue can hold. Metadata blocks are often used several times within a few
//! operations, and then no longer.
//!
//! Sizes: the small queue has a tenth of the capacity, the main queue the rest, and the ghost queue nine tenths of the
//! capacity. Until the first eviction, objects for which the small queue has no room enter the main queue. These
//! details and parameters are the defaults of libCacheSim 0.3.5.
//!
//! # Sources
//! J. Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP 2023 (S3-FIFO). Y. Zhai et al.,
//! "Clock2Q+: A Simple and Efficient Replacement Algorithm for Metadata Cache in `VMware` vSAN",
//! arXiv 2511.21958.

use super::access::{Access, Object, Policy};
use super::lists::Lists;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

/// The differences between both policies.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// The number of uses that move an object from the small queue to the main queue.
    uses_to_move: u8,
    /// The largest number of uses that the main queue counts.
    max_uses: u8,
    /// Whether there is a correlation window.
    has_window: bool,
}

/// A cache with the policy S3-FIFO or `Clock2Q+`.
#[derive(Debug)]
pub(super) struct SmallMain {
    rules: Rules,
    capacity: usize,
    small_capacity: usize,
    lists: Lists<3>,
    /// The number of counted uses since the object entered its queue.
    uses: Vec<u8>,
    /// The value of `entered` when the object entered the small queue.
    entered_at: Vec<u64>,
    /// The number of objects that entered the small queue.
    entered: u64,
    has_evicted: bool,
}

impl SmallMain {
    /// Creates a cache with the policy S3-FIFO.
    pub fn s3_fifo(capacity: usize, objects: usize) -> Self {
        let rules = Rules {
            uses_to_move: 2,
            max_uses: 3,
            has_window: false,
        };
        Self::new(rules, capacity, objects)
    }

    /// Creates a cache with the policy `Clock2Q+`.
    pub fn clock2q_plus(capacity: usize, objects: usize) -> Self {
        let rules = Rules {
            uses_to_move: 1,
            max_uses: 1,
            has_window: true,
        };
        Self::new(rules, capacity, objects)
    }

    fn new(rules: Rules, capacity: usize, objects: usize) -> Self {
        Self {
            rules,
            capacity,
            small_capacity: (capacity / 10).max(1),
            lists: Lists::new(objects),
            uses: vec![0; objects],
            entered_at: vec![0; objects],
            entered: 0,
            has_evicted: false,
        }
    }

    fn main_capacity(&self) -> usize {
        self.capacity - self.small_capacity
    }

    fn ghost_capacity(&self) -> usize {
        self.capacity * 9 / 10
    }

    /// Adds the object, which has no uses, to the small queue or to the main queue.
    fn enter(&mut self, queue: usize, object: Object) {
        if queue == SMALL {
            self.entered += 1;
            self.entered_at[object as usize] = self.entered;
        }
        self.uses[object as usize] = 0;
        self.lists.push(queue, object);
    }

    /// Returns whether a use of an object in the small queue is so soon that it does not count.
    fn is_correlated(&self, object: Object) -> bool {
        let since = self.entered - self.entered_at[object as usize];
        // `since` is doubled instead of halving the size, because half of an odd size is not a whole number.
        self.rules.has_window && since * 2 < self.small_capacity as u64
    }

    fn evict(&mut self) {
        self.has_evicted = true;
        while self.cached() >= self.capacity {
            if self.lists.len(MAIN) > self.main_capacity() || self.lists.len(SMALL) == 0 {
                self.evict_main();
            } else {
                self.evict_small();
            }
        }
    }

    /// Evicts an object of the small queue, unless all of them move to the main queue.
    fn evict_small(&mut self) {
        while let Some(object) = self.lists.pop(SMALL) {
            if self.uses[object as usize] < self.rules.uses_to_move {
                self.remember(object);
                return;
            }
            self.enter(MAIN, object);
        }
    }

    /// Evicts an object of the main queue.
    fn evict_main(&mut self) {
        while let Some(object) = self.lists.pop(MAIN) {
            let uses = &mut self.uses[object as usize];
            if *uses == 0 {
                return;
            }
            *uses -= 1;
            self.lists.push(MAIN, object);
        }
    }

    /// Adds an evicted object to the ghost queue.
    fn remember(&mut self, object: Object) {
        if self.ghost_capacity() == 0 {
            return;
        }
        if self.lists.len(GHOST) == self.ghost_capacity() {
            self.lists.pop(GHOST);
        }
        self.lists.push(GHOST, object);
    }
}

impl Policy for SmallMain {
    fn access(&mut self, Access { object, .. }: Access) -> bool {
        let queue = self.lists.list_of(object);
        let is_ghost = queue == Some(GHOST);
        if let Some(queue @ (SMALL | MAIN)) = queue {
            if queue == MAIN || !self.is_correlated(object) {
                let uses = &mut self.uses[object as usize];
                // In the small queue, the second use is the last one that makes a difference.
                *uses = uses.saturating_add(1).min(self.rules.max_uses);
            }
            return true;
        }
        if is_ghost {
            self.lists.remove(object);
        }
        if self.cached() == self.capacity {
            self.evict();
        }
        let is_small_full = self.lists.len(SMALL) >= self.small_capacity;
        let queue = if is_ghost || (!self.has_evicted && is_small_full) {
            MAIN
        } else {
            SMALL
        };
        self.enter(queue, object);
        false
    }

    fn remove(&mut self, object: Object) {
        self.lists.remove(object);
    }

    fn cached(&self) -> usize {
        self.lists.len(SMALL) + self.lists.len(MAIN)
    }
}
