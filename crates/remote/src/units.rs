//! The units of an image: finds them in memory, in flight or in the disk cache, and fetches the others.
//!
//! # Model
//! A unit is in memory, in flight, or absent ([`Known`]). An absent unit can be in the disk cache.
//!
//! [`Units::read`] looks for its units in memory and in flight, and [claims](Claims) the absent ones. It divides
//! these into runs of at most 32 adjacent units. The units of a run are either all in the disk cache, or all not.
//! A run in the disk cache is read from there, on a thread that may block. For each other run, one request is
//! sent to the server. Each unit of a run is delivered as soon as its bytes have arrived. If the request fails
//! in the middle of a run, the delivered units stay, and the next attempt requests only the rest.
//!
//! Other tasks can claim absent units, too ([`Units::claim`]), and deliver them from any source. A
//! [profile](crate::profile) claims many units in advance. If a read still waits for such a unit when [`PATIENCE`]
//! has passed since the read began, or when the pack is [paused](Uses::paused_after), the read requests all units that
//! it still needs. The last unit that was requested in this way is kept, so that small reads of it need one request.

use crate::Result;
use crate::claims::Claims;
use crate::disk_cache::CachedObject;
use crate::fetch::Fetcher;
use crate::known::{Found, Known, UNIT_BYTES};
use crate::profile::Uses;
use crate::stores::Stores;
use crate::urgency::Urgency;
use bytes::Bytes;
use larder_block::Priority;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

/// The maximum length of a run of [`Units::read`], in units. Each run is one request. A longer read is divided, so
/// that it is transferred over several connections. The requests for a profile can be longer.
const MAX_RUN_UNITS: u64 = 32;

/// The time, from the start of a read, for which the read waits for units that are fetched for a profile. The
/// request for such a unit may have to transfer many other units first.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// The units of an image.
#[derive(Debug)]
pub(crate) struct Units {
    fetcher: Fetcher,
    known: Arc<Known>,
    disk: Option<Arc<CachedObject>>,
    /// The units that wait to be stored in the disk cache, if there is one.
    stores: Option<Arc<Stores>>,
    /// The units that are fetched for a profile.
    uses: Uses,
    /// The number and the bytes of the last unit that [`Units::fetch_rest`] has requested.
    last_late: Mutex<Option<(u64, Bytes)>>,
}

/// The result of waiting for a unit.
enum Waited {
    Arrived(Bytes),
    /// The claim of the unit was dropped.
    Dropped,
    /// The unit is still in flight.
    Late,
}

impl Units {
    pub(crate) fn new(fetcher: Fetcher, disk: Option<CachedObject>, capacity_bytes: u64) -> Self {
        let disk = disk.map(Arc::new);
        let known = Known::new(fetcher.version().size_bytes, capacity_bytes);
        let known = Arc::new(known);
        let stores = |disk| Arc::new(Stores::new(disk, Arc::clone(&known)));
        Self {
            stores: disk.clone().map(stores),
            disk,
            known,
            uses: Uses::new(fetcher.counters()),
            last_late: Mutex::default(),
            fetcher,
        }
    }

    pub(crate) fn fetcher(&self) -> &Fetcher {
        &self.fetcher
    }

    pub(crate) fn uses(&self) -> &Uses {
        &self.uses
    }

    pub(crate) fn disk(&self) -> Option<&CachedObject> {
        self.disk.as_deref()
    }

    /// Returns the bytes of a run of units as a range of the object.
    pub(crate) fn bytes_of(&self, run: &Range<u64>) -> Range<u64> {
        self.known.bytes_of(run)
    }

    /// Returns whether the disk cache has a record that a check of the content with a SHA-256 has begun.
    pub(crate) fn is_checked(&self) -> bool {
        let disk = self.disk.as_ref();
        disk.is_some_and(|disk| disk.is_checked())
    }

