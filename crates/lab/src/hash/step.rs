//! The events of a trace in the form that a replay uses, separated by cache.

use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Operation};
use larder_trace::TraceEvent;

/// The key of an object, unique within one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    /// The input of the hash function.
    pub(super) hashed: HashKey,
    /// The device of the object. Hash functions for pages and names do not use the device.
    pub(super) device: u32,
}

/// An event of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) key: Key,
    /// The operation: a lookup, an insertion or a removal.
    pub(super) operation: Operation,
}

/// A batch of events of a trace, separated by cache. The events of each cache are in the order of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    steps: [Vec<Step>; CacheKind::ALL.len()],
    /// Number of events of the trace in this batch, including events of caches that are not replayed.
    pub(super) events: u64,
}

impl Steps {
    /// Returns the events of `cache`.
    pub(super) fn of(&self, cache: CacheKind) -> &[Step] {
        &self.steps[cache as usize]
    }

    /// Returns the events of `cache`, for modification.
    pub(super) fn of_mut(&mut self, cache: CacheKind) -> &mut Vec<Step> {
        &mut self.steps[cache as usize]
    }
}

impl From<TraceEvent> for Step {
    #[inline]
    fn from(event: TraceEvent) -> Self {
        Self {
            key: Key {
                hashed: event.key(),
                device: event.device,
            },
            operation: event.operation,
        }
    }
}
