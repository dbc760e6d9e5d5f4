//! The interface through which a variant reports operations for which other processors may have to
//! wait.
//!
//! Two processors cannot show the contention of 24. So the lab runs an operation once, records what
//! it locked and wrote, and simulates any number of processors from that. The mount's caches have the
//! probe `()`, which the compiler removes.
//!
//! # Numbers of places
//! The upper half is the kind of place, the lower half its number:
//!
//! | upper | lower | the place |
//! |---|---|---|
//! | 0 | bucket | a bucket's lock |
//! | 1 | list | the lock of a list that determines the eviction order |
//! | 2 | 0 | the one lock of `old` |
//! | 3 | slot | the line with an entry's state word, and the entry as a held object |
//! | 4 | list | the head of a free list of the arena |
//! | 5 | 0 | the count of entries, where no lock guards it |
//!
//! Counters that are separate for each thread are not places. Only `old` reports holds: in the
//! others, a hold delays only a thread that deletes the entry.

use crate::sync::{self, Condvar, Mutex, MutexGuard, thread_number};
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};

/// An operation on a place that processors share. The cache numbers its places: the same number is
/// the same lock, or the same cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Touch {
    /// A lock was taken.
    Lock(u64),
    /// A lock was released.
    Unlock(u64),
    /// A line was written without a lock.
    Write(u64),
    /// An entry was held exclusively, until [`Touch::Release`].
    HoldExclusive(u64),
    /// An entry was held in shared mode, which excludes exclusive holders, until [`Touch::Release`].
    HoldShared(u64),
    /// The entry was released.
    Release(u64),
}

/// Receives every [`Touch`].
pub trait Probe: Clone + Debug + Send + Sync + 'static {
    /// Records an operation of the caller.
    #[inline]
    fn touched(&self, touch: Touch) {
        let _ = touch;
    }

    /// Returns the number of processors.
    fn processors(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Returns the processor of the caller. This is its thread's number, since a thread seldom
    /// migrates.
    #[inline]
    fn processor(&self) -> usize {
        thread_number()
    }
}

impl Probe for () {}

/// The numbers of places; see the [module](self).
pub(crate) mod place {
    pub const GLOBAL: u64 = 2 << 32;
    pub const COUNT: u64 = 5 << 32;

    pub fn bucket(bucket: u32) -> u64 {
        u64::from(bucket)
    }

    pub fn list(list: usize) -> u64 {
        1 << 32 | list as u64
    }

    pub fn free_list(list: usize) -> u64 {
        4 << 32 | list as u64
    }

    pub fn entry(slot: u32) -> u64 {
        3 << 32 | u64::from(slot)
    }
}

/// A lock that is reported to the probe. It is held as long as this exists.
#[derive(Debug)]
pub(crate) struct Locked<'a, T, P: Probe> {
    // Dropped first: the probe gets the report before other threads can take the lock.
    reporter: Reporter<'a, P>,
    guard: MutexGuard<'a, T>,
}

#[derive(Debug)]
struct Reporter<'a, P: Probe> {
    place: u64,
    probe: &'a P,
}

impl<'a, T, P: Probe> Locked<'a, T, P> {
    pub fn new(mutex: &'a Mutex<T>, place: u64, probe: &'a P) -> Self {
        let guard = mutex.lock();
        let reporter = Reporter::new(place, probe);
        Self { reporter, guard }
    }
}

impl<T, P: Probe> Locked<'_, T, P> {
    /// Waits for `condvar`, and releases the lock meanwhile.
    pub fn wait(self, condvar: &Condvar) -> Self {
        let Self { reporter, guard } = self;
        let (place, probe) = (reporter.place, reporter.probe);
        drop(reporter);
        let guard = sync::wait(condvar, guard);
        let reporter = Reporter::new(place, probe);
        Self { reporter, guard }
    }
}

impl<'a, P: Probe> Reporter<'a, P> {
    fn new(place: u64, probe: &'a P) -> Self {
        probe.touched(Touch::Lock(place));
        Self { place, probe }
    }
}

impl<P: Probe> Drop for Reporter<'_, P> {
    fn drop(&mut self) {
        self.probe.touched(Touch::Unlock(self.place));
    }
}

impl<T, P: Probe> Deref for Locked<'_, T, P> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T, P: Probe> DerefMut for Locked<'_, T, P> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
