//! The interface of all devices.

use crate::{Error, Result};
use std::fmt::Debug;
use std::io::{IoSlice, IoSliceMut};

/// An array of bytes, safe to share between threads, and perhaps writable.
///
/// Implementations must be free of hidden state that makes two reads of the
/// same range differ: the caches above assume that only they write.
///
/// What was written is read back at once, but is durable only once a
/// [`flush`](BlockDevice::flush) that began after the write's return has returned.
/// A write cut short by a loss of power may have reached any of its sectors of
/// 512 bytes; writes between two flushes may become durable in any order.
pub trait BlockDevice: Debug + Send + Sync {
    /// Size in bytes.
    fn size_bytes(&self) -> u64;

    /// Fills `buf` with the bytes at `offset_bytes`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the range does not lie inside the device,
    /// [`Error::Io`] if the device fails. `buf` is then unspecified.
    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()>;

    /// Fills `bufs`, one after the other, with the bytes at `offset_bytes`:
    /// one device read where the device can scatter.
    ///
    /// # Errors
    /// As [`BlockDevice::read_at`].
    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes(), offset_bytes, total_bytes(bufs))?;
        let mut at_bytes = offset_bytes;
        for buf in bufs {
            self.read_at(buf, at_bytes)?;
            at_bytes += buf.len() as u64;
        }
        Ok(())
    }

    /// Whether the device can be written to. If not, every write fails.
    fn is_writable(&self) -> bool {
        false
    }

    /// Writes `buf` at `offset_bytes`.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::OutOfRange`], or [`Error::Write`] if the device
    /// fails; any part of the range may then have been written.
    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        let _ = (buf, offset_bytes);
        Err(Error::ReadOnly)
    }

    /// Writes `bufs`, one after the other, at `offset_bytes`: one device write
    /// where the device can gather.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`].
    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes(), offset_bytes, gathered_bytes(bufs))?;
        let mut at_bytes = offset_bytes;
        for buf in bufs {
            self.write_at(buf, at_bytes)?;
            at_bytes += buf.len() as u64;
        }
        Ok(())
    }

    /// Makes durable all that was written before.
    ///
    /// # Errors
    /// [`Error::Flush`]; what of it is durable is then unknown.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Gives back the space below `len_bytes` from `offset_bytes` on, whose content is
    /// then unspecified until it is written again. False if the device cannot.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`].
    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        let _ = (offset_bytes, len_bytes);
        Ok(false)
    }
}

/// The length of all of `bufs` together.
#[must_use]
pub fn gathered_bytes(bufs: &[IoSlice<'_>]) -> u64 {
    bufs.iter().map(|buf| buf.len() as u64).sum()
}

/// The length of all of `bufs` together.
#[must_use]
pub fn total_bytes(bufs: &[IoSliceMut<'_>]) -> u64 {
    bufs.iter().map(|buf| buf.len() as u64).sum()
}

/// Checks that a range lies inside a device of `size_bytes`.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn check_range(size_bytes: u64, offset_bytes: u64, len_bytes: u64) -> Result<()> {
    match offset_bytes.checked_add(len_bytes) {
        Some(end_bytes) if end_bytes <= size_bytes => Ok(()),
        _ => Err(Error::OutOfRange {
            offset_bytes,
            len_bytes,
            size_bytes,
        }),
    }
}
