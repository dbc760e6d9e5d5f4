//! Statistics of the caches, readahead, the device and writing since the volume was opened.

mod requests;

pub use requests::{BusyProcess, HotFile, HotStats, Load, OperationStats, RequestStats};

use larder_block::{BackEnd, LatencyStats, ServerCounts};
use larder_cache::CacheStats;
use larder_cache::mbcache::{self, Variant};
use larder_cache::tables::Tables;
use larder_cache::tape::{CacheKind, RecordingStats};
use larder_readahead::PolicyName;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings and statistics of readahead.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ReadaheadStats {
    /// The policy. It is `off` if the maximum window is 0.
    #[serde(with = "by_name")]
    pub policy: PolicyName,
    /// The configured maximum window in bytes, rounded up to whole pages.
    pub max_bytes: u64,
    /// The option [`readahead_exact`](crate::OpenOptions::readahead_exact).
    #[serde(default)]
    pub exact: bool,
    /// The number of windows of which at least one page was read ahead.
    pub windows: u64,
    /// The number of pages that were read ahead.
    pub pages_ahead: u64,
    /// The number of pages that were read ahead and then used.
    pub pages_used: u64,
    /// The number of pages that were read ahead, and evicted or discarded before use.
    pub pages_wasted: u64,
}

/// The statistics of the readahead of directory trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeReadaheadStats {
    /// The number of directories that were read ahead.
    pub directories_ahead: u64,
    /// The number of directories that were read ahead and then listed.
    pub directories_used: u64,
}

/// The statistics of device I/O.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeviceStats {
    /// How requests are performed.
    #[serde(default, with = "by_name")]
    pub back_end: BackEnd,
    /// The number of device reads.
    pub reads: u64,
    /// The number of bytes read.
    pub bytes: u64,
    /// The number of device writes.
    pub writes: u64,
    /// The number of bytes written.
    pub written_bytes: u64,
    /// The number of device flushes.
    pub flushes: u64,
    /// The durations of the reads, each from its submission to its completion.
    #[serde(default)]
    pub read_latency: LatencyStats,
    /// The durations of the writes, each from its submission to its completion.
    #[serde(default)]
    pub write_latency: LatencyStats,
    /// The durations of the flushes.
    #[serde(default)]
    pub flush_latency: LatencyStats,
}

/// The state and the statistics of writing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WritingStats {
    /// The size of the dirty content (content that is not on the device yet), in bytes.
    pub dirty_bytes: u64,
    /// The size of the metadata that is not at its final location on the device yet, in bytes. This
    /// metadata takes memory in addition to the caches, at most about a quarter of their size.
    #[serde(default)]
    pub dirty_metadata_bytes: u64,
    /// The number of transactions that were committed. Without a journal, a commit writes the blocks
    /// to their final locations.
    #[serde(default)]
    pub commits: u64,
    /// The number of metadata blocks in these transactions.
    #[serde(default)]
    pub committed_blocks: u64,
    /// The total duration of the commits, in nanoseconds. A commit ends when its transaction is
    /// durable.
    #[serde(default)]
    pub commit_ns: u64,
    /// The durations of the commits.
    #[serde(default)]
    pub commit_latency: LatencyStats,
    /// The number of commits for fsync(2), sync(2), `-o sync` or the unmount.
    #[serde(default)]
    pub sync_commits: u64,
    /// The number of commits of transactions that were 5 seconds old.
    #[serde(default)]
    pub timed_commits: u64,
    /// The number of commits of large transactions, of commits for space in the log, and of commits that made freed
    /// blocks available.
    #[serde(default)]
    pub space_commits: u64,
    /// The number of blocks that were written to the log, including the blocks that the log itself needs, such as
    /// commit blocks. 0 without a journal.
    #[serde(default)]
    pub logged_blocks: u64,
    /// The number of checkpoints, which write committed blocks to their final locations.
    #[serde(default)]
    pub checkpoints: u64,
    /// The durations of the checkpoints.
    #[serde(default)]
    pub checkpoint_latency: LatencyStats,
    /// The number of handles that wait now for a commit or a checkpoint. A handle is a change of metadata.
    #[serde(default)]
    pub waiting_handles: u64,
    /// The times for which handles waited for a commit or a checkpoint. Handles that did not wait do not count.
    #[serde(default)]
    pub handle_wait_latency: LatencyStats,
    /// The reason why all writing stopped, if the volume became read-only because of an error.
    pub read_only_because: Option<String>,
}

/// The statistics of extended attributes that files share on the image.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct AttributeStats {
    /// The implementation of the caches that find equal extended attributes.
    pub variant: Variant,
    /// The statistics of the cache of attribute blocks.
    pub blocks: mbcache::Stats,
    /// The statistics of the cache of value inodes, which contain large attribute values.
    pub inodes: mbcache::Stats,
    /// The number of times that a file began to share an existing attribute block, or that an
    /// attribute began to share an existing value inode.
    pub shares: u64,
    /// The space on the image that sharing has saved since the volume was opened, in bytes. The
    /// value decreases when a file stops sharing a block or inode, even if the sharing began before
    /// the volume was opened. The minimum is 0.
    pub saved_bytes: u64,
}

/// How the kernel passes the requests of a mount to its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountTransport {
    /// Through rings of `io_uring`.
    #[serde(rename = "io_uring")]
    IoUring,
    /// Through /dev/fuse.
    #[serde(rename = "/dev/fuse")]
    Device,
}

impl MountTransport {
    /// Returns the name, which is also the name in JSON: `io_uring` or `/dev/fuse`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Device => "/dev/fuse",
        }
    }
}

impl fmt::Display for MountTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// All statistics of a volume.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// The memory budget of all caches, in bytes.
    pub cache_size_bytes: u64,
    /// The configuration of the tables of the caches.
    #[serde(default)]
    pub tables: Tables,
    /// The statistics of the page cache.
    pub page: CacheStats,
    /// The statistics of the buffer cache.
    pub buffer: CacheStats,
    /// The statistics of the dentry cache.
    pub dentry: CacheStats,
    /// The statistics of the inode cache.
    pub inode: CacheStats,
    /// The settings and statistics of readahead.
    pub readahead: ReadaheadStats,
    /// The statistics of the readahead of directory trees, if it is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_readahead: Option<TreeReadaheadStats>,
    /// The statistics of the device.
    pub device: DeviceStats,
    /// The statistics of the server, if the image is on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerCounts>,
    /// The statistics of shared attributes, if the volume was opened for writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<AttributeStats>,
    /// The state of writing, if the volume was opened for writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writing: Option<WritingStats>,
    /// The statistics of the recording of cache events, if it is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingStats>,
    /// How the kernel passes requests, if the volume is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<MountTransport>,
    /// If the volume is mounted: whether the kernel collects written data in its page cache, and
    /// sends the data to the server later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collects_writes: Option<bool>,
    /// The requests of the kernel, if the volume is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestStats>,
    /// The files and the processes with the most requests, if the volume is mounted. Only the statistics socket reports
    /// them, because they contain paths and names of programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<HotStats>,
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

/// Serializes a value as its name.
mod by_name {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::fmt::Display;
    use std::str::FromStr;

    pub(super) fn serialize<T, S>(value: &T, to: S) -> Result<S::Ok, S::Error>
    where
        T: Display,
        S: Serializer,
    {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
