//! What is done to a file whose readahead is recorded.

use larder_readahead::Advice;

/// The pages that windows are counted in.
pub const PAGE_BYTES: u64 = 4096;

/// What the file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// A hole: pages are uptodate as soon as they are in the cache.
    #[default]
    Hole,
    /// Blocks: the device has to read them.
    Blocks,
}

/// A file, the limits of its device, and what is done to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Unique in its group; no spaces.
    pub name: String,
    /// Size of the file.
    pub file_bytes: u64,
    /// What the file holds.
    pub content: Content,
    /// The largest window, `read_ahead_kb`.
    pub max_kib: u32,
    /// The largest request of the device, `max_sectors_kb`.
    pub io_kib: u32,
    /// What is done, in this order.
    pub operations: Vec<Operation>,
}

/// One action of one stream. Each stream has an open file of its own, opened before the first
/// operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Which stream.
    pub stream: u16,
    /// What it does.
    pub action: Action,
}

/// What a stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `pread(2)`.
    Read {
        /// Where it begins.
        offset_bytes: u64,
        /// How much it asks for.
        len_bytes: u32,
    },
    /// Touches one page through a mapping of that page alone.
    Fault {
        /// Index of the page.
        page: u64,
    },
    /// `posix_fadvise(2)`. A length of 0 means to the end of the file.
    Advise {
        /// The advice.
        advice: Advice,
        /// Where the range begins.
        offset_bytes: u64,
        /// How long it is.
        len_bytes: u64,
    },
    /// `madvise(2)` on the mappings of all later faults of the stream.
    AdviseMapping(Advice),
}

impl Action {
    /// True for advice that pages will not be needed.
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
    /// A pattern on a file of `file_bytes` that nothing is done to yet, with Linux's default limit
    /// and the largest request that loop devices take.
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

    /// Sets the largest window.
    #[must_use]
    pub fn max_kib(mut self, max_kib: u32) -> Self {
        self.max_kib = max_kib;
        self
    }

    /// Sets the largest request of the device.
    #[must_use]
    pub fn io_kib(mut self, io_kib: u32) -> Self {
        self.io_kib = io_kib;
        self
    }

    /// Gives the file blocks.
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

    /// Adds `count` reads of `len_bytes`, the first at `offset_bytes` and each `step_bytes` behind
    /// the one before; those before the file's first byte are left out.
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

    /// How many open files it takes.
    #[must_use]
    pub fn streams(&self) -> u16 {
        let streams = self.operations.iter().map(|operation| operation.stream);
        streams.max().map_or(0, |last| last.saturating_add(1))
    }
}
