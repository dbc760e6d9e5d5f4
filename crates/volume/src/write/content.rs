//! Public operations on content: write, truncate, allocate, copy, sync, close and trim.

use super::Fallocate;
use super::names::{FIXED, check_flags};
use super::writing::Writing;
use crate::read::check_content;
use crate::write_back::Times;
use crate::{Ino, Result, Volume};
use larder_ext4::Error;
use larder_ext4::ondisk::features::Incompat;
use larder_ext4::ondisk::inode::InodeFlags;
use std::sync::atomic::Ordering::Relaxed;

/// The maximum number of bytes that [`Volume::copy_range`] copies with one read and one write.
const COPY_BYTES: u64 = 1 << 20;

impl Volume {
    /// Writes `buf` at `offset_bytes` of a regular file, and returns the number of bytes written.
    /// The result is less than the length of `buf` if the write ended early, for example for lack
    /// of space. The write does not change the file after the last written byte, and does not
    /// extend the file past that byte.
    ///
    /// # Errors
    /// If nothing was written: `ENOSPC`, `EFBIG`, `EIO`, `EROFS`, …, or an error of the image.
    pub fn write_at(&self, ino: Ino, buf: &[u8], offset_bytes: u64) -> Result<usize> {
        let mut writing = Writing::new(buf, offset_bytes);
        self.write_some(ino, &mut writing)?;
        Ok(writing.done())
    }

    /// Writes `buf` at the end of a regular file, like write(2) with `O_APPEND`. Returns the offset
    /// at which the write began, and the number of bytes written, which can be less than the length
    /// of `buf`, as for [`Volume::write_at`].
    ///
    /// The end is determined, and the data written, under one lock of the inode. Therefore appends
    /// by several threads do not overwrite each other.
    ///
    /// # Errors
    /// The same as for [`Volume::write_at`].
    pub fn append(&self, ino: Ino, buf: &[u8]) -> Result<(u64, usize)> {
        let mut writing = Writing::append(buf);
        self.write_some(ino, &mut writing)?;
        Ok((writing.offset_bytes(), writing.done()))
    }