    /// Returns the number of units that may be fetched long before they are read: as many as the disk cache has room
    /// for, if they are stored in it, or as many as memory can keep until then.
    pub(crate) fn prefetch_room(&self, is_stored: bool) -> usize {
        let disk = self.disk.as_ref().filter(|_| is_stored);
        let on_disk = disk.map_or(0, |disk| disk.room_units());
        on_disk.max(self.memory_room())
    }

    /// Returns the number of prefetched units that memory can keep until they are read. A part of memory is left for
    /// other units.
    fn memory_room(&self) -> usize {
        self.known.capacity() / 4 * 3
    }

    /// Returns how many of `count` prefetched units may be in flight at once, and how many may wait to be stored, so
    /// that memory keeps them until they are stored. Returns `None` if memory can keep all of them until they are read.
    pub(crate) fn max_unstored(&self, count: usize) -> Option<usize> {
        (count > self.memory_room()).then(|| self.known.capacity() / 4)
    }

    /// Returns whether the disk cache has a unit. The unit may be damaged, which is detected when it is read.
    pub(crate) fn is_on_disk(&self, number: u64) -> bool {
        self.disk
            .as_ref()
            .is_some_and(|disk| disk.contains_unit(number))
    }

    /// Reads a unit from the disk cache. Returns `None` if the disk cache does not have the unit, or if it is
    /// damaged there.
    fn load(&self, number: u64) -> Option<Bytes> {
        let mut unit = vec![0; self.known.unit_len(number)];
        let is_read = self.disk.as_ref()?.read_unit(number, &mut unit);
        is_read.then(|| unit.into())
    }

    /// Waits until all delivered units, except for at most `max_units`, are stored in the disk cache, or cannot be
    /// stored.
    pub(crate) async fn stored_except(&self, max_units: usize) {
        if let Some(stores) = &self.stores {
            stores.wait(max_units).await;
        }
    }

    /// Waits until all delivered units are stored in the disk cache, or cannot be stored. Units that are delivered later,
    /// for example by a prefetch in progress, are not stored, so the wait does not include them.
    pub(crate) async fn finish_stores(&self) {
        if let Some(stores) = &self.stores {
            stores.close();
            stores.wait(0).await;
        }
    }

    /// Claims those of the units `numbers` that are absent and not in the disk cache. Returns `None` if there is no
    /// such unit.
    pub(crate) fn claim(
        &self,
        numbers: impl IntoIterator<Item = u64>,
        priority: Priority,
    ) -> Option<Claims> {
        // This precedes the lock, because it may read from the disk.
        let numbers: BTreeSet<u64> = numbers
            .into_iter()
            .filter(|&number| !self.is_on_disk(number))
            .collect();
        let numbers = numbers.into_iter();
        let (_, mut claimed) = self.known.find_or_claim(numbers, priority, |_, _| true);
        let claimed = claimed.pop()?;
        Some(Claims::new(&self.known, self.stores.as_ref(), claimed))
    }

    /// Delivers the absent units that are complete in `bytes`, the first bytes of the object. Must be called on a
    /// thread of the runtime.
    pub(crate) fn deliver_first(&self, bytes: &Bytes) {
        let units = (0..).zip(bytes.chunks(usize_of(UNIT_BYTES)));
        let numbers = units.clone().map(|(number, _)| number);
        if let Some(mut claims) = self.claim(numbers, Priority::Demand) {
            for (number, unit) in units {
                claims.deliver(number, Bytes::copy_from_slice(unit));
            }
        }
    }

    /// Returns the bytes of `range_bytes` in parts, in order, if all of its units are in memory.
    pub(crate) fn read_now(&self, range_bytes: &Range<u64>) -> Option<Vec<Bytes>> {
        let numbers = units_of(range_bytes);
        let mut units = self.known.in_memory(numbers.clone())?;
        self.uses.read(numbers.clone());
        for (number, unit) in numbers.zip(&mut units) {
            *unit = part_of(unit, number, range_bytes);
        }
        let counters = self.fetcher.counters();
        counters
            .memory_bytes
            .fetch_add(range_bytes.end - range_bytes.start, Relaxed);
        Some(units)
    }

