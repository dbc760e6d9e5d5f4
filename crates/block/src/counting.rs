//! A device that counts what is read from it.

use crate::{BlockDevice, Result, total_bytes};
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device that counts the reads that reach the device below, and their bytes.
///
/// The counters are statistics: each is exact, but a snapshot of both is not
/// taken at one instant.
#[derive(Debug)]
pub struct CountingDevice {
    inner: Arc<dyn BlockDevice>,
    reads: AtomicU64,
    bytes: AtomicU64,
}

/// What a [`CountingDevice`] has counted. Failed reads count as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Reads: a vectored read is one.
    pub reads: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

impl CountingDevice {
    /// Counts the reads of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        Self {
            inner,
            reads: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> ReadCounts {
        ReadCounts {
            reads: self.reads.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    fn count(&self, bytes: u64) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl BlockDevice for CountingDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.count(buf.len() as u64);
        self.inner.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        self.count(total_bytes(bufs));
        self.inner.read_vectored_at(bufs, offset_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn counts_vectored_read_is_one_read() {
        let device = CountingDevice::new(Arc::new(MemoryDevice::new(vec![7; 100])));
        device.read_at(&mut [0; 10], 0).unwrap();
        let (mut a, mut b) = ([0; 3], [0; 4]);
        device
            .read_vectored_at(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)], 93)
            .unwrap();
        assert_eq!((a, b), ([7; 3], [7; 4]));
        let expected = ReadCounts {
            reads: 2,
            bytes: 17,
        };
        assert_eq!(device.counts(), expected);
    }
}
