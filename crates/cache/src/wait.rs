//! Hashed wait queues, in which threads park until an entry is no longer busy, or no longer held.
//!
//! # Model
//! `folio_wait_queue`: a fixed number of queues, of which a slot's number selects one. A thread
//! that fills or releases an entry checks its `WAITERS` flag, so queues cost nothing while no
//! thread is parked.
//!
//! # Locking
//! A queue's mutex is innermost. A waiter sets the flag and checks the entry's state with the mutex
//! held. A thread that finishes a fill or releases an entry takes the mutex before it wakes the
//! waiters. So no wake-up is lost between the check and the parking.

use crate::sync::{self, Condvar, Mutex};
use crate::table::{Slot, State};
use crossbeam_utils::CachePadded;

/// Number of queues; a power of two.
const QUEUES: usize = 64;

/// The wait queues of an arena.
#[derive(Debug)]
pub(crate) struct WaitQueues {
    queues: Box<[CachePadded<Queue>]>,
}

#[derive(Debug, Default)]
struct Queue {
    /// The slots of entries whose holders wait here until no other thread holds them, once for each
    /// waiter.
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

    /// Parks until no other thread holds the entry in `slot`, which the caller holds. Holders that
    /// wait here too do not count. One of them returns at a time: the next one after the previous
    /// one has released its hold.
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

    /// Wakes the threads that are parked on the slot `index`. Those on other slots of the same
    /// queue wake too, and check again.
    pub(crate) fn wake(&self, index: u32) {
        let queue = self.queue(index);
        let guard = queue.holders.lock();
        queue.woken.notify_all();
        drop(guard);
    }
}
