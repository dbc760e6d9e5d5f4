//! Simulates the host's I/O scheduler: a queue of commands that wait until the device can accept them.
//!
//! Model of [`Deadline`]: Linux's deadline elevator. Commands are served in batches of one direction: reads
//! or writes. A batch serves commands in ascending order of offset. If the deadline of the oldest command of
//! the direction has expired, the batch begins with this command. Otherwise it begins with the first command
//! after the previous batch of the direction, or with the lowest offset if there is no such command. While
//! reads wait, batches of reads are served. But if writes have waited during `writes_starved` batches of reads,
//! a batch of writes is next. In a model without an elevator, commands are served in order of arrival and are
//! not merged.
//!
//! The other elevator is [`Cfq`].
//!
//! Differences from Linux: if a request fills the gap between two commands, it is merged with one of them, but
//! the two commands are not merged. A request that overlaps a waiting command becomes a command of its own.

use std::collections::VecDeque;

use super::cfq::Cfq;
use super::command::{Command, CommandTable};
use super::lane::Lane;
use super::parameters::{DeadlineModel, ElevatorModel, QueueModel};
use super::{Request, RequestId, RequestKind};

/// The host's queue of commands for the device.
#[derive(Debug)]
pub(super) struct Scheduler {
    max_command_bytes: u64,
    order: Order,
}

#[derive(Debug)]
enum Order {
    Arrival(VecDeque<Command>),
    Deadline(Deadline),
    Cfq(Box<Cfq>),
}

impl Scheduler {
    pub fn new(model: &QueueModel) -> Self {
        Self {
            max_command_bytes: model
                .max_command_bytes
                .map_or(u64::MAX, |bytes| bytes.value),
            order: match &model.elevator {
                None => Order::Arrival(VecDeque::new()),
                Some(ElevatorModel::Deadline(model)) => Order::Deadline(Deadline::new(model)),
                Some(ElevatorModel::Cfq(model)) => Order::Cfq(Box::new(Cfq::new(model))),
            },
        }
    }

    /// Returns the maximum size of a command. Larger requests are split into several commands.
    pub fn max_command_bytes(&self) -> u64 {
        self.max_command_bytes
    }

    /// Adds a range of bytes of `request`, which must not exceed the maximum size of a command. Returns true
    /// if a new command was created, and false if the bytes were merged with a waiting command.
    pub fn add(
        &mut self,
        now_ns: u64,
        request: &Request,
        bytes: (u64, u64),
        id: RequestId,
        table: &mut CommandTable,
    ) -> bool {
        let is_write = request.kind == RequestKind::Write;
        let max_bytes = self.max_command_bytes;
        let merged = match &mut self.order {
            Order::Arrival(_) => None,
            Order::Deadline(deadline) => deadline.lane(is_write).merge(bytes, max_bytes),
            Order::Cfq(cfq) => cfq.lane(is_write, request.process).merge(bytes, max_bytes),
        };
        if let Some(slot) = merged {
            table.join(slot, id);
            return false;
        }
        let command = table.make(is_write, bytes, id);
        match &mut self.order {
            Order::Arrival(waiting) => waiting.push_back(command),
            Order::Deadline(deadline) => deadline.lane(is_write).add(now_ns, command),
            Order::Cfq(cfq) => cfq.add(now_ns, request.process, command),
        }
        true
    }

    /// Removes and returns the next command for the device.
    pub fn next(&mut self, now_ns: u64) -> Option<Command> {
        match &mut self.order {
            Order::Arrival(waiting) => waiting.pop_front(),
            Order::Deadline(deadline) => deadline.next(now_ns),
            Order::Cfq(cfq) => cfq.next(now_ns),
        }
    }

    /// Records that the device has completed the command in `slot`.
    pub fn finished(&mut self, now_ns: u64, slot: usize) {
        if let Order::Cfq(cfq) = &mut self.order {
            cfq.finished(now_ns, slot);
        }
    }

    /// Returns the time at which [`Self::next`] may return another command although no command was added or
    /// completed.
    pub fn timer_ns(&self) -> Option<u64> {
        match &self.order {
            Order::Cfq(cfq) => cfq.timer_ns(),
            Order::Arrival(_) | Order::Deadline(_) => None,
        }
    }
}

#[derive(Debug)]
struct Deadline {
    reads: Lane,
    writes: Lane,
    fifo_batch: u32,
    writes_starved: u32,
    batch_is_write: bool,
    batch_left: u32,
    /// The number of batches of reads that began while writes waited, since the last batch of writes.
    read_batches_passed: u32,
}

