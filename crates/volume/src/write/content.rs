//! Operations on content: write, truncate, allocate, sync.

use super::Fallocate;
use super::pages::Writing;
use crate::read::check_content;
use crate::write_back::Times;
use crate::{Ino, Result, Volume};
use larder_ext4::Error;
use std::sync::atomic::Ordering::Relaxed;

/// The number of bytes that [`Volume::copy_range`] copies at once.
const COPY_BYTES: u64 = 1 << 20;

impl Volume {
    /// Writes `buf` at `offset_bytes` of a regular file, and returns the number of bytes written.
    /// This is less than the whole length if the write ended early, for example for lack of space.
    /// The bytes that are not written stay unchanged, and the file is not extended past those that
    /// are.
    ///
    /// # Errors
    /// If nothing was written: `ENOSPC`, `EFBIG`, `EIO`, `EROFS`, …, or an error of the image.
    pub fn write_at(&self, ino: Ino, buf: &[u8], offset_bytes: u64) -> Result<usize> {
        let mut writing = Writing::new(buf, offset_bytes);
        match self.writer.change(|| self.writer.write(ino, &mut writing)) {
            Err(error) if writing.done() == 0 => Err(error),
            _ => Ok(writing.done()),
        }
    }

    /// Writes all of `buf` at `offset_bytes` of a regular file.
    ///
    /// # Errors
    /// The error that ended [`Volume::write_at`] early. The part that was written stays.
    pub fn write_all_at(&self, ino: Ino, buf: &[u8], offset_bytes: u64) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset_bytes.saturating_add(done as u64);
            done += self.write_at(ino, &buf[done..], at)?;
        }
        Ok(())
    }

    /// Sets the size of the file to `size_bytes`.
    ///
    /// # Errors
    /// The same as for [`Volume::write_at`].
    pub fn truncate(&self, ino: Ino, size_bytes: u64) -> Result<()> {
        self.writer.change(|| {
            let live = self.live(ino)?;
            let exclusive = live.rw.write();
            self.writer.truncate(&live, size_bytes)?;
            drop(exclusive);
            self.writer.write_back.balance_dirty();
            Ok(())
        })
    }

    /// Allocates, removes or moves a range of a regular file.
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
            // A retry after a partial move would move the rest twice.
            Fallocate::Collapse | Fallocate::Insert => self.writer.change_once(run),
            _ => self.writer.change(run),
        }
    }

    /// Copies at most `len_bytes` within the volume; less at the end of `from`, or if space runs
    /// out. Returns the number of bytes copied.
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
        // The present end of the file, even if the copy extends the same file.
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

    /// Makes the file durable: content and inode, or with `data_only` only the state that a read of
    /// the content needs, like fdatasync(2). For a directory, this includes its names.
    ///
    /// # Errors
    /// `EIO`, or an earlier error of background write-back.
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

    /// Makes everything durable, like syncfs(2).
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

    /// Writes back, commits, checkpoints, and leaves the image clean. Dropping the volume does the
    /// same, but cannot return an error. After this, nothing can be written.
    ///
    /// # Errors
    /// The same as for [`Volume::sync_file`].
    pub fn close(&self) -> Result<()> {
        if self.inodes.live.is_none() || self.is_closed.swap(true, Relaxed) {
            return Ok(());
        }
        // The flusher may be running, but starts nothing new.
        drop(self.flusher.lock().take());
        let written = self.writer.write_back.write_all();
        let closed = self.fs().close();
        drop(self.keeper.lock().take());
        written?;
        Ok(closed?)
    }

    /// Discards the free space in the given bytes of the image, in runs of at least `min_bytes`, if
    /// the underlying file or device supports it. Returns the number of bytes discarded.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if it is not supported, or an error of the image.
    pub fn trim(&self, bytes: std::ops::Range<u64>, min_bytes: u64) -> Result<u64> {
        // Freed blocks can be discarded only after the commit.
        self.fs().commit(self.fs().running_tid()?)?;
        Ok(self.fs().trim(bytes, min_bytes)?)
    }
}
