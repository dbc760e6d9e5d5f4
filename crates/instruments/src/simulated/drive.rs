//! Simulates a disk drive: its command queue, its cache, and the order in which its firmware serves commands.
//!
//! ```text
//!   accept ──> `arriving` ──> read: all bytes cached? ──yes──> transfer to the host ──> `done`
//!              (overhead)                │ no                          ^
//!                                        v                             │
//!                                    `waiting` ──> `work` of the arm ──┘
//!
//!   accept ──> `arriving` ──> `waiting_writes` ──> write cache has room: `done`
//!                                                  │
//!                                                  └──> `work` of the arm, later
//! ```
//!
//! Model: native command queueing. Of the waiting commands, the drive next serves the one whose first byte
//! passes under a head soonest. A command that has waited longer than the age limit is served first. When the
//! head has reached the track of a read, the drive also caches the bytes that pass before the requested
//! bytes. After a read, the drive continues to read the following bytes while it is idle (read-on). Reads
//! that the cache can serve do not wait for the arm. A write is done when its bytes are in the write cache.
//!
//! The bytes that the idle drive reads on are computed at the next event. Reading on needs no events of its
//! own.
//!
//! Invariants:
//! 1. From `accept` until `step` returns its slot, a command is in exactly one of `arriving`, `waiting`,
//!    `waiting_writes`, `work` and `done`.
//! 2. At most one of `work` and `reading_on` is set, since there is only one arm.
//! 3. The `from_byte` of a waiting read reflects the content of the cache at the last call of
//!    `answer_cached_reads`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::arithmetic::{earliest, nanos, transfer_ns};
use super::command::Command;
use super::drive_cache::{ReadCache, WriteCache};
use super::mechanics::{Approach, Head, Mechanics, Place, SECTOR_BYTES, Spot};
use super::parameters::DiskModel;

/// The maximum size of one write to the platters. It limits how long a read waits for the arm.
const WRITE_RUN_BYTES: u64 = 512 * 1024;

/// The state of a drive.
#[derive(Debug)]
pub(super) struct Drive {
    mechanics: Mechanics,
    overhead_hit_ns: u64,
    overhead_miss_ns: u64,
    age_limit_ns: u64,
    write_delay_ns: u64,
    interface_bytes_per_second: u64,
    read_ahead_bytes: u64,
    end_bytes: u64,

    reads: ReadCache,
    writes: WriteCache,
    head: Head,
    reading_on: Option<ReadingOn>,
    arriving: VecDeque<Arriving>,
    waiting: Vec<Waiting>,
    waiting_writes: VecDeque<Arriving>,
    work: Option<Work>,
    /// The time of the next call of `decide` if there is no earlier event. `None` if there is nothing to
    /// decide.
    decide_at_ns: Option<u64>,
    interface_free_at_ns: u64,
    /// Commands with a known end: the time, the number of the command and its slot.
    done: BinaryHeap<Reverse<(u64, u64, usize)>>,
}

#[derive(Clone, Copy, Debug)]
struct Arriving {
    command: Command,
    accepted_at_ns: u64,
    ready_at_ns: u64,
}

/// A read whose bytes are not all in the cache.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    command: Command,
    accepted_at_ns: u64,
    /// The earliest start of the seek.
    start_at_ns: u64,
    /// The first byte that is not in the cache.
    from_byte: u64,
    /// The location of `from_byte`.
    spot: Spot,
}

/// The state of reading on. `next_byte` passes under the head at `at_ns`. Reading stops at `limit_byte`.
#[derive(Clone, Copy, Debug)]
struct ReadingOn {
    next_byte: u64,
    at_ns: u64,
    limit_byte: u64,
}

/// The current activity of the arm.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// The read command that is served, or `None` during a write from the write cache.
    command: Option<Command>,
    start_byte: u64,
    end_byte: u64,
    end_at_ns: u64,
    /// The time at which the byte at `end_byte` passes under the head.
    next_at_ns: u64,
    /// The bytes that are inserted in the read cache when this work ends: up to two ranges, which include the
    /// requested bytes.
    passed: [(u64, u64); 2],
}