impl Deadline {
    fn new(model: &DeadlineModel) -> Self {
        Self {
            reads: Lane::new(model.read_expire.value),
            writes: Lane::new(model.write_expire.value),
            fifo_batch: model.fifo_batch.value,
            writes_starved: model.writes_starved.value,
            batch_is_write: false,
            batch_left: 0,
            read_batches_passed: 0,
        }
    }

    fn lane(&mut self, is_write: bool) -> &mut Lane {
        if is_write {
            &mut self.writes
        } else {
            &mut self.reads
        }
    }

    fn next(&mut self, now_ns: u64) -> Option<Command> {
        if self.batch_left > 0 {
            self.batch_left -= 1;
            let is_write = self.batch_is_write;
            if let Some(command) = self.lane(is_write).next_upwards() {
                return Some(command);
            }
        }
        self.batch_is_write = self.choose_direction()?;
        self.batch_left = self.fifo_batch.saturating_sub(1);
        let is_write = self.batch_is_write;
        self.lane(is_write).begin_batch(now_ns)
    }

    /// Returns whether the next batch is one of writes, or `None` if no command waits.
    fn choose_direction(&mut self) -> Option<bool> {
        let writes_wait = !self.writes.is_empty();
        if self.reads.is_empty() {
            self.read_batches_passed = 0;
            return writes_wait.then_some(true);
        }
        if writes_wait && self.read_batches_passed >= self.writes_starved {
            self.read_batches_passed = 0;
            return Some(true);
        }
        self.read_batches_passed += u32::from(writes_wait);
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::DeviceModel;

    const EXPIRE_NS: u64 = 500_000_000;

    /// Returns the elevator of the disk of 2007, with requests at these offsets submitted at time 0.
    fn elevator(reads: &[u64], writes: &[u64]) -> Scheduler {
        let model = DeviceModel::named("sata-2007").expect("the model is in the table");
        let mut scheduler = Scheduler::new(&model.queue);
        let mut table = CommandTable::default();
        let places = reads.iter().map(|&at| (at, false));
        for (at, is_write) in places.chain(writes.iter().map(|&at| (at, true))) {
            add(&mut scheduler, is_write, at, &mut table);
        }
        scheduler
    }

    fn add(scheduler: &mut Scheduler, is_write: bool, at: u64, table: &mut CommandTable) {
        let request = Request {
            kind: if is_write {
                RequestKind::Write
            } else {
                RequestKind::Read
            },
            process: 0,
            offset_bytes: at,
            len_bytes: 1,
        };
        scheduler.add(0, &request, (at, at + 1), RequestId(at), table);
    }

    fn order(scheduler: &mut Scheduler, now_ns: u64) -> Vec<u64> {
        std::iter::from_fn(|| scheduler.next(now_ns))
            .map(|command| command.start_bytes)
            .collect()
    }

    #[test]
    fn elevator_dispatches_reads_in_ascending_order() {
        let mut scheduler = elevator(&[50, 10, 90, 30], &[]);
        assert_eq!(order(&mut scheduler, 0), [10, 30, 50, 90]);
    }

    #[test]
    fn elevator_new_read_before_the_sweep_position_waits_for_the_next_sweep() {
        let mut scheduler = elevator(&[50, 90], &[]);
        assert_eq!(
            scheduler.next(0).map(|command| command.start_bytes),
            Some(50)
        );
        let mut table = CommandTable::default();
        // The new table assigns slots from 0 again. Skip the slots of the commands in the scheduler.
        for request in [RequestId(0), RequestId(1), RequestId(2)] {
            table.make(false, (0, 1), request);
        }
        add(&mut scheduler, false, 10, &mut table);
        assert_eq!(order(&mut scheduler, 0), [90, 10]);
    }

    #[test]
    fn elevator_read_past_its_deadline_begins_the_next_batch() {
        let reads: Vec<u64> = [900].into_iter().chain((0..20).map(|at| at * 10)).collect();
        let mut scheduler = elevator(&reads, &[]);
        let out = order(&mut scheduler, EXPIRE_NS);
        assert_eq!(out[0], 900);
        assert_eq!(order(&mut elevator(&reads, &[]), EXPIRE_NS - 1)[20], 900);
    }

    #[test]
    fn elevator_serves_writes_after_two_batches_of_reads() {
        let reads: Vec<u64> = (0..64).map(|at| at * 10).collect();
        let mut scheduler = elevator(&reads, &[1005, 1015]);
        let out = order(&mut scheduler, 0);
        let expected: Vec<u64> = reads[..32]
            .iter()
            .chain(&[1005, 1015])
            .chain(&reads[32..])
            .copied()
            .collect();
        assert_eq!(out, expected);
    }
}
