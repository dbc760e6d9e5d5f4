//! The objects in the order of their last use, with their stack distances.
//!
//! # Removals
//! If an object is removed, for example because its file is deleted, all caches that contained it have a free
//! slot. A cache that did not contain it has none. The removed object therefore leaves a *hole* at its place in
//! the stack. The next use of an object below the hole, or of a new object, fills the hole: the objects above the hole
//! move down by one place, and no object below it moves. If the used object had a place in the stack, it leaves a hole
//! there. So the stack distances are exact with removals, too.
//!
//! # Sampling
//! At first all objects are tracked. If their number exceeds [`StackLimits::tracked`], the share of objects that
//! are tracked is halved until at most [`StackLimits::sampled`] remain. It is halved again whenever the number of
//! tracked objects exceeds this limit. An object is tracked if its hash is below a threshold, so all uses of an object
//! are tracked, or none. A distance in a sample of the share *R* is scaled by 1/*R*, and each use counts 1/*R* times.
//! This is SHARDS with a fixed size of the sample, except that the threshold is always a power of two.

use super::ids::IdMap;
use super::order::Order;
use std::collections::BinaryHeap;

/// The maximum numbers of tracked objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackLimits {
    /// The number of objects up to which all objects are tracked.
    pub tracked: usize,
    /// The maximum size of a sample.
    pub sampled: usize,
}

impl StackLimits {
    /// The limits of one stack: its exact form takes up to about 100 MB, and a sample 16 MB.
    pub(crate) const DEFAULT: Self = Self {
        tracked: 1 << 21,
        sampled: 1 << 18,
    };
}

/// A use of a tracked object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The smallest cache in which the use hits, in objects; `None` if it misses in all caches.
    pub depth: Option<u64>,
    /// The log2 of the number of uses that this one represents.
    pub shift: u32,
}

/// The place that a removed object has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hole {
    position: u32,
    /// The removed object, which decides whether the hole is in the sample.
    id: u64,
}

/// The objects in the order of their last use.
#[derive(Debug)]
pub(crate) struct LruStack {
    limits: StackLimits,
    /// An object is tracked if at least this number of bits at the start of its hash are 0.
    shift: u32,
    order: Order,
    positions: IdMap<u32>,
    /// The holes, the newest first.
    holes: BinaryHeap<Hole>,
}

impl LruStack {
    pub(crate) fn new(limits: StackLimits) -> Self {
        Self {
            limits,
            shift: 0,
            order: Order::with_first(0),
            positions: IdMap::default(),
            holes: BinaryHeap::new(),
        }
    }

    /// Returns the log2 of the number of objects that a tracked object represents.
    #[cfg(test)]
    pub(super) fn shift(&self) -> u32 {
        self.shift
    }

    fn is_tracked(&self, id: u64) -> bool {
        id.leading_zeros() >= self.shift
    }

    /// Moves the object to the top of the stack, and adds it if it is absent. Returns `None` if it is not in
    /// the sample.
    #[inline]
    pub(crate) fn touch(&mut self, id: u64) -> Option<Reference> {
        if !self.is_tracked(id) {
            return None;
        }
        if self.order.is_full() {
            self.compact();
        }
        let shift = self.shift;
        if let Some(position) = self.positions.get_mut(&id) {
            let above = self.order.count_after(*position);
            if above > 0 {
                match self.holes.peek().copied() {
                    Some(hole) if hole.position > *position => {
                        self.holes.pop();
                        self.order.remove(hole.position);
                        let position = *position;
                        self.holes.push(Hole { position, ..hole });
                    }
                    _ => self.order.remove(*position),
                }
                *position = self.order.push();
            }
            let depth = Some((u64::from(above) << shift) + 1);
            return Some(Reference { depth, shift });
        }
        if let Some(hole) = self.holes.pop() {
            self.order.remove(hole.position);
        }
        self.positions.insert(id, self.order.push());
        self.limit();
        let depth = None;
        Some(Reference { depth, shift })
    }

    /// Removes the object.
    pub(crate) fn remove(&mut self, id: u64) {
        if !self.is_tracked(id) {
            return;
        }
        if let Some(position) = self.positions.remove(&id) {
            self.holes.push(Hole { position, id });
        }
        if self.positions.is_empty() {
            self.holes.clear();
            self.order = Order::with_first(0);
        }
    }

    /// Reduces the sample if it is too large.
    fn limit(&mut self) {
        let is_within = |stack: &Self| match stack.shift {
            0 => stack.positions.len() <= stack.limits.tracked,
            _ => stack.positions.len() <= stack.limits.sampled,
        };
        while !is_within(self) {
            self.shift += 1;
            let (shift, order) = (self.shift, &mut self.order);
            self.positions.retain(|id, position| {
                let stays = id.leading_zeros() >= shift;
                if !stays {
                    order.remove(*position);
                }
                stays
            });
            self.holes.retain(|hole| {
                let stays = hole.id.leading_zeros() >= shift;
                if !stays {
                    order.remove(hole.position);
                }
                stays
            });
            if is_within(self) {
                self.positions.shrink_to_fit();
                self.holes.shrink_to_fit();
                self.compact();
            }
        }
    }

    /// Renumbers the positions from 0. Afterwards, half of the positions are free.
    fn compact(&mut self) {
        // A hole below all objects has no effect.
        let oldest = self.positions.values().copied().min().unwrap_or(u32::MAX);
        let order = &mut self.order;
        self.holes.retain(|hole| {
            let stays = hole.position > oldest;
            if !stays {
                order.remove(hole.position);
            }
            stays
        });
        let order = &self.order;
        for position in self.positions.values_mut() {
            *position = order.count_before(*position);
        }
        let holes = self.holes.drain().map(|hole| Hole {
            position: order.count_before(hole.position),
            ..hole
        });
        self.holes = holes.collect::<Vec<_>>().into();
        self.order = Order::with_first(self.order.count());
    }

    /// Checks that each position belongs to an object or a hole.
    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        let places = self.positions.len() + self.holes.len();
        assert_eq!(self.order.count() as usize, places);
    }
}
