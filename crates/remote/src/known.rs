//! The units of an image that are in memory, or in flight. A unit is a piece of [`UNIT_BYTES`] bytes, in which
//! the image is fetched and cached.
//!
//! # Model
//! A unit is in memory, in flight, or absent. A unit in flight was *claimed* by one task, which has its
//! [`Sender`]. All other tasks that need the unit wait for its [`Receiver`]. If a thread waits for a unit whose
//! fetch is in the background, the [`Urgency`] of the fetch rises. Units in memory are dropped in the order in
//! which they were delivered. A better policy is not needed, because the caches above keep the content that is
//! used again.
//!
//! # Failures
//! If a unit cannot be read, reads of it fail with the same error for [`FAILURE_MEMORY`], without a request.
//! The layers above try each page of a failed read again, so that an unreadable block affects only its own page.
//! Without this memory, each page would wait until the time limit has passed again. Units that arrived before
//! the failure are in memory, so the pages in them can be read.
//!
//! # Locking
//! There is one lock. A task never holds it while it awaits something.

use crate::urgency::Urgency;
use crate::{Error, Result, disk_cache};
use bytes::Bytes;
use larder_block::Priority;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The size of a unit, in bytes. A read of 4 KiB transfers 16 times as much. With smaller units, requests for
/// metadata would transfer so little that the round trip would take most of their time.
pub const UNIT_BYTES: u64 = disk_cache::UNIT_BYTES as u64;

/// The time for which a unit that could not be read is not requested again. In this time, the layers above can
/// try each page of a failed read. It is much shorter than the usual time limit of a read.
const FAILURE_MEMORY: Duration = Duration::from_secs(5);

/// The bytes of a unit, or the error of reading it.
pub(crate) type Outcome = Result<Bytes>;
/// Passes the outcome of a unit in flight to the tasks that wait for it. If it is dropped without an outcome,
/// they look for the unit again.
pub(crate) type Sender = watch::Sender<Option<Outcome>>;
/// Waits for the outcome of a unit in flight.
pub(crate) type Receiver = watch::Receiver<Option<Outcome>>;

/// The units of an object that are not absent.
#[derive(Debug)]
pub(crate) struct Known {
    object_bytes: u64,
    /// The maximum number of units in memory.
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    units: HashMap<u64, Unit>,
    /// The units in memory, the oldest first.
    order: VecDeque<u64>,
    /// The units that could not be read, the oldest first, and the ends of [`FAILURE_MEMORY`].
    failed: VecDeque<(u64, Instant)>,
}

#[derive(Debug)]
enum Unit {
    InFlight(Receiver, Arc<Urgency>),
    InMemory(Bytes),
    /// The unit could not be read. From this time on, the unit is absent.
    Failed(Error, Instant),
}

/// Units that a caller has claimed, and that one task is to read.
#[derive(Debug)]
pub(crate) struct Claimed {
    /// The range from the first unit to the last.
    pub(crate) run: Range<u64>,
    pub(crate) units: Vec<(u64, Sender)>,
    pub(crate) urgency: Arc<Urgency>,
}

/// A unit that a read needs: in memory or failed now, or in flight.
pub(crate) enum Found {
    Now(Outcome),
    Later(Receiver),
}

impl Known {
    pub(crate) fn new(object_bytes: u64, capacity_bytes: u64) -> Self {
        let capacity = usize::try_from(capacity_bytes / UNIT_BYTES).unwrap_or(usize::MAX);
        Self {
            object_bytes,
            capacity: capacity.max(1),
            state: Mutex::default(),
        }
    }

    /// Returns the maximum number of units in memory.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the length of a unit in bytes. The last unit can be shorter.
    pub(crate) fn unit_len(&self, number: u64) -> usize {
        let start = number.saturating_mul(UNIT_BYTES);
        let len = self.object_bytes.saturating_sub(start).min(UNIT_BYTES);
        usize::try_from(len).expect("a unit is small")
    }

    /// Returns the bytes of a run of units as a range of the object.
    pub(crate) fn bytes_of(&self, run: &Range<u64>) -> Range<u64> {
        run.start * UNIT_BYTES..(run.end * UNIT_BYTES).min(self.object_bytes)
    }

    /// Returns the units `numbers`, in order, if all of them are in memory.
    pub(crate) fn in_memory(&self, numbers: impl Iterator<Item = u64>) -> Option<Vec<Bytes>> {
        let state = self.state.lock();
        let units = numbers.map(|number| match state.units.get(&number) {
            Some(Unit::InMemory(bytes)) => Some(bytes.clone()),
            _ => None,
        });
        units.collect()
    }

