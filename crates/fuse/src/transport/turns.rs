//! Turns: how many threads wait for the kernel's next request.
//!
//! # Model
//! The kernel gives a request to the thread that has waited longest. If many threads wait, each request
//! of a sequential program wakes another thread, on another processor, with cold caches. On two
//! processors, an untar took twice as long with eight threads as with one. Therefore only one thread
//! waits at a time. It answers one request after the other, and [lingers](Linger) before it sleeps,
//! while the other threads are parked here. A parked thread gets its turn
//!
//! - when a request starts that is known to take long (a sync, a read from the device);
//! - when the watcher finds, once in [`TICK`], that no thread waits and no request has started since:
//!   the request in progress waits for a device or a lock;
//! - when the volume is unmounted, which it checks once in [`UNMOUNT_CHECK_INTERVAL`].
//!
//! # Invariants
//! 1. Each thread waits, answers, or is parked. `waiting` counts the threads that wait or were called.
//! 2. While a thread is parked, another one waits, or answers and is observed by the watcher.
//!
//! # Cost
//! Two uncontended locks for each request. The watcher sleeps while the mount is idle.

use super::linger::Linger;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a request may take before another thread is called.
const TICK: Duration = Duration::from_millis(1);
/// How often a parked thread checks whether the volume is unmounted.
const UNMOUNT_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The number of ticks without a request after which the watcher sleeps.
const IDLE_TICKS: u32 = 50;

/// The turns of a session's threads.
#[derive(Debug)]
pub(super) struct Turns {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// The connection to the kernel, only for poll(2).
    connection: Option<OwnedFd>,
    state: Mutex<State>,
    /// Polling before the waiting thread sleeps.
    linger: Linger,
    /// Parked threads wait on this.
    called: Condvar,
    /// The watcher waits on this.
    begun: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: usize,
    parked: usize,
    /// Parked threads that were called and have not left yet.
    calls: usize,
    /// The number of requests that have started.
    requests: u64,
    watcher_sleeps: bool,
    closed: bool,
}

/// The handling of one request. When it is dropped, the thread waits for the next request, or parks.
#[derive(Debug)]
pub(super) struct Turn<'t>(&'t Shared);

impl State {
    /// Calls a parked thread, if one exists, to wait for requests.
    fn call(&mut self, called: &Condvar) {
        if self.parked > self.calls {
            self.calls += 1;
            self.waiting += 1;
            called.notify_one();
        }
    }
}

impl Turns {
    /// Creates the turns of `threads` threads, all of which wait for requests on `connection`.
    pub(super) fn new(threads: usize, connection: Option<OwnedFd>) -> Self {
        let shared = Arc::new(Shared {
            connection,
            state: Mutex::new(State {
                waiting: threads,
                ..State::default()
            }),
            linger: Linger::new(),
            called: Condvar::new(),
            begun: Condvar::new(),
        });
        let for_watcher = Arc::clone(&shared);
        let watcher = thread::Builder::new()
            .name("turns".to_owned())
            .spawn(move || for_watcher.watch());
        if let Err(error) = &watcher {
            tracing::warn!(
                %error,
                "cannot start the watcher thread; requests that wait for a device can delay others"
            );
        }
        Self {
            shared,
            watcher: watcher.ok(),
        }
    }

    /// Starts a request that is probably answered immediately.
    pub(super) fn begin(&self) -> Turn<'_> {
        drop(self.shared.begin());
        Turn(&self.shared)
    }

    /// Starts a request that may wait for the device.
    pub(super) fn begin_long(&self) -> Turn<'_> {
        let mut state = self.shared.begin();
        if state.waiting == 0 {
            state.call(&self.shared.called);
        }
        drop(state);
        Turn(&self.shared)
    }
}

impl Shared {
    fn begin(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        state.waiting = state.waiting.saturating_sub(1);
        state.requests += 1;
        if state.watcher_sleeps {
            state.watcher_sleeps = false;
            self.begun.notify_one();
        }
        state
    }

    fn end(&self) {
        let mut state = self.state.lock();
        if state.waiting == 0 || state.closed {
            state.waiting += 1;
            drop(state);
            if let Some(connection) = &self.connection {
                self.linger.wait(connection);
            }
            return;
        }
        state.parked += 1;
        while state.calls == 0 {
            if self
                .called
                .wait_for(&mut state, UNMOUNT_CHECK_INTERVAL)
                .timed_out()
                && self.is_unmounted()
            {
                break;
            }
        }
        state.parked -= 1;
        if state.calls > 0 {
            // The thread was counted as waiting when it was called.
            state.calls -= 1;
        } else {
            state.waiting += 1;
        }
    }

    /// Returns whether the volume is unmounted: then all threads must notice it themselves.
    fn is_unmounted(&self) -> bool {
        let Some(connection) = &self.connection else {
            return true;
        };
        let mut polled = [PollFd::new(connection, PollFlags::empty())];
        let at_once = Timespec::default();
        !matches!(poll(&mut polled, Some(&at_once)), Ok(0))
    }

    fn watch(&self) {
        let mut state = self.state.lock();
        let (mut seen, mut idle_ticks) = (state.requests, 0);
        while !state.closed {
            if idle_ticks >= IDLE_TICKS && state.waiting > 0 {
                state.watcher_sleeps = true;
                self.begun.wait(&mut state);
                idle_ticks = 0;
            }
            MutexGuard::unlocked(&mut state, || thread::sleep(TICK));
            if state.requests != seen {
                (seen, idle_ticks) = (state.requests, 0);
                continue;
            }
            idle_ticks = idle_ticks.saturating_add(1);
            if state.waiting == 0 {
                state.call(&self.called);
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.begun.notify_all();
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(turns: &Turns) -> usize {
        turns.shared.state.lock().waiting
    }

    #[test]
    fn single_thread_waits_again_after_its_turn() {
        let turns = Turns::new(1, None);
        drop(turns.begin());
        drop(turns.begin_long());
        assert_eq!(waiting(&turns), 1);
    }

    #[test]
    fn long_request_calls_a_parked_thread() {
        let turns = Turns::new(2, None);
        thread::scope(|scope| {
            let other = scope.spawn(|| drop(turns.begin()));
            while turns.shared.state.lock().parked == 0 && !other.is_finished() {
                thread::yield_now();
            }
            let long = turns.begin_long();
            other.join().unwrap();
            assert_eq!(waiting(&turns), 1);
            drop(long);
        });
    }

    #[test]
    fn watcher_calls_a_thread_when_a_request_takes_long() {
        let turns = Turns::new(2, None);
        thread::scope(|scope| {
            let other = scope.spawn(|| drop(turns.begin()));
            let stuck = turns.begin();
            other.join().unwrap();
            assert_eq!(waiting(&turns), 1);
            drop(stuck);
        });
    }
}
