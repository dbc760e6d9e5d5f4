//! Lanes: buffers that threads fill with events, and that one thread collects.
//!
//! # Model
//! The per-CPU buffers of `perf` and ftrace. The number of a thread selects its lane, so up to [`LANES`]
//! threads do not contend.
//!
//! # Order
//! Events get their time while their lane is locked. Therefore a round of collection has every event whose
//! time is before the start of the round: an event that enters a lane after the lane was collected has a
//! later time. So [`Lanes::collect`] returns all events of all threads in the order of their time. A table
//! reports the events of one key while its bucket is locked. The clock is the same for all processors, so
//! it preserves their order.
//!
//! The clock is read for each change. Up to [`LOOKUPS`] lookups without a change between them have the
//! time of the first. Lookups of one lane keep their order, and no lookup is ordered before a change that
//! was reported earlier.
//!
//! # Locking
//! One lane is locked at a time, to add one event or to take all of its events. No other lock is taken
//! meanwhile, and no thread waits with the lock held. A thread that waits for room ([`Overflow::Wait`])
//! releases the lock.
//!
//! # Cost
//! One uncontended lock for each event, and one read of the clock for each change. The latest events of a
//! lane are in memory that stays in the processor's cache, because the release of the lock waits for the
//! stores before it. An event takes 32 bytes, a lane 4 MiB, and collection as much again: at most 132 MiB,
//! in addition to the caches' budget, if 16 threads fill their lanes.

use larder_cache::sync::thread_number;
use larder_cache::tape::{Event, Operation};
use std::mem;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Number of lanes.
const LANES: usize = 16;
/// The largest number of events in a lane, not counting the latest.
const LANE_EVENTS: usize = 1 << 17;
/// A lane with this many events requests collection. This many still fit into a processor's cache.
const COLLECT_EVENTS: usize = 1 << 14;
/// The number of latest events of a lane. It divides [`COLLECT_EVENTS`].
const LATEST_EVENTS: usize = 64;
/// The largest number of consecutive lookups with one time.
const LOOKUPS: u32 = 16;

/// Action when events arrive faster than they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Lose events, and count them.
    Lose,
    /// Wait until there is room. The trace must not be stored in the volume that is recorded.
    Wait,
}

/// An event and its time.
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
    /// No more events are accepted.
    is_closed: AtomicBool,
    changes: Changes,
}

/// Number of changes reported, on a cache line of its own.
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
    /// The events after `events`.
    latest: Vec<Timed>,
    lost: u64,
    stamp: Stamp,
}

/// The last time that was read from the clock.
#[derive(Debug, Default)]
struct Stamp {
    time_ns: u64,
    /// Changes that were reported before.
    changes: u64,
    /// Lookups that may still use this time if nothing changes.
    lookups: u32,
}

impl Held {
    /// Moves the latest events to the end of `events`.
    fn flush_latest(&mut self) {
        self.events.append(&mut self.latest);
    }
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Held> {
        // The state is consistent at all times, so a poisoned lock is safe to use.
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

    /// Adds `event`. Calls `request_collection` if the lanes should be collected soon. The event is lost if
    /// the lanes are closed.
    pub(crate) fn put(&self, event: Event, request_collection: impl Fn()) {
        let lane = &self.all[thread_number() % LANES];
        let mut held = lane.lock();
        if self.is_closed() {
            held.lost += 1;
            return;
        }
        if held.latest.len() == LATEST_EVENTS {
            match self.make_room(lane, held, request_collection) {
                Some(flushed) => held = flushed,
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

    /// Returns the time of a new event. The time of a lookup is not before that of any change reported so
    /// far.
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

    /// Makes room for more latest events. Returns `None` if there is no room, and counts one lost event.
    #[cold]
    fn make_room<'l>(
        &self,
        lane: &'l Lane,
        mut held: MutexGuard<'l, Held>,
        request_collection: impl Fn(),
    ) -> Option<MutexGuard<'l, Held>> {
        while held.events.len() >= LANE_EVENTS {
            if self.overflow == Overflow::Lose {
                held.lost += 1;
                return None;
            }
            request_collection();
            held = lane
                .has_room
                .wait(held)
                .unwrap_or_else(PoisonError::into_inner);
            if self.is_closed() {
                held.lost += 1;
                return None;
            }
        }
        held.flush_latest();
        if held.events.len() == COLLECT_EVENTS {
            request_collection();
        }
        Some(held)
    }

    /// Closes the lanes: no event is accepted, and no thread waits for room. Events in the lanes can still
    /// be collected.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Release);
        for lane in &self.all {
            // A thread that found the lanes open has added its event by now, or waits.
            drop(lane.lock());
            lane.has_room.notify_all();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Acquire)
    }

    /// Moves all events of the lanes to `late`, sorted by time. Returns the number of events at its start
    /// that no later event can precede.
    pub(crate) fn collect(&self, late: &mut Vec<Timed>, spare: &mut Vec<Timed>) -> usize {
        let until = self.now_ns();
        for lane in &self.all {
            let mut held = lane.lock();
            held.flush_latest();
            // The next event gets a new time.
            held.stamp.lookups = 0;
            mem::swap(&mut held.events, spare);
            drop(held);
            lane.has_room.notify_all();
            late.append(spare);
        }
        late.sort_by_key(|timed| timed.time_ns);
        late.partition_point(|timed| timed.time_ns < until)
    }

    /// Returns the number of events lost so far.
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
    fn lookup_after_change_of_another_thread_is_ordered_after_it() {
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
    fn lookups_share_a_time_until_limit_or_collection() {
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
    fn event_after_lanes_are_closed_is_counted_as_lost() {
        let lanes = Lanes::new(Overflow::Wait);
        lanes.put(event(LOOKUP, 0), || {});
        lanes.close();
        lanes.put(event(LOOKUP, 1), || {});
        assert_eq!((collected(&lanes).len(), lanes.lost()), (1, 1));
    }
}
