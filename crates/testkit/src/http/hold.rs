//! Holds replies back until enough requests wait.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The requests that wait, while replies are held.
#[derive(Debug, Default)]
pub(super) struct Hold {
    held: Mutex<Option<Held>>,
    ended: Condvar,
}

#[derive(Debug)]
struct Held {
    /// The number of different ranges that must wait.
    wanted: usize,
    /// The ranges of the requests that wait. A request that is repeated counts once.
    ranges: HashSet<Option<(usize, usize)>>,
}

impl Hold {
    /// Holds replies until requests for `wanted` different ranges wait.
    pub(super) fn begin(&self, wanted: usize) {
        let ranges = HashSet::new();
        *self.lock() = Some(Held { wanted, ranges });
    }

    /// Ends the hold.
    pub(super) fn end(&self) {
        *self.lock() = None;
        self.ended.notify_all();
    }

    /// Waits with a request for `range` until replies are not held.
    pub(super) fn wait(&self, range: Option<(usize, usize)>) {
        let mut held = self.lock();
        if let Some(requests) = held.as_mut() {
            requests.ranges.insert(range);
            if requests.ranges.len() >= requests.wanted {
                *held = None;
                self.ended.notify_all();
            }
        }
        let is_held = |held: &mut Option<Held>| held.is_some();
        drop(self.ended.wait_while(held, is_held));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
