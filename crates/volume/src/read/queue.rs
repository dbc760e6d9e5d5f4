//! The jobs that wait for the readahead threads.
//!
//! Locking: the queue has one lock, taken for each run of pages, never during a read. How much
//! waits can be seen without it.

use crate::fill::PageFiller;
use larder_cache::page::NewPage;
use larder_ext4::Inode;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The part of all pages that may wait for a thread; beyond it the device is congested, and
/// asynchronous readahead gives way: what is read ahead shall not drive out what is in use.
const QUEUE_SHARE: usize = 4;

/// Contiguous pages that a thread shall read.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) inode: Inode,
    /// Index of the first page.
    pub(crate) first: u64,
    pub(crate) pages: Vec<NewPage>,
}

impl Job {
    /// Reads the pages. An error is for whoever asks for the page.
    pub(super) fn run(self, filler: &PageFiller) {
        let done = filler.fill_run(&self.inode, self.first, self.pages, NewPage::complete);
        if let Err(error) = done {
            tracing::debug!(ino = %self.inode.ino(), %error, "readahead failed");
        }
    }
}

/// Jobs on their way to the threads.
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
    /// A queue for so many threads, in a cache of so many pages. With no threads, it takes nothing.
    pub(crate) fn new(threads: usize, cache_pages: usize) -> Self {
        let queue = Self {
            most_pages: cache_pages / QUEUE_SHARE,
            threads,
            ..Self::default()
        };
        queue.state.lock().closed = threads == 0;
        queue
    }

    /// Whether so much waits that more would only pile up.
    pub(crate) fn is_congested(&self) -> bool {
        self.waiting_pages.load(Relaxed) > self.most_pages
    }

    /// How many threads it is for.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Whether nobody takes jobs from it: with no threads, or none any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Hands a job over. After [`Queue::close`] it is dropped, and its pages
    /// are as if they had never been asked for.
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.state.lock();
        if !state.closed {
            self.waiting_pages.fetch_add(job.pages.len(), Relaxed);
            state.jobs.push_back(job);
            self.ready.notify_one();
        }
    }

    /// Waits for the next job; `None` once the queue is closed.
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
