//! The worker: a thread that evicts entries when there are too many.
//!
//! # Model
//! The kernel's `c_shrink_work`. Until a fix in 2026, it could run after its cache was freed. Here the thread
//! starts at the first request. The drop of the worker joins the thread before the target is dropped.
//!
//! # Locking
//! The worker's thread holds `is_ending` from its check for requests until it parks, and `working` during
//! the work.

use crate::sync::thread::{Builder, JoinHandle};
use crate::sync::{self, AcqRel, AtomicU32, Condvar, Mutex, MutexGuard, Relaxed, Release};
use std::sync::Arc;

/// A thread that works on a `T` on request.
#[derive(Debug)]
pub(super) struct Worker<T> {
    shared: Arc<Shared<T>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared<T> {
    target: Arc<T>,
    work: fn(&T),
    /// 1 from a request until the work for it starts, and otherwise 0.
    is_requested: AtomicU32,
    is_ending: Mutex<bool>,
    woken: Condvar,
    working: Mutex<()>,
}

impl<T: Send + Sync + 'static> Worker<T> {
    /// Creates a worker that does `work` on `target` on request.
    pub fn new(target: Arc<T>, work: fn(&T)) -> Self {
        Self {
            shared: Arc::new(Shared {
                target,
                work,
                is_requested: AtomicU32::new(0),
                is_ending: Mutex::new(false),
                woken: Condvar::new(),
                working: Mutex::new(()),
            }),
            thread: Mutex::new(None),
        }
    }

    /// Requests that the thread do the work once more. Until the thread starts this work, further requests
    /// have no effect. If the thread cannot be started, the caller does the work itself.
    pub fn request(&self) {
        let shared = &self.shared;
        if shared.is_requested.load(Relaxed) == 1 || shared.is_requested.swap(1, AcqRel) == 1 {
            return;
        }
        if self.start() {
            // The worker holds this lock from its check for requests until it parks. So when the lock is
            // acquired here, the worker either will check again, or is parked and gets the notification.
            drop(shared.is_ending.lock());
            shared.woken.notify_one();
        } else {
            shared.is_requested.store(0, Release);
            shared.work();
        }
    }

    /// Waits until the work in progress has ended, and prevents further work while the returned guard
    /// exists.
    pub fn pause(&self) -> MutexGuard<'_, ()> {
        self.shared.working.lock()
    }

    #[cfg(test)]
    pub fn is_started(&self) -> bool {
        self.thread.lock().is_some()
    }

    /// Starts the thread, if it does not run yet. Returns false if the thread cannot be started.
    fn start(&self) -> bool {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let builder = Builder::new().name("larder-mbcache".to_owned());
            let run = move || {
                larder_block::run_on_all_processors();
                shared.run();
            };
            *thread = builder.spawn(run).ok();
        }
        thread.is_some()
    }
}

impl<T> Shared<T> {
    fn work(&self) {
        let _working = self.working.lock();
        (self.work)(&self.target);
    }

    fn run(&self) {
        let mut is_ending = self.is_ending.lock();
        while !*is_ending {
            if self.is_requested.swap(0, AcqRel) == 1 {
                drop(is_ending);
                self.work();
                is_ending = self.is_ending.lock();
            } else {
                is_ending = sync::wait(&self.woken, is_ending);
            }
        }
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        *self.shared.is_ending.lock() = true;
        self.shared.woken.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the thread was already reported.
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    /// Work that reports its start, and ends on request.
    struct Task {
        started: SyncSender<()>,
        may_end: parking_lot::Mutex<Receiver<()>>,
    }

    fn work(task: &Task) {
        task.started.send(()).unwrap();
        task.may_end.lock().recv().unwrap();
    }

    #[test]
    fn worker_without_request_has_no_thread() {
        let worker = Worker::new(Arc::new(()), |()| ());
        assert!(!worker.is_started());
        worker.request();
        assert!(worker.is_started());
    }

    #[test]
    fn worker_requested_during_work_works_once_more() {
        let (started, starts) = sync_channel(4);
        let (end, ends) = sync_channel(4);
        let task = Task {
            started,
            may_end: parking_lot::Mutex::new(ends),
        };
        let worker = Worker::new(Arc::new(task), work);
        worker.request();
        starts.recv().unwrap();
        for _ in 0..3 {
            worker.request();
        }
        end.send(()).unwrap();
        starts.recv().unwrap();
        end.send(()).unwrap();
        drop(worker);
        assert!(starts.recv().is_err(), "worked a third time");
    }
}
