//! Claims of absent units: the promise of one task to deliver them.
//!
//! # Model
//! ```text
//!   Units::claim --> Claims --deliver--> memory, disk cache, all that wait for the unit
//!                      |--fail---------> all that wait get the error
//!                      `--drop---------> all that wait look for the unit again, and fetch it themselves
//! ```
//! The task delivers the units one at a time, in any order, from any source. The bytes must belong to the
//! version of the object; only their length is checked here.

use crate::Error;
use crate::known::{Claimed, Known, Sender};
use crate::stores::{Origin, Stores};
use crate::urgency::Urgency;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Claimed units that were not delivered yet.
#[derive(Debug)]
pub(crate) struct Claims {
    known: Arc<Known>,
    /// Stores the delivered units. `None` if they are not to be stored.
    stores: Option<Arc<Stores>>,
    origin: Origin,
    units: BTreeMap<u64, Sender>,
    urgency: Arc<Urgency>,
}

impl Claims {
    /// Creates the claims of units that [`Known::find_or_claim`] returned.
    pub(crate) fn new(known: &Arc<Known>, stores: Option<&Arc<Stores>>, claimed: Claimed) -> Self {
        Self {
            known: Arc::clone(known),
            stores: stores.map(Arc::clone),
            origin: Origin::Image,
            units: claimed.units.into_iter().collect(),
            urgency: claimed.urgency,
        }
    }

    /// Returns the priority of the task that delivers the units. It rises when a thread waits for one of them.
    pub(crate) fn urgency(&self) -> &Arc<Urgency> {
        &self.urgency
    }

    /// Returns the numbers of the claimed units, in ascending order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.units.keys().copied()
    }

    /// Returns whether all units were delivered.
    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Moves the claims of the units in `run` to new claims.
    pub(crate) fn take(&mut self, run: &Range<u64>) -> Self {
        let mut units = self.units.split_off(&run.start);
        self.units.append(&mut units.split_off(&run.end));
        Self {
            known: Arc::clone(&self.known),
            stores: self.stores.clone(),
            origin: self.origin,
            units,
            urgency: Arc::clone(&self.urgency),
        }
    }

    /// Sets the place where the units are stored when they are delivered, or `None` if they are not to be stored.
    pub(crate) fn stored_in(self, stores: Option<&Arc<Stores>>) -> Self {
        let mut claims = self;
        claims.stores = stores.map(Arc::clone);
        claims
    }

    /// Sets that the units are delivered from a pack.
    pub(crate) fn of_pack(mut self) -> Self {
        self.origin = Origin::Pack;
        self
    }

    /// Delivers a unit. Returns false, without an effect, if the unit is not claimed, or if `bytes` does not have
    /// the length of the unit. Must be called on a thread of the runtime.
    pub(crate) fn deliver(&mut self, number: u64, bytes: Bytes) -> bool {
        if bytes.len() != self.known.unit_len(number) {
            return false;
        }
        let Some(sender) = self.units.remove(&number) else {
            return false;
        };
        match &self.stores {
            Some(stores) => stores.keep(number, bytes.clone(), self.origin),
            None => self.known.insert(number, bytes.clone()),
        }
        sender.send_replace(Some(Ok(bytes)));
        true
    }

    /// Returns the number of readers that wait for the first unit.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        // One receiver is in the table of known units.
        let first = self.units.values().next();
        first.map_or(0, |sender| sender.receiver_count() - 1)
    }

    /// Passes `error` to all tasks that wait for one of the units.
    pub(crate) fn fail(mut self, error: &Error) {
        for (number, sender) in std::mem::take(&mut self.units) {
            self.known.fail(number, &sender, error.clone());
        }
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        let units = std::mem::take(&mut self.units);
        if std::thread::panicking() {
            // The next task would probably panic, too.
            let error = Error::Settings("the read was cancelled".to_owned());
            for (number, sender) in units {
                self.known.fail(number, &sender, error.clone());
            }
        } else {
            self.known.release(units.keys().copied());
        }
    }
}
