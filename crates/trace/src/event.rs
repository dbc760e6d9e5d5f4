//! The rows of a trace: events of caches, reads of files, and paths of files.

use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Event, Operation};

/// A row of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// An operation on an entry of a cache.
    Cache(TraceEvent),
    /// A read of a file.
    Read(FileRead),
    /// The path of a file.
    Path(FilePath),
}

/// A read of a file, or a page fault in a mapping of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRead {
    /// The time of the end of the read, in nanoseconds since the recording began.
    pub time_ns: u64,
    /// The number of the device, as in [`TraceEvent::device`].
    pub device: u32,
    /// The inode number of the file.
    pub inode: u64,
    /// The first byte.
    pub offset_bytes: u64,
    /// The number of bytes from there to the end of the request or of the file, whichever is first.
    pub len_bytes: u32,
    /// The size of the file, or 0 if it is unknown.
    pub file_bytes: u64,
    /// The number of the open file, from 1, if the open file has a readahead state of its own. It is 0 if all
    /// readers of the file share a state, or if the open file is unknown.
    pub stream: u64,
    /// The ID of the thread that reads, or 0 if it is unknown.
    pub thread: u32,
    /// The time that the read took, in nanoseconds, or 0 if it is unknown.
    pub duration_ns: u64,
    /// True for a page fault.
    pub is_fault: bool,
}

impl FileRead {
    /// Returns the time of the start of the read.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        self.time_ns.saturating_sub(self.duration_ns)
    }
}

/// The path of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath {
    /// The time at which the path was found, in nanoseconds since the recording began.
    pub time_ns: u64,
    /// The number of the device, as in [`TraceEvent::device`].
    pub device: u32,
    /// The inode number of the file.
    pub inode: u64,
    /// The size of the file, or 0 if it is unknown.
    pub file_bytes: u64,
    /// The path: in a recording of a mount, from the root of the mount. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub path: Box<str>,
}

/// An event of a cache. Fields that the kind of cache does not use are 0.
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
