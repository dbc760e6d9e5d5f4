//! Block devices: where an image's bytes come from.
//!
//! Everything above this crate reads through [`BlockDevice`], which is the seam
//! for fault injection, recording and simulation. A device is a flat array of
//! bytes; offsets and lengths are in bytes and need no alignment.

mod error;
mod memory;

pub use error::{Error, Result};
pub use memory::MemoryDevice;

use std::fmt::Debug;
use std::io::IoSliceMut;

/// A readable array of bytes, safe to share between threads.
///
/// Implementations must be free of hidden state that makes two reads of the
/// same range differ: the caches above assume that a device that nobody writes
/// to never changes.
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
        let mut at = offset_bytes;
        for buf in bufs {
            self.read_at(buf, at)?;
            at += buf.len() as u64;
        }
        Ok(())
    }
}