    /// Finds the units `numbers`, which must be in ascending order. Claims the absent units for the caller, which
    /// must insert, fail or release each of them. A claimed unit is added to the run of the previous claimed units if
    /// `joins` returns true for this run and the unit.
    pub(crate) fn find_or_claim(
        &self,
        numbers: impl Iterator<Item = u64>,
        priority: Priority,
        joins: impl Fn(&Range<u64>, u64) -> bool,
    ) -> (Vec<Found>, Vec<Claimed>) {
        let mut claimed: Vec<Claimed> = Vec::new();
        let now = Instant::now();
        let mut state = self.state.lock();
        let found = numbers.map(|number| match state.units.get(&number) {
            Some(Unit::InMemory(bytes)) => Found::Now(Ok(bytes.clone())),
            Some(Unit::Failed(error, end)) if now < *end => Found::Now(Err(error.clone())),
            Some(Unit::InFlight(receiver, urgency)) => {
                if priority == Priority::Demand {
                    urgency.raise();
                }
                Found::Later(receiver.clone())
            }
            Some(Unit::Failed(..)) | None => {
                let last = claimed.pop();
                let (last, mut joined) = match last {
                    Some(last) if joins(&last.run, number) => (None, last),
                    last => (last, Claimed::at(number, priority)),
                };
                claimed.extend(last);
                let receiver = joined.add(number);
                let in_flight = Unit::InFlight(receiver.clone(), Arc::clone(&joined.urgency));
                state.units.insert(number, in_flight);
                claimed.push(joined);
                Found::Later(receiver)
            }
        });
        let found = found.collect();
        drop(state);
        (found, claimed)
    }

    /// Raises the priority of the fetches of those of the units `numbers` that are in flight.
    pub(crate) fn expedite(&self, numbers: impl Iterator<Item = u64>) {
        let state = self.state.lock();
        for number in numbers {
            if let Some(Unit::InFlight(_, urgency)) = state.units.get(&number) {
                urgency.raise();
            }
        }
    }

    /// Adds a claimed unit, which was read, to memory. The caller must then pass the unit to all that wait for it.
    pub(crate) fn insert(&self, number: u64, bytes: Bytes) {
        self.state.lock().insert(number, bytes, self.capacity);
    }

    /// Passes the error of reading a claimed unit to all that wait for the unit, and stores the error for
    /// [`FAILURE_MEMORY`].
    pub(crate) fn fail(&self, number: u64, sender: &Sender, error: Error) {
        let mut state = self.state.lock();
        state.remember(number, error.clone(), Instant::now());
        drop(state);
        sender.send_replace(Some(Err(error)));
    }

    /// Makes claimed units absent. Their senders must be dropped afterwards.
    pub(crate) fn release(&self, numbers: impl Iterator<Item = u64>) {
        let mut state = self.state.lock();
        for number in numbers {
            state.units.remove(&number);
        }
    }
}

impl Claimed {
    fn at(number: u64, priority: Priority) -> Self {
        Self {
            run: number..number,
            units: Vec::new(),
            urgency: Arc::new(Urgency::new(priority)),
        }
    }

    /// Adds the unit `number`, which follows all others. Returns a receiver of its outcome.
    fn add(&mut self, number: u64) -> Receiver {
        let (sender, receiver) = watch::channel(None);
        self.run.end = number + 1;
        self.units.push((number, sender));
        receiver
    }
}

impl State {
    /// Adds a unit to memory. If there are now more than `capacity` units, drops the oldest.
    fn insert(&mut self, number: u64, bytes: Bytes, capacity: usize) {
        self.units.insert(number, Unit::InMemory(bytes));
        self.order.push_back(number);
        while self.order.len() > capacity {
            if let Some(oldest) = self.order.pop_front() {
                self.units.remove(&oldest);
            }
        }
    }

    /// Records that a unit could not be read. Removes records that are older than [`FAILURE_MEMORY`].
    fn remember(&mut self, number: u64, error: Error, now: Instant) {
        while let Some(&(oldest, end)) = self.failed.front()
            && end <= now
        {
            self.failed.pop_front();
            if matches!(self.units.get(&oldest), Some(Unit::Failed(_, own)) if *own == end) {
                self.units.remove(&oldest);
            }
        }
        let end = now + FAILURE_MEMORY;
        self.units.insert(number, Unit::Failed(error, end));
        self.failed.push_back((number, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether `number` is found as absent. Fails the unit if so.
    fn is_absent(known: &Known, number: u64) -> bool {
        let joins = |_: &Range<u64>, _| true;
        let (_, claimed) = known.find_or_claim([number].into_iter(), Priority::Demand, joins);
        for (number, sender) in claimed.iter().flat_map(|claimed| &claimed.units) {
            known.fail(*number, sender, Error::Denied);
        }
        !claimed.is_empty()
    }

    #[test]
    fn failed_units_become_absent_after_a_while() {
        let known = Known::new(100 * UNIT_BYTES, 1 << 20);
        assert!((0..5).all(|number| is_absent(&known, number)));
        let expire = |state: &mut State| {
            let now = Instant::now();
            for (number, end) in &mut state.failed {
                *end = now;
                state
                    .units
                    .insert(*number, Unit::Failed(Error::Denied, now));
            }
        };
        expire(&mut known.state.lock());
        assert!(is_absent(&known, 3));
        assert!(!is_absent(&known, 3));
        // The records of the others were removed.
        assert_eq!(known.state.lock().units.len(), 1);
        assert_eq!(known.state.lock().failed.len(), 1);
    }
}
