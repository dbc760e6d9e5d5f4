//! Decides which [receivers](super::receivers) wait for the kernel's next request, and parks the others.
//!
//! # Model
//! If several threads wait, the requests of a sequential program wake different threads, on other processors, with
//! cold caches. On two processors, an untar took twice as long with eight threads as with one. Therefore, usually
//! only one receiver waits for requests. The others are parked: they sleep here, on a condition variable.
//!
//! One of the receivers is the [follower](super::follower). While [sharing](super::sharing) is on, the follower waits
//! for requests, and shares a processor with the program that sends them. If the follower finds no request, and a
//! single thread sent the last requests, the follower moves to the processor of this thread before it waits. While
//! sharing is off, another receiver waits, and [polls](Linger) briefly before it sleeps.
//!
//! The *watcher* is a thread that decides once per [`TICK`] whether sharing is on. While sharing is off, the watcher
//! also checks whether a receiver is available. If no receiver waits and no request has started since the last check,
//! the request in progress probably waits for a device or a lock. The watcher then wakes a parked receiver or, if
//! every receiver except the follower is busy, the follower. If a receiver waits, and no request has started for
//! [`IDLE_TICKS`] ticks, the watcher makes no checks until the next request starts.
//!
//! If the volume is unmounted, a parked receiver notices this itself, within [`UNMOUNT_CHECK_INTERVAL`].
//!
//! # Invariants
//! 1. While sharing is off, at least one receiver other than the follower waits or answers a request. If none of them
//!    waits, the watcher makes its checks, so that it can wake another receiver.
//! 2. While sharing is on, the watcher makes its checks.
//!
//! # Cost
//! Each request locks an uncontended mutex two to four times. While the mount is idle, the watcher sleeps.

use super::device::Connection;
use super::follower::Follower;
use super::linger::Linger;
use super::sharing::{IDLE_TICKS, Sharing, TICK, processor_of};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The interval at which a parked receiver checks whether the volume is unmounted. The follower also waits no
/// longer than this for a request before it checks whether sharing is still on.
const UNMOUNT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The follower moves to the processor of the last caller if [`State::caller_requests`] is at least this number: if the
/// caller has sent at least five consecutive requests.
const MIN_CALLER_REQUESTS: u32 = 4;

/// Decides which receivers of a session wait for requests, and parks the others.
#[derive(Debug)]
pub(super) struct Parking {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

/// The role of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Follower,
    Other,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Decides whether a receiver other than the follower [polls](Linger) before it sleeps.
    linger: Linger,
    /// Parked receivers sleep on this variable. The watcher signals it to wake one of them, which then waits for
    /// requests.
    wakeup: Condvar,
    /// The follower sleeps on this variable until its turn to receive requests. The watcher signals it.
    turn_of_follower_started: Condvar,
    /// The watcher sleeps on this variable while the mount is idle. A receiver signals it when a request starts.
    request_started: Condvar,
}

#[derive(Debug)]
struct State {
    /// Decides whether the follower or another receiver waits.
    sharing: Sharing,
    follower: FollowerState,
    /// The number of receivers that wait for a request. The follower is not counted.
    waiting: usize,
    /// The number of parked receivers, including those in `woken`. The follower is not counted.
    parked: usize,
    /// The number of receivers that were woken and still count as parked.
    woken: usize,
    /// The number of requests that have started.
    requests: u64,
    /// The thread that sent the last request, or 0 before the first request. Requests of the kernel itself are ignored.
    caller: u32,
    /// The number of consecutive requests that `caller` has sent, minus 1.
    caller_requests: u32,
    /// Whether the watcher makes no checks until the next request starts.
    watcher_sleeps: bool,
    /// Whether the session has ended. If so, the watcher exits, and receivers do not park.
    is_closed: bool,
}

#[derive(Debug, Default)]
struct FollowerState {
    /// The follower, or `None` before its thread has started.
    thread: Option<Follower>,
    /// Whether the follower is answering a request.
    is_busy: bool,
    /// Whether the follower receives requests although sharing is off, because all other receivers are busy.
    is_substitute: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            sharing: Sharing::OFF,
            follower: FollowerState::default(),
            waiting: 0,
            parked: 0,
            woken: 0,
            requests: 0,
            caller: 0,
            caller_requests: 0,
            watcher_sleeps: false,
            is_closed: false,
        }
    }
}

impl State {
    /// Returns whether it is the turn of the follower to receive requests.
    fn is_turn_of_follower(&self) -> bool {
        self.sharing.is_on || self.follower.is_substitute
    }
}

