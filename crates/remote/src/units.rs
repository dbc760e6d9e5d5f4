//! The units of an image that are in memory, or in flight. A unit is a piece of [`UNIT_BYTES`] bytes, in
//! which the image is fetched and cached.
//!
//! # Model
//! A unit is in memory, in flight (being read from the server or from the disk cache), or absent.
//! [`Units::read`] divides the absent units into runs of at most 32 adjacent units. The units of a run are
//! either all in the disk cache, or all not. A run in the disk cache is read from there, on a thread that may
//! block. For each other run, one request is sent to the server. [`Units::read`] then waits for these units,
//! and for those that other reads have in flight. Units in memory are dropped in the order in which they were
//! fetched: a better policy is not needed, because the caches above keep what is used again.
//!
//! # Locking
//! There is one lock. A task never holds it while it awaits something.

use crate::disk_cache::{self, CachedObject};
use crate::fetch::Fetcher;
use crate::{Error, Result};
use bytes::Bytes;
use larder_block::Priority;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

/// The size of a unit, in bytes. A read of 4 KiB transfers 16 times as much. With smaller units, requests for
/// metadata would transfer so little that the round trip would take most of their time.
pub const UNIT_BYTES: u64 = disk_cache::UNIT_BYTES as u64;
/// The maximum length of a request to the server, in units. Longer runs are divided, so that they are
/// transferred over several connections.
const MAX_RUN_UNITS: u64 = 32;

/// The maximum number of runs that wait to be stored in the disk cache.
const STORES: usize = 16;

/// The bytes of a unit, or the error of reading it.
type Outcome = Result<Bytes>;

/// The units of an image.
#[derive(Debug)]
pub(crate) struct Units {
    fetcher: Fetcher,
    disk: Option<Arc<CachedObject>>,
    /// A permit for each run that may wait to be stored in the disk cache.
    stores: Arc<Semaphore>,
    /// The number of units that memory may hold.
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<u64, Unit>,
    /// The units in memory, the oldest first.
    order: VecDeque<u64>,
}

#[derive(Debug)]
enum Unit {
    InFlight(watch::Receiver<Option<Outcome>>),
    InMemory(Bytes),
}

/// A unit that a read needs: in memory now, or in flight.
enum Found {
    Now(Bytes),
    Later(watch::Receiver<Option<Outcome>>),
}

impl Units {
    pub(crate) fn new(fetcher: Fetcher, disk: Option<CachedObject>, capacity_bytes: u64) -> Self {
        let capacity = usize::try_from(capacity_bytes / UNIT_BYTES).unwrap_or(usize::MAX);
        Self {
            fetcher,
            disk: disk.map(Arc::new),
            stores: Arc::new(Semaphore::new(STORES)),
            capacity: capacity.max(1),
            state: Mutex::default(),
        }
    }

    pub(crate) fn fetcher(&self) -> &Fetcher {
        &self.fetcher
    }

    /// Adds the complete units in the first reply, from which the version was taken. `bytes` starts at the
    /// start of the object.
    pub(crate) fn add_first(&self, bytes: &Bytes) {
        for (number, unit) in (0..).zip(bytes.chunks(usize_of(UNIT_BYTES))) {
            if unit.len() == self.unit_len(number) {
                let unit = Bytes::copy_from_slice(unit);
                self.store(number, &unit);
                self.state.lock().insert(number, unit, self.capacity);
            }
        }
    }

    /// Returns the length of a unit in bytes. The last unit can be shorter.
    fn unit_len(&self, number: u64) -> usize {
        usize_of((self.size_bytes() - number * UNIT_BYTES).min(UNIT_BYTES))
    }

    /// Returns whether the disk cache has a unit. The unit may be damaged, which is detected when it is read.
    pub(crate) fn is_on_disk(&self, number: u64) -> bool {
        self.disk
            .as_ref()
            .is_some_and(|disk| disk.contains_unit(number))
    }

