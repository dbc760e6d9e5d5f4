//! Where each file's readers are in their streams, and the threads that read ahead.
//!
//! Model: `struct file_ra_state`, but by inode instead of by open file: a
//! kernel that talks FUSE need not tell when files are opened and closed.
//!
//! Locking: each stream has a lock of its own, taken only on a miss or a
//! marker. A hit stores the last page read into an atomic and takes no lock.
//! The queue has one lock, taken for each window, never during a read.
//!
//! What a policy gets to know is what those so far need: misses, markers, and
//! where the last read ended. One that wants every page would make hits take the
//! stream's lock; none does yet, and [`Streams::new`] checks that.
//!
//! Cost: [`STREAMS`] streams of about 64 bytes, direct-mapped by inode: two
//! files that share one disturb each other's ramp, not their data.

use larder_cache::page::NewPage;
use larder_ext4::{Ino, Inode};
use larder_readahead::{FileState, PageIndex, Policy, Read, Residency, Windows};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

use crate::read::Reader;
use crate::{Error, Result};

/// Files whose streams are remembered at once.
const STREAMS: usize = 1024;

/// Windows that may wait for a thread; beyond it the device is congested and
/// asynchronous readahead gives way.
const QUEUE_WINDOWS: usize = 64;

/// What is remembered of one file's reads.
#[derive(Debug)]
struct Stream {
    /// Whose stream it is; 0 at first. Changes only under `state`'s lock.
    ino: AtomicU32,
    /// Last page of the last read.
    previous: AtomicU64,
    state: Mutex<FileState>,
}

/// The streams of all files, and the policy that judges them.
#[derive(Debug)]
pub(crate) struct Streams {
    slots: Box<[Stream]>,
    policy: &'static dyn Policy,
    max_pages: u32,
    windows: AtomicU64,
}

impl Streams {
    pub(crate) fn new(policy: &'static dyn Policy, max_pages: u32) -> Self {
        assert!(!policy.wants_every_page(false), "hits are not told of");
        let stream = || Stream {
            ino: AtomicU32::new(0),
            previous: AtomicU64::new(u64::MAX),
            state: Mutex::new(FileState::new(max_pages)),
        };
        Self {
            slots: std::iter::repeat_with(stream).take(STREAMS).collect(),
            policy,
            max_pages,
            windows: AtomicU64::new(0),
        }
    }

    fn stream(&self, ino: Ino) -> &Stream {
        &self.slots[ino.0 as usize % STREAMS]
    }

    /// What to bring in for `read`, which missed or met the marker.
    pub(crate) fn decide(&self, ino: Ino, read: &Read, resident: &dyn Residency) -> Windows {
        let stream = self.stream(ino);
        let mut state = stream.state.lock();
        if stream.ino.load(Relaxed) == ino.0 {
            state.set_previous(PageIndex(stream.previous.load(Relaxed)), false);
        } else {
            *state = FileState::new(self.max_pages);
            stream.previous.store(u64::MAX, Relaxed);
            stream.ino.store(ino.0, Relaxed);
        }
        self.policy.decide(&mut state, read, resident)
    }

    /// Takes note that a read of `ino` ended with page `last`.
    pub(crate) fn end_read(&self, ino: Ino, last: u64) {
        let stream = self.stream(ino);
        if stream.ino.load(Relaxed) == ino.0 {
            stream.previous.store(last, Relaxed);
        }
    }

    /// Takes note that pages of a window were handed to the threads.
    pub(crate) fn count_window(&self) {
        self.windows.fetch_add(1, Relaxed);
    }

    /// Windows of which pages were read ahead.
    pub(crate) fn windows(&self) -> u64 {
        self.windows.load(Relaxed)
    }
}

/// Contiguous pages that a thread shall read.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) inode: Inode,
    /// Index of the first page.
    pub(crate) first: u64,
    pub(crate) pages: Vec<NewPage>,
}

/// Jobs on their way to the threads.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Queue {
    /// Whether so much waits that more would only pile up.
    pub(crate) fn is_congested(&self) -> bool {
        self.state.lock().jobs.len() >= QUEUE_WINDOWS
    }

    /// Hands a job over. After [`Queue::close`] it is dropped, and its pages
    /// are as if they had never been asked for.
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.state.lock();
        if !state.closed {
            state.jobs.push_back(job);
            self.ready.notify_one();
        }
    }

    /// Waits for the next job; `None` once the queue is closed.
    fn pop(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            self.ready.wait(&mut state);
        }
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.jobs.clear();
        self.ready.notify_all();
    }
}

/// Closes the queue if its thread panics, so that no page waits for a thread
/// that is gone: readers then do without readahead.
struct CloseOnPanic<'a>(&'a Queue);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

/// The readahead threads: joined when this is dropped.
#[derive(Debug)]
pub(crate) struct Readers {
    reader: Arc<Reader>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn start(reader: &Arc<Reader>, threads: usize) -> Result<Self> {
        let mut readers = Self {
            reader: Arc::clone(reader),
            threads: Vec::new(),
        };
        for index in 0..threads {
            let reader = Arc::clone(reader);
            let thread = std::thread::Builder::new()
                .name(format!("readahead-{index}"))
                .spawn(move || {
                    let _closes = CloseOnPanic(&reader.queue);
                    while let Some(job) = reader.queue.pop() {
                        reader.run(job);
                    }
                })
                .map_err(Error::Thread)?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.reader.queue.close();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so; dropping a volume does not repeat it.
            let _ = thread.join();
        }
    }
}
