//! The units that were fetched for a profile: which of them are expected, and which were used.

use crate::counters::Counters;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The units of a profile. It counts what was fetched for the profile, and what of it was read.
#[derive(Debug)]
pub(crate) struct Uses {
    units: Mutex<HashMap<u64, State>>,
    counters: Arc<Counters>,
}

/// The state of a unit that was not both fetched and read.
#[derive(Clone, Copy, Debug)]
enum State {
    /// It is being fetched, and nothing has read it.
    Expected,
    /// It is being fetched, and something waits for it, or did.
    Wanted,
    /// It has arrived, with this length in bytes, and nothing has read it.
    Unused(u64),
}

impl Uses {
    pub(crate) fn new(counters: &Arc<Counters>) -> Self {
        Self {
            units: Mutex::default(),
            counters: Arc::clone(counters),
        }
    }

    /// Records that `numbers` are being fetched.
    pub(super) fn expect(&self, numbers: impl Iterator<Item = u64>) {
        let expected = numbers.map(|number| (number, State::Expected));
        self.units.lock().extend(expected);
    }

    /// Returns whether a unit is being fetched for the profile.
    pub(crate) fn is_expected(&self, number: u64) -> bool {
        let state = self.units.lock().get(&number).copied();
        matches!(state, Some(State::Expected | State::Wanted))
    }

    /// Records that a unit of `len` bytes was fetched.
    pub(super) fn arrived(&self, number: u64, len: usize) {
        let len = len as u64;
        self.counters.profile_bytes.fetch_add(len, Relaxed);
        let mut units = self.units.lock();
        match units.get(&number) {
            Some(State::Wanted) => {
                units.remove(&number);
                self.count_used(len);
            }
            Some(State::Expected) => drop(units.insert(number, State::Unused(len))),
            // It is in a gap between units of the profile, and was in memory already.
            Some(State::Unused(_)) | None => {}
        }
    }

    /// Records that those of the units `numbers` that have not arrived will not arrive.
    pub(super) fn abandon(&self, numbers: impl Iterator<Item = u64>) {
        let mut units = self.units.lock();
        for number in numbers {
            if let Some(State::Expected | State::Wanted) = units.get(&number) {
                units.remove(&number);
            }
        }
    }

    /// Records a read of units.
    pub(crate) fn read(&self, numbers: Range<u64>) {
        let mut units = self.units.lock();
        if units.is_empty() {
            return;
        }
        for number in numbers {
            match units.get_mut(&number) {
                Some(state @ State::Expected) => *state = State::Wanted,
                Some(&mut State::Unused(len)) => {
                    units.remove(&number);
                    self.count_used(len);
                }
                Some(State::Wanted) | None => {}
            }
        }
    }

    fn count_used(&self, len: u64) {
        self.counters.profile_used_bytes.fetch_add(len, Relaxed);
    }
}
