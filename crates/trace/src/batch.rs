//! Rows of a trace, column by column.

use crate::TraceEvent;
use larder_cache::tape::{CacheKind, Operation};

/// Events in columns, as Parquet stores them.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Nanoseconds since the recording began.
    pub time: Vec<i64>,
    /// The cache of the event.
    pub cache: Vec<CacheKind>,
    /// The operation.
    pub operation: Vec<Operation>,
    /// The device.
    pub device: Vec<i32>,
    /// The inode.
    pub inode: Vec<i64>,
    /// The page, the block, or the inode of the directory.
    pub index: Vec<i64>,
    /// The hash of the name.
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

    /// Removes the events and keeps the memory.
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
