//! Executes one run: readers that each have one operation in progress, and the events that advance them.
//!
//! ```text
//!   Start ──> Next ──> Ready ──> runs until it waits ──> done: Next, or Exit
//!                        ^                │
//!                        └── page read, memory free, flushed, less dirty
//! ```
//!
//! When a reader runs, it executes as much of its operation as possible. It issues all device requests at the
//! time at which it began to run; the processor time that it spends delays only the rest of the operation after
//! a wait, or the next operation. A reader that needs a page that is being read is queued with this read. When
//! the read completes, all readers that wait for one of its pages receive the page before any of them continues.
//!
//! # Invariants
//! 1. A reader that is not done has one pending event, or is queued for a processor, or waits for a read, for
//!    a flush, for memory or for fewer dirty pages. While a reader waits for memory or for fewer dirty pages, a
//!    device request is in flight, or a reader that was notified of free memory has not run yet.
//! 2. Each completion wakes readers that wait for memory, in FIFO order: one for each page that was freed, and
//!    at least one. A woken reader may no longer need the memory. Therefore each reader that runs and
//!    leaves memory free wakes another reader, so that no reader waits while memory is free.

use std::collections::BTreeMap;

use larder_instruments::simulated::{DeviceCounts, VirtualTime};
use larder_readahead::FileState;

use super::cpu::{CpuModel, Processors, Spent};
use super::event::{Event, Events};
use super::ids::{FileId, ReaderId};
use super::latency::Latencies;
use super::machine::{CompletedKind, Machine};
use super::sampler::Sampler;
use super::task::{Progress, Task, TaskKind};
use crate::run_report::{PageCounts, RunReport};
use crate::workload::{Jobs, OpenFileId, Operation, ReaderJob};

/// A reader and its state.
#[derive(Debug)]
struct Reader {
    job: ReaderJob,
    task: Option<Task>,
    /// Earliest start of the next operation.
    due: VirtualTime,
    /// The end of the processor time that the reader has spent.
    busy_until: VirtualTime,
    /// The number of the reader in the queue for memory. The reader keeps this number until it receives a
    /// page.
    memory_number: Option<u64>,
}

/// The state of an open file in one run.
#[derive(Debug)]
struct OpenFile {
    file: FileId,
    state: FileState,
}

/// A run in progress.
#[derive(Debug)]
pub(super) struct Run<'m> {
    machine: &'m mut Machine,
    cpu: CpuModel,
    open_files: Vec<OpenFile>,
    readers: Vec<Reader>,
    events: Events,
    processors: Processors,
    /// Readers that wait for memory, by their numbers in the queue.
    awaiting_memory: BTreeMap<u64, ReaderId>,
    /// The next number in the queue for memory.
    next_memory_number: u64,
    /// Readers that wait for fewer dirty pages.
    throttled: Vec<ReaderId>,
    began: VirtualTime,
    stop_at: Option<VirtualTime>,
    streams: u32,
    left: usize,
    /// Whether an [`Event::Turn`] is pending.
    is_turn_set: bool,
    figures: Figures,
}

/// Measurements of the run so far.
#[derive(Debug)]
struct Figures {
    latencies: Latencies,
    sampler: Sampler,
    bytes_read: u64,
    bytes_written: u64,
    requests: u64,
}

impl<'m> Run<'m> {
    pub(super) fn new(machine: &'m mut Machine, cpu: CpuModel, jobs: Jobs) -> Self {
        let began = machine.now;
        let open_files = jobs.open_files.iter().map(|&file| OpenFile {
            file,
            state: machine.new_state(),
        });
        let mut run = Self {
            open_files: open_files.collect(),
            events: Events::default(),
            processors: Processors::new(cpu.processors, began),
            awaiting_memory: BTreeMap::new(),
            next_memory_number: 0,
            throttled: Vec::new(),
            began,
            stop_at: jobs.stop_after.map(|span| began + span),
            streams: 0,
            left: jobs.readers.len(),
            is_turn_set: false,
            figures: Figures {
                latencies: Latencies::new(),
                sampler: Sampler::new(began, machine.device.counts()),
                bytes_read: 0,
                bytes_written: 0,
                requests: 0,
            },
            readers: Vec::new(),
            cpu,
            machine,
        };
        for (id, job) in (0..).map(ReaderId).zip(jobs.readers) {
            let due = (began + job.start).min(run.stop_at.unwrap_or(VirtualTime(u64::MAX)));
            run.events.push(due, Event::Start(id));
            run.readers.push(Reader {
                job,
                task: None,
                due,
                busy_until: due,
                memory_number: None,
            });
        }
        run
    }

