//! The interface of a simulated device. Requests must be submitted in order of time, and completions are
//! returned in order of time.

use std::collections::{BTreeMap, VecDeque};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::arithmetic::earliest;
use super::command::{Command, CommandTable};
use super::drive::Drive;
use super::parallel::Parallel;
use super::parameters::{DeviceModel, ServiceModel};
use super::scheduler::Scheduler;
use super::{Completion, Request, RequestId, RequestKind, VirtualTime};

/// The numbers of commands and bytes that were sent to the device so far. Requests that were merged into one
/// command count as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// The number of read commands that were sent to the device.
    pub reads: u64,
    /// The bytes of these reads.
    pub read_bytes: u64,
    /// The number of write commands that were sent to the device.
    pub writes: u64,
    /// The bytes of these writes.
    pub written_bytes: u64,
}

/// A block device that is simulated in virtual time.
///
/// Requests that are submitted at the same time, before the next call of [`Self::complete`], are sorted
/// and merged before the first of them is sent to the device. This corresponds to plugging in Linux.
///
/// Invariants:
/// 1. Every request is completed exactly once, not before it was submitted. Completions are returned in order
///    of time.
/// 2. `in_device` is the number of commands in `service`. It is at most the model's `device_depth`.
/// 3. `outstanding_reads` is the number of read commands in `scheduler` and `service`.
#[derive(Debug)]
pub struct SimulatedDevice {
    model: DeviceModel,
    next_id: u64,
    commands: CommandTable,
    scheduler: Scheduler,
    service: Service,
    /// The time of the next event of `service`. It is updated after each event.
    service_at_ns: Option<u64>,
    in_device: usize,
    outstanding_reads: usize,
    /// For each request that was split into several commands, the number of its commands that are not done.
    parts_left: BTreeMap<RequestId, u64>,
    /// The time of the latest submission, if `dispatch` has not run since then.
    plugged_at_ns: Option<u64>,
    done: VecDeque<Completion>,
    counts: DeviceCounts,
}

#[derive(Debug)]
enum Service {
    Disk(Box<Drive>),
    Parallel(Parallel),
}

impl Service {
    fn accept(&mut self, now_ns: u64, command: Command) {
        match self {
            Self::Disk(drive) => drive.accept(now_ns, command),
            Self::Parallel(parallel) => parallel.accept(now_ns, command),
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        match self {
            Self::Disk(drive) => drive.next_event_ns(),
            Self::Parallel(parallel) => parallel.next_event_ns(),
        }
    }

    fn step(&mut self, now_ns: u64) -> Option<usize> {
        match self {
            Self::Disk(drive) => drive.step(now_ns),
            Self::Parallel(parallel) => parallel.step(now_ns),
        }
    }
}

impl SimulatedDevice {
    /// Creates a device of `model`. The initial angle of the platters of a disk, and the latencies of a parallel device,
    /// are derived from `seed`.
    #[must_use]
    pub fn new(model: &DeviceModel, seed: u64) -> Self {
        let phase = Pcg64Mcg::seed_from_u64(seed).random();
        let service = match &model.service {
            ServiceModel::Disk(disk) => {
                Service::Disk(Box::new(Drive::new(disk, model.size_bytes.value, phase)))
            }
            ServiceModel::Parallel(parallel) => Service::Parallel(Parallel::new(parallel, seed)),
        };
        Self {
            model: *model,
            next_id: 0,
            commands: CommandTable::default(),
            scheduler: Scheduler::new(&model.queue),
            service,
            service_at_ns: None,
            in_device: 0,
            outstanding_reads: 0,
            parts_left: BTreeMap::new(),
            plugged_at_ns: None,
            done: VecDeque::new(),
            counts: DeviceCounts::default(),
        }
    }

    /// Returns the model of the device.
    #[must_use]
    pub fn model(&self) -> &DeviceModel {
        &self.model
    }

