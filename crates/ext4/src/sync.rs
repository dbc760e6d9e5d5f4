//! The locks of the journal: the ordinary locks or, under `cfg(shuttle)`, the locks of the model
//! checker, which tries many interleavings.

pub(crate) use larder_cache::sync::{Condvar, Mutex, MutexGuard, wait};

/// The number of times that a thread tries a lock before it sleeps. The tries take about ten
/// microseconds, which is about as long as a sleep and a wake-up. The number is 0 under the model
/// checker, because spinning would not change its schedules.
const TRIES: u32 = if cfg!(shuttle) { 0 } else { 60 };

/// The number of pauses between two tries. During the pauses, the cache line of the lock stays with
/// the thread that holds the lock.
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