    /// Stores a unit in the disk cache.
    fn store(&self, number: u64, unit: &[u8]) {
        if let Some(disk) = &self.disk
            && let Err(error) = disk.write_unit(number, unit)
        {
            tracing::warn!("what is read from now on is not cached on disk: {error}");
        }
    }

    /// Returns a unit of the disk cache, or `None` if it is absent or damaged.
    fn load(&self, number: u64) -> Option<Bytes> {
        let mut unit = vec![0; self.unit_len(number)];
        let is_read = self.disk.as_ref()?.read_unit(number, &mut unit);
        is_read.then(|| unit.into())
    }

    /// Waits until every run that has a permit is stored in the disk cache.
    pub(crate) async fn stored(&self) {
        let all = u32::try_from(STORES).expect("the number is small");
        // The semaphore is never closed.
        drop(self.stores.acquire_many(all).await);
    }

    fn size_bytes(&self) -> u64 {
        self.fetcher.version().size_bytes
    }

    /// Returns the bytes of `range_bytes` in parts, in order, if all of its units are in memory.
    pub(crate) fn read_now(&self, range_bytes: &Range<u64>) -> Option<Vec<Bytes>> {
        let state = self.state.lock();
        let parts: Vec<Bytes> = units_of(range_bytes)
            .map(|number| match state.known.get(&number) {
                Some(Unit::InMemory(bytes)) => Some(part_of(bytes, number, range_bytes)),
                _ => None,
            })
            .collect::<Option<_>>()?;
        let counters = &self.fetcher.counters;
        counters
            .memory_bytes
            .fetch_add(range_bytes.end - range_bytes.start, Relaxed);
        Some(parts)
    }

    /// Returns the bytes of `range_bytes` in parts, in order. Fetches the units that are absent.
    pub(crate) async fn read(
        self: &Arc<Self>,
        range_bytes: Range<u64>,
        priority: Priority,
    ) -> Result<Vec<Bytes>> {
        let numbers = units_of(&range_bytes);
        let found = self.find_or_fetch(numbers.clone(), priority);
        let mut parts = Vec::with_capacity(found.len());
        for (number, found) in numbers.zip(found) {
            let bytes = match found {
                Found::Now(bytes) => bytes,
                Found::Later(mut receiver) => match receiver.wait_for(Option::is_some).await {
                    Ok(outcome) => outcome.clone().expect("the condition holds")?,
                    // The task that fetched the unit has panicked, or the runtime was shut down.
                    Err(_) => return Err(Error::Settings("the read was cancelled".to_owned())),
                },
            };
            parts.push(part_of(&bytes, number, &range_bytes));
        }
        Ok(parts)
    }

