//! An event of a trace: its time, cache, operation and key.

use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Event, Operation};

/// An event, which is one row of a trace. Fields that the kind of cache does not use are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceEvent {
    /// The time in nanoseconds since the recording began. It never decreases within a thread.
    pub time_ns: u64,
    /// The kind of the cache.
    pub cache: CacheKind,
    /// The operation.
    pub operation: Operation,
    /// The number of the device: `major << 20 | minor`, or 0 if it is unknown.
    pub device: u32,
    /// For pages and inodes, the inode number.
    pub inode: u64,
    /// For pages, the index of the page in the file. For buffers, the block number. For dentries, the inode
    /// number of the directory.
    pub index: u64,
    /// For dentries, the hash of the name. For memory areas, which are recorded as pages, the number of pages of
    /// the area.
    pub name_hash: u64,
}

impl TraceEvent {
    /// Converts `event`, which was reported to a tape at `time_ns`. `device` is the device number of pages and
    /// dentries, whose keys do not contain it.
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

    /// Returns the key of the entry, the input of hash functions.
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
