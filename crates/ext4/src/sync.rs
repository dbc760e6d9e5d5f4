//! The locks of the journal: the machine's, or, under `cfg(shuttle)`, those of the model
//! checker that tries many interleavings.

pub(crate) use larder_cache::sync::{Condvar, Mutex, MutexGuard, wait};

/// How often a lock is tried before its holder is waited for: some ten microseconds, about as long as it
/// takes to sleep and to be woken. Spinning is nothing that the model checker's schedules differ by.
const TRIES: u32 = if cfg!(shuttle) { 0 } else { 60 };

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
