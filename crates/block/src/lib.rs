//! Block devices: where an image's bytes come from.
//!
//! Everything above this crate reads through [`BlockDevice`], which is the seam
//! for fault injection, recording and simulation. A device is a flat array of
//! bytes; offsets and lengths are in bytes and need no alignment.
//!
//! | device | bytes from | for |
//! |---|---|---|
//! | [`FileDevice`] | a regular file or a kernel block device | every mount |
//! | [`DirectDevice`] | the same, past the kernel's page cache | mounts with `direct_device` |
//! | [`MemoryDevice`] | a vector | tests, images made in memory |
//! | [`RemapDevice`] | another device, some blocks from elsewhere on it | journal recovery without writing |
//! | [`CountingDevice`] | another device, reads and bytes counted | statistics |
//! | [`RecordingDevice`] | another device, every read logged | tests of what is read |
//! | [`SimulatedDevice`](simulated::SimulatedDevice) | nowhere: it only takes virtual time | the lab's simulator |
//! | [`FaultyDevice`] | another device, with planned or seeded faults | tests of what happens then |

#![forbid(unsafe_code)]

mod counting;
mod direct;
mod error;
mod faulty;
mod file;
mod memory;
mod recording;
mod remap;
pub mod simulated;

pub use counting::{CountingDevice, ReadCounts};
pub use direct::DirectDevice;
pub use error::{Error, Result};
pub use faulty::FaultyDevice;
pub use file::{FileDevice, FileRange};
pub use memory::MemoryDevice;
pub use recording::{ReadRecord, RecordingDevice};
pub use remap::{Redirect, RemapDevice};

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
        check_range(self.size_bytes(), offset_bytes, total_bytes(bufs))?;
        let mut at_bytes = offset_bytes;
        for buf in bufs {
            self.read_at(buf, at_bytes)?;
            at_bytes += buf.len() as u64;
        }
        Ok(())
    }
}

/// The length of all of `bufs` together.
fn total_bytes(bufs: &[IoSliceMut<'_>]) -> u64 {
    bufs.iter().map(|buf| buf.len() as u64).sum()
}

/// [`Error::OutOfRange`] unless the range lies inside a device of `size_bytes`.
fn check_range(size_bytes: u64, offset_bytes: u64, len_bytes: u64) -> Result<()> {
    match offset_bytes.checked_add(len_bytes) {
        Some(end_bytes) if end_bytes <= size_bytes => Ok(()),
        _ => Err(Error::OutOfRange {
            offset_bytes,
            len_bytes,
            size_bytes,
        }),
    }
}
