//! The locks of the journal: the standard ones or, under `cfg(shuttle)`, those of the model
//! checker, which tries many interleavings.

pub(crate) use larder_cache::sync::{Condvar, Mutex, MutexGuard, wait};

/// How often a lock is tried before the thread sleeps: some ten microseconds, about as long as it
/// takes to sleep and to be woken. Under the model checker, 0: spinning would not change its
/// schedules.
const TRIES: u32 = if cfg!(shuttle) { 0 } else { 60 };

/// The number of pauses between two tries, which leave the lock's cache line to its holder.
const PAUSES: u32 = 16;

/// Locks a mutex that is usually held for less time than sleeping takes.
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
