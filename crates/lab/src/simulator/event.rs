//! Events in virtual time, except those of the device.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use larder_instruments::simulated::VirtualTime;

use super::ids::ReaderId;

/// An event of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The reader starts.
    Start(ReaderId),
    /// The reader is about to begin its next operation.
    Next(ReaderId),
    /// The reader can continue, once it has a processor.
    Ready(ReaderId),
    /// A processor is free for the next waiting reader.
    Turn,
    /// The reader is done.
    Exit(ReaderId),
}

/// Future events, in order of time. Events of the same time are in insertion order.
#[derive(Debug, Default)]
pub(super) struct Events {
    queue: BinaryHeap<Reverse<(VirtualTime, u64, Event)>>,
    added: u64,
}

impl Events {
    pub(super) fn push(&mut self, at: VirtualTime, event: Event) {
        self.queue.push(Reverse((at, self.added, event)));
        self.added += 1;
    }

    pub(super) fn next_at(&self) -> Option<VirtualTime> {
        self.queue.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn pop(&mut self) -> Option<(VirtualTime, Event)> {
        self.queue.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
