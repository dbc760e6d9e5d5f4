//! Sets the scheduling policy of the queues' threads, for [sharing](super::sharing) of processors.
//!
//! # Model
//! A queue's thread has the policy `SCHED_IDLE` while sharing is on, and the normal policy otherwise. The threads
//! of an idle mount have the normal policy. The change from `SCHED_IDLE` back to the normal policy requires the
//! capability `CAP_SYS_NICE`. If the process does not have this capability, its threads always keep the normal
//! policy.
//!
//! # Cost
//! Each request increments an atomic integer. The watcher sleeps while the mount is idle.

use super::ring::set_idle_policy;
use super::sharing::{IDLE_TICKS, Sharing, TICK, is_ready};
use parking_lot::{Condvar, Mutex};
use rustix::thread::Pid;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::{self, JoinHandle};

/// The thread that checks the queues' threads. Dropping this value ends the watcher.
#[derive(Debug)]
pub(super) struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    threads: Mutex<Vec<Watched>>,
    /// Whether the watcher waits for a request.
    sleeps: AtomicBool,
    is_closed: AtomicBool,
    /// Signals to the watcher that a request was answered, or that the session has ended.
    wakeup: Condvar,
}

/// The counter in which a queue's thread counts the requests that it has answered.
#[derive(Debug)]
pub(super) struct Answered {
    count: Arc<AtomicU64>,
    shared: Arc<Shared>,
}

/// A thread that the watcher checks.
#[derive(Debug)]
struct Watched {
    thread: Pid,
    count: Arc<AtomicU64>,
    seen: u64,
    sharing: Sharing,
}

/// Returns whether the threads of this process can change from `SCHED_IDLE` to the normal policy.
pub(super) fn can_change_policy() -> bool {
    // A thread that cannot change back keeps `SCHED_IDLE`, so a new thread tries.
    let probe = thread::Builder::new().spawn(|| {
        let this = rustix::thread::gettid();
        set_idle_policy(this, true).is_ok() && set_idle_policy(this, false).is_ok()
    });
    let can_change = probe.is_ok_and(|probe| probe.join().unwrap_or(false));
    if !can_change {
        tracing::debug!("this process may not change the scheduling policy of its threads");
    }
    can_change
}

impl Watcher {
    /// Starts the watcher. Returns `None` if the threads of this process cannot change from `SCHED_IDLE` to the
    /// normal policy, or if no thread can be started.
    pub(super) fn start() -> Option<Self> {
        if !can_change_policy() {
            return None;
        }
        let shared = Arc::<Shared>::default();
        let for_watcher = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("larder-watcher".to_owned())
            .spawn(move || for_watcher.watch());
        Some(Self {
            shared,
            thread: Some(thread.ok()?),
        })
    }

    /// Adds the current thread to the threads that the watcher checks.
    pub(super) fn add_this_thread(&self) -> Answered {
        let count = Arc::<AtomicU64>::default();
        self.shared.threads.lock().push(Watched {
            thread: rustix::thread::gettid(),
            count: Arc::clone(&count),
            seen: 0,
            sharing: Sharing::OFF,
        });
        Answered {
            count,
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Answered {
    /// Counts one answered request, and wakes the watcher if it sleeps.
    pub(super) fn count_one(&self) {
        self.count.fetch_add(1, SeqCst);
        if self.shared.sleeps.load(SeqCst) {
            let _threads = self.shared.threads.lock();
            self.shared.wakeup.notify_one();
        }
    }
}

impl Shared {
    fn watch(&self) {
        let mut idle_ticks = 0;
        while !self.is_closed.load(Relaxed) {
            thread::sleep(TICK);
            let mut threads = self.threads.lock();
            let answered: u64 = threads.iter_mut().map(Watched::check).sum();
            idle_ticks = if answered == 0 { idle_ticks + 1 } else { 0 };
            if idle_ticks >= IDLE_TICKS {
                self.sleeps.store(true, SeqCst);
                // No request is missed: `has_news` finds requests that were counted before the check, and a
                // later request wakes the watcher.
                while !threads.iter().any(Watched::has_news) && !self.is_closed.load(Relaxed) {
                    self.wakeup.wait(&mut threads);
                }
                self.sleeps.store(false, SeqCst);
                idle_ticks = 0;
            }
        }
    }
}

impl Watched {
    fn has_news(&self) -> bool {
        self.count.load(SeqCst) != self.seen
    }

    /// Checks the thread, and returns the number of requests that it answered since the last check.
    fn check(&mut self) -> u64 {
        let count = self.count.load(SeqCst);
        let answered = count - self.seen;
        self.seen = count;
        let next = self.sharing.after_tick(answered, || is_ready(self.thread));
        if next.is_on != self.sharing.is_on
            && let Err(error) = set_idle_policy(self.thread, next.is_on)
        {
            tracing::debug!("cannot set the scheduling policy of a thread: {error}");
        }
        self.sharing = next;
        answered
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Relaxed);
        drop(self.shared.threads.lock());
        self.shared.wakeup.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
