//! Lanes: where threads put events, for one thread to collect.
//!
//! # Model
//! The per-CPU buffers of `perf` and ftrace. A thread has a lane by its number; so many threads as
//! there are lanes do not meet.
//!
//! # Order
//! Events are stamped while their lane is locked. What is collected in a round and was stamped
//! before it began is therefore complete: whatever a lane was given after it was collected was
//! stamped later. So [`Lanes::collect`] gives all events in the order of their time, whichever
//! thread they come from. Of one key, a table tells while its bucket is locked: the clock, which is
//! the same for all processors, keeps their order.
//!
//! # Locking
//! One lane at a time, for one event, or to take all that it holds. Nothing else is locked or
//! awaited meanwhile, but room, where that is asked for.
//!
//! # Cost
//! A lock that is free, and a look at the clock, for each event. 32 bytes an event, 4 MiB a lane,
//! twice; only lanes that were full have taken as much.

use larder_cache::tape::Event;
use std::cell::Cell;
use std::mem;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Lanes.
const LANES: usize = 16;
/// Events that a lane holds at most.
const LANE_EVENTS: usize = 1 << 17;

/// What to do where events come faster than they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Lose them, and count how many.
    Lose,
    /// Wait until there is room. The trace must not lie in the volume that is recorded.
    Wait,
}

/// An event, and when it was told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) time_ns: u64,
    pub(super) event: Event,
}

/// All lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    began: Instant,
    overflow: Overflow,
    all: [Lane; LANES],
    /// Nothing is taken any more.
    is_closed: AtomicBool,
}

/// A lane, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lane {
    held: Mutex<Held>,
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    events: Vec<Timed>,
    lost: u64,
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Held> {
        // What is held is right at all times.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of the calling thread.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    match NUMBER.get() {
        usize::MAX => {
            NUMBER.set(NEXT.fetch_add(1, Relaxed));
            NUMBER.get()
        }
        number => number,
    }
}

impl Lanes {
    pub(super) fn new(overflow: Overflow) -> Self {
        Self {
            began: Instant::now(),
            overflow,
            all: Default::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes `event`. Calls `hurry` if whoever collects is to do so soon.
    pub(super) fn put(&self, event: Event, hurry: impl Fn()) {
        let lane = &self.all[thread_number() % LANES];
        let mut held = lane.lock();
        loop {
            if self.is_closed.load(Acquire) {
                return;
            }
            if held.events.len() < LANE_EVENTS {
                break;
            }
            if self.overflow == Overflow::Lose {
                held.lost += 1;
                return;
            }
            hurry();
            held = lane
                .has_room
                .wait(held)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let time_ns = self.now_ns();
        held.events.push(Timed { time_ns, event });
        if held.events.len() == LANE_EVENTS / 2 {
            drop(held);
            hurry();
        }
    }

    /// Takes nothing any more, and lets nobody wait; what is held is still to be collected.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Release);
        for lane in &self.all {
            // Whoever found it open waits by now.
            drop(lane.lock());
            lane.has_room.notify_all();
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Acquire)
    }

    /// Moves all that the lanes hold to `late`, sorted by time, and returns how many of these, from the
    /// first on, have none before them that is still to come.
    pub(super) fn collect(&self, late: &mut Vec<Timed>, spare: &mut Vec<Timed>) -> usize {
        let until = self.now_ns();
        for lane in &self.all {
            mem::swap(&mut lane.lock().events, spare);
            lane.has_room.notify_all();
            late.append(spare);
        }
        late.sort_by_key(|timed| timed.time_ns);
        late.partition_point(|timed| timed.time_ns < until)
    }

    /// Events that were lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.all.iter().map(|lane| lane.lock().lost).sum()
    }
}
