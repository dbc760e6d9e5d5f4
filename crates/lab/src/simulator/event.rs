//! What happens at which virtual time, apart from what the device does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use larder_instruments::simulated::VirtualTime;

use super::run::ReaderId;

/// Something that happens to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// It begins.
    Start(ReaderId),
    /// It is about to take up its next operation.
    Next(ReaderId),
    /// It can go on, once it has a processor.
    Ready(ReaderId),
    /// A processor is free for whoever waits for one.
    Turn,
    /// It is done.
    Exit(ReaderId),
}

/// Events to come: the earliest first, and those of one time in the order they were added.
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
