//! Models processor time: constant costs of the parts of an operation, and processors that readers share.

use std::collections::VecDeque;
use std::time::Duration;

use larder_instruments::simulated::VirtualTime;

use super::ids::ReaderId;

/// Processor time of the parts of an operation. Interrupts, page tables and the device driver are omitted,
/// since the time of the device dominates unless all pages are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuModel {
    /// Number of processors that the readers share; 0 is treated as 1.
    pub processors: u32,
    /// Time to enter and leave the kernel, once for each operation.
    pub call: Duration,
    /// Time of one lookup of a page.
    pub lookup: Duration,
    /// Time to copy one page to or from the reader's buffer.
    pub copy: Duration,
    /// Time of one call of the policy.
    pub decision: Duration,
    /// Time to insert one page: to allocate it, to add it to the cache and to a request.
    pub insert: Duration,
}

impl CpuModel {
    /// Rounded estimates for a Core 2 of 2.9 GHz with two cores: some 900 cycles for a system call,
    /// 200 for a lookup, 4 GB/s to copy cold pages, 1200 cycles to insert a page.
    pub const CORE_2: Self = Self {
        processors: 2,
        call: Duration::from_nanos(300),
        lookup: Duration::from_nanos(70),
        copy: Duration::from_micros(1),
        decision: Duration::from_nanos(100),
        insert: Duration::from_nanos(400),
    };
}

impl Default for CpuModel {
    fn default() -> Self {
        Self::CORE_2
    }
}

/// The processor time of a reader since it last acquired a processor.
#[derive(Debug)]
pub(super) struct Spent {
    model: CpuModel,
    span: Duration,
}

impl Spent {
    pub(super) fn new(model: CpuModel) -> Self {
        Self {
            model,
            span: Duration::ZERO,
        }
    }

    pub(super) fn span(&self) -> Duration {
        self.span
    }

    pub(super) fn call(&mut self) {
        self.span += self.model.call;
    }

    pub(super) fn lookup(&mut self) {
        self.span += self.model.lookup;
    }

    pub(super) fn copy(&mut self) {
        self.span += self.model.copy;
    }

    pub(super) fn decision(&mut self) {
        self.span += self.model.decision;
    }

    pub(super) fn insert(&mut self) {
        self.span += self.model.insert;
    }
}

/// Processors, and the readers that wait for one, in FIFO order.
///
/// A reader keeps its processor until it waits or is done. It is not preempted.
#[derive(Debug)]
pub(super) struct Processors {
    /// The time at which each processor is free.
    free_at: Vec<VirtualTime>,
    waiting: VecDeque<ReaderId>,
}

impl Processors {
    pub(super) fn new(count: u32, now: VirtualTime) -> Self {
        Self {
            free_at: vec![now; count.max(1) as usize],
            waiting: VecDeque::new(),
        }
    }

    /// Returns whether `reader` may run now. If not, it is queued, and [`Self::next`] returns it in
    /// its turn.
    pub(super) fn may_run(&mut self, reader: ReaderId, now: VirtualTime) -> bool {
        let may_run = self.waiting.is_empty() && self.is_any_free(now);
        if !may_run {
            self.waiting.push_back(reader);
        }
        may_run
    }

    /// Returns the first reader in the queue, if a processor is free.
    pub(super) fn next(&mut self, now: VirtualTime) -> Option<ReaderId> {
        if !self.is_any_free(now) {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Returns the time at which the next reader in the queue can run, or `None` if the queue is
    /// empty.
    pub(super) fn next_turn(&self) -> Option<VirtualTime> {
        if self.waiting.is_empty() {
            return None;
        }
        self.free_at.iter().min().copied()
    }

    /// Occupies a processor, which must be free at `now`, until the time `until`.
    pub(super) fn occupy(&mut self, now: VirtualTime, until: VirtualTime) {
        if let Some(free_at) = self.free_at.iter_mut().find(|free_at| **free_at <= now) {
            *free_at = until;
        }
    }

    fn is_any_free(&self, now: VirtualTime) -> bool {
        self.free_at.iter().any(|free_at| *free_at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_readers_run_in_order_of_arrival() {
        let at = VirtualTime;
        let mut processors = Processors::new(1, at(0));
        assert!(processors.may_run(ReaderId(0), at(5)));
        processors.occupy(at(5), at(9));
        assert!(!processors.may_run(ReaderId(1), at(6)));
        assert!(!processors.may_run(ReaderId(2), at(7)));
        assert_eq!(processors.next(at(8)), None);
        assert_eq!(processors.next_turn(), Some(at(9)));
        assert!(
            !processors.may_run(ReaderId(3), at(9)),
            "others arrived first"
        );
        assert_eq!(processors.next(at(9)), Some(ReaderId(1)));
        processors.occupy(at(9), at(20));
        assert_eq!(processors.next(at(10)), None);
        assert_eq!(processors.next(at(20)), Some(ReaderId(2)));
        assert_eq!(processors.next(at(20)), Some(ReaderId(3)));
        assert_eq!(processors.next_turn(), None);
    }
}
