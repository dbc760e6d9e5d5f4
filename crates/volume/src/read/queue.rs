//! The queue of pages that the readahead threads must read.
//!
//! Locking: the queue has one lock. It is acquired once for each job, and is not held during a
//! device read. The number of waiting pages is read without the lock.

use crate::fill::PageFiller;
use larder_cache::page::NewPage;
use larder_ext4::Inode;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The maximum number of waiting pages is the number of pages in the cache divided by this
/// constant. Above the maximum, the device counts as congested, and asynchronous readahead stops.
/// Otherwise, pages that are read ahead would evict pages that are in use.
const QUEUE_SHARE: usize = 4;

/// Consecutive pages of a file that a thread must read.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) inode: Inode,
    /// The index of the first page.
    pub(crate) first: u64,
    pub(crate) pages: Vec<NewPage>,
}

impl Job {
    /// Reads the pages. An error is only logged: a reader that requests the page reads it again,
    /// and gets the error.
    pub(super) fn run(self, filler: &PageFiller) {
        let done = filler.fill_run(&self.inode, self.first, self.pages, NewPage::complete);
        if let Err(error) = done {
            tracing::debug!(ino = %self.inode.ino(), %error, "readahead failed");
        }
    }
}

/// The jobs that wait for the readahead threads.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    ready: Condvar,
    /// The number of pages in all waiting jobs.
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
    /// Creates a queue for `threads` threads and a cache of `cache_pages` pages. If `threads` is 0,
    /// the queue is closed.
    pub(crate) fn new(threads: usize, cache_pages: usize) -> Self {
        let queue = Self {
            most_pages: cache_pages / QUEUE_SHARE,
            threads,
            ..Self::default()
        };
        queue.state.lock().closed = threads == 0;
        queue
    }

    /// Returns whether too many pages wait, so that asynchronous readahead must stop.
    pub(crate) fn is_congested(&self) -> bool {
        self.waiting_pages.load(Relaxed) > self.most_pages
    }

    /// Returns the number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Returns whether the queue is closed: there are no readahead threads, or [`Queue::close`] was
    /// called.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Adds a job. If the queue is closed, drops the job, which removes its pages from the cache.
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.state.lock();
        if !state.closed {
            self.waiting_pages.fetch_add(job.pages.len(), Relaxed);
            state.jobs.push_back(job);
            self.ready.notify_one();
        }
    }

    /// Waits for the next job and removes it from the queue. Returns `None` if the queue is closed.
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
