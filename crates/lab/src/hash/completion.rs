//! Inserts and removals of a trace that tells of lookups alone: what misses comes, and where that is
//! more than there is room for, what was not used for longest goes.
//!
//! # Cost
//! A map's lookup and a place in a queue for each lookup; a queue at most twice as long as there are
//! objects.

use super::step::{Key, Step};
use larder_cache::number_hash::NumberHash;
use larder_cache::tape::Operation;
use std::collections::{HashMap, VecDeque};

/// Objects of a cache that has room for so many, by when they were used last.
#[derive(Debug)]
pub(super) struct Completion {
    room: usize,
    /// The number of each object's last use.
    used: HashMap<Key, u64, NumberHash>,
    /// Uses, the first one first; those that are not their object's last count for nothing.
    uses: VecDeque<(Key, u64)>,
    next: u64,
}

impl Completion {
    /// Of a cache with room for `room` objects, one at least.
    pub(super) fn new(room: u64) -> Self {
        Self {
            room: usize::try_from(room).unwrap_or(usize::MAX).max(1),
            used: HashMap::default(),
            uses: VecDeque::new(),
            next: 0,
        }
    }

    /// Puts the lookup of `key` into `steps`, and what it brings about.
    pub(super) fn look_up(&mut self, key: Key, steps: &mut Vec<Step>) {
        let mut push = |key, operation| steps.push(Step { key, operation });
        self.next += 1;
        let hit = self.used.insert(key, self.next).is_some();
        push(key, Operation::Lookup { hit });
        self.uses.push_back((key, self.next));
        if !hit {
            if self.used.len() > self.room
                && let Some(victim) = self.evict()
            {
                push(victim, Operation::Remove);
            }
            push(key, Operation::Insert);
        } else if self.uses.len() > self.used.len() * 2 {
            let used = &self.used;
            self.uses.retain(|(key, at)| used.get(key) == Some(at));
        }
    }

    fn evict(&mut self) -> Option<Key> {
        while let Some((key, at)) = self.uses.pop_front() {
            if self.used.get(&key) == Some(&at) {
                self.used.remove(&key);
                return Some(key);
            }
        }
        None
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
    fn object_not_used_for_longest_goes_where_there_is_no_room() {
        let mut completion = Completion::new(2);
        let mut steps = Vec::new();
        for index in [1, 2, 1, 1, 1, 3, 2] {
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
