//! The jobs that wait for the readahead threads.
//!
//! Locking: the queue has one lock, acquired for each run of pages, never during a read. The number of
//! waiting pages can be read without it.

use crate::fill::PageFiller;
use larder_cache::page::NewPage;
use larder_ext4::Inode;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The pages of the cache divided by the maximum number of pages that may wait for a thread. Above
/// that number, the device is congested, and asynchronous readahead stops, because pages that are
/// read ahead must not evict pages that are in use.
const QUEUE_SHARE: usize = 4;

/// Contiguous pages that a thread must read.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) inode: Inode,
    /// Index of the first page.
    pub(crate) first: u64,
    pub(crate) pages: Vec<NewPage>,
}

impl Job {
    /// Reads the pages. An error is reported to the reader that requests the page.
    pub(super) fn run(self, filler: &PageFiller) {
        let done = filler.fill_run(&self.inode, self.first, self.pages, NewPage::complete);
        if let Err(error) = done {
            tracing::debug!(ino = %self.inode.ino(), %error, "readahead failed");
        }
    }
}

/// Jobs that wait for the threads.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    ready: Condvar,
    /// Pages of all jobs.
    waiting_pages: AtomicUsize,
    most_pages: usize,
    threads: usize,
}

#[derive(Debug, Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Queue {
    /// Creates a queue for `threads` threads, in a cache of `cache_pages` pages. Without threads,
    /// it accepts no jobs.
    pub(crate) fn new(threads: usize, cache_pages: usize) -> Self {
        let queue = Self {
            most_pages: cache_pages / QUEUE_SHARE,
            threads,
            ..Self::default()
        };
        queue.state.lock().closed = threads == 0;
        queue
    }

    /// Returns whether so many pages wait that more would only accumulate.
    pub(crate) fn is_congested(&self) -> bool {
        self.waiting_pages.load(Relaxed) > self.most_pages
    }

    /// Returns the number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Returns whether no thread takes jobs from the queue, because none was started or it was
    /// closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Adds a job. After [`Queue::close`] it is dropped, and its pages are treated as if they had
    /// never been requested.
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.state.lock();
        if !state.closed {
            self.waiting_pages.fetch_add(job.pages.len(), Relaxed);
            state.jobs.push_back(job);
            self.ready.notify_one();
        }
    }

    /// Waits for the next job. Returns `None` once the queue is closed.
    pub(crate) fn pop(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                self.waiting_pages.fetch_sub(job.pages.len(), Relaxed);
                return Some(job);
            }
            self.ready.wait(&mut state);
        }
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.jobs.clear();
        self.waiting_pages.store(0, Relaxed);
        self.ready.notify_all();
    }
}
