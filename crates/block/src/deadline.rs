//! A device whose reads time out.
//!
//! Model: the timeout of a command to a SCSI or `NVMe` device. Linux aborts a command that times out. If that
//! fails, Linux resets the device, so that the memory of the command can be reused. A program cannot do this:
//! when a reader stops waiting, the device may still write to the memory of the read. Therefore a request
//! owns its memory, and keeps it until the device answers, if ever.
//!
//! A blocking read call fills the memory of its caller, which a request cannot own. Therefore the call is
//! performed as a request with its own memory, and the result is copied to the caller. Callers that read much
//! data pass requests with their own buffers to [`BlockDevice::perform`], with the timeout of
//! [`BlockDevice::timeout`].
//!
//! These calls have no timeout here, and wait as long as the inner device does:
//!
//! - Flushes. The host can need many minutes to write the cached data of a file to a slow disk, and does not
//!   report progress. If the disk stops answering, the host's own timeout ends the flush.
//! - Writes by blocking calls, and discards.

use crate::buffers::{AlignedBytes, scatter};
use crate::direct::ALIGN_BYTES;
use crate::{BlockDevice, Request, Result, check_range, read_owned, total_bytes, waiting};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

/// A device whose reads fail with [`Error::Deadline`](crate::Error::Deadline) if another device does not answer in time.
#[derive(Debug)]
pub struct DeadlineDevice {
    inner: Arc<dyn BlockDevice>,
    timeout: Duration,
}

impl DeadlineDevice {
    /// Creates a device whose reads fail if `inner` does not answer within `timeout`.
    ///
    /// `inner` must perform requests on other threads or by `io_uring`. With
    /// [`BackEnd::Calls`](crate::BackEnd::Calls), reads never time out.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>, timeout: Duration) -> Self {
        Self { inner, timeout }
    }

    /// Returns `len_bytes` bytes at `offset_bytes`.
    fn read(&self, len_bytes: u64, offset_bytes: u64) -> Result<AlignedBytes> {
        waiting::check();
        // The range is checked before the memory is allocated.
        check_range(self.size_bytes(), offset_bytes, len_bytes)?;
        // The memory is aligned, so that direct I/O needs no bounce memory.
        let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
        let bytes = AlignedBytes::zeroed(len, ALIGN_BYTES);
        read_owned(&*self.inner, bytes, offset_bytes, Some(self.timeout))
    }
}

impl BlockDevice for DeadlineDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn inner(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.inner)
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        let bytes = self.read(buf.len() as u64, offset_bytes)?;
        buf.copy_from_slice(&bytes);
        Ok(())
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        let bytes = self.read(total_bytes(bufs), offset_bytes)?;
        scatter(&bytes, bufs, 0);
        Ok(())
    }

    fn submit(&self, requests: Vec<Request>) {
        self.inner.submit(requests);
    }

    fn perform(&self, requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        self.inner.perform(requests, timeout)
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    fn unchanged_bytes(&self, offset_bytes: u64, len_bytes: u64) -> u64 {
        self.inner.unchanged_bytes(offset_bytes, len_bytes)
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.inner.write_at(buf, offset_bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        self.inner.write_vectored_at(bufs, offset_bytes)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        self.inner.discard(offset_bytes, len_bytes)
    }
}
