//! Executes one operation of one reader, page by page.

use std::ops::Range;

use larder_instruments::simulated::VirtualTime;
use larder_readahead::FileState;
use larder_readahead::driver::Request;

use super::cpu::Spent;
use super::ids::ReaderId;
use super::ids::{FileId, PAGE_BYTES};
use super::machine::{Machine, key};
use super::read::Step;
use crate::workload::{OpenFileId, Operation};

/// An operation in progress.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) kind: TaskKind,
    pub(super) open_file: OpenFileId,
    pub(super) began: VirtualTime,
    pub(super) len_bytes: u64,
    offset_bytes: u64,
    ends_file: bool,
    file: FileId,
    request: Request,
    /// A copy of the readahead state of the open file, if the policy uses a copy during a read.
    own_state: Option<FileState>,
    /// The next page of the request.
    next: u64,
    has_entered: bool,
    /// Whether the next page was already looked up and could not be inserted due to lack of memory.
    was_looked_up: bool,
}

/// The kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskKind {
    Read,
    Write,
    Flush,
    Evict,
}

/// Progress of one step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// More steps are necessary.
    More,
    Done,
    /// The reader is queued, and is notified when it can continue.
    Waits,
    NoMemory,
    /// Too many pages are dirty.
    Throttled,
}

impl Task {
    /// Creates a task for `operation` on the file that `file_of` returns. Returns `None` if the
    /// operation has no file.
    pub(super) fn new(
        operation: Operation,
        began: VirtualTime,
        machine: &Machine,
        file_of: impl FnOnce(OpenFileId) -> FileId,
    ) -> Option<Self> {
        let (kind, open_file, bytes) = match operation {
            Operation::Read {
                file,
                offset_bytes,
                len_bytes,
            } => (TaskKind::Read, file, (offset_bytes, len_bytes)),
            Operation::Write {
                file,
                offset_bytes,
                len_bytes,
            } => (TaskKind::Write, file, (offset_bytes, len_bytes)),
            Operation::Fault { file, offset_bytes } => {
                (TaskKind::Read, file, page_around(offset_bytes))
            }
            Operation::Flush { file } => (TaskKind::Flush, file, (0, 0)),
            Operation::Evict { file } => (TaskKind::Evict, file, (0, 0)),
            Operation::Think(_) => return None,
        };
        let file = file_of(open_file);
        let size_bytes = machine.file(file).size_bytes;
        let offset_bytes = bytes.0.min(size_bytes);
        let len_bytes = bytes.1.min(size_bytes - offset_bytes);
        let pages = pages_of(offset_bytes, len_bytes);
        Some(Self {
            kind,
            open_file,
            began,
            len_bytes,
            offset_bytes,
            ends_file: offset_bytes + len_bytes == size_bytes,
            next: pages.start,
            file,
            request: Request {
                pages,
                ends_inside_page: !(offset_bytes + len_bytes).is_multiple_of(PAGE_BYTES),
                by_fault: matches!(operation, Operation::Fault { .. }),
                file_pages: machine.file(file).pages(),
            },
            own_state: None,
            has_entered: false,
            was_looked_up: false,
        })
    }

    /// Processes one page, if possible, with the readahead state of the open file or a copy of it.
    pub(super) fn step(
        &mut self,
        machine: &mut Machine,
        shared_state: &mut FileState,
        reader: ReaderId,
        spent: &mut Spent,
    ) -> Progress {
        if !self.has_entered {
            let is_read = self.kind == TaskKind::Read && !self.request.by_fault;
            let copies = is_read && machine.driver.policy().copies_state();
            self.own_state = copies.then(|| shared_state.clone());
        }
        let Some(mut own_state) = self.own_state.take() else {
            return self.step_by(machine, shared_state, reader, spent);
        };
        let progress = self.step_by(machine, &mut own_state, reader, spent);
        if progress == Progress::Done {
            *shared_state = own_state;
        } else {
            self.own_state = Some(own_state);
        }
        progress
    }

    fn step_by(
        &mut self,
        machine: &mut Machine,
        state: &mut FileState,
        reader: ReaderId,
        spent: &mut Spent,
    ) -> Progress {
        if !self.has_entered {
            self.has_entered = true;
            spent.call();
        }
        let (file, index) = (self.file, self.next);
        let is_at_end = index == self.request.pages.end;
        let step = match self.kind {
            TaskKind::Flush => {
                machine.write_back.flush(file, Some(reader));
                return Progress::Waits;
            }
            TaskKind::Evict => {
                machine.evict(file);
                return Progress::Done;
            }
            TaskKind::Read if is_at_end => {
                if !self.request.pages.is_empty() {
                    machine.end_read(state, file, &self.request, spent);
                }
                return Progress::Done;
            }
            TaskKind::Write if is_at_end => return Progress::Done,
            TaskKind::Read if self.was_looked_up => machine.await_page(file, index, spent),
            TaskKind::Read => machine.read_page(state, file, &self.request, index, spent),
            TaskKind::Write => machine.write_page(file, index, self.is_whole(index), spent),
        };
        match step {
            Step::Got => {
                self.pass_page();
                Progress::More
            }
            Step::Wait(id) => {
                machine.in_flight.wait(id, reader);
                Progress::Waits
            }
            Step::NoMemory => {
                self.was_looked_up = true;
                Progress::NoMemory
            }
            Step::Throttled => Progress::Throttled,
        }
    }

    /// Uses the page that the task waited for, immediately after it was read.
    pub(super) fn take_page(&mut self, machine: &mut Machine) {
        let (file, index) = (self.file, self.next);
        let is_here = match self.kind {
            TaskKind::Write => machine.change_page(file, index),
            _ => machine.pages.get(key(file, index)).is_some(),
        };
        assert!(is_here, "a page that was just read is cached");
        self.pass_page();
    }

    fn pass_page(&mut self) {
        self.next += 1;
        self.was_looked_up = false;
    }

    /// Returns whether the operation covers all bytes of the page that are within the file.
    fn is_whole(&self, index: u64) -> bool {
        let end_bytes = self.offset_bytes + self.len_bytes;
        self.offset_bytes <= index * PAGE_BYTES
            && (self.ends_file || end_bytes >= (index + 1) * PAGE_BYTES)
    }
}

/// Returns the offset and length of the page that contains a byte.
fn page_around(offset_bytes: u64) -> (u64, u64) {
    (offset_bytes / PAGE_BYTES * PAGE_BYTES, PAGE_BYTES)
}

/// Returns the pages of a range of bytes.
fn pages_of(offset_bytes: u64, len_bytes: u64) -> Range<u64> {
    let start = offset_bytes / PAGE_BYTES;
    if len_bytes == 0 {
        return start..start;
    }
    start..(offset_bytes + len_bytes).div_ceil(PAGE_BYTES)
}
