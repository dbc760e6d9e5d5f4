//! The synchronisation primitives of this crate: the machine's, or, under
//! `cfg(shuttle)`, those of the model checker that tries many interleavings.
//!
//! Everything whose interleavings matter takes its atomics and locks from here.
//! Counters do not: they are no part of any protocol.

#[cfg(not(shuttle))]
mod imp {
    pub(crate) use crate::table::thread_number;
    pub(crate) use crossbeam_utils::Backoff;
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    };
    pub(crate) use std::thread;

    /// Waits for `condvar`, giving up the lock meanwhile.
    pub(crate) fn wait<'a, T>(
        condvar: &Condvar,
        mut guard: MutexGuard<'a, T>,
    ) -> MutexGuard<'a, T> {
        condvar.wait(&mut guard);
        guard
    }
}

#[cfg(shuttle)]
mod imp {
    pub(crate) use shuttle::sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    };
    pub(crate) use shuttle::sync::{Condvar, MutexGuard};
    pub(crate) use shuttle::thread;

    /// The calling thread's number.
    pub(crate) fn thread_number() -> usize {
        thread::current().id().into()
    }

    /// The model checker's mutex with the interface of `parking_lot`.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// Waits for `condvar`, giving up the lock meanwhile.
    pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condvar.wait(guard).unwrap()
    }

    /// A spinning thread lets the others run: spinning alone would never end.
    #[derive(Debug, Default)]
    pub(crate) struct Backoff;

    impl Backoff {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn snooze(&self) {
            shuttle::thread::yield_now();
        }
    }
}

pub(crate) use imp::*;
