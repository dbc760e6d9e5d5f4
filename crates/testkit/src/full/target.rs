//! An interface of a file system.

use super::FileNo;
use larder::Fallocate;
use rustix::io::Result;

/// Clusters that Larder needs for mappings and keeps in reserve.
pub(super) const SLACK_CLUSTERS: u64 = 16;

/// An interface of a file system: the files of its root directory, all held open.
pub trait Target: Sized {
    /// Returns the space for mappings and the reserve of the file system, in bytes. The image counts as full
    /// for a call if the available space is less than the sum of this space and the space that the call needs.
    fn slack_bytes(&self, cluster_bytes: u64) -> u64 {
        SLACK_CLUSTERS * cluster_bytes
    }

    /// Creates an empty file and opens it.
    fn create(&mut self, file: FileNo) -> Result<()>;

    /// Closes and removes a file, and returns when its space is available.
    fn remove(&mut self, file: FileNo) -> Result<()>;

    /// Writes as pwrite(2) does.
    fn write(&self, file: FileNo, buf: &[u8], offset_bytes: u64, direct: bool) -> Result<usize>;

    /// Sets the size as ftruncate(2) does.
    fn truncate(&self, file: FileNo, size_bytes: u64) -> Result<()>;

    /// Changes a range as fallocate(2) does.
    fn range(&self, file: FileNo, mode: Fallocate, offset_bytes: u64, len_bytes: u64)
    -> Result<()>;

    /// Copies as `copy_file_range(2)` does.
    fn copy(&self, from: (FileNo, u64), to: (FileNo, u64), len_bytes: u64) -> Result<u64>;

    /// Syncs the file as fsync(2) does.
    fn sync(&self, file: FileNo) -> Result<()>;

    /// Syncs everything as syncfs(2) does.
    fn sync_all(&self) -> Result<()>;

    /// Returns the content of the file, up to its size according to stat(2).
    fn content(&self, file: FileNo) -> Result<Vec<u8>>;

    /// Returns the number of bytes that a user may still write.
    fn available_bytes(&self) -> Result<u64>;

    /// Drops the file's clean content from the caches, as `posix_fadvise(2)` does with
    /// `POSIX_FADV_DONTNEED`.
    fn evict(&self, file: FileNo) -> Result<()>;

    /// Closes everything, so that the image is clean, and opens it again.
    ///
    /// # Errors
    /// Returns the reason why it cannot be closed or opened.
    fn remount(&mut self) -> std::result::Result<(), String>;

    /// Returns another target with the state after a loss of power at this time, or `None` if that is
    /// unknown.
    ///
    /// # Errors
    /// Returns the reason why that state cannot be opened.
    fn after_power_cut(&self) -> Option<std::result::Result<Self, String>> {
        None
    }
}