impl Parking {
    /// Starts the watcher.
    pub(super) fn start() -> Self {
        let shared = Arc::<Shared>::default();
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

    /// Chooses the role of the current thread. The first thread that calls this becomes the follower, if the watcher
    /// runs and the scheduling policy of the thread can be set.
    pub(super) fn choose_role(&self) -> Role {
        let mut state = self.shared.state.lock();
        if state.follower.thread.is_some() || self.watcher.is_none() {
            return Role::Other;
        }
        match Follower::this_thread() {
            Ok(follower) => {
                state.follower.thread = Some(follower);
                Role::Follower
            }
            Err(error) => {
                tracing::debug!("cannot set the scheduling policy of a thread: {error}");
                Role::Other
            }
        }
    }

    /// Waits until it is the turn of the current thread to receive requests. `has_tried` means that the thread has
    /// just tried to receive a request and found none. The function then also waits until there may be a request,
    /// or the volume may have been unmounted.
    ///
    /// A program often sends its next request while the thread that answered the previous one is still in the system
    /// call that sends the reply. Therefore a thread tries to receive a request before it waits for one.
    pub(super) fn wait(&self, role: Role, has_tried: bool, connection: &Connection) {
        let state = match role {
            Role::Follower => self.shared.turn_of_follower(connection),
            Role::Other => self.shared.turn_of_other(connection),
        };
        if has_tried {
            self.shared.wait_for_request(role, state, connection);
        }
    }

    /// Records the start of a request of the thread `caller`, or of the kernel if `caller` is 0.
    pub(super) fn begin(&self, role: Role, caller: u32) {
        let mut state = self.shared.state.lock();
        state.follower.is_busy |= role == Role::Follower;
        state.requests += 1;
        if caller == state.caller {
            state.caller_requests = state.caller_requests.saturating_add(1);
        } else if caller != 0 {
            state.caller = caller;
            state.caller_requests = 0;
        }
        if state.watcher_sleeps {
            state.watcher_sleeps = false;
            self.shared.request_started.notify_one();
        }
    }
}

impl Shared {
    /// Waits until it is the turn of the follower, the session has ended, or the volume is unmounted.
    fn turn_of_follower(&self, connection: &Connection) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        state.follower.is_busy = false;
        while !state.is_turn_of_follower() && !state.is_closed {
            let timeout = self
                .turn_of_follower_started
                .wait_for(&mut state, UNMOUNT_CHECK_INTERVAL);
            if timeout.timed_out() && connection.is_ended() {
                break;
            }
        }
        state
    }

    /// Waits until sharing is off and no other receiver waits, the watcher wakes this thread, the session has ended, or
    /// the volume is unmounted.
    fn turn_of_other(&self, connection: &Connection) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        // The follower need not receive requests any longer, because this receiver is free.
        state.follower.is_substitute = false;
        state.parked += 1;
        while state.woken == 0 && (state.sharing.is_on || state.waiting > 0) && !state.is_closed {
            let timeout = self.wakeup.wait_for(&mut state, UNMOUNT_CHECK_INTERVAL);
            if timeout.timed_out() && connection.is_ended() {
                break;
            }
        }
        state.parked -= 1;
        state.woken = state.woken.saturating_sub(1);
        state
    }

    /// Waits until there may be a request, or the volume may have been unmounted.
    fn wait_for_request(
        &self,
        role: Role,
        mut state: MutexGuard<'_, State>,
        connection: &Connection,
    ) {
        match role {
            Role::Follower => {
                if state.sharing.is_on && state.caller_requests >= MIN_CALLER_REQUESTS {
                    Self::follow(&mut state);
                }
                drop(state);
                connection.wait(Some(UNMOUNT_CHECK_INTERVAL));
            }
            Role::Other => {
                state.waiting += 1;
                MutexGuard::unlocked(&mut state, || {
                    self.linger.wait(connection);
                    connection.wait(None);
                });
                state.waiting -= 1;
            }
        }
    }

    /// Moves the follower, which calls this, to the processor of the last caller.
    fn follow(state: &mut MutexGuard<'_, State>) {
        let (caller, follower) = (state.caller, state.follower.thread.clone());
        let Some(mut follower) = follower else { return };
        // The lock is not held, because the follower may have to wait until it can run on this processor.
        MutexGuard::unlocked(state, || {
            if let Some(processor) = processor_of(caller) {
                follower.move_to(processor);
            }
        });
        // The watcher may have switched sharing off meanwhile.
        if !state.sharing.is_on {
            follower.release();
        }
        state.follower.thread = Some(follower);
    }

    /// Makes the checks of the watcher until the session ends.
    fn watch(&self) {
        let mut state = self.state.lock();
        let (mut seen, mut idle_ticks) = (state.requests, 0_u32);
        while !state.is_closed {
            if idle_ticks >= IDLE_TICKS && state.waiting > 0 {
                state.watcher_sleeps = true;
                self.request_started.wait(&mut state);
                idle_ticks = 0;
            }
            MutexGuard::unlocked(&mut state, || thread::sleep(TICK));
            let started = state.requests - seen;
            seen = state.requests;
            idle_ticks = if started == 0 {
                idle_ticks.saturating_add(1)
            } else {
                0
            };
            self.choose(&mut state, started);
            let is_stuck = started == 0 && !state.sharing.is_on;
            if is_stuck && state.waiting + state.woken == 0 {
                self.wake_one(&mut state);
            }
        }
    }

    /// Wakes a parked receiver, so that it waits for requests. Wakes the follower only if all other receivers are
    /// busy.
    fn wake_one(&self, state: &mut State) {
        if state.parked > 0 {
            state.woken += 1;
            self.wakeup.notify_one();
        } else {
            state.follower.is_substitute = true;
            self.turn_of_follower_started.notify_one();
        }
    }

    /// Decides whether sharing is on, after a tick with `started` requests.
    fn choose(&self, state: &mut State, started: u64) {
        let Some(follower) = &mut state.follower.thread else {
            return;
        };
        let was_on = state.sharing.is_on;
        // While sharing is off, a follower that is still busy cannot take over.
        let started = if !was_on && state.follower.is_busy {
            0
        } else {
            started
        };
        state.sharing = state.sharing.after_tick(started, || follower.is_ready());
        match (was_on, state.sharing.is_on) {
            (false, true) => {
                self.turn_of_follower_started.notify_one();
            }
            (true, false) => follower.release(),
            _ => {}
        }
    }
}

