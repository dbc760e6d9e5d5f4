//! Threads for requests that would wait, for example for the device: reads that are not in memory, changes whose blocks
//! must be read first, and syncs.
//!
//! Such a request is passed to a worker, so that the thread that received it can receive the next one. If
//! no idle worker is left, a new one starts, up to a maximum. A worker that is idle for [`IDLE_TIME`] ends.
//! An idle mount therefore has no workers.
//!
//! Locking: one lock, which is not held while a request is answered.

use larder_block::run_on_all_processors;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The time for which a worker waits for a request before it ends.
const IDLE_TIME: Duration = Duration::from_millis(500);

/// A request to answer.
type Job = Box<dyn FnOnce() + Send>;

/// The workers of a session. Dropping this waits until all requests are answered.
#[derive(Debug)]
pub(super) struct Workers {
    shared: Arc<Shared>,
    most: usize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Signals to an idle worker that a request waits, or that the session has ended.
    ready: Condvar,
    /// Signals that the last worker has ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl Workers {
    /// Creates a pool of at most `most` workers.
    pub(super) fn new(most: usize) -> Self {
        Self {
            shared: Arc::default(),
            most,
        }
    }

    /// Passes `job` to a worker. If there are no workers and none can be started, runs all waiting jobs on this thread.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.state.lock();
        state.waiting.push_back(Box::new(job));
        if state.waiting.len() <= state.idle {
            self.shared.ready.notify_one();
        } else if state.threads < self.most {
            state.threads += 1;
            drop(state);
            self.start();
        }
    }

    /// Starts a worker, which is already counted.
    fn start(&self) {
        let shared = Arc::clone(&self.shared);
        let started = thread::Builder::new()
            .name("larder-worker".to_owned())
            .spawn(move || {
                run_on_all_processors();
                shared.work();
            });
        if let Err(error) = started {
            tracing::debug!(%error, "cannot start a worker");
            let mut state = self.shared.state.lock();
            state.threads -= 1;
            // Without workers, this thread answers all waiting requests.
            while state.threads == 0
                && let Some(job) = state.waiting.pop_front()
            {
                MutexGuard::unlocked(&mut state, job);
            }
        }
    }
}

impl Shared {
    /// Answers requests until this worker must end.
    fn work(&self) {
        while let Some(job) = self.next() {
            // A panic has already been reported.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }

    /// Waits for the next request. Returns `None` if the session has ended, or if no request arrives for
    /// [`IDLE_TIME`]. The worker is then no longer counted.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            let is_closed = state.is_closed;
            state.idle += 1;
            let is_late = is_closed || self.ready.wait_for(&mut state, IDLE_TIME).timed_out();
            state.idle -= 1;
            if is_late && state.waiting.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        if state.threads == 0 {
            self.ended.notify_all();
        }
        None
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_closed = true;
        self.shared.ready.notify_all();
        while state.threads > 0 {
            self.shared.ended.wait(&mut state);
        }
    }
}

impl Debug for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("waiting", &self.waiting.len())
            .field("threads", &self.threads)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::mpsc::channel;

    #[test]
    fn requests_are_answered_at_the_same_time() {
        let workers = Workers::new(4);
        let barrier = Arc::new(Barrier::new(5));
        for _ in 0..4 {
            let barrier = Arc::clone(&barrier);
            workers.run(move || {
                barrier.wait();
            });
        }
        barrier.wait();
    }

    #[test]
    fn more_requests_than_workers_are_all_answered() {
        let workers = Workers::new(2);
        let (sender, receiver) = channel();
        for number in 0..100 {
            let sender = sender.clone();
            workers.run(move || sender.send(number).unwrap());
        }
        drop((workers, sender));
        let mut answered: Vec<i32> = receiver.iter().collect();
        answered.sort_unstable();
        assert!(answered.into_iter().eq(0..100));
    }

    #[test]
    fn request_that_panics_does_not_stop_its_worker() {
        let workers = Workers::new(1);
        workers.run(|| panic!("a request panics, as this test intends"));
        let (sender, receiver) = channel();
        workers.run(move || sender.send(()).unwrap());
        receiver.recv().unwrap();
    }
}
