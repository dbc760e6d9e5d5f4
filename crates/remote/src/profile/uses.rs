//! The units that were fetched for a profile: which of them are expected, and which were used.
//!
//! A pack is *paused* while it delivers no units, because its server stalls, or because units must be stored in the disk
//! cache first. Reads do not wait for a pack that is paused. If a pack in a local file stalls, for example because its
//! file system is NFS, it is not paused, because a read of a file blocks the task of the pack. Reads of its units then
//! wait for [`PATIENCE`](crate::units::PATIENCE).
//!
//! A program *follows* the profile until it has waited more than [`MAX_STRAYS`] times for a request for units that the
//! profile does not list. While a program follows the profile, no other unit needs to be read ahead.

use crate::counters::Counters;
use futures_util::future::{Either, select};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// A program follows the profile as long as it has waited for at most this number of requests for unlisted units.
const MAX_STRAYS: u32 = 8;

/// The units of a profile. Counts the bytes that were fetched for the profile, and those of them that were read.
#[derive(Debug)]
pub(crate) struct Uses {
    state: Mutex<State>,
    is_followed: AtomicBool,
    /// Whether the pack is paused.
    is_paused: watch::Sender<bool>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct State {
    /// The units that are being fetched, and those that have arrived and were not read yet.
    units: HashMap<u64, Unit>,
    /// The units of the profile, as long as it is followed.
    listed: HashSet<u64>,
    /// The number of requests for unlisted units that the program waited for.
    strays: u32,
}

#[derive(Clone, Copy, Debug)]
enum Unit {
    /// The unit is being fetched, and was not read yet.
    Expected,
    /// The unit is being fetched, and a read waits for it or has waited for it.
    Wanted,
    /// The unit has arrived, with this length in bytes, and was not read yet.
    Unused(u64),
}

impl Uses {
    pub(crate) fn new(counters: &Arc<Counters>) -> Self {
        Self {
            state: Mutex::default(),
            is_followed: AtomicBool::new(false),
            is_paused: watch::Sender::new(false),
            counters: Arc::clone(counters),
        }
    }

    /// Begins to compare reads with the units of a profile.
    pub(super) fn follow(&self, listed: impl IntoIterator<Item = u64>) {
        self.state.lock().listed.extend(listed);
        self.is_followed.store(true, Relaxed);
    }

    /// Returns whether there is a profile, and the program follows it.
    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed.load(Relaxed)
    }

    /// Awaits `step`, without which the pack delivers no further unit. The pack is paused from `patience` on until `step`
    /// is complete.
    pub(crate) async fn paused_after<T>(
        &self,
        patience: Duration,
        step: impl Future<Output = T>,
    ) -> T {
        let mut step = pin!(step);
        if let Ok(output) = timeout(patience, step.as_mut()).await {
            return output;
        }
        self.is_paused.send_replace(true);
        let output = step.await;
        self.is_paused.send_replace(false);
        output
    }

    /// Waits for `condition`, or until the pack is paused. Returns `None` if it is.
    pub(crate) async fn unless_paused<T>(&self, condition: impl Future<Output = T>) -> Option<T> {
        let mut is_paused = self.is_paused.subscribe();
        let paused = is_paused.wait_for(|is_paused| *is_paused);
        match select(pin!(condition), pin!(paused)).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    /// Records that `numbers` are being fetched.
    pub(crate) fn expect(&self, numbers: impl Iterator<Item = u64>) {
        let expected = numbers.map(|number| (number, Unit::Expected));
        self.state.lock().units.extend(expected);
    }

    /// Returns whether a unit is being fetched for the profile.
    pub(crate) fn is_expected(&self, number: u64) -> bool {
        self.state.lock().is_expected(number)
    }

    /// Records that a unit of `len` bytes was fetched.
    pub(super) fn arrived(&self, number: u64, len: usize) {
        let len = len as u64;
        self.counters.profile_bytes.fetch_add(len, Relaxed);
        let mut state = self.state.lock();
        match state.units.get_mut(&number) {
            Some(Unit::Wanted) => {
                state.units.remove(&number);
                self.count_used(len);
            }
            Some(unit @ Unit::Expected) => *unit = Unit::Unused(len),
            // The unit was not claimed, because it was in memory or in flight already.
            Some(Unit::Unused(_)) | None => {}
        }
    }

    /// Records that those of the units `numbers` that have not arrived will not arrive.
    pub(super) fn abandon(&self, numbers: impl Iterator<Item = u64>) {
        let mut state = self.state.lock();
        for number in numbers {
            if state.is_expected(number) {
                state.units.remove(&number);
            }
        }
    }

    /// Records that a program needs the units `numbers`, which were absent and are requested now.
    pub(crate) fn requested(&self, numbers: impl IntoIterator<Item = u64>) {
        if !self.is_followed() {
            return;
        }
        let mut state = self.state.lock();
        let is_listed = |number| state.listed.contains(&number);
        if !numbers.into_iter().all(is_listed) {
            state.strays += 1;
        }
        if state.strays > MAX_STRAYS {
            state.listed = HashSet::new();
            self.is_followed.store(false, Relaxed);
        }
    }

    /// Records that the units `numbers` are neither in memory nor in the disk cache, and are fetched from the image now. If
    /// they were fetched for the profile, they were dropped before they were read.
    pub(crate) fn fetched_again(&self, numbers: Range<u64>) {
        let mut state = self.state.lock();
        if state.units.is_empty() {
            return;
        }
        for number in numbers {
            if let Some(Unit::Unused(_)) = state.units.get(&number) {
                state.units.remove(&number);
            }
        }
    }

    /// Records a read of units.
    pub(crate) fn read(&self, numbers: Range<u64>) {
        let mut state = self.state.lock();
        if state.units.is_empty() {
            return;
        }
        for number in numbers {
            match state.units.get_mut(&number) {
                Some(unit @ Unit::Expected) => *unit = Unit::Wanted,
                Some(&mut Unit::Unused(len)) => {
                    state.units.remove(&number);
                    self.count_used(len);
                }
                Some(Unit::Wanted) | None => {}
            }
        }
    }

    fn count_used(&self, len: u64) {
        self.counters.profile_used_bytes.fetch_add(len, Relaxed);
    }
}

impl State {
    fn is_expected(&self, number: u64) -> bool {
        matches!(self.units.get(&number), Some(Unit::Expected | Unit::Wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_that_was_dropped_before_it_was_read_is_not_counted_as_used() {
        let counters = Arc::new(Counters::default());
        let uses = Uses::new(&counters);
        uses.expect(1..4);
        for number in 1..4 {
            uses.arrived(number, 10);
        }
        uses.fetched_again(2..3);
        uses.read(1..3);
        let counts = counters.to_counts();
        assert_eq!((counts.profile_bytes, counts.profile_used_bytes), (30, 10));
    }
}
