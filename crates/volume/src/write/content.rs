//! Operations on content: writing, cutting, allocating, making durable.

use super::Fallocate;
use crate::{Ino, Result, Volume};

impl Volume {
    /// Writes `buf` at `offset_bytes` of a regular file, all of it or nothing but an error.
    ///
    /// # Errors
    /// `ENOSPC`, `EFBIG`, `EIO`, `EROFS`, …, or what is wrong with the image.
    pub fn write_at(&self, ino: Ino, buf: &[u8], offset_bytes: u64) -> Result<usize> {
        let _ = (ino, buf, offset_bytes);
        todo!()
    }

    /// Makes the file as long as `size_bytes`.
    ///
    /// # Errors
    /// As [`Volume::write_at`].
    pub fn truncate(&self, ino: Ino, size_bytes: u64) -> Result<()> {
        let _ = (ino, size_bytes);
        todo!()
    }

    /// Allocates, removes or moves a range of a regular file.
    ///
    /// # Errors
    /// As fallocate(2), or what is wrong with the image.
    pub fn fallocate(
        &self,
        ino: Ino,
        mode: Fallocate,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<()> {
        let _ = (ino, mode, offset_bytes, len_bytes);
        todo!()
    }

    /// Copies within the volume, at most `len_bytes`; less at the end of `from`. Returns the bytes
    /// copied.
    ///
    /// # Errors
    /// As copy_file_range(2), or what is wrong with the image.
    pub fn copy_range(
        &self,
        from: Ino,
        from_bytes: u64,
        to: Ino,
        to_bytes: u64,
        len_bytes: u64,
    ) -> Result<u64> {
        let _ = (from, from_bytes, to, to_bytes, len_bytes);
        todo!()
    }

    /// Makes the file durable: content and inode, or with `data_only` what reading the content
    /// back needs, as fdatasync(2). A directory's names too.
    ///
    /// # Errors
    /// `EIO`, and whatever went wrong earlier in the background.
    pub fn sync_file(&self, ino: Ino, data_only: bool) -> Result<()> {
        let _ = (ino, data_only);
        todo!()
    }

    /// Makes everything durable, as syncfs(2).
    ///
    /// # Errors
    /// As [`Volume::sync_file`].
    pub fn sync(&self) -> Result<()> {
        todo!()
    }

    /// Writes back, commits, checkpoints, and leaves the image clean: what dropping the volume
    /// does too, but with nobody to tell what went wrong. Nothing can be written afterwards.
    ///
    /// # Errors
    /// As [`Volume::sync_file`].
    pub fn close(&self) -> Result<()> {
        todo!()
    }

    /// Discards free space in the given bytes of the image where the file below it can give it
    /// back, in runs of at least `min_bytes`. Returns the bytes discarded.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where it cannot, or what is wrong with the image.
    pub fn trim(&self, bytes: std::ops::Range<u64>, min_bytes: u64) -> Result<u64> {
        let _ = (bytes, min_bytes);
        todo!()
    }
}