    /// Submits a request and returns its id. Ids are consecutive numbers from 0. `now` must not be earlier
    /// than in any previous call. The device accepts any number of requests. A caller that models Linux must
    /// not submit readahead while [`Self::is_congested`] returns true.
    ///
    /// # Panics
    /// Panics if the request is empty or not within the device.
    pub fn submit(&mut self, now: VirtualTime, request: Request) -> RequestId {
        let end_bytes = request.offset_bytes.saturating_add(request.len_bytes);
        assert!(
            request.len_bytes > 0 && end_bytes <= self.model.size_bytes.value,
            "{request:?} is empty or extends past the end of `{}`",
            self.model.name
        );
        self.advance(now.0, true);
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let is_write = request.kind == RequestKind::Write;
        let max_bytes = self.scheduler.max_command_bytes();
        let parts = request.len_bytes.div_ceil(max_bytes);
        if parts > 1 {
            self.parts_left.insert(id, parts);
        }
        let mut start_bytes = request.offset_bytes;
        while start_bytes < end_bytes {
            let stop_bytes = end_bytes.min(start_bytes.saturating_add(max_bytes));
            let bytes = (start_bytes, stop_bytes);
            let is_new = self
                .scheduler
                .add(now.0, &request, bytes, id, &mut self.commands);
            self.outstanding_reads += usize::from(is_new && !is_write);
            start_bytes = stop_bytes;
        }
        self.plugged_at_ns = Some(now.0);
        id
    }

    /// Returns the time of the next event if no further request is submitted, or `None` if the device is
    /// idle. The caller should call [`Self::complete`] at that time. [`Self::complete`] may then return
    /// `None`, since not every event completes a request.
    #[must_use]
    pub fn next_event(&self) -> Option<VirtualTime> {
        let done_ns = self.done.front().map(|completion| completion.at.0);
        earliest([
            done_ns,
            self.plugged_at_ns,
            self.service_at_ns,
            self.timer_ns(),
        ])
        .map(VirtualTime)
    }

    /// Removes and returns the earliest completion that is due at or before `now`, or `None` if none is
    /// due.
    pub fn complete(&mut self, now: VirtualTime) -> Option<Completion> {
        self.advance(now.0, false);
        if self.done.front()?.at > now {
            return None;
        }
        self.done.pop_front()
    }

    /// Returns whether the number of read commands that are not done is at least 7/8 of `nr_requests`.
    /// Linux then skips readahead.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.outstanding_reads >= self.model.queue.nr_requests.value * 7 / 8
    }

    /// Returns the counts so far. A command is counted when it is sent to the device.
    #[must_use]
    pub fn counts(&self) -> DeviceCounts {
        self.counts
    }

    /// Processes all events that are due at or before `now_ns`. With `hold`, requests that were submitted at
    /// exactly this time stay in the queue, because requests that can be merged with them may follow.
    fn advance(&mut self, now_ns: u64, hold: bool) {
        loop {
            let plugged = self
                .plugged_at_ns
                .filter(|&at_ns| at_ns < now_ns || (at_ns == now_ns && !hold));
            let event = self.service_at_ns.filter(|&at_ns| at_ns <= now_ns);
            let timer = self.timer_ns().filter(|&at_ns| at_ns <= now_ns);
            let Some(at_ns) = earliest([plugged, event, timer]) else {
                return;
            };
            if plugged == Some(at_ns) {
                self.plugged_at_ns = None;
            } else if event == Some(at_ns)
                && let Some(slot) = self.service.step(at_ns)
            {
                self.finish(at_ns, slot);
            }
            if self.plugged_at_ns.is_none() {
                self.dispatch(at_ns);
            }
            self.service_at_ns = self.service.next_event_ns();
        }
    }

    /// Returns the time at which the scheduler may have another command. Returns `None` if the device could
    /// not accept that command now.
    fn timer_ns(&self) -> Option<u64> {
        let is_ready = self.has_room() && self.plugged_at_ns.is_none();
        self.scheduler.timer_ns().filter(|_| is_ready)
    }

    /// Returns whether the device accepts another command.
    fn has_room(&self) -> bool {
        let depth = self.model.queue.device_depth;
        depth.is_none_or(|depth| self.in_device < depth.value)
    }

    fn dispatch(&mut self, now_ns: u64) {
        while self.has_room()
            && let Some(command) = self.scheduler.next(now_ns)
        {
            self.in_device += 1;
            if command.is_write {
                self.counts.writes += 1;
                self.counts.written_bytes += command.len_bytes();
            } else {
                self.counts.reads += 1;
                self.counts.read_bytes += command.len_bytes();
            }
            self.service.accept(now_ns, command);
        }
    }

    fn finish(&mut self, now_ns: u64, slot: usize) {
        let (parts_left, done) = (&mut self.parts_left, &mut self.done);
        self.scheduler.finished(now_ns, slot);
        let is_write = self.commands.finish(slot, |id| {
            if let Some(left) = parts_left.get_mut(&id) {
                *left -= 1;
                if *left > 0 {
                    return;
                }
                parts_left.remove(&id);
            }
            done.push_back(Completion {
                id,
                at: VirtualTime(now_ns),
            });
        });
        self.in_device -= 1;
        self.outstanding_reads -= usize::from(!is_write);
    }
}
