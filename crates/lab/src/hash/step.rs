//! What replaying a trace asks of one table.

use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Operation};
use larder_trace::TraceEvent;

/// What tells the objects of one table apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    /// What the hash function sees.
    pub(super) hashed: HashKey,
    /// The device, on which inode numbers are: functions for pages and names do not see it.
    pub(super) device: u32,
}

/// An event of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) key: Key,
    /// What happened.
    pub(super) operation: Operation,
}

/// Some events of a trace, those of each table on their own, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    steps: [Vec<Step>; CacheKind::ALL.len()],
    /// Events of the trace that they come from, those of other tables too.
    pub(super) events: u64,
}

impl Steps {
    /// Those of `cache`.
    pub(super) fn of(&self, cache: CacheKind) -> &[Step] {
        &self.steps[cache as usize]
    }

    /// Those of `cache`, to change.
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
