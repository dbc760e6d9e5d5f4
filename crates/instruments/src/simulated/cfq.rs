//! Simulates CFQ, completely fair queueing: the elevator serves one process after the other, each for a time
//! slice.
//!
//! Model: `cfq-iosched` of Linux 2.6.20. The reads of each process are in a queue of their own, and the
//! writes of all processes are in one queue (asynchronous writes). The queues that have commands take turns.
//! A turn (slice) begins at the first completion of one of its commands. It ends `slice_sync` (for reads) or
//! `slice_async` (for writes) later. A turn of writes also ends after `slice_async_commands`. If the queue of
//! a process becomes empty, the elevator first waits until the commands of the process in the device are
//! done. Then it waits up to `slice_idle` for the next request of the process, because that request is
//! probably near the previous one. It does not wait for a process whose mean pause between requests is longer
//! than `slice_idle`. If the device queues commands, the elevator also does not wait for a process whose mean distance
//! between requests exceeds [`FAR_BYTES`]. A read ends the turn of writes immediately.
//!
//! Within a queue, the oldest command is served first if it has expired when the turn begins. All other
//! commands are chosen by their distance from the last one: the nearest is next, and distances backwards
//! count more. `quantum` commands are chosen at once.
//!
//! Deliberate differences: all processes have the same priority. A turn that ends early leaves no credit for
//! the next one.
//!
//! Invariants: 1. A queue with waiting commands is either `active`, or in `round` once. 2. `dispatched` of a
//! queue is the number of its commands in `batch` and in the device.

use std::collections::{BTreeMap, VecDeque};

use super::arithmetic::nanos;
use super::command::Command;
use super::lane::Lane;
use super::parameters::CfqModel;

/// If the mean distance between the requests of a process is larger than this, its reads count as random.
const FAR_BYTES: u64 = 64 << 20;
/// The maximum time for which the elevator waits for a process with random reads if the device does not queue commands.
const FAR_IDLE_NS: u64 = 2_000_000;
/// A device that had more commands than this at one time is known to queue commands.
const QUEUEING_COMMANDS: usize = 4;
/// A mean is used only when it has at least this many samples.
const MEAN_SAMPLES: u32 = 3;

/// The owner of a queue: a process, or `None` for the writes of all processes.
type Owner = Option<u32>;

/// The queues of all processes.
#[derive(Debug)]
pub(super) struct Cfq {
    model: CfqModel,
    queues: BTreeMap<Owner, Queue>,
    /// The queues that wait for their turn.
    round: VecDeque<Owner>,
    active: Option<Turn>,
    /// The commands that were chosen and not yet sent to the device.
    batch: VecDeque<Command>,
    /// The owner of the command in each slot.
    owners: Vec<Owner>,
    /// The end of the last command that was chosen.
    position_bytes: u64,
    in_device: usize,
    is_queueing: bool,
}

#[derive(Debug)]
struct Queue {
    lane: Lane,
    dispatched: usize,
    last_end_bytes: Option<u64>,
    distance_bytes: Mean,
    last_done_ns: Option<u64>,
    pause_ns: Mean,
}

/// The turn of the queue that is being served.
#[derive(Clone, Copy, Debug)]
struct Turn {
    owner: Owner,
    /// The time at which the turn ends. It is known after the first completion.
    end_ns: Option<u64>,
    commands: u32,
    has_checked_age: bool,
    /// The time at which the elevator stops waiting for the next request, if it waits.
    idle_until_ns: Option<u64>,
}

/// A mean in which each new value has a weight of an eighth.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    samples: u32,
    value: u64,
}

impl Mean {
    fn add(&mut self, value: u64) {
        self.value = match self.samples {
            0 => value,
            _ => (self.value * 7 + value) / 8,
        };
        self.samples = self.samples.saturating_add(1);
    }

    fn exceeds(self, limit: u64) -> bool {
        self.samples >= MEAN_SAMPLES && self.value > limit
    }
}

impl Cfq {
    pub fn new(model: &CfqModel) -> Self {
        Self {
            model: *model,
            queues: BTreeMap::new(),
            round: VecDeque::new(),
            active: None,
            batch: VecDeque::new(),
            owners: Vec::new(),
            position_bytes: 0,
            in_device: 0,
            is_queueing: false,
        }
    }