    /// Runs until all readers are done.
    pub(super) fn finish(mut self) -> RunReport {
        let counts_before = self.machine.all_counts();
        let device_before = self.machine.device.counts();
        while self.left > 0 {
            let event_at = self.events.next_at();
            let device_at = self.machine.device.next_event();
            match (event_at, device_at) {
                (None, None) => unreachable!("readers wait, but no event is pending"),
                (Some(at), device_at) if device_at.is_none_or(|device_at| at < device_at) => {
                    self.advance(at);
                    if let Some((_, event)) = self.events.pop() {
                        self.handle(event);
                    }
                }
                (_, device_at) => {
                    self.advance(device_at.unwrap_or(self.machine.now));
                    self.complete();
                }
            }
        }
        self.report(counts_before, device_before)
    }

    /// Advances the clock.
    fn advance(&mut self, to: VirtualTime) {
        while self.figures.sampler.is_due(to) {
            let counts = self.machine.device.counts();
            self.figures.sampler.end_second(counts, self.streams);
        }
        self.machine.now = self.machine.now.max(to);
    }

    fn handle(&mut self, event: Event) {
        let now = self.machine.now;
        match event {
            Event::Start(id) => {
                self.streams += 1;
                self.begin_next_operation(id);
            }
            Event::Next(id) => self.begin_next_operation(id),
            Event::Ready(id) => {
                if self.processors.may_run(id, now) {
                    self.run_reader(id);
                } else {
                    self.schedule_turn();
                }
            }
            Event::Turn => {
                self.is_turn_set = false;
                while let Some(id) = self.processors.next(now) {
                    self.run_reader(id);
                }
                self.schedule_turn();
            }
            Event::Exit(_) => {
                self.streams -= 1;
                self.left -= 1;
            }
        }
    }

    /// Schedules an [`Event::Turn`] at the time when a processor is free, if readers are queued for one.
    fn schedule_turn(&mut self) {
        if !self.is_turn_set
            && let Some(turn) = self.processors.next_turn()
        {
            self.is_turn_set = true;
            self.events.push(turn.max(self.machine.now), Event::Turn);
        }
    }

    /// Makes a reader begin its next operation, or wait until the operation is due. An operation is taken
    /// from its source when it begins, so readers that share a source take operations in the order in which
    /// they become idle.
    fn begin_next_operation(&mut self, id: ReaderId) {
        let now = self.machine.now;
        let stop_at = self.stop_at.unwrap_or(VirtualTime(u64::MAX));
        let reader = &mut self.readers[id.0 as usize];
        if now >= stop_at {
            self.events.push(now, Event::Exit(id));
        } else if reader.due > now {
            self.events.push(reader.due.min(stop_at), Event::Next(id));
        } else {
            match reader.job.operations.next() {
                None => self.events.push(now, Event::Exit(id)),
                Some(Operation::Think(span)) => {
                    self.events.push((now + span).min(stop_at), Event::Next(id));
                }
                Some(operation) => {
                    reader.due = now + reader.job.interval;
                    let (open_files, machine) = (&self.open_files, &*self.machine);
                    reader.task = Task::new(operation, now, machine, |id: OpenFileId| {
                        open_files[id.0 as usize].file
                    });
                    self.handle(Event::Ready(id));
                }
            }
        }
    }

