//! Statistics of the caches and the device since the volume was opened.

use larder_cache::CacheStats;
use larder_cache::mbcache::{self, Variant};
use larder_cache::tables::Tables;
use larder_cache::tape::{CacheKind, RecordingStats};
use larder_readahead::PolicyName;
use serde::{Deserialize, Serialize};

/// Readahead settings and statistics.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ReadaheadStats {
    /// The policy: `off` if there are no readahead threads or the largest window is 0.
    #[serde(with = "by_name")]
    pub policy: PolicyName,
    /// The configured largest window in bytes, in whole pages.
    pub max_bytes: u64,
    /// Readahead threads.
    pub threads: usize,
    /// Windows read ahead.
    pub windows: u64,
    /// Pages read before they were requested.
    pub pages_ahead: u64,
    /// Pages read ahead and then used.
    pub pages_used: u64,
    /// Pages read ahead and evicted before use.
    pub pages_wasted: u64,
}

/// Device I/O statistics.
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

/// The state of writing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WritingStats {
    /// Content that is not on the device yet, in bytes.
    pub dirty_bytes: u64,
    /// Metadata that is not at its home on the device yet, in bytes. It is kept in memory beside
    /// the caches, at most about a quarter of their size.
    #[serde(default)]
    pub dirty_metadata_bytes: u64,
    /// The reason why the volume became read-only, if a write failed.
    pub read_only_because: Option<String>,
}

/// Attributes that files share, since the volume was opened.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct AttributeStats {
    /// The cache that finds equal attributes of another file.
    pub variant: Variant,
    /// The cache of attribute blocks.
    pub blocks: mbcache::Stats,
    /// The cache of inodes that contain values.
    pub inodes: mbcache::Stats,
    /// Files that share an existing attribute block, and entries that share an existing value
    /// inode.
    pub shares: u64,
    /// Space on the image that is saved by sharing, in bytes. When a file stops using something
    /// that was shared before the volume was opened, this also decreases, to 0 at the lowest.
    pub saved_bytes: u64,
}

/// All statistics.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// The memory budget of all caches, in bytes.
    pub cache_size_bytes: u64,
    /// The tables of the caches, as configured.
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
    /// Writing, if the volume was opened for writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writing: Option<WritingStats>,
    /// The recording of cache events, if enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingStats>,
}

impl Stats {
    /// Returns the statistics of the four caches.
    #[must_use]
    pub fn caches(&self) -> [(CacheKind, &CacheStats); 4] {
        CacheKind::ALL.map(|kind| (kind, self.cache(kind)))
    }

    /// Returns the statistics of one cache.
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

/// Serializes a policy as its name.
mod by_name {
    use larder_readahead::PolicyName;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde requires a reference"
    )]
    pub(super) fn serialize<S: Serializer>(name: &PolicyName, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(name.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PolicyName, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