    /// Returns the waiting commands of the queue to which a request of `process` belongs.
    pub fn lane(&mut self, is_write: bool, process: u32) -> &mut Lane {
        &mut self.queue((!is_write).then_some(process)).lane
    }

    fn queue(&mut self, owner: Owner) -> &mut Queue {
        let expire = match owner {
            Some(_) => self.model.fifo_expire_sync.value,
            None => self.model.fifo_expire_async.value,
        };
        self.queues.entry(owner).or_insert_with(|| Queue {
            lane: Lane::new(expire),
            dispatched: 0,
            last_end_bytes: None,
            distance_bytes: Mean::default(),
            last_done_ns: None,
            pause_ns: Mean::default(),
        })
    }

    /// Adds a command of `process`.
    pub fn add(&mut self, now_ns: u64, process: u32, command: Command) {
        let owner = (!command.is_write).then_some(process);
        let most_pause_ns = 2 * nanos(self.model.slice_idle.value);
        let queue = self.queue(owner);
        if let Some(end_bytes) = queue.last_end_bytes.replace(command.end_bytes) {
            let distance_bytes = end_bytes.abs_diff(command.start_bytes);
            queue.distance_bytes.add(distance_bytes);
        }
        if let Some(done_ns) = queue.last_done_ns {
            queue.pause_ns.add((now_ns - done_ns).min(most_pause_ns));
        }
        let was_empty = queue.lane.is_empty();
        queue.lane.add(now_ns, command);
        if self.owners.len() <= command.slot {
            self.owners.resize(command.slot + 1, None);
        }
        self.owners[command.slot] = owner;
        match &mut self.active {
            Some(turn) if turn.owner == owner => turn.idle_until_ns = None,
            Some(Turn { owner: None, .. }) => {
                self.end_turn();
                self.round.retain(|waiting| *waiting != owner);
                self.round.push_front(owner);
            }
            _ if was_empty => self.round.push_back(owner),
            _ => {}
        }
    }

    /// Removes and returns the next command for the device.
    pub fn next(&mut self, now_ns: u64) -> Option<Command> {
        if self.batch.is_empty() {
            self.fill_batch(now_ns);
        }
        let command = self.batch.pop_front()?;
        self.in_device += 1;
        self.is_queueing |= self.in_device > QUEUEING_COMMANDS;
        Some(command)
    }

    fn fill_batch(&mut self, now_ns: u64) {
        let Some(mut turn) = self.choose_turn(now_ns) else {
            return;
        };
        for _ in 0..self.model.quantum.value {
            if self.is_used_up(&turn) {
                break;
            }
            let (back_max_bytes, back_penalty) = (
                self.model.back_seek_max_bytes.value,
                self.model.back_seek_penalty.value,
            );
            let position_bytes = self.position_bytes;
            let queue = self.queue(turn.owner);
            let mut key = None;
            if !turn.has_checked_age {
                turn.has_checked_age = true;
                key = queue.lane.expired(now_ns);
            }
            let nearest = || {
                queue
                    .lane
                    .nearest(position_bytes, back_max_bytes, back_penalty)
            };
            let Some(key) = key.or_else(nearest) else {
                break;
            };
            let Some(command) = queue.lane.take(key) else {
                break;
            };
            queue.dispatched += 1;
            turn.commands += 1;
            self.position_bytes = command.end_bytes;
            self.batch.push_back(command);
        }
        self.active = Some(turn);
    }

    /// Returns the active turn if its queue has a command to serve now. Ends a turn that is over, and begins
    /// the next one.
    fn choose_turn(&mut self, now_ns: u64) -> Option<Turn> {
        if let Some(turn) = self.active {
            let is_over = turn.end_ns.is_some_and(|end_ns| end_ns <= now_ns);
            let queue = &self.queues[&turn.owner];
            if is_over || self.is_used_up(&turn) {
                self.end_turn();
            } else if !queue.lane.is_empty() {
                return Some(turn);
            } else if queue.dispatched > 0 {
                return None;
            } else {
                let idle_until_ns = match turn.idle_until_ns {
                    None => self.idle_ns(turn.owner).map(|idle_ns| now_ns + idle_ns),
                    Some(until_ns) => (until_ns > now_ns).then_some(until_ns),
                };
                if idle_until_ns.is_some() {
                    self.active = Some(Turn {
                        idle_until_ns,
                        ..turn
                    });
                    return None;
                }
                self.end_turn();
            }
        }
        let owner = self.round.pop_front()?;
        self.active = Some(Turn {
            owner,
            end_ns: None,
            commands: 0,
            has_checked_age: false,
            idle_until_ns: None,
        });
        self.active
    }

