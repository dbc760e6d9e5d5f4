//! What the caches did, counted since the volume was opened.

use serde::{Deserialize, Serialize};

/// One of the four caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// File pages.
    Page,
    /// Metadata blocks.
    Buffer,
    /// Names.
    Dentry,
    /// Inodes.
    Inode,
}

/// One cache: its table's size and what lookups cost.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct CacheStats {
    /// Buckets of the hash table.
    pub buckets: u64,
    /// Objects held.
    pub objects: u64,
    /// Objects that fit.
    pub capacity: u64,
    /// Lookups.
    pub lookups: u64,
    /// Lookups that found their object.
    pub hits: u64,
    /// Links walked by lookups that hit.
    pub links_on_hits: u64,
    /// Links walked by lookups that missed.
    pub links_on_misses: u64,
    /// Length of the longest chain now.
    pub longest_chain: u64,
    /// Memory used, in bytes, table and contents.
    pub bytes: u64,
}

/// What readahead did.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ReadaheadStats {
    /// Windows read ahead.
    pub windows: u64,
    /// Pages read before anyone asked for them.
    pub pages_ahead: u64,
    /// Of these, pages that were used.
    pub pages_used: u64,
    /// Of these, pages evicted before use.
    pub pages_wasted: u64,
}

/// What was read from the device.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct DeviceStats {
    /// Device reads.
    pub reads: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// Everything that is counted.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// The memory budget of all caches, in bytes.
    pub cache_size_bytes: u64,
    /// The page cache.
    pub page: CacheStats,
    /// The buffer cache.
    pub buffer: CacheStats,
    /// The dentry cache.
    pub dentry: CacheStats,
    /// The inode cache.
    pub inode: CacheStats,
    /// Readahead.
    pub readahead: ReadaheadStats,
    /// The device.
    pub device: DeviceStats,
}