impl Drop for Parking {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.request_started.notify_all();
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeWriter, Write, pipe};
    use std::os::fd::OwnedFd;

    /// Returns a connection, which has a request if `has_request`, and the other end of its pipe, which must stay
    /// open.
    fn connection(has_request: bool) -> (Connection, PipeWriter) {
        let (reader, mut writer) = pipe().unwrap();
        if has_request {
            writer.write_all(&[0]).unwrap();
        }
        (Connection(OwnedFd::from(reader)), writer)
    }

    #[test]
    fn first_receiver_becomes_the_follower() {
        let parking = Parking::start();
        let role = || thread::scope(|scope| scope.spawn(|| parking.choose_role()).join().unwrap());
        assert_eq!(role(), Role::Follower);
        assert_eq!(role(), Role::Other);
    }

    #[test]
    fn watcher_wakes_a_receiver_when_a_request_takes_long() {
        let parking = Parking::start();
        let (connection, mut writer) = connection(false);
        thread::scope(|scope| {
            let wait = || parking.wait(Role::Other, true, &connection);
            let first = scope.spawn(wait);
            while parking.shared.state.lock().waiting == 0 {
                thread::yield_now();
            }
            let second = scope.spawn(wait);
            while parking.shared.state.lock().parked == 0 {
                thread::yield_now();
            }
            // The first receiver gets the request and does not answer it. The second can return only if it is woken.
            writer.write_all(&[0]).unwrap();
            first.join().unwrap();
            parking.begin(Role::Other, 1);
            second.join().unwrap();
        });
    }

    #[test]
    fn follower_receives_only_while_there_are_many_requests() {
        let parking = Parking::start();
        let (connection, _writer) = connection(true);
        let state = || parking.shared.state.lock();
        // Pretend that another receiver waits, so that the watcher does not make the follower a substitute. The
        // watcher is already running, so it may have done this before.
        {
            let mut state = state();
            state.waiting = 1;
            state.follower.is_substitute = false;
        }
        thread::scope(|scope| {
            let follower = scope.spawn(|| {
                assert_eq!(parking.choose_role(), Role::Follower);
                parking.wait(Role::Follower, false, &connection);
            });
            // The follower can only return if sharing is on.
            while !follower.is_finished() {
                parking.begin(Role::Other, 1);
                thread::yield_now();
            }
        });
        assert!(!state().follower.is_substitute);
        while state().sharing.is_on {
            thread::yield_now();
        }
    }

    #[test]
    fn follower_receives_while_all_other_receivers_are_busy() {
        let parking = Parking::start();
        let (connection, _writer) = connection(true);
        thread::scope(|scope| {
            let follower = scope.spawn(|| {
                assert_eq!(parking.choose_role(), Role::Follower);
                parking.wait(Role::Follower, false, &connection);
            });
            // The only other receiver does not answer its request.
            parking.begin(Role::Other, 1);
            follower.join().unwrap();
        });
        let state = || parking.shared.state.lock();
        assert!(state().follower.is_substitute && !state().sharing.is_on);
        // Pretend that another receiver waits, so that the watcher does not wake the follower again, and that this
        // thread was woken, so that it does not wait.
        (state().waiting, state().woken) = (1, 1);
        parking.wait(Role::Other, false, &connection);
        assert!(!state().follower.is_substitute);
    }

    #[test]
    fn kernel_requests_do_not_change_the_caller() {
        let parking = Parking::start();
        for caller in [7, 7, 0, 7] {
            parking.begin(Role::Other, caller);
        }
        assert_eq!(parking.shared.state.lock().caller_requests, 2);
        parking.begin(Role::Other, 8);
        let state = parking.shared.state.lock();
        assert_eq!((state.caller, state.caller_requests), (8, 0));
    }
}
