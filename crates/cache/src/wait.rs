//! Wait queues, in which threads park until an entry is no longer busy, or until no other thread has it
//! pinned.
//!
//! # Model
//! `folio_wait_queue`: a fixed number of queues. The number of a slot selects the queue of its entry. A
//! thread that ends the busy state or removes a pin accesses the queue only if the entry's `WAITERS` flag
//! is set. So the queues cost nothing while no thread is parked.
//!
//! # Locking
//! A queue's mutex is innermost: a thread that holds it acquires no other lock. A waiter sets the flag and
//! checks the entry's state with the mutex held. A thread that ends the busy state or removes a pin
//! acquires the mutex before it wakes the waiters. So no wake-up is lost between the check and the
//! parking.

use crate::sync::{self, Condvar, Mutex};
use crate::table::{Slot, State};
use crossbeam_utils::CachePadded;
use std::time::Instant;

/// The number of queues.
const QUEUES: usize = 64;

/// The wait queues of an arena.
#[derive(Debug)]
pub(crate) struct WaitQueues {
    queues: Box<[CachePadded<Queue>]>,
}

#[derive(Debug, Default)]
struct Queue {
    /// For each thread in [`WaitQueues::wait_unused`], the slot of the entry that the thread waits for and
    /// has pinned.
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

    /// Parks the calling thread while the entry that it saw in the state `seen` is in `slot` and is busy.
    /// Returns false if this is still the case at `end`.
    pub(crate) fn wait<const W: usize>(
        &self,
        slot: &Slot<W>,
        index: u32,
        seen: State,
        end: Option<Instant>,
    ) -> bool {
        let queue = self.queue(index);
        let mut guard = queue.holders.lock();
        let mut is_late = false;
        while slot.announce_waiter(seen) {
            if is_late {
                return false;
            }
            (guard, is_late) = match end {
                None => (sync::wait(&queue.woken, guard), false),
                Some(end) => sync::wait_until(&queue.woken, guard, end),
            };
        }
        true
    }

    /// Parks the calling thread until the entry in `slot` has no pins except those of threads in this
    /// function. The caller must have pinned the entry. If several threads wait for one entry, they return
    /// one after another: each returns after the previous thread has removed its pin.
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

    /// Wakes all threads that are parked in the queue of slot `index`. Those that wait for another slot
    /// with the same queue park again.
    pub(crate) fn wake(&self, index: u32) {
        let queue = self.queue(index);
        let guard = queue.holders.lock();
        queue.woken.notify_all();
        drop(guard);
    }
}
