//! Lanes: buffers to which the threads that use the caches add events, and from which one thread (the writer)
//! collects the events.
//!
//! # Model
//! The per-CPU buffers of `perf` and ftrace. The number of a thread selects its lane, so up to [`LANES`]
//! threads do not contend.
//!
//! # Order
//! A thread reads the clock for the time of an event while it holds the lock of its lane. If an event is
//! added to a lane after the lane was collected, the time of the event is therefore after the start of the
//! collection. So a collection contains all events whose time is before its start, and [`Lanes::collect`] can
//! return them in the order of time. A table reports an insertion or removal of a key while the bucket is
//! locked, and all processors have the same clock. Therefore the times of changes to one key have the order
//! of the changes.
//!
//! The clock is read for each insertion and removal (a change) and for each read of a file, but not for each
//! lookup: up to [`LOOKUPS`] lookups without a change between them have the time of the first. Lookups in one
//! lane keep their order. The time of a lookup is never before that of a change that was reported earlier.
//!
//! # Locking
//! A thread locks one lane at a time, to add one event or to take all events. While it holds this lock, it
//! acquires no other lock and does not wait. A thread that waits for room ([`Overflow::Wait`]) releases the
//! lock while it waits.
//!
//! # Cost
//! An event costs one uncontended lock, and one load of the number of changes, which all lanes share. A change
//! also costs one read of the clock and one atomic addition to this number, so threads that report changes
//! contend for its cache line. Each lane has a small separate buffer for its latest events, which stays in the
//! processor's cache. An unlock waits for the stores before it. Stores to cached memory complete quickly, so
//! the unlock is fast.
//!
//! An event takes 32 bytes; a read or a name takes an allocation in addition. If 16 threads fill their lanes, the
//! lanes take 64 MiB, a collection takes as much, and sorting the collection takes half as much. The total of
//! about 160 MiB is not part of the caches' budget.

use larder_cache::sync::thread_number;
use larder_cache::tape::{Event, Operation, ReadEvent};
use std::mem;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The number of lanes.
const LANES: usize = 16;
/// The largest number of events in a lane, without those in the buffer of the latest events.
const LANE_EVENTS: usize = 1 << 17;
/// The number of events in a lane at which a collection is requested. This many events fit into the cache of
/// a processor.
const COLLECT_EVENTS: usize = 1 << 14;
/// The size of a lane's buffer of the latest events, in events. It divides [`COLLECT_EVENTS`].
const LATEST_EVENTS: usize = 64;
/// The largest number of consecutive lookups that have the same time.
const LOOKUPS: u32 = 16;

/// The action of a thread that reports an event when its lane is full, because the thread that collects the
/// events and writes the trace is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The thread drops the event and counts it as lost.
    Lose,
    /// The thread waits until there is room. The trace must then not be stored in the volume that is recorded.
    Wait,
}

/// An event and its time.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) time_ns: u64,
    pub(crate) what: What,
}

/// An event. Reads and names are far rarer than operations on caches. They are boxed, so that they do not increase
/// the size of each event.
#[derive(Debug)]
pub(crate) enum What {
    Cache(Event),
    Read(Box<ReadEvent>),
    Name(Box<Name>),
}

/// The name of a file.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) directory: u64,
    pub(crate) bytes: Box<[u8]>,
    pub(crate) ino: u64,
}

/// All lanes.
#[derive(Debug)]
pub(crate) struct Lanes {
    began: Instant,
    overflow: Overflow,
    all: [Lane; LANES],
    /// True if no more events are accepted.
    is_closed: AtomicBool,
    changes: Changes,
}

/// The number of insertions and removals reported so far, on a separate cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Changes(AtomicU64);

/// A lane, on separate cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lane {
    state: Mutex<LaneState>,
    has_room: Condvar,
}

/// The state of a lane, which its lock guards.
#[derive(Debug, Default)]
struct LaneState {
    events: Vec<Timed>,
    /// The latest events, which follow those in `events`.
    latest: Vec<Timed>,
    lost: u64,
    stamp: Stamp,
}

/// The time that a lane last read from the clock.
#[derive(Debug, Default)]
struct Stamp {
    time_ns: u64,
    /// The number of changes reported before that time.
    changes: u64,
    /// The number of further lookups that may have this time, if no change is reported.
    lookups: u32,
}

