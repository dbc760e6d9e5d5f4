//! The input of the simulator: operations on open files at given times.

use std::fmt;
use std::time::Duration;

use crate::simulator::FileId;

/// An open file of a [`Jobs`]: its index in [`Jobs::open_files`]. As in Linux, each open file has
/// its own readahead state, so readers that share an open file share its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenFileId(pub u32);

/// One operation of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `pread`.
    Read {
        /// The open file.
        file: OpenFileId,
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes. Bytes past the end of the file are not read.
        len_bytes: u64,
    },
    /// An access through a mapping to a page that is not in the page tables.
    Fault {
        /// The mapped open file.
        file: OpenFileId,
        /// A byte of the page.
        offset_bytes: u64,
    },
    /// `pwrite`, within the size of the file.
    Write {
        /// The open file.
        file: OpenFileId,
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes. Bytes past the end of the file are not written.
        len_bytes: u64,
    },
    /// `fsync`: waits until the data that is dirty now is on the device.
    Flush {
        /// The open file.
        file: OpenFileId,
    },
    /// Drops the file's clean pages from the cache.
    Evict {
        /// The open file.
        file: OpenFileId,
    },
    /// Pauses without using the processor.
    Think(Duration),
}

impl Operation {
    /// Reads `len_bytes` of open file number `file` from `offset_bytes`.
    #[must_use]
    pub const fn read(file: u32, offset_bytes: u64, len_bytes: u64) -> Self {
        Self::Read {
            file: OpenFileId(file),
            offset_bytes,
            len_bytes,
        }
    }

    /// Writes `len_bytes` of open file number `file` from `offset_bytes`.
    #[must_use]
    pub const fn write(file: u32, offset_bytes: u64, len_bytes: u64) -> Self {
        Self::Write {
            file: OpenFileId(file),
            offset_bytes,
            len_bytes,
        }
    }
}

/// A thread that executes one operation after the other.
pub struct ReaderJob {
    /// Start time, relative to the start of the run.
    pub start: Duration,
    /// Minimum time between the starts of two operations. If an operation takes longer, the next operation
    /// starts immediately, and later starts are delayed by the excess.
    pub interval: Duration,
    /// The operations. The next operation is taken when the previous one is done, so several readers can
    /// share a source of operations.
    pub operations: Box<dyn Iterator<Item = Operation>>,
}

impl ReaderJob {
    /// Creates a thread that begins immediately and executes its operations without pauses.
    pub(crate) fn new(operations: impl Iterator<Item = Operation> + 'static) -> Self {
        Self {
            start: Duration::ZERO,
            interval: Duration::ZERO,
            operations: Box::new(operations),
        }
    }
}

/// The operations of all readers of a run.
#[derive(Debug)]
pub struct Jobs {
    /// The files to open at the start of the run; each element is a separate open file.
    pub open_files: Vec<FileId>,
    /// The threads.
    pub readers: Vec<ReaderJob>,
    /// The time, relative to the start, at which readers stop even if they are not done. Operations
    /// in progress are completed.
    pub stop_after: Option<Duration>,
}

impl Jobs {
    /// Creates readers that all run until they are done.
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
