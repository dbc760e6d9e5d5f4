//! Lookups of parts of a long trace, on which tables are compared.

use crate::hash::{BatchConsumer, Error, Source};
use larder_cache::tape::Operation;
use larder_trace::TraceEvent;

/// Number of events up to which the whole trace is replayed instead of a sample.
pub(super) const WHOLE_EVENTS: u64 = 1 << 22;

/// Number of parts.
const PARTS: u64 = 16;

/// Maximum number of lookups of a part.
const PART_LOOKUPS: u64 = 1 << 16;

/// The first lookups of each part of a trace; empty if the trace is short enough to be replayed as a whole.
#[derive(Debug)]
pub(super) struct TableSample {
    is_needed: bool,
    part_events: u64,
    seen: u64,
    /// Number of lookups of the current part that are still to be collected.
    left: u64,
    events: Vec<TraceEvent>,
}

impl TableSample {
    /// Returns an empty sample of a trace with the given number of events.
    pub(super) fn new(events: u64) -> Self {
        Self {
            is_needed: events > WHOLE_EVENTS,
            part_events: events.div_ceil(PARTS).max(1),
            seen: 0,
            left: 0,
            events: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, event: &TraceEvent) {
        if !self.is_needed {
            return;
        }
        if self.seen.is_multiple_of(self.part_events) {
            self.left = PART_LOOKUPS;
        }
        self.seen += 1;
        if self.left > 0 && matches!(event.operation, Operation::Lookup { .. }) {
            self.left -= 1;
            self.events.push(*event);
        }
    }

    /// Returns whether the sample should be replayed instead of the whole trace.
    pub(super) fn is_needed(&self) -> bool {
        self.is_needed
    }
}

impl Source for TableSample {
    fn title(&self) -> String {
        format!(
            "{} lookups of {PARTS} parts of the trace",
            self.events.len()
        )
    }

    fn events(&self) -> u64 {
        self.events.len() as u64
    }

    fn has_changes(&self) -> bool {
        false
    }

    fn read(&self, each: &mut BatchConsumer<'_>) -> Result<(), Error> {
        for batch in self.events.chunks(1 << 15) {
            if !each(&mut batch.iter().copied()) {
                break;
            }
        }
        Ok(())
    }
}
