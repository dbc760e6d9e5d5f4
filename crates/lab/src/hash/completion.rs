//! Insertions and removals for a trace that only has lookups. Each miss inserts its object. If the
//! cache has no room, the clock hand evicts an object that was not used since its last pass, as in
//! the caches.
//!
//! # Cost
//! One map lookup for each lookup; one map entry and one key for each object.

use super::step::{Key, Step};
use larder_cache::number_hash::NumberHash;
use larder_cache::tape::Operation;
use std::collections::HashMap;

/// The objects of a cache with a given capacity.
#[derive(Debug)]
pub(super) struct Completion {
    capacity: usize,
    places: HashMap<Key, usize, NumberHash>,
    objects: Vec<Object>,
    hand: usize,
}

#[derive(Debug)]
struct Object {
    key: Key,
    /// Whether it was used since the hand passed.
    is_referenced: bool,
}

impl Completion {
    /// Creates a cache with room for `capacity` objects, at least one.
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            capacity: usize::try_from(capacity).unwrap_or(usize::MAX).max(1),
            places: HashMap::default(),
            objects: Vec::new(),
            hand: 0,
        }
    }

    /// Appends the lookup of `key` to `steps`, with the insertion and the removal that it causes.
    pub(super) fn look_up(&mut self, key: Key, steps: &mut Vec<Step>) {
        let mut push = |key, operation| steps.push(Step { key, operation });
        let place = self.places.get(&key);
        let hit = place.is_some();
        push(key, Operation::Lookup { hit });
        if let Some(place) = place {
            self.objects[*place].is_referenced = true;
            return;
        }
        let object = Object {
            key,
            is_referenced: false,
        };
        let place = if self.objects.len() < self.capacity {
            self.objects.push(object);
            self.objects.len() - 1
        } else {
            let place = self.pass();
            let victim = std::mem::replace(&mut self.objects[place], object).key;
            self.places.remove(&victim);
            push(victim, Operation::Remove);
            place
        };
        self.places.insert(key, place);
        push(key, Operation::Insert);
    }

    /// Moves the hand past the next object to evict, and returns the place of that object.
    fn pass(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (place + 1) % self.objects.len();
            let object = &mut self.objects[place];
            if !std::mem::take(&mut object.is_referenced) {
                return place;
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