    fn is_used_up(&self, turn: &Turn) -> bool {
        turn.owner.is_none() && turn.commands >= self.model.slice_async_commands.value
    }

    /// Ends the turn of the active queue.
    fn end_turn(&mut self) {
        if let Some(turn) = self.active.take()
            && !self.queues[&turn.owner].lane.is_empty()
        {
            self.round.push_back(turn.owner);
        }
    }

    /// Returns how long the elevator waits for the next request of this owner, or `None` if it does not wait.
    fn idle_ns(&self, owner: Owner) -> Option<u64> {
        let queue = &self.queues[&owner];
        let idle_ns = nanos(self.model.slice_idle.value);
        if owner.is_none() || queue.pause_ns.exceeds(idle_ns) {
            return None;
        }
        match (queue.distance_bytes.exceeds(FAR_BYTES), self.is_queueing) {
            (false, _) => Some(idle_ns),
            (true, false) => Some(idle_ns.min(FAR_IDLE_NS)),
            (true, true) => None,
        }
    }

    /// Records that the device has completed the command in `slot`.
    pub fn finished(&mut self, now_ns: u64, slot: usize) {
        self.in_device -= 1;
        let owner = self.owners[slot];
        let queue = self.queue(owner);
        queue.dispatched -= 1;
        queue.last_done_ns = Some(now_ns);
        let slice = match owner {
            Some(_) => self.model.slice_sync.value,
            None => self.model.slice_async.value,
        };
        if let Some(turn) = &mut self.active
            && turn.owner == owner
        {
            turn.end_ns.get_or_insert(now_ns + nanos(slice));
        }
    }

