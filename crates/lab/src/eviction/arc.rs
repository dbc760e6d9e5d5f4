//! ARC: an LRU list of cached objects that were used once, another of those that were used more often, and a list of
//! evicted objects for each of the two. A miss on an evicted object moves the target size of the first list.
//! N. Megiddo and D. S. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003.

use super::access::{Access, Object, Policy};
use super::lists::Lists;

/// Cached, used once since the insertion.
const T1: usize = 0;
/// Cached, used at least twice.
const T2: usize = 1;
/// Evicted from [`T1`].
const B1: usize = 2;
/// Evicted from [`T2`].
const B2: usize = 3;

/// A cache with the policy ARC.
#[derive(Debug)]
pub(super) struct Arc {
    capacity: usize,
    lists: Lists<4>,
    /// The target size of [`T1`], named `p` in the paper.
    target: f64,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a cache has fewer than 2^52 objects"
)]
fn real(count: usize) -> f64 {
    count as f64
}

impl Arc {
    pub fn new(capacity: usize, objects: usize) -> Self {
        Self {
            capacity,
            lists: Lists::new(objects),
            target: 0.0,
        }
    }

    /// Returns the change of the target after a miss on an object in the list `found`, where `other` is the
    /// other list of evicted objects.
    fn step(&self, found: usize, other: usize) -> f64 {
        (real(self.lists.len(other)) / real(self.lists.len(found))).max(1.0)
    }

    /// Evicts an object from [`T1`] or [`T2`], if the cache is full: REPLACE in the paper. `is_in_b2` is whether
    /// the missed object is in [`B2`].
    fn replace(&mut self, is_in_b2: bool) {
        if self.cached() < self.capacity {
            return;
        }
        let first = self.lists.len(T1);
        #[expect(
            clippy::float_cmp,
            reason = "the paper compares a size with the target"
        )]
        let is_first =
            first > 0 && (real(first) > self.target || (is_in_b2 && real(first) == self.target));
        let (from, to) = if is_first || self.lists.len(T2) == 0 {
            (T1, B1)
        } else {
            (T2, B2)
        };
        if let Some(object) = self.lists.pop(from) {
            self.lists.push(to, object);
        }
    }

    /// Makes room for an object that is in none of the lists.
    fn make_room(&mut self) {
        let first = self.lists.len(T1) + self.lists.len(B1);
        if first >= self.capacity {
            if self.lists.len(T1) < self.capacity {
                self.lists.pop(B1);
                self.replace(false);
            } else {
                self.lists.pop(T1);
            }
            return;
        }
        let all = first + self.lists.len(T2) + self.lists.len(B2);
        if all >= self.capacity {
            if all >= 2 * self.capacity {
                self.lists.pop(B2);
            }
            self.replace(false);
        }
    }
}

impl Policy for Arc {
    fn access(&mut self, Access { object, .. }: Access) -> bool {
        let list = self.lists.list_of(object);
        match list {
            Some(B1) => {
                self.target = (self.target + self.step(B1, B2)).min(real(self.capacity));
                self.replace(false);
            }
            Some(B2) => {
                self.target = (self.target - self.step(B2, B1)).max(0.0);
                self.replace(true);
            }
            Some(_) => {}
            None => self.make_room(),
        }
        self.lists
            .push(if list.is_some() { T2 } else { T1 }, object);
        matches!(list, Some(T1 | T2))
    }

    fn remove(&mut self, object: Object) {
        self.lists.remove(object);
    }

    fn cached(&self) -> usize {
        self.lists.len(T1) + self.lists.len(T2)
    }
}