impl Drive {
    /// Creates an idle drive with empty caches. `phase` is any number; it determines the angle of the
    /// platters at time 0.
    pub fn new(model: &DiskModel, size_bytes: u64, phase: u64) -> Self {
        Self {
            mechanics: Mechanics::new(model, size_bytes, phase),
            overhead_hit_ns: nanos(model.overhead_hit.value),
            overhead_miss_ns: nanos(model.overhead_miss.value),
            age_limit_ns: nanos(model.command_age_limit.value),
            write_delay_ns: nanos(model.write_delay.value),
            interface_bytes_per_second: model.interface_bytes_per_second.value,
            read_ahead_bytes: model.read_ahead_bytes.value,
            end_bytes: size_bytes,
            reads: ReadCache::new(
                model.read_cache_bytes.value,
                model.read_cache_segments.value,
            ),
            writes: WriteCache::new(model.write_cache_bytes.value),
            head: Head {
                track: 0,
                ready_at_ns: 0,
            },
            reading_on: None,
            arriving: VecDeque::new(),
            waiting: Vec::new(),
            waiting_writes: VecDeque::new(),
            work: None,
            decide_at_ns: None,
            interface_free_at_ns: 0,
            done: BinaryHeap::new(),
        }
    }

    /// Accepts a command. Its range is extended to whole sectors.
    pub fn accept(&mut self, now_ns: u64, command: Command) {
        let command = Command {
            start_bytes: command.start_bytes - command.start_bytes % SECTOR_BYTES,
            end_bytes: command.end_bytes.next_multiple_of(SECTOR_BYTES),
            ..command
        };
        self.arriving.push_back(Arriving {
            command,
            accepted_at_ns: now_ns,
            ready_at_ns: now_ns + self.overhead_hit_ns,
        });
    }

    /// Returns the time at which `step` should be called next, or `None` if the drive is idle.
    pub fn next_event_ns(&self) -> Option<u64> {
        let arriving = self.arriving.front().map(|command| command.ready_at_ns);
        let work = self.work.map(|work| work.end_at_ns);
        let done = self.done.peek().map(|&Reverse((at_ns, _, _))| at_ns);
        earliest([arriving, work, done, self.decide_at_ns])
    }

    /// Handles one event that is due at `now_ns`, the time that `next_event_ns` returned. Returns the slot of
    /// the command that is done, if the event completes a command.
    pub fn step(&mut self, now_ns: u64) -> Option<usize> {
        if let Some(slot) = self.pop_done(now_ns) {
            return Some(slot);
        }
        if let Some(work) = self.work.take_if(|work| work.end_at_ns <= now_ns) {
            self.finish_work(work, now_ns);
        } else if let Some(arriving) = self.arriving.front().copied()
            && arriving.ready_at_ns <= now_ns
        {
            self.arriving.pop_front();
            self.arrive(arriving, now_ns);
        }
        if self.work.is_none() {
            self.decide(now_ns);
        }
        self.pop_done(now_ns)
    }

    fn pop_done(&mut self, now_ns: u64) -> Option<usize> {
        let &Reverse((at_ns, _, slot)) = self.done.peek()?;
        (at_ns <= now_ns).then(|| {
            self.done.pop();
            slot
        })
    }

    fn arrive(&mut self, arriving: Arriving, now_ns: u64) {
        let command = arriving.command;
        if command.is_write {
            self.waiting_writes.push_back(arriving);
            self.admit_writes(now_ns);
            return;
        }
        self.update_read_on(now_ns);
        let from_byte = self.reads.cached_end(command.start_bytes);
        if from_byte >= command.end_bytes {
            self.answer(command, now_ns);
        } else {
            self.waiting.push(Waiting {
                command,
                accepted_at_ns: arriving.accepted_at_ns,
                start_at_ns: arriving.accepted_at_ns + self.overhead_miss_ns,
                from_byte,
                spot: self.spot(from_byte),
            });
        }
    }

    /// Schedules the transfer of a command between the cache and the host, after which the command is done.
    fn answer(&mut self, command: Command, now_ns: u64) {
        if !command.is_write {
            self.reads.touch(command.start_bytes);
        }
        let begin_at_ns = self.interface_free_at_ns.max(now_ns);
        self.interface_free_at_ns =
            begin_at_ns + transfer_ns(command.len_bytes(), Some(self.interface_bytes_per_second));
        self.done.push(Reverse((
            self.interface_free_at_ns,
            command.number,
            command.slot,
        )));
    }

