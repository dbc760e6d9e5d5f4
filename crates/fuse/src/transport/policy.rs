//! Sets the scheduling policy of the queues' threads, so that a program and the thread that answers its
//! requests can share a processor.
//!
//! # Model
//! When a queue's thread sends a reply, the scheduler wakes the program. The scheduler prefers to run the
//! program on an idle processor. The processor of the queue's thread does not count as idle, although the
//! thread will sleep a few microseconds later. Therefore each request of a sequential program wakes a halted
//! processor. On a virtual machine, the wake-up took 150 µs, and the answer to the request took 10 µs.
//!
//! The scheduler treats a processor as idle if all its threads have the policy `SCHED_IDLE`. Therefore a
//! queue's thread has this policy while it answers many requests.
//!
//! If another program computes on the same processor, a thread with this policy is delayed considerably.
//! Therefore the watcher, a separate thread, checks the queues' threads once per [`TICK`] while requests are
//! answered. A thread that has answered nothing since the last check gets the normal policy again. If this
//! thread was ready to run, the other program has delayed it. The thread then keeps the normal policy for some
//! ticks. This number doubles with each delay. The threads of an idle mount have the normal policy.
//!
//! The change from `SCHED_IDLE` back to the normal policy requires the capability `CAP_SYS_NICE`. If the
//! process does not have this capability, its threads always keep the normal policy.
//!
//! # Cost
//! Each request increments an atomic integer. The watcher sleeps while the mount is idle.

use super::ring::set_idle_policy;
use parking_lot::{Condvar, Mutex};
use rustix::thread::Pid;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The interval between two checks. A thread that is delayed gets the normal policy one or two checks later.
const TICK: Duration = Duration::from_millis(1);
/// A thread that answers at least this number of requests in a tick gets the policy `SCHED_IDLE`.
const BUSY_REQUESTS: u64 = 4;
/// The number of ticks without a request after which the watcher sleeps.
const IDLE_TICKS: u32 = 50;
/// The minimum and the maximum number of ticks for which a delayed thread keeps the normal policy.
const MIN_PENALTY: u32 = 16;
const MAX_PENALTY: u32 = 4096;

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
    policy: Policy,
}

/// The scheduling policy of a thread, and the state from which the next policy is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Policy {
    is_idle: bool,
    /// The number of further ticks for which the thread keeps the normal policy.
    skip: u32,
    /// The value that `skip` gets at the next delay.
    penalty: u32,
}

impl Policy {
    const NORMAL: Self = Self {
        is_idle: false,
        skip: 0,
        penalty: MIN_PENALTY,
    };

    /// Returns the policy after a tick with `answered` requests. `is_ready` returns whether the thread is ready
    /// to run.
    fn after_tick(self, answered: u64, is_ready: impl FnOnce() -> bool) -> Self {
        let mut next = self;
        if self.is_idle {
            if answered > 0 {
                next.penalty = (self.penalty - 1).max(MIN_PENALTY);
            } else {
                next.is_idle = false;
                if is_ready() {
                    next.skip = self.penalty;
                    next.penalty = (self.penalty * 2).min(MAX_PENALTY);
                }
            }
        } else if self.skip > 0 {
            next.skip -= 1;
        } else {
            next.is_idle = answered >= BUSY_REQUESTS;
        }
        next
    }
}

impl Watcher {
    /// Starts the watcher. Returns `None` if the threads of this process cannot change from `SCHED_IDLE` to the
    /// normal policy, or if no thread can be started.
    pub(super) fn start() -> Option<Self> {
        let probe = thread::Builder::new().spawn(|| {
            let this = rustix::thread::gettid();
            set_idle_policy(this, true).is_ok() && set_idle_policy(this, false).is_ok()
        });
        if !probe.ok()?.join().unwrap_or(false) {
            tracing::debug!("this process may not change the scheduling policy of its threads");
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
            policy: Policy::NORMAL,
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
        let next = self.policy.after_tick(answered, || is_ready(self.thread));
        if next.is_idle != self.policy.is_idle
            && let Err(error) = set_idle_policy(self.thread, next.is_idle)
        {
            tracing::debug!("cannot set the scheduling policy of a thread: {error}");
        }
        self.policy = next;
        answered
    }
}

/// Returns whether a thread of this process is ready to run or is running.
fn is_ready(thread: Pid) -> bool {
    let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    // The state follows the name, which is in parentheses.
    let state = |stat: String| {
        stat.rsplit_once(") ")
            .map(|(_, rest)| rest.starts_with('R'))
    };
    fs::read_to_string(path).is_ok_and(|stat| state(stat).unwrap_or(true))
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

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Policy = Policy {
        is_idle: true,
        ..Policy::NORMAL
    };

    fn never() -> bool {
        unreachable!("the state of the thread does not matter")
    }

    #[test]
    fn busy_thread_gets_the_idle_policy() {
        assert_eq!(Policy::NORMAL.after_tick(BUSY_REQUESTS, never), IDLE);
        assert_eq!(
            Policy::NORMAL.after_tick(BUSY_REQUESTS - 1, never),
            Policy::NORMAL
        );
        assert_eq!(IDLE.after_tick(1, never), IDLE);
    }

    #[test]
    fn thread_without_requests_gets_the_normal_policy_without_a_penalty() {
        assert_eq!(IDLE.after_tick(0, || false), Policy::NORMAL);
    }

    #[test]
    fn delayed_thread_keeps_the_normal_policy_for_twice_as_long_each_time() {
        let mut policy = IDLE;
        let mut expected = MIN_PENALTY;
        for _ in 0..12 {
            policy = policy.after_tick(0, || true);
            for _ in 0..expected {
                assert!(!policy.is_idle && policy.skip > 0);
                policy = policy.after_tick(100, never);
            }
            policy = policy.after_tick(100, never);
            assert!(policy.is_idle, "after {expected} ticks");
            expected = (expected * 2).min(MAX_PENALTY);
        }
        assert_eq!(expected, MAX_PENALTY);
    }

    #[test]
    fn penalty_decreases_while_the_thread_is_not_delayed() {
        let delayed = IDLE.after_tick(0, || true);
        let mut policy = Policy {
            is_idle: true,
            ..delayed
        };
        for _ in 0..100 {
            policy = policy.after_tick(1, never);
        }
        assert_eq!(policy.penalty, MIN_PENALTY);
    }

    #[test]
    fn running_thread_is_ready_and_sleeping_thread_is_not() {
        assert!(is_ready(rustix::thread::gettid()));
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let sleeping = thread::spawn(move || {
            sender.send(rustix::thread::gettid()).unwrap();
            ended.recv().unwrap_err();
        });
        let thread = receiver.recv().unwrap();
        while is_ready(thread) {
            thread::yield_now();
        }
        drop(end);
        sleeping.join().unwrap();
    }
}