    /// Performs `writing`. An error after a part was written is ignored.
    fn write_some(&self, ino: Ino, writing: &mut Writing<'_>) -> Result<()> {
        match self.writer.change_once(|| self.writer.write(ino, writing)) {
            Err(error) if writing.done() == 0 => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns an error if the flags of the file forbid an open for writing. An append-only file can
    /// be opened for appends. Model: `may_open`.
    ///
    /// # Errors
    /// `EPERM`, or an error of the image.
    pub(crate) fn check_open_for_writing(&self, ino: Ino, appends: bool) -> Result<()> {
        let forbidding = if appends {
            InodeFlags::IMMUTABLE
        } else {
            FIXED
        };
        check_flags(&self.inode(ino)?, forbidding)
    }

    /// Writes all of `buf` at `offset_bytes` of a regular file.
    ///
    /// # Errors
    /// The error that ended the write early, or an error of write-back after all bytes were written.
    /// The bytes that were written before the error stay in the file.
    pub fn write_all_at(&self, ino: Ino, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.write_all(ino, Writing::new(buf, offset_bytes))
    }

    /// Returns the maximum free space, in bytes, that a write of `bytes` of content in whole pages can need.
    /// In the worst case, each page is in a hole of its own. Each page then needs a cluster and, without
    /// extents, also a block for the mapping.
    #[must_use]
    pub fn space_for_pages(&self, bytes: u64) -> u64 {
        let superblock = self.fs().superblock();
        let cluster_bytes = self.inodes.block_bytes() << superblock.cluster_blocks_log2;
        let clusters = bytes.div_ceil(self.inodes.page_bytes());
        let content = bytes.max(clusters.saturating_mul(cluster_bytes));
        if superblock.incompat.contains(Incompat::EXTENTS) {
            content
        } else {
            content.saturating_mul(2)
        }
    }

    /// Sets aside `bytes` of the free space for [`Volume::write_accepted_at`]. Any other operation fails with
    /// `ENOSPC` if it would leave less than `bytes` of free space. The exception is an operation that needs
    /// space only to map content whose blocks are already allocated. The value replaces that of an earlier
    /// call.
    ///
    /// # Errors
    /// `EROFS`.
    pub fn set_aside(&self, bytes: u64) -> Result<()> {
        let blocks = bytes.div_ceil(self.inodes.block_bytes());
        Ok(self.fs().set_aside(blocks)?)
    }

    /// Writes all of `buf` like [`Volume::write_all_at`], and may use the space that is set aside. For
    /// content that a program wrote earlier, and that a cache above the volume, such as the kernel's page
    /// cache, has accepted.
    ///
    /// # Errors
    /// The same as for [`Volume::write_all_at`].
    pub fn write_accepted_at(&self, ino: Ino, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.write_all(ino, Writing::accepted(buf, offset_bytes))
    }

    fn write_all(&self, ino: Ino, mut writing: Writing<'_>) -> Result<()> {
        if writing.is_done() {
            return Ok(());
        }
        self.writer
            .change_once(|| self.writer.write(ino, &mut writing))
    }

    /// Sets the size of the file to `size_bytes`.
    ///
    /// # Errors
    /// The same as for [`Volume::write_at`].
    pub fn truncate(&self, ino: Ino, size_bytes: u64) -> Result<()> {
        self.writer.change(|| {
            let live = self.live(ino)?;
            let exclusive = live.lock()?;
            let balance = self.writer.write_back.begin_balance()?;
            self.writer.truncate(&live, size_bytes)?;
            drop(exclusive);
            self.writer.write_back.balance_dirty(balance);
            Ok(())
        })
    }

    /// Applies the fallocate(2) operation `mode` to a range of a regular file.
    ///
    /// # Errors
    /// The same as for fallocate(2), or an error of the image.
    pub fn fallocate(
        &self,
        ino: Ino,
        mode: Fallocate,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<()> {
        let live = self.live(ino)?;
        if len_bytes == 0 {
            return Err(Error::Invalid(ino, "the range is empty").into());
        }
        let end_bytes = offset_bytes.checked_add(len_bytes);
        let end_bytes = end_bytes.ok_or(Error::FileTooLarge(ino))?;
        let run = || {
            let _exclusive = live.rw.write();
            self.writer.fallocate(&live, mode, offset_bytes..end_bytes)
        };
        match mode {
            // A retry after a partial move would move some content twice.
            Fallocate::Collapse | Fallocate::Insert => self.writer.change_once(run),
            _ => self.writer.change(run),
        }
    }

    /// Copies `len_bytes` bytes from one file of the volume to another, or within one file. Copies
    /// fewer bytes if `from` ends earlier, or if an error such as a lack of space ends the copy.
    /// Returns the number of bytes copied.
    ///
    /// # Errors
    /// If nothing was copied: the same as for `copy_file_range(2)`, or an error of the image.
    pub fn copy_range(
        &self,
        from: Ino,
        from_bytes: u64,
        to: Ino,
        to_bytes: u64,
        len_bytes: u64,
    ) -> Result<u64> {
        check_content(&self.inode(to)?)?;
        // The end of the source is determined once, because the copy may extend the same file.
        let left = self.inode(from)?.size_bytes().saturating_sub(from_bytes);
        let len_bytes = len_bytes.min(left);
        let from_end = from_bytes.saturating_add(len_bytes);
        let to_end = to_bytes.saturating_add(len_bytes);
        if from == to && from_bytes < to_end && to_bytes < from_end {
            return Err(Error::Invalid(to, "the source and the target range overlap").into());
        }
        let mut buf = vec![0; usize::try_from(len_bytes.min(COPY_BYTES)).unwrap_or(0)];
        let mut done = 0;
        while done < len_bytes {
            let want = usize::try_from(len_bytes - done).map_or(buf.len(), |n| n.min(buf.len()));
            let copied = self
                .read_once(from, &mut buf[..want], from_bytes + done)
                .and_then(|len| self.write_at(to, &buf[..len], to_bytes + done));
            match copied {
                Ok(0) => break,
                Ok(len) => done += len as u64,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Makes the content and the inode of the file durable, like fsync(2). With `data_only`, makes
    /// durable only what is needed to read the content, like fdatasync(2). For a directory, makes
    /// the names durable in both cases.
    ///
    /// # Errors
    /// `EIO`, an error of write-back, or the earlier error that stopped all writing.
    pub fn sync_file(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.writer.change_once(|| {
            if self.inodes.live.is_none() {
                return Ok(());
            }
            let live = self.live(ino)?;
            // Check that the inode was not deleted.
            live.inode()?;
            let times = if data_only {
                Times::Deferred
            } else {
                Times::Written
            };
            let write_back = &self.writer.write_back;
            write_back.write_files(std::slice::from_ref(&live), times)?;
            let tid = match live.sync_tid(data_only) {
                Some(tid) => tid,
                None => self.fs().running_tid()?,
            };
            self.fs().commit(tid)?;
            live.set_sync_tid(tid);
            live.state().is_replaced = false;
            Ok(())
        })
    }

    /// Makes all changes of the volume durable, like syncfs(2).
    ///
    /// # Errors
    /// The same as for [`Volume::sync_file`].
    pub fn sync(&self) -> Result<()> {
        self.writer.change_once(|| {
            if self.inodes.live.is_none() {
                return Ok(());
            }
            self.writer.write_back.write_all_and_commit()
        })
    }

    /// Writes back all content, commits, checkpoints, and marks the image as clean. After that,
    /// nothing can be written. Dropping the volume also closes it, but can only log an error.
    ///
    /// # Errors
    /// The same as for [`Volume::sync_file`].
    pub fn close(&self) -> Result<()> {
        if self.inodes.live.is_none() || self.is_closed.swap(true, Relaxed) {
            return Ok(());
        }
        // Stop the flusher, and wait until its current action ends.
        drop(self.flusher.lock().take());
        let written = self.writer.write_back.write_all();
        let closed = self.fs().close();
        drop(self.keeper.lock().take());
        written?;
        Ok(closed?)
    }

    /// Discards the free space in the range `bytes` of the image, like `FITRIM`. Leaves out runs of
    /// free space that are shorter than `min_bytes`. Returns the number of bytes discarded.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the file or device with the image does not support discards, or an error of
    /// the image.
    pub fn trim(&self, bytes: std::ops::Range<u64>, min_bytes: u64) -> Result<u64> {
        // Freed blocks can be discarded only after the transaction that freed them is committed.
        self.fs().commit(self.fs().running_tid()?)?;
        Ok(self.fs().trim(bytes, min_bytes)?)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "closing the volume failed");
        }
    }
}
