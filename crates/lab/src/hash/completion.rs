//! Derives insertions and removals from the lookups of a trace, by simulating a cache with a given capacity.
//!
//! # Model
//! Each miss inserts its object. If the cache is full, the clock hand first evicts an object that was not
//! used since the hand last passed it, as in Larder's caches.
//!
//! # Cost
//! A lookup costs a map lookup. An object takes a map entry and a copy of its key.

use super::step::{Key, Step};
use larder_cache::number_hash::NumberHash;
use larder_cache::tape::Operation;
use std::collections::HashMap;

/// The simulated cache.
#[derive(Debug)]
pub(super) struct Completion {
    capacity: usize,
    indices: HashMap<Key, usize, NumberHash>,
    objects: Vec<Object>,
    hand: usize,
}

#[derive(Debug)]
struct Object {
    key: Key,
    /// Whether the object was looked up since the hand last passed it.
    is_referenced: bool,
}

impl Completion {
    /// Creates an empty cache with room for `capacity` objects, or for one object if `capacity` is 0.
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            capacity: usize::try_from(capacity).unwrap_or(usize::MAX).max(1),
            indices: HashMap::default(),
            objects: Vec::new(),
            hand: 0,
        }
    }

    /// Appends the lookup of `key` to `steps`. If the lookup misses, also appends the removal of the evicted
    /// object, if any, and the insertion of `key`.
    pub(super) fn look_up(&mut self, key: Key, steps: &mut Vec<Step>) {
        let mut push = |key, operation| steps.push(Step { key, operation });
        let index = self.indices.get(&key);
        let hit = index.is_some();
        push(key, Operation::Lookup { hit });
        if let Some(index) = index {
            self.objects[*index].is_referenced = true;
            return;
        }
        let object = Object {
            key,
            is_referenced: false,
        };
        let index = if self.objects.len() < self.capacity {
            self.objects.push(object);
            self.objects.len() - 1
        } else {
            let index = self.advance_to_victim();
            let victim = std::mem::replace(&mut self.objects[index], object).key;
            self.indices.remove(&victim);
            push(victim, Operation::Remove);
            index
        };
        self.indices.insert(key, index);
        push(key, Operation::Insert);
    }

    /// Moves the hand past the next object to evict, and returns the index of that object.
    fn advance_to_victim(&mut self) -> usize {
        loop {
            let index = self.hand;
            self.hand = (index + 1) % self.objects.len();
            let object = &mut self.objects[index];
            if !std::mem::take(&mut object.is_referenced) {
                return index;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_cache::hash::HashKey;

    fn key(index: u64) -> Key {
        Key {
            hashed: HashKey { object: 1, index },
            device: 0,
        }
    }

    #[test]
    fn full_cache_evicts_an_object_not_used_since_the_last_pass() {
        let mut completion = Completion::new(2);
        let mut steps = Vec::new();
        for index in [1, 2, 1, 1, 3, 2] {
            completion.look_up(key(index), &mut steps);
        }
        let steps: Vec<_> = steps
            .iter()
            .map(|step| (step.key.hashed.index, step.operation))
            .collect();
        let lookup = |hit| Operation::Lookup { hit };
        assert_eq!(
            steps,
            [
                (1, lookup(false)),
                (1, Operation::Insert),
                (2, lookup(false)),
                (2, Operation::Insert),
                (1, lookup(true)),
                (1, lookup(true)),
                (3, lookup(false)),
                (2, Operation::Remove),
                (3, Operation::Insert),
                (2, lookup(false)),
                (1, Operation::Remove),
                (2, Operation::Insert),
            ]
        );
    }
}
