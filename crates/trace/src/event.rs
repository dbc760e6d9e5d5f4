//! An event of a trace: its time, cache, operation and key.

use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Event, Operation};

/// A row of a trace. Numbers that do not apply to its cache are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceEvent {
    /// Nanoseconds since the recording began; never decreases within a thread.
    pub time_ns: u64,
    /// The cache.
    pub cache: CacheKind,
    /// The operation.
    pub operation: Operation,
    /// The device: `major << 20 | minor`, or 0 if unknown.
    pub device: u32,
    /// Page, inode: the inode number.
    pub inode: u64,
    /// Page: the index of the page in the file. Buffer: the block. Dentry: the directory's inode.
    pub index: u64,
    /// Dentry: the hash of the name.
    pub name_hash: u64,
}

impl TraceEvent {
    /// Creates the row of an event that a tape reported at `time_ns`. `device` is needed because
    /// the key does not contain it.
    #[must_use]
    #[inline]
    pub fn new(time_ns: u64, device: u32, event: Event) -> Self {
        let HashKey { object, index } = event.key;
        let blank = Self {
            time_ns,
            cache: event.cache,
            operation: event.operation,
            device,
            inode: 0,
            index: 0,
            name_hash: 0,
        };
        let number = |object: u64| u32::try_from(object).unwrap_or(u32::MAX);
        match event.cache {
            CacheKind::Page => Self {
                inode: object,
                index,
                ..blank
            },
            CacheKind::Buffer => Self {
                device: number(object),
                index,
                ..blank
            },
            CacheKind::Dentry => Self {
                index: object,
                name_hash: index,
                ..blank
            },
            CacheKind::Inode => Self {
                device: number(object),
                inode: index,
                ..blank
            },
        }
    }

    /// Returns the key that hash functions use.
    #[must_use]
    #[inline]
    pub fn key(&self) -> HashKey {
        let (object, index) = match self.cache {
            CacheKind::Page => (self.inode, self.index),
            CacheKind::Buffer => (self.device.into(), self.index),
            CacheKind::Dentry => (self.index, self.name_hash),
            CacheKind::Inode => (self.device.into(), self.inode),
        };
        HashKey { object, index }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_of_each_cache_keeps_its_key() {
        let key = HashKey {
            object: 7,
            index: 1 << 40,
        };
        for cache in CacheKind::ALL {
            let event = Event {
                cache,
                operation: Operation::Insert,
                key,
            };
            assert_eq!(TraceEvent::new(1, 2, event).key(), key, "{cache:?}");
        }
    }
}
