//! Simulates the host's I/O scheduler: a queue of commands that wait until the device can accept them.
//!
//! Model: Linux's deadline elevator. Commands are served in batches of one direction: reads or writes. A
//! batch serves commands in ascending order of offset. It begins at the oldest command if the deadline of
//! this command has expired, and otherwise at the end of the previous batch of its direction. Batches of
//! reads precede batches of writes, except that a batch of writes is served after `writes_starved` batches of
//! reads. In a model without an elevator, commands are served in order of arrival and are not merged.
//!
//! Differences from Linux: the default of Linux 2.6.20 was CFQ, which shares the disk among processes;
//! requests here have no process. If a request fills the gap between two commands, it is merged with one of
//! them, but the two commands are not merged. A request that overlaps a waiting command becomes a command of
//! its own.
//!
//! Invariants:
//! 1. The `sorted` and `keys` of a lane contain the same commands: all commands of its direction that wait.
//! 2. The `arrivals` of a lane contain each of these commands once, in order of deadline. They may also
//!    contain commands that were sent to the device.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::RequestId;
use super::arithmetic::nanos;
use super::command::{Command, CommandTable};
use super::parameters::{ElevatorModel, QueueModel};

/// The host's queue of commands for the device.
#[derive(Debug)]
pub(super) struct Scheduler {
    max_command_bytes: u64,
    order: Order,
}

#[derive(Debug)]
enum Order {
    Arrival(VecDeque<Command>),
    Elevator(Elevator),
}

impl Scheduler {
    pub fn new(model: &QueueModel) -> Self {
        Self {
            max_command_bytes: model
                .max_command_bytes
                .map_or(u64::MAX, |bytes| bytes.value),
            order: model.elevator.as_ref().map_or_else(
                || Order::Arrival(VecDeque::new()),
                |elevator| Order::Elevator(Elevator::new(elevator)),
            ),
        }
    }

    /// Returns the maximum size of a command. Larger requests are split into several commands.
    pub fn max_command_bytes(&self) -> u64 {
        self.max_command_bytes
    }

    /// Adds a range of bytes that `request` waits for, which must not exceed the maximum size of a command.
    /// Returns whether a new command was created. Otherwise the bytes were merged with a waiting command.
    pub fn add(
        &mut self,
        now_ns: u64,
        is_write: bool,
        bytes: (u64, u64),
        request: RequestId,
        table: &mut CommandTable,
    ) -> bool {
        match &mut self.order {
            Order::Arrival(waiting) => {
                waiting.push_back(table.make(is_write, bytes, request));
                true
            }
            Order::Elevator(elevator) => {
                let max_bytes = self.max_command_bytes;
                let lane = elevator.lane(is_write);
                if let Some(slot) = lane.merge(bytes, max_bytes) {
                    table.join(slot, request);
                    false
                } else {
                    lane.add(now_ns, table.make(is_write, bytes, request));
                    true
                }
            }
        }
    }

    /// Removes and returns the next command for the device.
    pub fn next(&mut self, now_ns: u64) -> Option<Command> {
        match &mut self.order {
            Order::Arrival(waiting) => waiting.pop_front(),
            Order::Elevator(elevator) => elevator.next(now_ns),
        }
    }
}

#[derive(Debug)]
struct Elevator {
    reads: Lane,
    writes: Lane,
    fifo_batch: u32,
    writes_starved: u32,
    batch_is_write: bool,
    batch_left: u32,
    /// Number of batches of reads that began while writes waited, since the last batch of writes.
    read_batches_passed: u32,
}

