//! A device that counts its reads and writes.

use crate::{BlockDevice, Request, Result, gathered_bytes, total_bytes};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A device that counts the requests that reach an inner device.
///
/// The counters are statistics: each is exact, but [`CountingDevice::counts`] does not read all of
/// them at one instant.
#[derive(Debug)]
pub struct CountingDevice {
    inner: Arc<dyn BlockDevice>,
    reads: AtomicU64,
    bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
    requests: AtomicU64,
}

/// Counts of a [`CountingDevice`]. Failed requests count as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Reads. A vectored read counts as one.
    pub reads: u64,
    /// Bytes that reads requested.
    pub bytes: u64,
    /// Writes. A vectored write counts as one.
    pub writes: u64,
    /// Bytes that writes requested.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Reads and writes that were passed to [`BlockDevice::submit`] or [`BlockDevice::perform`].
    pub requests: u64,
}

impl CountingDevice {
    /// Creates a device that counts the requests to `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        Self {
            inner,
            reads: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> IoCounts {
        IoCounts {
            reads: self.reads.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            flushes: self.flushes.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
        }
    }

    fn count(&self, bytes: u64) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn count_requests(&self, requests: &[Request]) {
        self.requests
            .fetch_add(requests.len() as u64, Ordering::Relaxed);
        for request in requests {
            let len_bytes = request.len_bytes();
            if request.is_write() {
                self.count_write(len_bytes);
            } else {
                self.count(len_bytes);
            }
        }
    }

    fn count_write(&self, bytes: u64) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl BlockDevice for CountingDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn inner(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.inner)
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.count(buf.len() as u64);
        self.inner.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        self.count(total_bytes(bufs));
        self.inner.read_vectored_at(bufs, offset_bytes)
    }

    fn unchanged_bytes(&self, offset_bytes: u64, len_bytes: u64) -> u64 {
        self.inner.unchanged_bytes(offset_bytes, len_bytes)
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.count_write(buf.len() as u64);
        self.inner.write_at(buf, offset_bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        self.count_write(gathered_bytes(bufs));
        self.inner.write_vectored_at(bufs, offset_bytes)
    }

    fn submit(&self, requests: Vec<Request>) {
        self.count_requests(&requests);
        self.inner.submit(requests);
    }

    fn perform(&self, requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        self.count_requests(&requests);
        self.inner.perform(requests, timeout)
    }

    fn flush(&self) -> Result<()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.inner.flush()
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        self.inner.discard(offset_bytes, len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn vectored_read_is_counted_once() {
        let device = CountingDevice::new(Arc::new(MemoryDevice::new(vec![7; 100])));
        device.read_at(&mut [0; 10], 0).unwrap();
        let (mut a, mut b) = ([0; 3], [0; 4]);
        device
            .read_vectored_at(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)], 93)
            .unwrap();
        assert_eq!((a, b), ([7; 3], [7; 4]));
        let expected = IoCounts {
            reads: 2,
            bytes: 17,
            ..IoCounts::default()
        };
        assert_eq!(device.counts(), expected);
    }
}
