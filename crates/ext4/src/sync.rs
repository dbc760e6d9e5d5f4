//! The locks of the journal: the machine's, or, under `cfg(shuttle)`, those of the model
//! checker that tries many interleavings.

#[cfg(not(shuttle))]
mod imp {
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

    /// Waits for `condvar`, giving up the lock meanwhile.
    pub(crate) fn wait<'a, T>(
        condvar: &Condvar,
        mut guard: MutexGuard<'a, T>,
    ) -> MutexGuard<'a, T> {
        condvar.wait(&mut guard);
        guard
    }

    /// How often a lock is tried before its holder is waited for: some ten microseconds, about as long as it
    /// takes to sleep and to be woken.
    const TRIES: u32 = 60;

    /// How often the processor pauses between two tries, which leaves the lock's line to its holder.
    const PAUSES: u32 = 16;

    /// Locks a mutex that is held for less time than sleeping takes.
    pub(crate) fn lock_after_spinning<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        for _ in 0..TRIES {
            if let Some(guard) = mutex.try_lock() {
                return guard;
            }
            for _ in 0..PAUSES {
                std::hint::spin_loop();
            }
        }
        mutex.lock()
    }
}

#[cfg(shuttle)]
mod imp {
    pub(crate) use shuttle::sync::{Condvar, MutexGuard};

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
    }

    /// Locks `mutex`; spinning is nothing that schedules differ by.
    pub(crate) fn lock_after_spinning<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock()
    }

    /// Waits for `condvar`, giving up the lock meanwhile.
    pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condvar.wait(guard).unwrap()
    }
}

pub(crate) use imp::*;
