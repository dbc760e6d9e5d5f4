//! Streams: the readahead state of each reader, and the policy for all of them.
//!
//! Model: `struct file_ra_state`. An open file has its own stream. There are [`STREAMS`] further
//! streams for files that are read by inode number. The inode number modulo [`STREAMS`] selects the
//! stream, so all such readers of a file share one. If two files have the same stream, a reader of
//! one file discards the readahead state of the other. This affects what is read ahead, but not the
//! content that reads return.
//!
//! Locking: each stream has a lock. A reader takes it on a miss, and at a readahead marker (the
//! page that starts the next window). A read of cached pages stores its end in an atomic variable,
//! without the lock. The next thread that locks the state copies this value into the state. With a
//! policy that observes every page, each hit also takes the lock. If reads work on copies of the
//! state, a read takes the lock only at its start and at its end, to copy the state.
//!
//! Cost: at most 144 bytes for each stream. With the policy `adaptive`, the tables of each stream are allocated in
//! addition ([`FileState::share`]).

use super::share::{LastTurn, Shares};
use larder_block::BlockDevice;
use larder_ext4::Ino;
use larder_readahead::driver::Driver;
use larder_readahead::{
    Advice, Balance, FileState, PageIndex, Policy, PolicyName, max_pages_from_bytes,
};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The number of streams for files that are read by inode number.
const STREAMS: usize = 1024;

/// A stream: the readahead state of one reader of a file.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The inode number of the file to which `state` belongs. For the stream of an open file, this
    /// is always the open file. For a shared stream, it is the file whose reader locked `state`
    /// last, or 0 before the first use. It changes only with `state` locked.
    ino: AtomicU32,
    /// The number of the open file, from 1, or 0 for a shared stream.
    number: u32,
    /// The end of the last read of the file `ino`, as [`End`] packs it.
    end: AtomicU64,
    last_turn: LastTurn,
    state: Mutex<FileState>,
}

/// A stream, and the inode number of the file that is read through it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamRef<'s> {
    stream: &'s Stream,
    ino: Ino,
}

impl StreamRef<'_> {
    /// Returns the number of the open file, or 0 if the stream is shared.
    pub(crate) fn number(self) -> u32 {
        self.stream.number
    }

    /// Records the end of a read for the next readahead decision, without taking the lock. Does
    /// nothing if the state of the stream belongs to another file. If another file takes over the
    /// stream during this call, the end may be recorded for that file. The next readahead decision
    /// for that file may then be wrong, which affects only performance.
    pub(crate) fn set_end(self, end: End) {
        if self.stream.ino.load(Relaxed) == self.ino.0 {
            self.stream.end.store(end.packed(), Relaxed);
        }
    }
}

/// The end of a read: the last page, and whether the read ended inside this page, before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) page: PageIndex,
    pub(crate) is_inside: bool,
}

impl End {
    /// The packed value before the first read.
    const NONE: u64 = u64::MAX;

    /// Packs the end into one word. Page indexes are so small that no bit is lost, and that the
    /// result never equals [`End::NONE`].
    fn packed(self) -> u64 {
        self.page.0 << 1 | u64::from(self.is_inside)
    }

    fn unpacked(word: u64) -> Option<Self> {
        (word != Self::NONE).then_some(Self {
            page: PageIndex(word >> 1),
            is_inside: word & 1 != 0,
        })
    }
}

/// The configured limits of windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The configured maximum size of a window, in pages.
    pub(crate) max_pages: u32,
    /// The option [`readahead_exact`](crate::OpenOptions::readahead_exact): windows are not limited
    /// further if there are many streams, and reads work on copies of the state if the modelled
    /// kernel used copies.
    pub(crate) is_exact: bool,
    pub(crate) page_bytes: u32,
}

/// The minimum length of the first window of a sequential reader with long requests, on a device that delivers
/// data in pieces. Such a device has a long latency. The length equals 16 reads of the kernel, or one request to a
/// server.
const FIRST_WINDOW_BYTES: u64 = 2 << 20;

/// The streams of files that are read by inode number, and the policy for all streams.
#[derive(Debug)]
pub(crate) struct Streams {
    by_ino: Box<[Stream]>,
    driver: Driver,
    /// The state of a stream before its first read, also used to reset a stream.
    initial: FileState,
    /// The limit of windows that depends on the number of streams. `None` with [`Limits::is_exact`].
    shares: Option<Shares>,
    /// The device. Its [window](BlockDevice::window_bytes) is another limit of the windows.
    device: Arc<dyn BlockDevice>,
    page_bytes: u32,
    /// The memory and the device estimate that all streams share, if the policy needs them.
    balance: Option<Arc<Balance>>,
    /// Whether each read works on a copy of the state of its stream, and stores the copy when the read
    /// ends.
    copies_state: bool,
    /// The number of windows for which pages were read ahead.
    windows: AtomicU64,
    /// The number of files that were opened.
    opened: AtomicU32,
}

