//! Limits the memory in which units are decompressed at the same time.
//!
//! Model: a counting semaphore. Threads are served in the order of their arrival, so that small units do not delay a large
//! one for ever.
//!
//! Invariant: `used_bytes` is the sum of all reservations. It exceeds `max_bytes` only if there is a single
//! reservation.
//!
//! Locking: one mutex for all fields. A thread that has a reservation must not reserve more.

use larder_cache::sync::{Condvar, Mutex, wait};

/// Memory that threads reserve, in bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    max_bytes: u64,
    state: Mutex<State>,
    /// Notified when a thread has been served, and when a reservation ends.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    used_bytes: u64,
    /// The number of threads that have arrived.
    arrived: u64,
    /// The number of threads that have been served.
    served: u64,
}

/// Reserved memory. It is returned when this value is dropped.
#[derive(Debug)]
#[must_use = "the reservation ends when this is dropped"]
pub(crate) struct Reserved<'b> {
    budget: &'b Budget,
    bytes: u64,
}

impl Budget {
    /// Creates a budget of `max_bytes`.
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Reserves `bytes`. Waits until all threads that arrived earlier are served, and the memory is available. A
    /// reservation of more than the whole budget waits until there is no other reservation.
    pub(crate) fn reserve(&self, bytes: u64) -> Reserved<'_> {
        let mut state = self.state.lock();
        let number = state.arrived;
        state.arrived += 1;
        while state.served != number
            || state.used_bytes > 0 && state.used_bytes.saturating_add(bytes) > self.max_bytes
        {
            state = wait(&self.changed, state);
        }
        state.served += 1;
        state.used_bytes += bytes;
        drop(state);
        self.changed.notify_all();
        Reserved {
            budget: self,
            bytes,
        }
    }

    /// Returns the bytes that are reserved.
    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes
    }

    /// Returns the number of threads that wait.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn waiting(&self) -> u64 {
        let state = self.state.lock();
        state.arrived - state.served
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.budget.state.lock().used_bytes -= self.bytes;
        self.budget.changed.notify_all();
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn threads_wait_in_the_order_of_their_arrival() {
        let budget = Budget::new(10);
        let first = budget.reserve(8);
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            // The second one of these would fit at once.
            for (number, bytes) in [(1, 9), (2, 1), (3, 10)] {
                let (budget, sender) = (&budget, sender.clone());
                scope.spawn(move || {
                    let reserved = budget.reserve(bytes);
                    sender.send((number, budget.used_bytes())).unwrap();
                    drop(reserved);
                });
                while budget.waiting() < number {
                    std::thread::yield_now();
                }
            }
            assert_eq!(budget.used_bytes(), 8);
            assert!(receiver.try_recv().is_err());
            drop(first);
            let served: Vec<_> = receiver.iter().take(3).collect();
            assert!(served.iter().all(|&(_, used_bytes)| used_bytes <= 10));
            assert_eq!(served[2].0, 3, "{served:?}");
        });
        assert_eq!((budget.used_bytes(), budget.waiting()), (0, 0));
    }

    #[test]
    fn more_than_the_budget_is_reserved_alone() {
        let budget = Budget::new(10);
        drop(budget.reserve(100));
        drop(budget.reserve(u64::MAX));
        let small = budget.reserve(0);
        drop(budget.reserve(10));
        drop(small);
        assert_eq!(budget.used_bytes(), 0);
    }
}
