//! The requests that wait to be started by the threads of an engine.
//!
//! Order: requests with [`Priority::Demand`] are started first, and those of each priority in the order of
//! submission. When a thread waits for a request with [`Priority::Background`], for example for a page that is read
//! ahead, it can [expedite](crate::BlockDevice::expedite) the request, which then becomes the last demand request. Not
//! all threads can do so. Therefore one background request is started after [`DEMAND_RUN`] demand requests, even
//! if further demand requests wait (`writes_starved` of Linux's deadline scheduler limits the delay of writes in
//! the same way).
//!
//! Locking: the lock of a queue is held only briefly, never during a system call on the file, and never while a
//! request completes.

use crate::request::{Priority, Request};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// The maximum number of requests with [`Priority::Demand`] that are started in a row while a request with
/// [`Priority::Background`] waits.
pub(super) const DEMAND_RUN: usize = 16;

/// The time after which an idle thread that makes blocking calls ends.
pub(super) const IDLE_TIME: Duration = Duration::from_millis(500);

/// Requests that wait to be started, in the order of submission for each priority.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    demand: VecDeque<Request>,
    background: VecDeque<Request>,
    /// The number of demand requests that were started in a row while a background request waited.
    demand_run: usize,
}

impl Waiting {
    pub(super) fn push(&mut self, request: Request) {
        match request.priority() {
            Priority::Demand => self.demand.push_back(request),
            Priority::Background => self.background.push_back(request),
        }
    }

    /// Removes and returns the requests for which `is_cancelled` returns true.
    fn remove(&mut self, is_cancelled: impl Fn(&Request) -> bool) -> Vec<Request> {
        let mut removed = Vec::new();
        for requests in [&mut self.demand, &mut self.background] {
            let all = std::mem::take(requests).into_iter();
            let (cancelled, kept): (VecDeque<_>, VecDeque<_>) = all.partition(&is_cancelled);
            removed.extend(cancelled);
            *requests = kept;
        }
        removed
    }

    /// Moves the background requests for `bytes` of the device to the end of the demand requests.
    fn expedite(&mut self, bytes: &Range<u64>) {
        let is_needed = |request: &Request| {
            let start_bytes = request.offset_bytes();
            start_bytes < bytes.end && bytes.start < start_bytes + request.len_bytes()
        };
        let all = std::mem::take(&mut self.background).into_iter();
        let (needed, others): (VecDeque<_>, VecDeque<_>) = all.partition(is_needed);
        self.demand.extend(needed);
        self.background = others;
    }

    fn len(&self) -> usize {
        self.demand.len() + self.background.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes and returns the next request.
    pub(super) fn pop(&mut self) -> Option<Request> {
        if self.demand.is_empty() || self.background.is_empty() || self.demand_run == DEMAND_RUN {
            self.demand_run = 0;
            let next = self.background.pop_front();
            return next.or_else(|| self.demand.pop_front());
        }
        self.demand_run += 1;
        self.demand.pop_front()
    }
}

/// The requests that wait for the threads of the device.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    ready: Condvar,
    /// Notified when a thread ends.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: Waiting,
    /// The number of threads.
    threads: usize,
    /// The number of threads that wait for a request.
    idle: usize,
    is_closed: bool,
}

impl Queue {
    pub(super) fn push(&self, requests: Vec<Request>) {
        let mut state = self.state.lock();
        if state.is_closed {
            // The lock is released first, because dropping `requests` completes them.
            drop(state);
            return;
        }
        let count = requests.len();
        for request in requests {
            state.waiting.push(request);
        }
        for _ in 0..count.min(state.idle) {
            self.ready.notify_one();
        }
    }

    /// Returns the number of threads to start, so that each queued request has an idle or a new thread, as
    /// far as the limit of `most` threads permits. Counts the new threads as started.
    pub(super) fn missing_threads(&self, most: usize) -> usize {
        let mut state = self.state.lock();
        let wanted = state.waiting.len().saturating_sub(state.idle);
        let missing = wanted.min(most.saturating_sub(state.threads));
        state.threads += missing;
        missing
    }

    pub(super) fn has_threads(&self) -> bool {
        self.state.lock().threads > 0
    }

    /// Records that a thread has ended.
    pub(super) fn end_thread(&self) {
        self.state.lock().threads -= 1;
        self.ended.notify_all();
    }

    /// Waits until at most `most` threads are left. Returns false if more are left after `timeout`.
    pub(super) fn wait_ended(&self, most: usize, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        let is_more = |state: &mut QueueState| state.threads > most;
        let waited = self.ended.wait_while_for(&mut state, is_more, timeout);
        !waited.timed_out()
    }

    /// Cancels the queued requests for which `is_cancelled` returns true.
    pub(super) fn cancel(&self, is_cancelled: impl Fn(&Request) -> bool) {
        let cancelled = self.state.lock().waiting.remove(is_cancelled);
        // The lock is released, because dropping `cancelled` completes the requests.
        drop(cancelled);
    }

    /// Starts the queued background requests for `bytes` of the device as if they were demand requests.
    pub(super) fn expedite(&self, bytes: &Range<u64>) {
        self.state.lock().waiting.expedite(bytes);
    }

    /// Removes and returns the next request, without waiting.
    pub(super) fn take(&self) -> Option<Request> {
        self.state.lock().waiting.pop()
    }

    /// Waits for the next request. Returns `None` if the queue is closed, or if no request arrives for
    /// [`IDLE_TIME`]. The calling thread must then end: this function has removed it from the count of threads.
    pub(super) fn pop(&self) -> Option<Request> {
        let mut state = self.state.lock();
        loop {
            if let Some(request) = state.waiting.pop() {
                return Some(request);
            }
            state.idle += 1;
            let is_closed = state.is_closed;
            let is_late = !is_closed && self.ready.wait_for(&mut state, IDLE_TIME).timed_out();
            state.idle -= 1;
            if (is_closed || is_late) && state.waiting.is_empty() {
                state.threads -= 1;
                self.ended.notify_all();
                return None;
            }
        }
    }

    /// Returns whether the queue is closed. A closed queue is empty.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Cancels all queued requests and all later requests.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        self.ready.notify_all();
        drop(state);
        drop(waiting);
    }
}
