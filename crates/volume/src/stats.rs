//! What the caches and the device did, counted since the volume was opened.

use larder_cache::CacheStats;
use larder_cache::mbcache::{self, Variant};
use larder_cache::tables::Tables;
use larder_cache::tape::{CacheKind, RecordingStats};
use larder_readahead::PolicyName;
use serde::{Deserialize, Serialize};

/// How readahead is set, and what it did.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ReadaheadStats {
    /// The policy: `off` where there is no thread, or no window, to read ahead with.
    #[serde(with = "by_name")]
    pub policy: PolicyName,
    /// The largest window in bytes, as set: whole pages.
    pub max_bytes: u64,
    /// Threads that read ahead.
    pub threads: usize,
    /// Windows read ahead.
    pub windows: u64,
    /// Pages read before anyone asked for them.
    pub pages_ahead: u64,
    /// Of these, pages that were used.
    pub pages_used: u64,
    /// Of these, pages evicted before use.
    pub pages_wasted: u64,
}

/// What was read from the device, and written to it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct DeviceStats {
    /// Device reads.
    pub reads: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Device writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
}

/// How writing stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WritingStats {
    /// Content that is not on the device yet, in bytes.
    pub dirty_bytes: u64,
    /// Metadata that is not in its place on the device yet, in bytes: kept in memory beside the
    /// caches, at most about a quarter of their size.
    #[serde(default)]
    pub dirty_metadata_bytes: u64,
    /// Why nothing is written any more, if something failed.
    pub read_only_because: Option<String>,
}

/// Attributes that files share, since the volume was opened.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct AttributeStats {
    /// What finds attributes that another file has already.
    pub variant: Variant,
    /// The cache of attribute blocks.
    pub blocks: mbcache::Stats,
    /// The cache of inodes that hold values.
    pub inodes: mbcache::Stats,
    /// Files that were given a block, and entries that were given an inode, that was there already.
    pub shares: u64,
    /// Space on the image that these would take, as far as they still share, in bytes. Who leaves what was
    /// shared before the volume was opened takes as much off, down to 0.
    pub saved_bytes: u64,
}

/// Everything that is counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// The memory budget of all caches, in bytes.
    pub cache_size_bytes: u64,
    /// The tables of the caches, as they were chosen.
    #[serde(default)]
    pub tables: Tables,
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
    /// Shared attributes, if the volume was opened for writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<AttributeStats>,
    /// Writing, if the volume was opened for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writing: Option<WritingStats>,
    /// What the caches are asked, if that is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingStats>,
}

impl Stats {
    /// The four caches.
    #[must_use]
    pub fn caches(&self) -> [(CacheKind, &CacheStats); 4] {
        CacheKind::ALL.map(|kind| (kind, self.cache(kind)))
    }

    /// One of them.
    #[must_use]
    pub fn cache(&self, kind: CacheKind) -> &CacheStats {
        match kind {
            CacheKind::Page => &self.page,
            CacheKind::Buffer => &self.buffer,
            CacheKind::Dentry => &self.dentry,
            CacheKind::Inode => &self.inode,
        }
    }
}

/// A policy as its name.
mod by_name {
    use larder_readahead::PolicyName;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(name: &PolicyName, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(name.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PolicyName, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