    /// Finds the units in memory or in flight, and starts to fetch those that are absent.
    fn find_or_fetch(self: &Arc<Self>, numbers: Range<u64>, priority: Priority) -> Vec<Found> {
        // The runs of absent units, each with a flag that is true if its units are in the disk cache.
        let mut runs: Vec<(Range<u64>, bool)> = Vec::new();
        let mut senders = Vec::new();
        // This precedes the lock, because it may read from the disk.
        let on_disk: HashSet<u64> = numbers
            .clone()
            .filter(|&number| self.is_on_disk(number))
            .collect();
        let mut state = self.state.lock();
        let found = numbers
            .map(|number| match state.known.get(&number) {
                Some(Unit::InMemory(bytes)) => Found::Now(bytes.clone()),
                // If the channel has no sender, the task that fetched the unit has panicked. The unit is
                // then fetched again.
                Some(Unit::InFlight(receiver)) if receiver.has_changed().is_ok() => {
                    Found::Later(receiver.clone())
                }
                _ => {
                    let (sender, receiver) = watch::channel(None);
                    state.known.insert(number, Unit::InFlight(receiver.clone()));
                    senders.push(sender);
                    let is_on_disk = on_disk.contains(&number);
                    match runs.last_mut() {
                        Some((run, same))
                            if run.end == number
                                && number - run.start < MAX_RUN_UNITS
                                && *same == is_on_disk =>
                        {
                            run.end += 1;
                        }
                        _ => runs.push((number..number + 1, is_on_disk)),
                    }
                    Found::Later(receiver)
                }
            })
            .collect();
        drop(state);
        let mut senders = senders.into_iter();
        for (run, is_on_disk) in runs {
            let senders: Vec<_> = senders
                .by_ref()
                .take(usize_of(run.end - run.start))
                .collect();
            let units = Arc::clone(self);
            if is_on_disk {
                let runtime = Handle::current();
                tokio::task::spawn_blocking(move || {
                    for (number, sender) in run.zip(senders) {
                        if let Some(unit) = units.load(number) {
                            let counters = &units.fetcher.counters;
                            counters.disk_bytes.fetch_add(unit.len() as u64, Relaxed);
                            units.complete(number, &sender, Ok(unit));
                        } else {
                            let units = Arc::clone(&units);
                            let run = number..number + 1;
                            runtime.spawn(units.fetch(run, vec![sender], priority));
                        }
                    }
                });
            } else {
                tokio::spawn(units.fetch(run, senders, priority));
            }
        }
        found
    }

    /// Fetches a run of units, and passes each to its waiters.
    async fn fetch(
        self: Arc<Self>,
        run: Range<u64>,
        senders: Vec<watch::Sender<Option<Outcome>>>,
        priority: Priority,
    ) {
        let range_bytes = run.start * UNIT_BYTES..(run.end * UNIT_BYTES).min(self.size_bytes());
        let read = self.fetcher.read(range_bytes, priority).await;
        if let (Ok(bytes), Priority::Background) = (&read, priority) {
            let counters = &self.fetcher.counters;
            counters.ahead_bytes.fetch_add(bytes.len() as u64, Relaxed);
        }
        // Acquire a permit before `complete` lets the readers continue. A reader may then drop the device,
        // which waits until all permits are returned. Without the permit, it would not wait until these
        // units are stored. If no permit is free, the disk is slower than the server, and these units are
        // not stored.
        let stores = self
            .disk
            .as_ref()
            .and_then(|_| Arc::clone(&self.stores).try_acquire_owned().ok());
        let mut fetched = Vec::new();
        for (index, (number, sender)) in run.zip(senders).enumerate() {
            let start = index * usize_of(UNIT_BYTES);
            let unit = read.as_ref().map_err(Clone::clone).map(|bytes| {
                let end = (start + usize_of(UNIT_BYTES)).min(bytes.len());
                // A copy, so that a unit does not keep the memory of the whole run.
                Bytes::copy_from_slice(&bytes[start..end])
            });
            fetched.extend(unit.as_ref().ok().map(|unit| (number, unit.clone())));
            self.complete(number, &sender, unit);
        }
        if let Some(stores) = stores {
            tokio::task::spawn_blocking(move || {
                for (number, unit) in fetched {
                    self.store(number, &unit);
                }
                drop(stores);
            });
        }
    }

    /// Passes the outcome of a unit in flight to its waiters. If the unit was read, also adds it to memory.
    fn complete(&self, number: u64, sender: &watch::Sender<Option<Outcome>>, unit: Outcome) {
        let mut state = self.state.lock();
        match &unit {
            Ok(bytes) => state.insert(number, bytes.clone(), self.capacity),
            // The next read of the unit fetches it again.
            Err(_) => drop(state.known.remove(&number)),
        }
        drop(state);
        sender.send_replace(Some(unit));
    }
}

impl State {
    /// Adds a unit to memory. If there are now more than `capacity` units, drops the oldest.
    fn insert(&mut self, number: u64, bytes: Bytes, capacity: usize) {
        self.known.insert(number, Unit::InMemory(bytes));
        self.order.push_back(number);
        while self.order.len() > capacity {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
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
