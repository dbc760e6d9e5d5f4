//! Batches of events, which are stored by columns.

use crate::TraceEvent;
use larder_cache::tape::{CacheKind, Operation};

/// A batch of events. Element *i* of each vector belongs to event *i*. [`TraceEvent`] describes the values.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The times, in nanoseconds since the recording began.
    pub time: Vec<i64>,
    /// The caches.
    pub cache: Vec<CacheKind>,
    /// The operations.
    pub operation: Vec<Operation>,
    /// The device numbers.
    pub device: Vec<i32>,
    /// The inode numbers.
    pub inode: Vec<i64>,
    /// The page indexes, block numbers, or inode numbers of directories.
    pub index: Vec<i64>,
    /// The hashes of names.
    pub name_hash: Vec<i64>,
}

impl Batch {
    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Returns true if there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// Returns the events in the order of the trace.
    #[must_use]
    pub fn events(&self) -> impl ExactSizeIterator<Item = TraceEvent> + '_ {
        let rows = self.len();
        // Slices of equal length, so that bounds are checked once.
        let (time, cache, operation) = (
            &self.time[..rows],
            &self.cache[..rows],
            &self.operation[..rows],
        );
        let (device, inode) = (&self.device[..rows], &self.inode[..rows]);
        let (index, name_hash) = (&self.index[..rows], &self.name_hash[..rows]);
        (0..rows).map(move |row| TraceEvent {
            time_ns: time[row].cast_unsigned(),
            cache: cache[row],
            operation: operation[row],
            device: device[row].cast_unsigned(),
            inode: inode[row].cast_unsigned(),
            index: index[row].cast_unsigned(),
            name_hash: name_hash[row].cast_unsigned(),
        })
    }

    /// Appends `event`.
    #[inline]
    pub(crate) fn push(&mut self, event: &TraceEvent) {
        self.time.push(event.time_ns.cast_signed());
        self.cache.push(event.cache);
        self.operation.push(event.operation);
        self.device.push(event.device.cast_signed());
        self.inode.push(event.inode.cast_signed());
        self.index.push(event.index.cast_signed());
        self.name_hash.push(event.name_hash.cast_signed());
    }

    /// Removes all events, but keeps the memory for further events.
    pub fn clear(&mut self) {
        self.time.clear();
        self.cache.clear();
        self.operation.clear();
        self.device.clear();
        self.inode.clear();
        self.index.clear();
        self.name_hash.clear();
    }
}
