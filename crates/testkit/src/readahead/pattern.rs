//! The operations on a file whose readahead is recorded.

use larder_readahead::Advice;

/// The size of the pages in which windows are counted.
pub const PAGE_BYTES: u64 = 4096;

/// The size of the file with blocks.
pub(super) const BLOCKS_FILE_BYTES: u64 = 4 << 20;

/// The kind of content of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// A hole: pages are uptodate as soon as they are in the cache.
    #[default]
    Hole,
    /// Blocks: the device must read them.
    Blocks,
}

/// A file, the limits of its device, and the operations on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The name. It is unique in its group, and has no spaces.
    pub name: String,
    /// The size of the file.
    pub file_bytes: u64,
    /// The content of the file.
    pub content: Content,
    /// The maximum window, `read_ahead_kb`.
    pub max_kib: u32,
    /// The maximum request of the device, `max_sectors_kb`.
    pub io_kib: u32,
    /// The operations, in order.
    pub operations: Vec<Operation>,
}

/// One action of one stream. Each stream has its own open file, opened before the first operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The stream.
    pub stream: u16,
    /// The action.
    pub action: Action,
}

/// An action of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `pread(2)`.
    Read {
        /// The offset.
        offset_bytes: u64,
        /// The length.
        len_bytes: u32,
    },
    /// Touches one page through a mapping of that page alone.
    Fault {
        /// The index of the page.
        page: u64,
    },
    /// `posix_fadvise(2)`. A length of 0 means to the end of the file.
    Advise {
        /// The advice.
        advice: Advice,
        /// The start of the range.
        offset_bytes: u64,
        /// The length of the range.
        len_bytes: u64,
    },
    /// `madvise(2)` on the mappings of all later faults of the stream.
    AdviseMapping(Advice),
}

impl Action {
    /// Returns whether it is the advice that pages will not be needed.
    #[must_use]
    pub fn drops_pages(&self) -> bool {
        matches!(
            self,
            Self::Advise {
                advice: Advice::DontNeed,
                ..
            }
        )
    }
}

impl Pattern {
    /// Creates a pattern without operations on a file of `file_bytes`, with Linux's default window limit
    /// and the maximum request of loop devices.
    #[must_use]
    pub fn new(name: impl Into<String>, file_bytes: u64) -> Self {
        Self {
            name: name.into(),
            file_bytes,
            content: Content::Hole,
            max_kib: 128,
            io_kib: 1280,
            operations: Vec::new(),
        }
    }

    /// Sets the maximum window.
    #[must_use]
    pub fn max_kib(mut self, max_kib: u32) -> Self {
        self.max_kib = max_kib;
        self
    }

    /// Sets the maximum request of the device.
    #[must_use]
    pub fn io_kib(mut self, io_kib: u32) -> Self {
        self.io_kib = io_kib;
        self
    }

    /// Makes the file consist of blocks.
    #[must_use]
    pub fn blocks(mut self) -> Self {
        self.content = Content::Blocks;
        self
    }

    /// Adds an action.
    pub fn push(&mut self, stream: u16, action: Action) {
        self.operations.push(Operation { stream, action });
    }

    /// Adds a read.
    #[must_use]
    pub fn read(mut self, stream: u16, offset_bytes: u64, len_bytes: u32) -> Self {
        let read = Action::Read {
            offset_bytes,
            len_bytes,
        };
        self.push(stream, read);
        self
    }

    /// Adds `count` reads of `len_bytes`, the first at `offset_bytes` and each `step_bytes` after the
    /// previous one. Reads before the start of the file are omitted.
    #[must_use]
    pub fn reads(
        mut self,
        offset_bytes: u64,
        step_bytes: i64,
        len_bytes: u32,
        count: usize,
    ) -> Self {
        let mut next = Some(offset_bytes);
        for _ in 0..count {
            let Some(offset) = next else { break };
            self = self.read(0, offset, len_bytes);
            next = offset.checked_add_signed(step_bytes);
        }
        self
    }

    /// Adds a fault.
    #[must_use]
    pub fn fault(mut self, stream: u16, page: u64) -> Self {
        self.push(stream, Action::Fault { page });
        self
    }

    /// Adds advice on the whole file.
    #[must_use]
    pub fn advise(self, stream: u16, advice: Advice) -> Self {
        self.advise_range(stream, advice, 0, 0)
    }

    /// Adds advice on a range.
    #[must_use]
    pub fn advise_range(
        mut self,
        stream: u16,
        advice: Advice,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Self {
        let action = Action::Advise {
            advice,
            offset_bytes,
            len_bytes,
        };
        self.push(stream, action);
        self
    }

    /// Adds advice on later faults.
    #[must_use]
    pub fn advise_mapping(mut self, stream: u16, advice: Advice) -> Self {
        self.push(stream, Action::AdviseMapping(advice));
        self
    }

    /// Returns the number of open files that it needs.
    #[must_use]
    pub fn streams(&self) -> u16 {
        let streams = self.operations.iter().map(|operation| operation.stream);
        streams.max().map_or(0, |last| last.saturating_add(1))
    }
}
