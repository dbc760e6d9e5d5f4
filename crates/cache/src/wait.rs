//! Hashed wait queues: where threads park until an entry is no longer busy, or no longer held.
//!
//! # Model
//! `folio_wait_queue`: a fixed number of queues, a slot's number chooses one.
//! Who fills an entry, or lets go of one, looks for its `WAITERS` flag, so nobody parked costs
//! nothing.
//!
//! # Locking
//! A queue's mutex is innermost. The flag is set, and the entry's state looked
//! at, with it held; who ends the filling or lets go takes it before waking, so no wake is
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
    /// The slots of entries that are held by those who wait here until nobody else does, once for
    /// each of them.
    holders: Mutex<Vec<u32>>,
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
        let mut guard = queue.holders.lock();
        while slot.announce_waiter(seen) {
            guard = sync::wait(&queue.woken, guard);
        }
    }

    /// Parks until nobody else holds the entry in `slot`, which the caller does, but for others who
    /// wait here too. Of these one returns at a time: the next when that one has let go.
    pub(crate) fn wait_unused<const W: usize>(&self, slot: &Slot<W>, index: u32) {
        let queue = self.queue(index);
        let mut holders = queue.holders.lock();
        holders.push(index);
        loop {
            let pins = slot.set_flags(State::WAITERS).pins() as usize;
            if pins <= holders.iter().filter(|&&held| held == index).count() {
                break;
            }
            holders = sync::wait(&queue.woken, holders);
        }
        if let Some(mine) = holders.iter().position(|&held| held == index) {
            holders.swap_remove(mine);
        }
        if !holders.contains(&index) {
            slot.clear_flags(State::WAITERS);
        }
    }

    /// Wakes who is parked on the slot `index` (and on those that share its
    /// queue; they look again).
    pub(crate) fn wake(&self, index: u32) {
        let queue = self.queue(index);
        let guard = queue.holders.lock();
        queue.woken.notify_all();
        drop(guard);
    }
}