    fn admit_writes(&mut self, now_ns: u64) {
        while let Some(Arriving { command, .. }) = self.waiting_writes.front().copied()
            && self.writes.has_room(command.len_bytes())
        {
            self.waiting_writes.pop_front();
            self.writes.insert(command.start_bytes, command.end_bytes);
            self.answer(command, now_ns);
        }
    }

    /// Inserts in the read cache the bytes that the idle drive has read on until `now_ns`.
    fn update_read_on(&mut self, now_ns: u64) {
        let Some(reading) = self.reading_on else {
            return;
        };
        if reading.at_ns >= now_ns {
            return;
        }
        let (next_byte, at_ns) =
            self.mechanics
                .stream(reading.next_byte, reading.at_ns, reading.limit_byte, now_ns);
        self.reads.insert(reading.next_byte, next_byte);
        self.head = Head {
            track: self.mechanics.place(next_byte).track,
            ready_at_ns: at_ns,
        };
        self.reading_on = (next_byte < reading.limit_byte).then_some(ReadingOn {
            next_byte,
            at_ns,
            ..reading
        });
    }

    fn finish_work(&mut self, work: Work, now_ns: u64) {
        self.head = Head {
            track: self.mechanics.place(work.end_byte).track,
            ready_at_ns: work.next_at_ns,
        };
        if let Some(command) = work.command {
            for (start, end) in work.passed {
                self.reads.insert(start, end);
            }
            self.done
                .push(Reverse((now_ns, command.number, command.slot)));
            self.reading_on = Some(ReadingOn {
                next_byte: work.end_byte,
                at_ns: work.next_at_ns,
                limit_byte: self.end_bytes.min(work.end_byte + self.read_ahead_bytes),
            });
        } else {
            self.writes.release(work.end_byte - work.start_byte);
            self.admit_writes(now_ns);
        }
    }

    /// Answers the waiting reads whose bytes are now in the cache, and updates the other waiting reads.
    fn answer_cached_reads(&mut self, now_ns: u64) {
        let mut index = 0;
        while let Some(read) = self.waiting.get(index) {
            let Command {
                start_bytes,
                end_bytes,
                ..
            } = read.command;
            if self.reads.may_have_changed(start_bytes, end_bytes) {
                let from_byte = self.reads.cached_end(start_bytes);
                if from_byte >= end_bytes {
                    let command = self.waiting.remove(index).command;
                    self.answer(command, now_ns);
                    continue;
                }
                let spot = self.spot(from_byte);
                let read = &mut self.waiting[index];
                (read.from_byte, read.spot) = (from_byte, spot);
            }
            index += 1;
        }
        self.reads.forget_changes();
    }

    /// Starts work if the idle arm can serve a read or a write; otherwise sets the time of the next decision.
    fn decide(&mut self, now_ns: u64) {
        self.update_read_on(now_ns);
        self.answer_cached_reads(now_ns);
        let writes_blocked = !self.waiting_writes.is_empty();
        let read = self.next_read(now_ns);
        let write = (writes_blocked || self.waiting.is_empty())
            .then(|| self.next_write(now_ns))
            .flatten();
        let is_write_sooner = |read: (u64, usize), write: (u64, u64)| {
            write.0 < read.0 || self.is_write_overdue(now_ns)
        };
        self.work = match (read, write) {
            (Some(read), Some(write)) if is_write_sooner(read, write) => {
                self.begin_write(write.1, now_ns)
            }
            (Some(read), _) => Some(self.begin_read(read.1, now_ns)),
            (None, Some(write)) if writes_blocked => self.begin_write(write.1, now_ns),
            (None, Some(_)) => return self.decide_write_later(now_ns),
            (None, None) => None,
        };
        self.decide_at_ns = match self.work {
            Some(_) => None,
            None => self.waiting.iter().map(|read| read.start_at_ns).min(),
        };
    }

    /// Starts a write if the drive has been idle for `write_delay_ns`. Otherwise sets the time at which the
    /// drive will have been idle that long. Called when no read waits, and no write waits for room in the
    /// write cache.
    fn decide_write_later(&mut self, now_ns: u64) {
        let idle_since_ns = self
            .interface_free_at_ns
            .max(self.head.ready_at_ns.min(now_ns));
        let due_ns = idle_since_ns + self.write_delay_ns;
        if due_ns > now_ns {
            self.decide_at_ns = Some(due_ns);
        } else if let Some(write) = self.next_write(now_ns) {
            self.work = self.begin_write(write.1, now_ns);
            self.decide_at_ns = None;
        }
    }