    /// Returns the bytes of `range_bytes` in parts, in order. Starts to read the units that are absent before it
    /// returns. Must be called on a thread of the runtime.
    pub(crate) fn read(
        self: &Arc<Self>,
        range_bytes: Range<u64>,
        priority: Priority,
    ) -> impl Future<Output = Result<Vec<Bytes>>> + use<> {
        let units = Arc::clone(self);
        let mut rest = units_of(&range_bytes);
        let mut all_found = self.find_or_fetch(rest.clone(), priority);
        // This follows the search, which finds out which units are no longer in memory.
        self.uses.read(rest.clone());
        async move {
            let patience_end = Instant::now() + PATIENCE;
            let mut parts = Vec::with_capacity(all_found.len());
            loop {
                for found in all_found {
                    let unit = match units.wait(found, rest.start, patience_end).await? {
                        Waited::Arrived(unit) => unit,
                        Waited::Dropped => break,
                        Waited::Late => {
                            units.fetch_rest(rest, &range_bytes, &mut parts).await?;
                            return Ok(parts);
                        }
                    };
                    parts.push(part_of(&unit, rest.start, &range_bytes));
                    rest.start += 1;
                }
                if rest.is_empty() {
                    return Ok(parts);
                }
                all_found = units.find_or_fetch(rest.clone(), priority);
            }
        }
    }

    /// Starts to read the units of `range_bytes` that are absent. Must be called on a thread of the runtime.
    pub(crate) fn announce(self: &Arc<Self>, range_bytes: Range<u64>, priority: Priority) {
        // The reads that follow record the uses.
        drop(self.find_or_fetch(units_of(&range_bytes), priority));
    }

    /// Waits for a unit: without limit, unless it is fetched for a profile. In this case, waits until `patience_end`, and
    /// not while the pack is paused.
    async fn wait(&self, found: Found, number: u64, patience_end: Instant) -> Result<Waited> {
        let mut receiver = match found {
            Found::Now(outcome) => return outcome.map(Waited::Arrived),
            Found::Later(receiver) => receiver,
        };
        let arrival = receiver.wait_for(Option::is_some);
        let arrival = if self.uses.is_expected(number) {
            if let Some((last, unit)) = &*self.last_late.lock()
                && *last == number
            {
                return Ok(Waited::Arrived(unit.clone()));
            }
            let in_time = timeout_at(patience_end, arrival);
            let Some(Ok(arrival)) = self.uses.unless_paused(in_time).await else {
                return Ok(Waited::Late);
            };
            arrival
        } else {
            arrival.await
        };
        match arrival {
            Ok(outcome) => outcome
                .clone()
                .expect("the condition holds")
                .map(Waited::Arrived),
            Err(_) => Ok(Waited::Dropped),
        }
    }

    /// Requests the units `rest` of `range_bytes`, and adds their bytes to `parts`. Some of these units may be in
    /// flight, too. Only the last unit is kept, because the tasks that claimed the units keep them in memory and on disk.
    async fn fetch_rest(
        &self,
        rest: Range<u64>,
        range_bytes: &Range<u64>,
        parts: &mut Vec<Bytes>,
    ) -> Result<()> {
        let run_bytes = self.known.bytes_of(&rest);
        let mut numbers = rest;
        let deliver = |unit: Bytes| {
            if let Some(number) = numbers.next() {
                parts.push(part_of(&unit, number, range_bytes));
                *self.last_late.lock() = Some((number, unit));
            }
        };
        let urgency = Urgency::new(Priority::Demand);
        let read = self.fetcher.read(run_bytes, UNIT_BYTES, &urgency, deliver);
        read.await
    }

