//! Hashed wait queues: where threads park until an entry is no longer busy.
//!
//! # Model
//! `folio_wait_queue`: a fixed number of queues, a slot's number chooses one.
//! Who fills an entry looks for its `WAITERS` flag, so nobody parked costs
//! nothing.
//!
//! # Locking
//! A queue's mutex is innermost. The flag is set, and the entry's state looked
//! at, with it held; who ends the filling takes it before waking, so no wake is
//! lost between the look and the parking.

use crate::sync::{self, Condvar, Mutex};
use crate::table::{Slot, State};
use crossbeam_utils::CachePadded;

/// Queues; a power of two.
const QUEUES: usize = 64;

/// The wait queues of an arena.
#[derive(Debug)]
pub(crate) struct WaitQueues {
    queues: Box<[CachePadded<Queue>]>,
}

#[derive(Debug, Default)]
struct Queue {
    lock: Mutex<()>,
    woken: Condvar,
}

impl WaitQueues {
    pub(crate) fn new() -> Self {
        Self {
            queues: (0..QUEUES).map(|_| CachePadded::default()).collect(),
        }
    }

    fn queue(&self, index: u32) -> &Queue {
        &self.queues[index as usize % QUEUES]
    }

    /// Parks until the entry `seen` in `slot` is no longer busy.
    pub(crate) fn wait<const W: usize>(&self, slot: &Slot<W>, index: u32, seen: State) {
        let queue = self.queue(index);
        let mut guard = queue.lock.lock();
        while slot.announce_waiter(seen) {
            guard = sync::wait(&queue.woken, guard);
        }
    }

    /// Wakes who is parked on the slot `index` (and on those that share its
    /// queue; they look again).
    pub(crate) fn wake(&self, index: u32) {
        let queue = self.queue(index);
        let guard = queue.lock.lock();
        queue.woken.notify_all();
        drop(guard);
    }
}
