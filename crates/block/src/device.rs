//! The interface of all devices.

use crate::{Error, Result};
use std::fmt::Debug;
use std::io::{IoSlice, IoSliceMut};

/// An array of bytes that threads can share, and that may be writable.
///
/// Two reads of the same range must return the same bytes unless the range was written in between:
/// the caches above assume that only they write.
///
/// Written bytes can be read back at once. They are durable only after a
/// [`flush`](BlockDevice::flush) has returned that began after the write returned. If power is lost
/// during a write, any of its 512-byte sectors may have been written. Writes between two flushes
/// may become durable in any order.
pub trait BlockDevice: Debug + Send + Sync {
    /// Returns the size in bytes.
    fn size_bytes(&self) -> u64;

    /// Fills `buf` with the bytes at `offset_bytes`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the range is not inside the device, [`Error::Io`] if the device
    /// fails. The content of `buf` is then unspecified.
    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()>;

    /// Fills `bufs`, in order, with the bytes at `offset_bytes`. This is one device read if the
    /// device supports vectored reads.
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

    /// Returns true if the device can be written to. If not, every write fails.
    fn is_writable(&self) -> bool {
        false
    }

    /// Writes `buf` at `offset_bytes`.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::OutOfRange`], or [`Error::Write`] if the device fails. Any
    /// part of the range may then have been written.
    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        let _ = (buf, offset_bytes);
        Err(Error::ReadOnly)
    }

    /// Writes `bufs`, in order, at `offset_bytes`. This is one device write if the device supports
    /// vectored writes.
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

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// [`Error::Flush`]. It is then unknown which writes are durable.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Discards `len_bytes` at `offset_bytes`. The content of the range is unspecified until it is
    /// written again. Returns false if the device does not support this.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`].
    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        let _ = (offset_bytes, len_bytes);
        Ok(false)
    }
}

/// Returns the total length of `bufs`.
#[must_use]
pub fn gathered_bytes(bufs: &[IoSlice<'_>]) -> u64 {
    bufs.iter().map(|buf| buf.len() as u64).sum()
}

/// Returns the total length of `bufs`.
#[must_use]
pub fn total_bytes(bufs: &[IoSliceMut<'_>]) -> u64 {
    bufs.iter().map(|buf| buf.len() as u64).sum()
}

/// Checks that a range is inside a device of `size_bytes`.
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
