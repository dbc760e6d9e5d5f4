//! The units of an image that are in memory, or in flight. A unit is a piece of [`UNIT_BYTES`] bytes, in which
//! the image is fetched and cached.
//!
//! # Model
//! A unit is in memory, in flight, or absent. A unit in flight was *claimed* by one task, which has its
//! [`Sender`]. All others wait for its [`Receiver`]. Units in memory are dropped in the order in which they
//! were delivered: a better policy is not needed, because the caches above keep what is used again.
//!
//! # Locking
//! There is one lock. A task never holds it while it awaits something.

use crate::{Result, disk_cache};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use tokio::sync::watch;

/// The size of a unit, in bytes. A read of 4 KiB transfers 16 times as much. With smaller units, requests for
/// metadata would transfer so little that the round trip would take most of their time.
pub const UNIT_BYTES: u64 = disk_cache::UNIT_BYTES as u64;

/// The bytes of a unit, or the error of reading it.
pub(crate) type Outcome = Result<Bytes>;
/// Passes the outcome of a unit in flight to those that wait for it. If it is dropped without an outcome, they
/// look for the unit again.
pub(crate) type Sender = watch::Sender<Option<Outcome>>;
/// Waits for the outcome of a unit in flight.
pub(crate) type Receiver = watch::Receiver<Option<Outcome>>;

/// The known units of an object, which are those that are not absent.
#[derive(Debug)]
pub(crate) struct Known {
    object_bytes: u64,
    /// The number of units that memory may hold.
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    units: HashMap<u64, Unit>,
    /// The units in memory, the oldest first.
    order: VecDeque<u64>,
}

#[derive(Debug)]
enum Unit {
    InFlight(Receiver),
    InMemory(Bytes),
}

/// A unit that a read needs: in memory now, or in flight.
pub(crate) enum Found {
    Now(Bytes),
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

    /// Returns the number of units that memory may hold.
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

    /// Finds the units `numbers`, in order. Claims those that are absent for the caller, which must complete
    /// or release each of them.
    pub(crate) fn find_or_claim(
        &self,
        numbers: impl Iterator<Item = u64>,
    ) -> (Vec<Found>, Vec<(u64, Sender)>) {
        let mut claimed = Vec::new();
        let mut state = self.state.lock();
        let found = numbers.map(|number| match state.units.get(&number) {
            Some(Unit::InMemory(bytes)) => Found::Now(bytes.clone()),
            Some(Unit::InFlight(receiver)) => Found::Later(receiver.clone()),
            None => {
                let (sender, receiver) = watch::channel(None);
                claimed.push((number, sender));
                let in_flight = Unit::InFlight(receiver.clone());
                state.units.insert(number, in_flight);
                Found::Later(receiver)
            }
        });
        let found = found.collect();
        drop(state);
        (found, claimed)
    }

    /// Passes the outcome of a claimed unit to all that wait for it. If the unit was read, also adds it to
    /// memory. Otherwise, the unit becomes absent.
    pub(crate) fn complete(&self, number: u64, sender: &Sender, unit: Outcome) {
        let mut state = self.state.lock();
        match &unit {
            Ok(bytes) => state.insert(number, bytes.clone(), self.capacity),
            Err(_) => drop(state.units.remove(&number)),
        }
        drop(state);
        sender.send_replace(Some(unit));
    }

    /// Makes claimed units absent. Their senders must be dropped afterwards.
    pub(crate) fn release(&self, numbers: impl Iterator<Item = u64>) {
        let mut state = self.state.lock();
        for number in numbers {
            state.units.remove(&number);
        }
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
}
