//! The synchronization primitives of this crate and of the crates that use it. Under `cfg(shuttle)` they are
//! those of a model checker, which tries many interleavings of threads.
//!
//! Code whose interleavings matter imports its atomics and locks from here. Counters need not be checked, so
//! they use the atomics of `std`. The names are those of `std` and `parking_lot`.

#[cfg(not(shuttle))]
mod imp {
    pub use crate::thread_number::thread_number;
    pub use crossbeam_utils::Backoff;
    pub use parking_lot::{Condvar, Mutex, MutexGuard};
    pub use std::sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    };
    pub use std::thread;
    use std::time::Instant;

    /// Waits for `condvar`, and releases the lock meanwhile.
    pub fn wait<'a, T>(condvar: &Condvar, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condvar.wait(&mut guard);
        guard
    }

    /// Waits for `condvar` until `end`, and releases the lock meanwhile. Also returns whether the wait ended
    /// because `end` has passed.
    pub fn wait_until<'a, T>(
        condvar: &Condvar,
        mut guard: MutexGuard<'a, T>,
        end: Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        let is_late = condvar.wait_until(&mut guard, end).timed_out();
        (guard, is_late)
    }
}

#[cfg(shuttle)]
mod imp {
    pub use shuttle::sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    };
    pub use shuttle::sync::{Condvar, MutexGuard};
    pub use shuttle::thread;
    use std::time::Instant;

    /// Returns the number of the calling thread.
    pub fn thread_number() -> usize {
        thread::current().id().into()
    }

    /// The model checker's mutex with the interface of `parking_lot`.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// Creates a mutex that guards `value`.
        pub fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        /// Locks the mutex, and waits if necessary.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }

        /// Locks the mutex if it is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// Waits for `condvar`, and releases the lock meanwhile.
    pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condvar.wait(guard).unwrap()
    }

    /// Waits for `condvar`. No time passes in the model.
    pub fn wait_until<'a, T>(
        condvar: &Condvar,
        guard: MutexGuard<'a, T>,
        _end: Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        (wait(condvar, guard), false)
    }

    /// The backoff of a spinning thread. It yields to the other threads, because the thread would otherwise
    /// spin forever.
    #[derive(Debug, Default)]
    pub struct Backoff;

    impl Backoff {
        /// Creates the initial state.
        pub fn new() -> Self {
            Self
        }

        /// Waits before the next check.
        pub fn snooze(&self) {
            shuttle::thread::yield_now();
        }
    }
}

pub use imp::*;