impl LaneState {
    /// Moves the latest events to the end of `events`.
    fn flush_latest(&mut self) {
        self.events.append(&mut self.latest);
    }
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, LaneState> {
        // The state is consistent at all times, so it does not matter if another thread panicked while it
        // held the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Adds an operation on a cache, as [`Self::put`] does.
    pub(crate) fn put_event(&self, event: Event, request_collection: impl Fn()) {
        let is_lookup = matches!(event.operation, Operation::Lookup { .. });
        self.put(What::Cache(event), is_lookup, request_collection);
    }

    /// Adds the end of a read, as [`Self::put`] does. A read has an exact time of its own, because its
    /// start is computed as this time minus its duration.
    pub(crate) fn put_read(&self, read: ReadEvent, request_collection: impl Fn()) {
        self.put(What::Read(Box::new(read)), false, request_collection);
    }

    /// Adds a name, as [`Self::put`] does.
    pub(crate) fn put_name(&self, name: Name, request_collection: impl Fn()) {
        self.put(What::Name(Box::new(name)), true, request_collection);
    }

    /// Adds `what` to the lane of the calling thread. Calls `request_collection` if the lanes should be
    /// collected soon. If the lanes are closed, counts the event as lost. If `shares_time` is true, the event may have
    /// the time of the last lookups.
    #[inline]
    fn put(&self, what: What, shares_time: bool, request_collection: impl Fn()) {
        let lane = &self.all[thread_number() % LANES];
        let mut state = lane.lock();
        if self.is_closed() {
            state.lost += 1;
            return;
        }
        if state.latest.len() == LATEST_EVENTS {
            match self.make_room(lane, state, request_collection) {
                Some(flushed) => state = flushed,
                None => return,
            }
        }
        let time_ns = self.time_ns(&mut state.stamp, shares_time);
        let is_change = !shares_time && matches!(what, What::Cache(_));
        state.latest.push(Timed { time_ns, what });
        if is_change {
            self.changes.0.fetch_add(1, Release);
        }
    }

    /// Returns the time of a new event. If `shares_time` is true, this can be the time of the last lookups. The time of
    /// a lookup is not before that of any change that was reported earlier.
    fn time_ns(&self, stamp: &mut Stamp, shares_time: bool) -> u64 {
        let changes = self.changes.0.load(Acquire);
        if !shares_time || stamp.lookups == 0 || stamp.changes != changes {
            *stamp = Stamp {
                time_ns: self.now_ns(),
                changes,
                lookups: LOOKUPS,
            };
        }
        stamp.lookups -= 1;
        stamp.time_ns
    }

    /// Moves the latest events of `lane` to its other events. If the lane is full, waits for a collection
    /// ([`Overflow::Wait`]) or counts the new event as lost ([`Overflow::Lose`]). Also counts it as lost if the
    /// lanes are closed during the wait. Returns `None` if the event is lost.
    #[cold]
    fn make_room<'l>(
        &self,
        lane: &'l Lane,
        mut state: MutexGuard<'l, LaneState>,
        request_collection: impl Fn(),
    ) -> Option<MutexGuard<'l, LaneState>> {
        while state.events.len() >= LANE_EVENTS {
            if self.overflow == Overflow::Lose {
                state.lost += 1;
                return None;
            }
            request_collection();
            state = lane
                .has_room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            if self.is_closed() {
                state.lost += 1;
                return None;
            }
        }
        state.flush_latest();
        if state.events.len() == COLLECT_EVENTS {
            request_collection();
        }
        Some(state)
    }

    /// Closes the lanes: further events are lost, and threads that wait for room are woken. The events in the
    /// lanes can still be collected.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Release);
        for lane in &self.all {
            // After this lock was acquired, each thread that found the lanes open has added its event or
            // waits for room.
            drop(lane.lock());
            lane.has_room.notify_all();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Acquire)
    }

    /// Adds all events of the lanes to `late`, and sorts `late` by time. Returns a number n: each of the first
    /// n events of `late` is earlier than all events of later collections. `spare` must be empty; its memory is
    /// reused.
    pub(crate) fn collect(&self, late: &mut Vec<Timed>, spare: &mut Vec<Timed>) -> usize {
        let until = self.now_ns();
        for lane in &self.all {
            let mut state = lane.lock();
            state.flush_latest();
            // The next lookup must get a time after the start of this collection.
            state.stamp.lookups = 0;
            mem::swap(&mut state.events, spare);
            drop(state);
            lane.has_room.notify_all();
            late.append(spare);
        }
        late.sort_by_key(|timed| timed.time_ns);
        late.partition_point(|timed| timed.time_ns < until)
    }

    /// Returns the number of events that were lost in the lanes so far.
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
        lanes.put_event(event(LOOKUP, 0), || {});
        thread::scope(|scope| {
            scope.spawn(|| lanes.put_event(event(Operation::Insert, 1), || {}));
        });
        lanes.put_event(event(LOOKUP, 2), || {});
        let order = collected(&lanes).into_iter().map(|one| match one.what {
            What::Cache(event) => event.key.index,
            other => panic!("{other:?}"),
        });
        assert!(order.eq([0, 1, 2]));
    }

    #[test]
    fn lookups_share_a_time_until_limit_or_collection() {
        let lanes = Lanes::new(Overflow::Wait);
        let most = u64::from(LOOKUPS);
        (0..=most).for_each(|index| lanes.put_event(event(LOOKUP, index), || {}));
        let first = collected(&lanes);
        let time = |at: u64| first[usize::try_from(at).unwrap()].time_ns;
        assert_eq!(time(0), time(most - 1));
        assert!(time(most) > time(0));
        lanes.put_event(event(LOOKUP, 0), || {});
        assert!(collected(&lanes)[0].time_ns > time(most));
    }

    #[test]
    fn event_takes_32_bytes() {
        assert_eq!(size_of::<Timed>(), 32);
    }

    #[test]
    fn event_after_lanes_are_closed_is_counted_as_lost() {
        let lanes = Lanes::new(Overflow::Wait);
        lanes.put_event(event(LOOKUP, 0), || {});
        lanes.close();
        lanes.put_event(event(LOOKUP, 1), || {});
        assert_eq!((collected(&lanes).len(), lanes.lost()), (1, 1));
    }
}
