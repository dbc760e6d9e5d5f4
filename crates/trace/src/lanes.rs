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
//! The clock is asked for each change. Lookups between which nothing changed have the time of the
//! first of up to [`LOOKUPS`] of them; those of a lane keep their order, and no lookup comes before a
//! change that was told when it was.
//!
//! # Locking
//! One lane at a time, for one event, or to take all that it holds. Nothing else is locked or
//! awaited meanwhile, but room, where that is asked for.
//!
//! # Cost
//! A lock that is free, for each event, and a look at the clock for each change. The latest events of a
//! lane lie in memory that stays in the processor's cache: what is written for each event is there
//! when the lock is left, which waits for it. 32 bytes an event, 4 MiB a lane, and as much again where
//! they are collected: 132 MiB at most, beside the caches' budget, if 16 threads fill their lanes.

use larder_cache::sync::thread_number;
use larder_cache::tape::{Event, Operation};
use std::mem;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Lanes.
const LANES: usize = 16;
/// Events that a lane holds at most, but for the latest.
const LANE_EVENTS: usize = 1 << 17;
/// With so many in a lane they are collected soon: what is filled is small enough to stay in a processor's
/// cache.
const HURRY_EVENTS: usize = 1 << 14;
/// The latest events of a lane, which divide [`HURRY_EVENTS`].
const LATEST_EVENTS: usize = 64;
/// Lookups in a row that have one time.
const LOOKUPS: u32 = 16;

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
pub(crate) struct Timed {
    pub(crate) time_ns: u64,
    pub(crate) event: Event,
}

/// All lanes.
#[derive(Debug)]
pub(crate) struct Lanes {
    began: Instant,
    overflow: Overflow,
    all: [Lane; LANES],
    /// Nothing is taken any more.
    is_closed: AtomicBool,
    changes: Changes,
}

/// How many changes were told, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Changes(AtomicU64);

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
    /// What came behind these.
    latest: Vec<Timed>,
    lost: u64,
    stamp: Stamp,
}

/// The time that was looked at last.
#[derive(Debug, Default)]
struct Stamp {
    time_ns: u64,
    /// Changes that were told before.
    changes: u64,
    /// Lookups that may have the same time, if nothing more changed.
    lookups: u32,
}

impl Held {
    /// Puts the latest events behind the others.
    fn settle(&mut self) {
        self.events.append(&mut self.latest);
    }
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Held> {
        // What is held is right at all times.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    pub(crate) fn new(overflow: Overflow) -> Self {
        Self {
            began: Instant::now(),
            overflow,
            all: Default::default(),
            is_closed: AtomicBool::new(false),
            changes: Changes::default(),
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes `event`. Calls `hurry` if whoever collects is to do so soon. What comes when nothing is taken
    /// any more is lost.
    pub(crate) fn put(&self, event: Event, hurry: impl Fn()) {
        let lane = &self.all[thread_number() % LANES];
        let mut held = lane.lock();
        if self.is_closed() {
            held.lost += 1;
            return;
        }
        if held.latest.len() == LATEST_EVENTS {
            match self.settle(lane, held, hurry) {
                Some(settled) => held = settled,
                None => return,
            }
        }
        let is_lookup = matches!(event.operation, Operation::Lookup { .. });
        let time_ns = self.time_ns(&mut held.stamp, is_lookup);
        held.latest.push(Timed { time_ns, event });
        if !is_lookup {
            self.changes.0.fetch_add(1, Release);
        }
    }

    /// The time of what is told now: if it is a lookup, as late as that of all changes that were told.
    fn time_ns(&self, stamp: &mut Stamp, is_lookup: bool) -> u64 {
        let changes = self.changes.0.load(Acquire);
        if !is_lookup || stamp.lookups == 0 || stamp.changes != changes {
            *stamp = Stamp {
                time_ns: self.now_ns(),
                changes,
                lookups: LOOKUPS,
            };
        }
        stamp.lookups -= 1;
        stamp.time_ns
    }

    /// Makes room for later events than the latest; `None` if there is none, and one is lost.
    #[cold]
    fn settle<'l>(
        &self,
        lane: &'l Lane,
        mut held: MutexGuard<'l, Held>,
        hurry: impl Fn(),
    ) -> Option<MutexGuard<'l, Held>> {
        while held.events.len() >= LANE_EVENTS {
            if self.overflow == Overflow::Lose {
                held.lost += 1;
                return None;
            }
            hurry();
            held = lane
                .has_room
                .wait(held)
                .unwrap_or_else(PoisonError::into_inner);
            if self.is_closed() {
                held.lost += 1;
                return None;
            }
        }
        held.settle();
        if held.events.len() == HURRY_EVENTS {
            hurry();
        }
        Some(held)
    }