    /// Returns the time at which the elevator stops waiting for a request, or `None` if it does not wait.
    pub fn timer_ns(&self) -> Option<u64> {
        self.active?.idle_until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::CommandTable;
    use super::super::parameters::ElevatorModel;
    use super::*;
    use crate::simulated::{DeviceModel, RequestId};

    const MIB: u64 = 1 << 20;
    const MS: u64 = 1_000_000;

    struct Tested {
        cfq: Cfq,
        table: CommandTable,
    }

    impl Tested {
        fn new() -> Self {
            let model = DeviceModel::named("sata-2007-cfq").expect("the model is in the table");
            let Some(ElevatorModel::Cfq(model)) = model.queue.elevator else {
                panic!("the elevator is CFQ");
            };
            Self {
                cfq: Cfq::new(&model),
                table: CommandTable::default(),
            }
        }

        /// Adds a read of `process` at each offset.
        fn read(&mut self, now_ns: u64, process: u32, offsets: &[u64]) {
            for &at in offsets {
                let command = self.table.make(false, (at, at + 1), RequestId(at));
                self.cfq.add(now_ns, process, command);
            }
        }

        fn write(&mut self, now_ns: u64, offsets: impl IntoIterator<Item = u64>) {
            for at in offsets {
                let command = self.table.make(true, (at, at + 1), RequestId(at));
                self.cfq.add(now_ns, 0, command);
            }
        }

        /// Sends one command to the device, which completes it at once. Returns its offset.
        fn serve(&mut self, now_ns: u64) -> Option<u64> {
            let command = self.cfq.next(now_ns)?;
            self.cfq.finished(now_ns, command.slot);
            self.table.finish(command.slot, |_| {});
            Some(command.start_bytes)
        }

        fn serve_all(&mut self, now_ns: u64) -> Vec<u64> {
            std::iter::from_fn(|| self.serve(now_ns)).collect()
        }
    }

    #[test]
    fn process_is_served_in_order_of_offset_before_the_next_process() {
        let mut tested = Tested::new();
        tested.read(0, 1, &[50, 10, 90]);
        tested.read(0, 2, &[20, 60]);
        assert_eq!(tested.serve_all(0), [10, 50, 90]);
        // The elevator waits for the first process.
        assert_eq!(tested.cfq.timer_ns(), Some(8 * MS));
        // The nearest command is first, here backwards.
        assert_eq!(tested.serve_all(8 * MS), [60, 20]);
    }

    #[test]
    fn request_within_the_idle_window_is_served_before_another_process() {
        let mut tested = Tested::new();
        tested.read(0, 1, &[10]);
        tested.read(0, 2, &[20]);
        assert_eq!(tested.serve_all(0), [10]);
        tested.read(5 * MS, 1, &[11]);
        assert_eq!(tested.cfq.timer_ns(), None);
        assert_eq!(tested.serve_all(5 * MS), [11]);
        assert_eq!(tested.serve_all(13 * MS), [20]);
    }

    #[test]
    fn slice_ends_a_hundred_milliseconds_after_its_first_completion() {
        let mut tested = Tested::new();
        tested.read(0, 1, &[10, 11, 12, 13, 14, 15, 16, 17, 18]);
        tested.read(0, 2, &[5]);
        assert_eq!(tested.serve(0), Some(10));
        assert_eq!(tested.serve(99 * MS), Some(11));
        // The four commands of a quantum were chosen before the end of the slice.
        assert_eq!(tested.serve(100 * MS), Some(12));
        assert_eq!(tested.serve(100 * MS), Some(13));
        assert_eq!(tested.serve_all(100 * MS), [5]);
        assert_eq!(tested.serve_all(200 * MS), [14, 15, 16, 17, 18]);
    }

    #[test]
    fn sixteen_writes_are_served_between_reads_and_a_read_ends_their_turn() {
        let mut tested = Tested::new();
        tested.read(0, 1, &[10]);
        tested.write(0, 100..140);
        assert_eq!(tested.serve_all(0), [10]);
        let first: Vec<u64> = (0..4).filter_map(|_| tested.serve(8 * MS)).collect();
        assert_eq!(first, [100, 101, 102, 103]);
        tested.read(8 * MS, 1, &[11]);
        assert_eq!(tested.serve_all(8 * MS), [11]);
        // The first turn served four writes, and the next one serves sixteen.
        tested.read(16 * MS, 2, &[12]);
        let second: Vec<u64> = (104..120).chain([12]).collect();
        assert_eq!(tested.serve_all(16 * MS), second);
        assert_eq!(tested.serve_all(24 * MS).len(), 20);
    }

    #[test]
    fn elevator_does_not_wait_for_a_process_that_pauses_or_seeks_far() {
        let mut pausing = Tested::new();
        for number in 0..8 {
            pausing.read(number * 20 * MS, 1, &[number]);
            pausing.serve_all(number * 20 * MS);
        }
        assert_eq!(pausing.cfq.timer_ns(), None);

        let mut far = Tested::new();
        for number in 0..8 {
            far.read(number * MS, 1, &[number % 2 * 1000 * MIB]);
            far.serve_all(number * MS);
        }
        // If the device does not queue commands, the elevator waits a short time.
        assert_eq!(far.cfq.timer_ns(), Some(9 * MS));
        far.cfq.is_queueing = true;
        far.read(8 * MS, 1, &[0]);
        far.serve_all(8 * MS);
        assert_eq!(far.cfq.timer_ns(), None);
    }

    #[test]
    fn command_shortly_before_the_head_is_served_first_if_the_next_one_is_far() {
        let mut tested = Tested::new();
        tested.read(0, 1, &[100 * MIB]);
        tested.serve_all(0);
        tested.read(0, 1, &[95 * MIB, 120 * MIB]);
        assert_eq!(tested.serve_all(0), [95 * MIB, 120 * MIB]);
        tested.read(0, 1, &[100 * MIB, 122 * MIB]);
        assert_eq!(tested.serve_all(0), [122 * MIB, 100 * MIB]);
    }

    #[test]
    fn expired_read_is_first_in_the_next_slice() {
        let mut tested = Tested::new();
        tested.read(0, 2, &[1]);
        tested.serve_all(0);
        tested.read(0, 1, &[900]);
        tested.read(1, 1, &[10]);
        assert_eq!(tested.serve_all(125 * MS), [900, 10]);
    }
}
