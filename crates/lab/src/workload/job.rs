//! What readers do, as the simulator takes it: operations on open files, at given times.

use std::fmt;
use std::time::Duration;

use crate::simulator::FileId;

/// An open file of a [`Jobs`]: its place in [`Jobs::open_files`]. Readahead remembers by open
/// file, as in Linux, so readers that share one share its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenFileId(pub u32);

/// One thing that a reader does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `pread`.
    Read {
        /// From which open file.
        file: OpenFileId,
        /// First byte.
        offset_bytes: u64,
        /// How many bytes; what lies behind the end of the file is not read.
        len_bytes: u64,
    },
    /// A page of a mapping that is not in the page tables.
    Fault {
        /// Which open file is mapped.
        file: OpenFileId,
        /// A byte of the page.
        offset_bytes: u64,
    },
    /// `pwrite`, within the size of the file.
    Write {
        /// To which open file.
        file: OpenFileId,
        /// First byte.
        offset_bytes: u64,
        /// How many bytes; what lies behind the end of the file is not written.
        len_bytes: u64,
    },
    /// `fsync`: waits until what is dirty now is on the device.
    Flush {
        /// Of which open file.
        file: OpenFileId,
    },
    /// Drops the file's clean pages from the cache.
    Evict {
        /// Of which open file.
        file: OpenFileId,
    },
    /// Does something else, off the processor.
    Think(Duration),
}

impl Operation {
    /// Reads `len_bytes` of open file number `file` from `offset_bytes` on.
    #[must_use]
    pub const fn read(file: u32, offset_bytes: u64, len_bytes: u64) -> Self {
        Self::Read {
            file: OpenFileId(file),
            offset_bytes,
            len_bytes,
        }
    }

    /// Writes as [`Self::read`] reads.
    #[must_use]
    pub const fn write(file: u32, offset_bytes: u64, len_bytes: u64) -> Self {
        Self::Write {
            file: OpenFileId(file),
            offset_bytes,
            len_bytes,
        }
    }
}

/// A thread: one operation after the other.
pub struct ReaderJob {
    /// When it begins, counted from the start of the run.
    pub start: Duration,
    /// At least so long from the start of one operation to that of the next. One that took longer
    /// is followed at once; time lost is not made up for.
    pub interval: Duration,
    /// What it does. Asked for the next operation when the last one is done, so readers may draw
    /// from a common source.
    pub operations: Box<dyn Iterator<Item = Operation>>,
}

impl ReaderJob {
    /// A thread that begins at once and does one operation after the other.
    pub(crate) fn new(operations: impl Iterator<Item = Operation> + 'static) -> Self {
        Self {
            start: Duration::ZERO,
            interval: Duration::ZERO,
            operations: Box::new(operations),
        }
    }
}

/// What all readers of a run do.
#[derive(Debug)]
pub struct Jobs {
    /// The files that are open, each opened anew for this run.
    pub open_files: Vec<FileId>,
    /// The threads.
    pub readers: Vec<ReaderJob>,
    /// When they stop, counted from the start, if not when they are done: what was begun is
    /// finished.
    pub stop_after: Option<Duration>,
}

impl Jobs {
    /// Readers that all run until they are done.
    pub(crate) fn new(open_files: Vec<FileId>, readers: Vec<ReaderJob>) -> Self {
        Self {
            open_files,
            readers,
            stop_after: None,
        }
    }
}

impl fmt::Debug for ReaderJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReaderJob")
            .field("start", &self.start)
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}