    /// Runs a reader until its operation is done or it has to wait.
    fn run_reader(&mut self, id: ReaderId) {
        let now = self.machine.now;
        let mut spent = Spent::new(self.cpu);
        self.machine.process = id.0;
        let reader = &mut self.readers[id.0 as usize];
        let task = reader.task.as_mut().expect("a running reader has a task");
        let is_done = loop {
            let open = &mut self.open_files[task.open_file.0 as usize];
            let progress = task.step(self.machine, &mut open.state, id, &mut spent);
            if progress != Progress::NoMemory {
                reader.memory_number = None;
            }
            match progress {
                Progress::More => {}
                Progress::Done => break true,
                Progress::Waits => break false,
                Progress::NoMemory => {
                    let place = *reader.memory_number.get_or_insert_with(|| {
                        self.next_memory_number += 1;
                        self.next_memory_number - 1
                    });
                    self.awaiting_memory.insert(place, id);
                    break false;
                }
                Progress::Throttled => {
                    self.throttled.push(id);
                    break false;
                }
            }
        };
        let until = now + spent.span();
        self.processors.occupy(now, until);
        reader.busy_until = until;
        if is_done {
            self.end_task(id, until);
        }
        self.machine.pump_write_back();
        self.wake_flushed();
        if !self.machine.is_memory_full {
            self.wake_awaiting_memory(1);
        }
    }

    /// Records the results of a reader's operation.
    fn end_task(&mut self, id: ReaderId, at: VirtualTime) {
        let Some(task) = self.readers[id.0 as usize].task.take() else {
            return;
        };
        let figures = &mut self.figures;
        match task.kind {
            TaskKind::Read => figures.bytes_read += task.len_bytes,
            TaskKind::Write => figures.bytes_written += task.len_bytes,
            TaskKind::Flush | TaskKind::Evict => {}
        }
        figures.sampler.add_bytes(task.len_bytes);
        figures.requests += 1;
        figures.latencies.add(at.since(task.began));
        self.events.push(at, Event::Next(id));
    }

    /// Processes the requests that the device has completed by now, and advances the readers that
    /// wait for them.
    fn complete(&mut self) {
        while let Some(completed) = self.machine.complete() {
            match completed.kind {
                CompletedKind::Read(readers) => {
                    // All readers receive their pages first, so that none of them can evict the page of
                    // another reader.
                    for &id in &readers {
                        self.deliver(id);
                    }
                    self.wake(readers);
                }
                CompletedKind::Write(readers) => {
                    self.end_flushes(readers);
                    let throttled = std::mem::take(&mut self.throttled);
                    self.wake(throttled);
                }
            }
            self.wake_awaiting_memory(completed.freed_pages.max(1));
        }
        self.machine.pump_write_back();
        self.wake_flushed();
    }

    /// Delivers the page for which a reader waits.
    fn deliver(&mut self, id: ReaderId) {
        let reader = &mut self.readers[id.0 as usize];
        let task = reader.task.as_mut().expect("a waiting reader has a task");
        task.take_page(self.machine);
        reader.busy_until = reader.busy_until.max(self.machine.now) + self.cpu.copy;
    }

    fn wake(&mut self, readers: Vec<ReaderId>) {
        for id in readers {
            self.wake_one(id);
        }
    }

    fn wake_one(&mut self, id: ReaderId) {
        let at = self.readers[id.0 as usize].busy_until;
        self.events.push(at.max(self.machine.now), Event::Ready(id));
    }

    /// Wakes up to `most` readers that wait for memory, in FIFO order.
    fn wake_awaiting_memory(&mut self, most: usize) {
        for _ in 0..most {
            let Some((_, id)) = self.awaiting_memory.pop_first() else {
                break;
            };
            self.wake_one(id);
        }
    }

    fn wake_flushed(&mut self) {
        let readers = self.machine.write_back.take_flushed();
        self.end_flushes(readers);
    }

    fn end_flushes(&mut self, readers: Vec<ReaderId>) {
        for id in readers {
            let at = self.readers[id.0 as usize].busy_until;
            self.end_task(id, at.max(self.machine.now));
        }
    }

    fn report(self, counts_before: PageCounts, device_before: DeviceCounts) -> RunReport {
        let now = self.machine.now;
        let device = self.machine.device.counts();
        let figures = self.figures;
        RunReport {
            policy: self.machine.driver.policy().name(),
            elapsed: now.since(self.began),
            bytes_read: figures.bytes_read,
            bytes_written: figures.bytes_written,
            requests: figures.requests,
            latency: figures.latencies.report(),
            device_reads: device.reads - device_before.reads,
            device_read_bytes: device.read_bytes - device_before.read_bytes,
            device_writes: device.writes - device_before.writes,
            device_written_bytes: device.written_bytes - device_before.written_bytes,
            pages: self.machine.all_counts().since(&counts_before),
            samples: figures.sampler.finish(now, device),
        }
    }
}