    /// Returns whether a write that waits for room in the write cache has exceeded the age limit and is older
    /// than all waiting reads.
    fn is_write_overdue(&self, now_ns: u64) -> bool {
        self.waiting_writes.front().is_some_and(|write| {
            write.accepted_at_ns + self.age_limit_ns <= now_ns
                && self
                    .waiting
                    .iter()
                    .all(|read| write.command.number < read.command.number)
        })
    }

    /// Returns the time at which a waiting read begins to pass under the head, and the index of the read.
    /// Selects the read that begins soonest. If the oldest read has exceeded the age limit, returns time 0
    /// and that read.
    fn next_read(&self, now_ns: u64) -> Option<(u64, usize)> {
        let oldest = self
            .waiting
            .iter()
            .enumerate()
            .min_by_key(|(_, read)| read.command.number)?;
        if oldest.1.accepted_at_ns + self.age_limit_ns <= now_ns {
            return Some((0, oldest.0));
        }
        let ready = self.waiting.iter().enumerate();
        let spots = ready
            .filter(|(_, read)| read.start_at_ns <= now_ns)
            .map(|(index, read)| (read.spot, (read.command.number, index)));
        self.mechanics
            .soonest(self.head, now_ns, false, spots)
            .map(|(begin_at_ns, (_, index))| (begin_at_ns, index))
    }

    /// Returns the time at which a run in the write cache begins to pass under the head, and the start of the
    /// run. Of the runs near the head, selects the one that begins soonest.
    fn next_write(&self, now_ns: u64) -> Option<(u64, u64)> {
        if self.writes.is_empty() {
            return None;
        }
        let here = self.mechanics.track_start_bytes(self.head.track);
        let runs = self.writes.near(here);
        let spots = runs.map(|start| (self.spot(start), start));
        self.mechanics.soonest(self.head, now_ns, true, spots)
    }

    fn spot(&self, byte: u64) -> Spot {
        self.mechanics.spot(self.mechanics.place(byte))
    }

    fn begin_write(&mut self, start_byte: u64, now_ns: u64) -> Option<Work> {
        let spot = self.spot(start_byte);
        let approach = self.mechanics.approach(self.head, now_ns, spot, true);
        let end_byte = self.writes.take(start_byte, WRITE_RUN_BYTES)?;
        let (_, next_at_ns) =
            self.mechanics
                .stream(start_byte, approach.begin_at_ns, end_byte, u64::MAX);
        self.reading_on = None;
        Some(Work {
            command: None,
            start_byte,
            end_byte,
            end_at_ns: next_at_ns,
            next_at_ns,
            passed: [(0, 0); 2],
        })
    }

    fn begin_read(&mut self, index: usize, now_ns: u64) -> Work {
        let read = self.waiting.remove(index);
        let approach = self.mechanics.approach(self.head, now_ns, read.spot, false);
        self.reading_on = None;
        self.read_run(read.command, self.mechanics.place(read.from_byte), approach)
    }

    /// Returns the work of reading from `place` to the end of the command. The bytes that pass after the head
    /// arrives and before `place` are cached too.
    fn read_run(&self, command: Command, place: Place, approach: Approach) -> Work {
        let start_byte = place.start_bytes + place.within_bytes;
        let end_byte = command.end_bytes;
        let track_start = place.start_bytes;
        let arrival_byte = track_start + self.mechanics.passing_bytes(place, approach.arrive_at_ns);
        let (_, next_at_ns) =
            self.mechanics
                .stream(start_byte, approach.begin_at_ns, end_byte, u64::MAX);
        let work = Work {
            command: Some(command),
            start_byte,
            end_byte,
            end_at_ns: next_at_ns,
            next_at_ns,
            passed: [(arrival_byte, end_byte), (0, 0)],
        };
        if arrival_byte <= start_byte {
            return work;
        }
        let passed = [
            (arrival_byte, place.track_end_bytes()),
            (track_start, end_byte),
        ];
        if arrival_byte >= end_byte || end_byte > place.track_end_bytes() {
            return Work { passed, ..work };
        }
        // The head arrives between the first and the last byte of the run: it has read the whole run after
        // one revolution.
        Work {
            end_at_ns: approach.arrive_at_ns + self.mechanics.revolution_ns(),
            passed,
            ..work
        }
    }
}