impl Elevator {
    fn new(model: &ElevatorModel) -> Self {
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

    /// Returns whether the next batch writes, or `None` if no command waits.
    fn choose_direction(&mut self) -> Option<bool> {
        let writes_wait = !self.writes.sorted.is_empty();
        if self.reads.sorted.is_empty() {
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

/// The first byte and the number of a command, which define the order of commands in a batch.
type Key = (u64, u64);

/// The waiting commands of one direction.
#[derive(Debug)]
struct Lane {
    expire_ns: u64,
    sorted: BTreeMap<Key, Command>,
    /// The key of the command in each slot.
    keys: Vec<Option<Key>>,
    arrivals: VecDeque<Arrival>,
    /// The end of the last command that was sent to the device.
    position_bytes: u64,
}

#[derive(Debug)]
struct Arrival {
    slot: usize,
    number: u64,
    deadline_ns: u64,
}

impl Lane {
    fn new(expire: Duration) -> Self {
        Self {
            expire_ns: nanos(expire),
            sorted: BTreeMap::new(),
            keys: Vec::new(),
            arrivals: VecDeque::new(),
            position_bytes: 0,
        }
    }

    fn add(&mut self, now_ns: u64, command: Command) {
        self.arrivals.push_back(Arrival {
            slot: command.slot,
            number: command.number,
            deadline_ns: now_ns.saturating_add(self.expire_ns),
        });
        self.insert(command);
    }

    fn insert(&mut self, command: Command) {
        if self.keys.len() <= command.slot {
            self.keys.resize(command.slot + 1, None);
        }
        let key = (command.start_bytes, command.number);
        self.keys[command.slot] = Some(key);
        self.sorted.insert(key, command);
    }

    /// Extends a waiting command that the bytes directly follow or precede, and returns its slot. Returns
    /// `None` if there is no such command or if it would become too large.
    fn merge(&mut self, (start_bytes, end_bytes): (u64, u64), max_bytes: u64) -> Option<usize> {
        let room_bytes = max_bytes.checked_sub(end_bytes - start_bytes)?;
        if let Some((_, before)) = self.sorted.range_mut(..(start_bytes, 0)).next_back()
            && before.end_bytes == start_bytes
            && before.len_bytes() <= room_bytes
        {
            before.end_bytes = end_bytes;
            return Some(before.slot);
        }
        let (&key, &following) = self.sorted.range((end_bytes, 0)..).next()?;
        if following.start_bytes != end_bytes || following.len_bytes() > room_bytes {
            return None;
        }
        self.sorted.remove(&key);
        self.insert(Command {
            start_bytes,
            ..following
        });
        Some(following.slot)
    }

    fn begin_batch(&mut self, now_ns: u64) -> Option<Command> {
        if let Some(key) = self.expired(now_ns) {
            return self.take(key);
        }
        self.next_upwards().or_else(|| {
            let key = *self.sorted.first_key_value()?.0;
            self.take(key)
        })
    }

    /// Returns the key of the oldest command, if its deadline has expired.
    fn expired(&mut self, now_ns: u64) -> Option<Key> {
        while let Some(oldest) = self.arrivals.front() {
            match self.keys[oldest.slot] {
                Some(key) if key.1 == oldest.number => {
                    return (oldest.deadline_ns <= now_ns).then_some(key);
                }
                _ => self.arrivals.pop_front(),
            };
        }
        None
    }

    fn next_upwards(&mut self) -> Option<Command> {
        let key = *self.sorted.range((self.position_bytes, 0)..).next()?.0;
        self.take(key)
    }

    fn take(&mut self, key: Key) -> Option<Command> {
        let command = self.sorted.remove(&key)?;
        self.keys[command.slot] = None;
        self.position_bytes = command.end_bytes;
        // Also remove commands here that were sent to the device, since `expired` may not be called for a
        // long time.
        while let Some(oldest) = self.arrivals.front()
            && self.keys[oldest.slot].is_none_or(|key| key.1 != oldest.number)
        {
            self.arrivals.pop_front();
        }
        Some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{DeviceModel, RequestId};

    const EXPIRE_NS: u64 = 500_000_000;

    /// Returns the elevator of the disk of 2007, with requests at these offsets submitted at time 0.
    fn elevator(reads: &[u64], writes: &[u64]) -> Scheduler {
        let model = DeviceModel::named("sata-2007").expect("the model is in the table");
        let mut scheduler = Scheduler::new(&model.queue);
        let mut table = CommandTable::default();
        let places = reads.iter().map(|&at| (at, false));
        for (at, is_write) in places.chain(writes.iter().map(|&at| (at, true))) {
            scheduler.add(0, is_write, (at, at + 1), RequestId(at), &mut table);
        }
        scheduler
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
        scheduler.add(0, false, (10, 11), RequestId(10), &mut table);
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
    fn elevator_writes_passed_over_twice_get_the_third_batch() {
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