impl Streams {
    /// Creates the streams. The limit of windows is `limits.max_pages` pages. Unless `limits.is_exact`, the limit is
    /// lower in two cases: many streams share the cache of `cache_pages` pages, or shorter windows suffice to keep
    /// `device` busy. [`Advice::Sequential`] doubles the limit for a stream. `io_pages` is the maximum size of a device
    /// read, in pages. See [`FileState::set_io_pages`] for its effect on windows.
    pub(crate) fn new(
        policy: &'static dyn Policy,
        limits: Limits,
        io_pages: u32,
        cache_pages: u32,
        device: &Arc<dyn BlockDevice>,
    ) -> Self {
        let Limits {
            max_pages,
            is_exact,
            page_bytes,
        } = limits;
        let mut initial = FileState::new(max_pages);
        initial.set_io_pages(io_pages);
        if !is_exact && device.pieces().is_some() {
            initial.set_first_pages(max_pages_from_bytes(FIRST_WINDOW_BYTES, page_bytes));
        }
        let is_adaptive = policy.name() == PolicyName::Adaptive;
        let balance = is_adaptive.then(|| Arc::new(Balance::new(cache_pages)));
        if let Some(balance) = &balance {
            initial.share(balance);
        }
        let streams = std::iter::repeat_with(|| Stream::new(Ino(0), 0, initial.clone()));
        Self {
            by_ino: streams.take(STREAMS).collect(),
            driver: Driver::new(policy),
            initial,
            shares: (!is_exact).then(|| Shares::new(cache_pages, max_pages)),
            device: Arc::clone(device),
            page_bytes,
            balance,
            copies_state: is_exact && policy.copies_state(),
            windows: AtomicU64::new(0),
            opened: AtomicU32::new(0),
        }
    }

    /// Returns the stream that all readers of `ino` by inode number share.
    pub(crate) fn by_ino(&self, ino: Ino) -> StreamRef<'_> {
        let stream = &self.by_ino[ino.0 as usize % STREAMS];
        StreamRef { stream, ino }
    }

    /// Returns a new stream for an open file of `ino`.
    pub(crate) fn open(&self, ino: Ino) -> Stream {
        // After 2^32 opens, the numbers repeat.
        let number = self.opened.fetch_add(1, Relaxed).wrapping_add(1);
        Stream::new(ino, number.max(1), self.initial.clone())
    }

    /// Returns the readahead driver, with the policy for all streams.
    #[inline]
    pub(crate) fn driver(&self) -> Driver {
        self.driver
    }

    /// Records that `pages` pages of a window are being read ahead for the stream. Does nothing if
    /// `pages` is 0.
    pub(crate) fn read_ahead(&self, of: StreamRef<'_>, pages: u32) {
        if pages > 0 {
            self.windows.fetch_add(1, Relaxed);
            if let Some(shares) = &self.shares {
                shares.read_ahead(&of.stream.last_turn, pages);
            }
        }
    }

    /// Returns a copy of the state for a read that begins, if reads work on copies. The read stores
    /// the copy with [`Self::store`] when it ends.
    pub(crate) fn copy(&self, of: StreamRef<'_>) -> Option<FileState> {
        self.copies_state.then(|| self.lock(of).clone())
    }

    /// Replaces the state of the stream with the copy of a read that ends.
    pub(crate) fn store(&self, of: StreamRef<'_>, copy: FileState) {
        *self.lock(of) = copy;
    }

    /// Returns [`Limits::is_exact`].
    pub(crate) fn is_exact(&self) -> bool {
        self.shares.is_none()
    }

    /// Applies `advice` to the stream.
    pub(crate) fn advise(&self, of: StreamRef<'_>, advice: Advice) {
        self.lock(of).advise(advice);
    }

    /// Returns the memory and the device estimate that all streams share, if the policy needs them.
    pub(crate) fn balance(&self) -> Option<&Arc<Balance>> {
        self.balance.as_ref()
    }

    /// Returns the policy for all streams.
    pub(crate) fn policy_name(&self) -> PolicyName {
        self.driver.policy().name()
    }

    /// Returns the configured maximum size of a window, [`Limits::max_pages`].
    pub(crate) fn max_pages(&self) -> u32 {
        self.initial.max_pages()
    }

    /// Returns the number of windows for which pages were read ahead.
    pub(crate) fn windows(&self) -> u64 {
        self.windows.load(Relaxed)
    }

    /// Locks the state of the stream, and updates the state:
    ///
    /// - If another file used the stream last, resets the state. Otherwise, copies the end of the
    ///   last read to the state.
    /// - Sets the current limit of windows.
    pub(crate) fn lock<'s>(&self, of: StreamRef<'s>) -> MutexGuard<'s, FileState> {
        let StreamRef { stream, ino } = of;
        let mut state = stream.state.lock();
        if stream.ino.load(Relaxed) != ino.0 {
            *state = self.initial.clone();
            stream.end.store(End::NONE, Relaxed);
            stream.ino.store(ino.0, Relaxed);
        } else if let Some(end) = End::unpacked(stream.end.load(Relaxed)) {
            state.set_previous(end.page, end.is_inside);
        }
        if let Some(shares) = &self.shares {
            let device_pages = self.device.window_bytes().map_or(u32::MAX, |window_bytes| {
                max_pages_from_bytes(window_bytes, self.page_bytes)
            });
            state.set_max_pages(shares.limit_pages().min(device_pages));
        }
        state
    }
}

impl Stream {
    fn new(ino: Ino, number: u32, state: FileState) -> Self {
        Self {
            ino: AtomicU32::new(ino.0),
            number,
            end: AtomicU64::new(End::NONE),
            last_turn: LastTurn::default(),
            state: Mutex::new(state),
        }
    }

    /// Returns a reference to this stream for reads of `ino`, the file for which the stream was
    /// created.
    pub(crate) fn of(&self, ino: Ino) -> StreamRef<'_> {
        StreamRef { stream: self, ino }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_takes_no_more_memory_than_documented() {
        assert!(size_of::<Stream>() <= 144);
    }

    #[test]
    fn end_of_a_read_survives_packing_and_none_is_no_page() {
        for page in [0, 1, 1 << 32, 1 << 52] {
            for is_inside in [false, true] {
                let end = End {
                    page: PageIndex(page),
                    is_inside,
                };
                assert_eq!(End::unpacked(end.packed()), Some(end));
            }
        }
        assert_eq!(End::unpacked(End::NONE), None);
    }
}
