//! The probe: the interface through which a variant reports the locks and cache lines that an operation
//! uses and that other processors may have to wait for.
//!
//! A machine with two processors cannot show the contention of 24 processors, as in Kara's measurements.
//! Therefore the lab runs each operation once, records the reports, and simulates the operation on any
//! number of processors. The caches of a mount have the probe `()`, which has no cost.
//!
//! # Numbers of locks and cache lines
//! Each lock and each cache line has a number of 64 bits. The upper half is the kind, and the lower half
//! distinguishes the locks or lines of one kind.
//!
//! | upper half | lower half | lock or cache line |
//! |---|---|---|
//! | 0 | number of the bucket | the lock of a bucket |
//! | 1 | number of the list | the lock of a list that determines the eviction order |
//! | 2 | 0 | the single lock of `old` |
//! | 3 | number of the slot | the line with an entry's state word; in `HoldExclusive`, `HoldShared` and `Release`, the entry itself |
//! | 4 | number of the free list | the line with the head of a free list of the arena |
//! | 5 | 0 | the line with the count of entries, if no lock guards it |
//!
//! Counters that are separate for each thread are not reported, since no processor waits for them. Only
//! `old` reports holds: in the other variants, a hold delays only a thread that deletes the entry.

use crate::sync::{self, Condvar, Mutex, MutexGuard, thread_number};
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};

/// An operation on a lock or a cache line that processors share. The [module](self) describes the numbers of
/// locks and cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Touch {
    /// A lock was acquired.
    Lock(u64),
    /// A lock was released.
    Unlock(u64),
    /// A cache line was written without a lock.
    Write(u64),
    /// An exclusive hold of an entry began, which excludes all other holds until [`Touch::Release`].
    HoldExclusive(u64),
    /// A shared hold of an entry began, which excludes exclusive holds until [`Touch::Release`].
    HoldShared(u64),
    /// A hold of an entry ended.
    Release(u64),
}

/// A receiver of the reports of a variant.
pub trait Probe: Clone + Debug + Send + Sync + 'static {
    /// Records an operation on a lock or a cache line.
    #[inline]
    fn touched(&self, touch: Touch) {
        let _ = touch;
    }

    /// Returns the number of processors.
    fn processors(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Returns the number of the processor that runs the caller. By default this is the number of the
    /// calling thread, since a thread seldom migrates to another processor.
    #[inline]
    fn processor(&self) -> usize {
        thread_number()
    }

    /// Returns the number of NUMA nodes. By default each processor is regarded as a node: most machines
    /// that mount images have a single node, with which `list-lru` would have a single list.
    fn nodes(&self) -> usize {
        self.processors()
    }

    /// Returns the number of the node that runs the caller.
    #[inline]
    fn node(&self) -> usize {
        self.processor()
    }
}

impl Probe for () {}

/// The numbers of locks and cache lines, described in the [module](self).
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

/// A guard of a lock that is reported to the probe.
#[derive(Debug)]
pub(crate) struct Locked<'a, T, P: Probe> {
    // This field is dropped first, so that the probe gets the report before another thread can acquire
    // the lock.
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
    /// Waits for a notification of `condvar`, and releases the lock meanwhile.
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
