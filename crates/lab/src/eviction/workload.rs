//! A workload: the accesses and removals of a trace, with objects that are numbered without gaps.

use super::access::{Access, NEVER, Object};
use crate::trace::Losses;
use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// One step of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An access.
    Access(Access),
    /// The removal of an object that may be cached.
    Remove(Object),
}

/// The origin of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TraceOrigin {
    /// The name of the file without its folder.
    pub name: String,
    /// The format of the file.
    pub format: String,
    /// The SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// The events that are missing.
    pub losses: Losses,
}

/// The accesses of a trace.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// The file.
    pub origin: TraceOrigin,
    /// The accesses and removals, in order.
    pub steps: Vec<Step>,
    /// The number of accesses.
    pub accesses: u32,
    /// The number of objects that are accessed: the footprint.
    pub objects: u32,
}

impl Workload {
    /// Returns the number of removals.
    #[must_use]
    pub fn removals(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX) - self.accesses
    }
}

/// The largest workload. A short file can describe a large one, because a line of some formats has many accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkloadLimits {
    /// Accesses and removals, which take 12 bytes each.
    pub(super) steps: usize,
    /// Objects, which take up to 70 bytes each while the workload is built.
    pub(super) objects: usize,
}

impl WorkloadLimits {
    /// The default limits, with which a workload takes up to about 4 GB.
    pub(super) const DEFAULT: Self = Self {
        steps: 1 << 27,
        objects: 1 << 25,
    };
}

/// Builds a workload step by step, from keys of any kind.
#[derive(Debug)]
pub struct WorkloadBuilder<K> {
    limits: WorkloadLimits,
    numbers: HashMap<K, Object>,
    steps: Vec<Step>,
    accesses: u32,
}

impl<K> Default for WorkloadBuilder<K> {
    fn default() -> Self {
        Self::with_limits(WorkloadLimits::DEFAULT)
    }
}

impl<K> WorkloadBuilder<K> {
    pub(super) fn with_limits(limits: WorkloadLimits) -> Self {
        Self {
            limits,
            numbers: HashMap::new(),
            steps: Vec::new(),
            accesses: 0,
        }
    }
}

impl<K: Hash + Eq> WorkloadBuilder<K> {
    /// Adds an access. Returns false if the workload would be too large; the access is then not added.
    #[must_use]
    pub fn access(&mut self, key: K) -> bool {
        if self.steps.len() >= self.limits.steps {
            return false;
        }
        let objects = self.numbers.len();
        let next = u32::try_from(objects).unwrap_or(NEVER);
        let object = match self.numbers.entry(key) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(_) if objects >= self.limits.objects => return false,
            Entry::Vacant(new) => *new.insert(next),
        };
        self.accesses += 1;
        self.steps.push(Step::Access(Access {
            object,
            next: NEVER,
        }));
        true
    }

    /// Adds a removal, if the object was accessed before. Returns false if the workload would be too large; the removal is
    /// then not added.
    #[must_use]
    pub fn remove(&mut self, key: &K) -> bool {
        let Some(&object) = self.numbers.get(key) else {
            return true;
        };
        if self.steps.len() >= self.limits.steps {
            return false;
        }
        self.steps.push(Step::Remove(object));
        true
    }

    /// Returns the workload, with the next access of each object.
    #[must_use]
    pub fn finish(self, origin: TraceOrigin) -> Workload {
        let mut steps = self.steps;
        let mut next = vec![NEVER; self.numbers.len()];
        let mut number = self.accesses;
        for step in steps.iter_mut().rev() {
            match step {
                Step::Access(access) => {
                    number -= 1;
                    access.next = std::mem::replace(&mut next[access.object as usize], number);
                }
                Step::Remove(object) => next[*object as usize] = NEVER,
            }
        }
        Workload {
            origin,
            steps,
            accesses: self.accesses,
            objects: u32::try_from(next.len()).unwrap_or(NEVER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_has_the_number_of_the_next_access_unless_a_removal_is_before_it() {
        let mut builder = WorkloadBuilder::default();
        for (step, key) in "ab-aaxcb".char_indices() {
            match (step, key) {
                (_, '-') => assert!(builder.remove(&'b')),
                (_, 'x') => assert!(builder.remove(&'x')),
                (_, key) => assert!(builder.access(key)),
            }
        }
        let workload = builder.finish(TraceOrigin::default());
        let access = |object, next| Step::Access(Access { object, next });
        let expected = [
            access(0, 2),
            access(1, NEVER),
            Step::Remove(1),
            access(0, 3),
            access(0, NEVER),
            access(2, NEVER),
            access(1, NEVER),
        ];
        assert_eq!(workload.steps, expected);
        assert_eq!(
            (workload.accesses, workload.objects, workload.removals()),
            (6, 3, 1)
        );
    }
}
