//! Parking of threads: one thread of a session waits for the kernel's next request, and the others are
//! parked.
//!
//! # Model
//! The kernel gives a request to the thread that has waited longest. If many threads wait, each request
//! of a sequential program wakes a different thread, on another processor, with cold caches. On two
//! processors, an untar took twice as long with eight threads as with one. Therefore, usually only one
//! thread waits. That thread answers one request after the other, and [polls](Linger) before it sleeps.
//! The other threads are parked: they sleep here, on a condition variable. A parked thread is woken, to
//! wait for requests, when
//!
//! - the watcher, a thread that checks once per [`TICK`], finds that no thread waits and that no
//!   request has started since its last check: a request in progress probably waits for a device or a
//!   lock;
//! - the volume is unmounted. A parked thread checks this itself, once per [`UNMOUNT_CHECK_INTERVAL`].
//!
//! # Invariants
//! 1. Each thread waits, answers a request, or is parked. `waiting` counts the threads that wait and the
//!    threads that were woken to wait.
//! 2. While a thread is parked, another thread waits, or answers a request and is checked by the watcher.
//!
//! # Cost
//! Each request locks an uncontended mutex twice. The watcher sleeps while the mount is idle.

use super::linger::Linger;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The interval between two checks of the watcher. If the thread that waited is busy with a slow request,
/// another thread is woken after one to two intervals.
const TICK: Duration = Duration::from_millis(1);
/// The interval at which a parked thread checks whether the volume is unmounted.
const UNMOUNT_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The number of ticks without a request after which the watcher sleeps.
const IDLE_TICKS: u32 = 50;

/// Decides which threads of a session wait for requests, and parks the others.
#[derive(Debug)]
pub(super) struct Parking {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// A descriptor of the connection to the kernel, used only for poll(2).
    connection: Option<OwnedFd>,
    state: Mutex<State>,
    /// Decides whether the waiting thread polls before it sleeps.
    linger: Linger,
    /// Signals to a parked thread that it must wait for requests. Parked threads sleep on it.
    wakeup: Condvar,
    /// Signals to the watcher that a request has started. The watcher sleeps on it while the mount is
    /// idle.
    request_started: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The number of threads that wait for a request, or were woken to wait.
    waiting: usize,
    /// The number of parked threads, including those in `woken`.
    parked: usize,
    /// The number of threads that were woken and still count as parked.
    woken: usize,
    /// The number of requests that have started.
    requests: u64,
    watcher_sleeps: bool,
    /// Whether the session has ended. If so, the watcher exits, and threads do not park.
    closed: bool,
}

/// A guard that exists while a thread handles one request. Dropping it ends the request: if another
/// thread waits, the current thread parks; otherwise the current thread waits for the next request.
#[derive(Debug)]
pub(super) struct Handling<'p>(&'p Shared);

impl State {
    /// Wakes a parked thread, if one exists, so that it waits for requests.
    fn wake_one(&mut self, wakeup: &Condvar) {
        if self.parked > self.woken {
            self.woken += 1;
            self.waiting += 1;
            wakeup.notify_one();
        }
    }
}

impl Parking {
    /// Starts the watcher for `threads` threads, all of which wait for requests on `connection`.
    pub(super) fn new(threads: usize, connection: Option<OwnedFd>) -> Self {
        let shared = Arc::new(Shared {
            connection,
            state: Mutex::new(State {
                waiting: threads,
                ..State::default()
            }),
            linger: Linger::new(),
            wakeup: Condvar::new(),
            request_started: Condvar::new(),
        });
        let for_watcher = Arc::clone(&shared);
        let watcher = thread::Builder::new()
            .name("larder-watcher".to_owned())
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

    /// Records the start of a request.
    pub(super) fn begin(&self) -> Handling<'_> {
        self.shared.begin();
        Handling(&self.shared)
    }
}

impl Shared {
    fn begin(&self) {
        let mut state = self.state.lock();
        state.waiting = state.waiting.saturating_sub(1);
        state.requests += 1;
        if state.watcher_sleeps {
            state.watcher_sleeps = false;
            self.request_started.notify_one();
        }
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
        while state.woken == 0 {
            if self
                .wakeup
                .wait_for(&mut state, UNMOUNT_CHECK_INTERVAL)
                .timed_out()
                && self.is_unmounted()
            {
                break;
            }
        }
        state.parked -= 1;
        if state.woken > 0 {
            // `wake_one` has already counted this thread as waiting.
            state.woken -= 1;
        } else {
            state.waiting += 1;
        }
    }

    /// Returns whether the volume is unmounted. If it is, a parked thread must stop waiting on the
    /// condition variable and read from the connection: the read fails, and the thread ends.
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
                self.request_started.wait(&mut state);
                idle_ticks = 0;
            }
            MutexGuard::unlocked(&mut state, || thread::sleep(TICK));
            if state.requests != seen {
                (seen, idle_ticks) = (state.requests, 0);
                continue;
            }
            idle_ticks = idle_ticks.saturating_add(1);
            if state.waiting == 0 {
                state.wake_one(&self.wakeup);
            }
        }
    }
}

impl Drop for Handling<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Drop for Parking {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.request_started.notify_all();
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(parking: &Parking) -> usize {
        parking.shared.state.lock().waiting
    }

    #[test]
    fn single_thread_waits_again_after_a_request() {
        let parking = Parking::new(1, None);
        drop(parking.begin());
        drop(parking.begin());
        assert_eq!(waiting(&parking), 1);
    }

    #[test]
    fn watcher_wakes_a_thread_when_a_request_takes_long() {
        let parking = Parking::new(2, None);
        thread::scope(|scope| {
            let other = scope.spawn(|| drop(parking.begin()));
            let stuck = parking.begin();
            other.join().unwrap();
            assert_eq!(waiting(&parking), 1);
            drop(stuck);
        });
    }
}