    /// Takes nothing any more, and lets nobody wait; what is held is still to be collected.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Release);
        for lane in &self.all {
            // Whoever found it open waits by now.
            drop(lane.lock());
            lane.has_room.notify_all();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Acquire)
    }

    /// Moves all that the lanes hold to `late`, sorted by time, and returns how many of these, from the
    /// first on, have none before them that is still to come.
    pub(crate) fn collect(&self, late: &mut Vec<Timed>, spare: &mut Vec<Timed>) -> usize {
        let until = self.now_ns();
        for lane in &self.all {
            let mut held = lane.lock();
            held.settle();
            // What comes from now on is stamped anew.
            held.stamp.lookups = 0;
            mem::swap(&mut held.events, spare);
            drop(held);
            lane.has_room.notify_all();
            late.append(spare);
        }
        late.sort_by_key(|timed| timed.time_ns);
        late.partition_point(|timed| timed.time_ns < until)
    }

    /// Events that were lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.all.iter().map(|lane| lane.lock().lost).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_cache::hash::HashKey;
    use larder_cache::tape::CacheKind;
    use std::thread;

    fn event(operation: Operation, index: u64) -> Event {
        Event {
            cache: CacheKind::Page,
            operation,
            key: HashKey { object: 1, index },
        }
    }

    fn collected(lanes: &Lanes) -> Vec<Timed> {
        let mut late = Vec::new();
        lanes.collect(&mut late, &mut Vec::new());
        late
    }

    const LOOKUP: Operation = Operation::Lookup { hit: true };

    #[test]
    fn lookup_that_is_told_behind_another_threads_change_comes_behind_it() {
        let lanes = Lanes::new(Overflow::Wait);
        lanes.put(event(LOOKUP, 0), || {});
        thread::scope(|scope| {
            scope.spawn(|| lanes.put(event(Operation::Insert, 1), || {}));
        });
        lanes.put(event(LOOKUP, 2), || {});
        let order = collected(&lanes).into_iter().map(|one| one.event.key.index);
        assert!(order.eq([0, 1, 2]));
    }

    #[test]
    fn lookups_have_one_time_for_a_while_and_until_they_are_collected() {
        let lanes = Lanes::new(Overflow::Wait);
        let most = u64::from(LOOKUPS);
        (0..=most).for_each(|index| lanes.put(event(LOOKUP, index), || {}));
        let first = collected(&lanes);
        let time = |at: u64| first[usize::try_from(at).unwrap()].time_ns;
        assert_eq!(time(0), time(most - 1));
        assert!(time(most) > time(0));
        lanes.put(event(LOOKUP, 0), || {});
        assert!(collected(&lanes)[0].time_ns > time(most));
    }

    #[test]
    fn event_that_comes_when_lanes_are_closed_is_lost_and_counted() {
        let lanes = Lanes::new(Overflow::Wait);
        lanes.put(event(LOOKUP, 0), || {});
        lanes.close();
        lanes.put(event(LOOKUP, 1), || {});
        assert_eq!((collected(&lanes).len(), lanes.lost()), (1, 1));
    }
}
