//! A device that logs every read, for tests of what is read and in what pieces.

use crate::{BlockDevice, Result, total_bytes};
use parking_lot::Mutex;
use std::io::IoSliceMut;
use std::sync::Arc;

/// A device that logs each read before passing it on.
///
/// The log grows without bound: it is meant for tests.
#[derive(Debug)]
pub struct RecordingDevice {
    inner: Arc<dyn BlockDevice>,
    log: Mutex<Vec<ReadRecord>>,
}

/// One read of a [`RecordingDevice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRecord {
    /// First byte asked for.
    pub offset_bytes: u64,
    /// Bytes asked for, over all buffers.
    pub len_bytes: u64,
    /// Buffers to scatter into.
    pub buffers: usize,
}

impl RecordingDevice {
    /// Logs the reads of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        Self {
            inner,
            log: Mutex::new(Vec::new()),
        }
    }

    /// The reads since the last call, oldest first.
    #[must_use]
    pub fn take_log(&self) -> Vec<ReadRecord> {
        std::mem::take(&mut *self.log.lock())
    }
}

impl BlockDevice for RecordingDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.log.lock().push(ReadRecord {
            offset_bytes,
            len_bytes: buf.len() as u64,
            buffers: 1,
        });
        self.inner.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        self.log.lock().push(ReadRecord {
            offset_bytes,
            len_bytes: total_bytes(bufs),
            buffers: bufs.len(),
        });
        self.inner.read_vectored_at(bufs, offset_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn log_taken_twice_holds_only_new_reads() {
        let device = RecordingDevice::new(Arc::new(MemoryDevice::new(vec![1; 64])));
        device.read_at(&mut [0; 16], 8).unwrap();
        let (mut a, mut b) = ([0; 2], [0; 2]);
        device
            .read_vectored_at(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)], 32)
            .unwrap();
        let record = |offset_bytes, len_bytes, buffers| ReadRecord {
            offset_bytes,
            len_bytes,
            buffers,
        };
        assert_eq!(device.take_log(), [record(8, 16, 1), record(32, 4, 2)]);
        device.read_at(&mut [0; 1], 65).unwrap_err();
        assert_eq!(device.take_log(), [record(65, 1, 1)]);
    }
}
