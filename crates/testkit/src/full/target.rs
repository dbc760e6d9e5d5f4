//! A way into a file system.

use super::FileNo;
use larder::Fallocate;
use rustix::io::Result;
use std::time::Duration;

/// Clusters of mapping and reserve, for ours.
pub(super) const SLACK_CLUSTERS: u64 = 16;

/// A way into a file system: the files of its root directory, all held open.
pub trait Target: Sized {
    /// Space for mappings, and what the file system keeps in reserve. The image is full only while
    /// less than this is available beyond what a call needs.
    fn slack_bytes(&self, cluster_bytes: u64) -> u64 {
        SLACK_CLUSTERS * cluster_bytes
    }

    /// Makes an empty file and opens it.
    fn create(&mut self, file: FileNo) -> Result<()>;

    /// Closes and removes a file.
    fn remove(&mut self, file: FileNo) -> Result<()>;

    /// As pwrite(2).
    fn write(&self, file: FileNo, buf: &[u8], offset_bytes: u64, direct: bool) -> Result<usize>;

    /// As ftruncate(2).
    fn truncate(&self, file: FileNo, size_bytes: u64) -> Result<()>;

    /// As fallocate(2).
    fn range(&self, file: FileNo, mode: Fallocate, offset_bytes: u64, len_bytes: u64)
    -> Result<()>;

    /// As `copy_file_range(2)`.
    fn copy(&self, from: (FileNo, u64), to: (FileNo, u64), len_bytes: u64) -> Result<u64>;

    /// As fsync(2).
    fn sync(&self, file: FileNo) -> Result<()>;

    /// As syncfs(2).
    fn sync_all(&self) -> Result<()>;

    /// The file's bytes, as many as stat(2) says.
    fn content(&self, file: FileNo) -> Result<Vec<u8>>;

    /// The bytes that a user may still write.
    fn available_bytes(&self) -> Result<u64>;

    /// How long the space of a removed file may take to be available.
    fn frees_within(&self) -> Duration {
        Duration::ZERO
    }

    /// Drops the file's clean content from the caches, as `posix_fadvise(2)` with
    /// `POSIX_FADV_DONTNEED`.
    fn evict(&self, file: FileNo) -> Result<()>;

    /// Closes everything, so that the image is clean, and opens it again.
    ///
    /// # Errors
    /// Why it cannot be closed or opened.
    fn remount(&mut self) -> std::result::Result<(), String>;

    /// Another target, which shows what is left if the power fails now; `None` where that cannot
    /// be known.
    ///
    /// # Errors
    /// Why what is left cannot be opened.
    fn after_power_cut(&self) -> Option<std::result::Result<Self, String>> {
        None
    }
}