    /// Finds units in memory or in flight, and starts to read the absent units.
    fn find_or_fetch(self: &Arc<Self>, numbers: Range<u64>, priority: Priority) -> Vec<Found> {
        // This precedes the lock, because it may read from the disk.
        let on_disk: HashSet<u64> = numbers
            .clone()
            .filter(|&number| self.is_on_disk(number))
            .collect();
        let joins = |run: &Range<u64>, number| {
            run.end == number
                && number - run.start < MAX_RUN_UNITS
                && on_disk.contains(&run.start) == on_disk.contains(&number)
        };
        let (found, claimed) = self.known.find_or_claim(numbers, priority, joins);
        if priority == Priority::Demand && !claimed.is_empty() {
            let absent = claimed.iter().flat_map(|claimed| claimed.run.clone());
            self.uses.requested(absent);
        }
        for claimed in claimed {
            let run = claimed.run.clone();
            let units = Arc::clone(self);
            if on_disk.contains(&run.start) {
                // These units are in the disk cache already.
                let claims = Claims::new(&self.known, None, claimed);
                let runtime = Handle::current();
                tokio::task::spawn_blocking(move || units.read_disk(claims, &runtime));
            } else {
                self.uses.fetched_again(run.clone());
                let claims = Claims::new(&self.known, self.stores.as_ref(), claimed);
                tokio::spawn(units.fetch(run, claims));
            }
        }
        found
    }

    /// Raises the priority of the fetches of units in `range_bytes` to [`Priority::Demand`].
    pub(crate) fn expedite(&self, range_bytes: &Range<u64>) {
        self.known.expedite(units_of(range_bytes));
    }

    /// Reads the claimed units from the disk cache. Starts to fetch units that are damaged there.
    fn read_disk(self: Arc<Self>, mut claims: Claims, runtime: &Handle) {
        let numbers: Vec<u64> = claims.numbers().collect();
        for number in numbers {
            if let Some(unit) = self.load(number) {
                let counters = self.fetcher.counters();
                counters.disk_bytes.fetch_add(unit.len() as u64, Relaxed);
                claims.deliver(number, unit);
            } else {
                let run = number..number + 1;
                // The damaged unit was removed from the disk cache.
                let claims = claims.take(&run).stored_in(self.stores.as_ref());
                runtime.spawn(Arc::clone(&self).fetch(run, claims));
            }
        }
    }

    /// Fetches a run of units with one request, and delivers those that are claimed. All claims must be of
    /// units in the run.
    pub(crate) async fn fetch(self: Arc<Self>, run: Range<u64>, mut claims: Claims) {
        let range_bytes = self.known.bytes_of(&run);
        let urgency = Arc::clone(claims.urgency());
        let mut numbers = run;
        let deliver = |unit: Bytes| {
            if urgency.priority() == Priority::Background {
                let counters = self.fetcher.counters();
                counters.ahead_bytes.fetch_add(unit.len() as u64, Relaxed);
            }
            if let Some(number) = numbers.next() {
                claims.deliver(number, unit);
            }
        };
        let read = self
            .fetcher
            .read(range_bytes, UNIT_BYTES, &urgency, deliver);
        if let Err(error) = read.await {
            claims.fail(&error);
        }
    }
}

/// Returns the numbers of the units that contain `range_bytes`.
fn units_of(range_bytes: &Range<u64>) -> Range<u64> {
    range_bytes.start / UNIT_BYTES..range_bytes.end.div_ceil(UNIT_BYTES)
}

/// Returns the part of unit `number` that is in `range_bytes`.
fn part_of(bytes: &Bytes, number: u64, range_bytes: &Range<u64>) -> Bytes {
    let unit_start = number * UNIT_BYTES;
    let start = range_bytes.start.saturating_sub(unit_start);
    let end = (range_bytes.end - unit_start).min(bytes.len() as u64);
    bytes.slice(usize_of(start)..usize_of(end))
}

/// Converts a length inside a unit or a run.
fn usize_of(len: u64) -> usize {
    usize::try_from(len).expect("runs of units are short")
}

#[cfg(test)]
pub(crate) mod tests;
