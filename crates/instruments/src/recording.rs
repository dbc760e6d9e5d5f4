//! A device that logs its calls. The log of reads is for tests of which bytes are read in one call. The log
//! of writes, discards and flushes is for tests of power loss.

use larder_block::{BlockDevice, Result, gathered_bytes, total_bytes};
use parking_lot::Mutex;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

/// A device that forwards all calls to another device. It logs a read before forwarding it, and a change (a
/// write, discard or flush) after it succeeded.
///
/// The logs grow without bound, so this device is only for tests.
#[derive(Debug)]
pub struct RecordingDevice {
    inner: Arc<dyn BlockDevice>,
    reads: Mutex<Vec<ReadRecord>>,
    changes: Mutex<Vec<ChangeRecord>>,
}

/// One read of a [`RecordingDevice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRecord {
    /// The first byte of the read.
    pub offset_bytes: u64,
    /// The total length of all buffers of the read.
    pub len_bytes: u64,
    /// The number of buffers.
    pub buffers: usize,
}

/// A write, discard or flush of a [`RecordingDevice`] that returned without an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeRecord {
    /// A write.
    Write {
        /// The first byte that was written.
        offset_bytes: u64,
        /// The bytes that were written.
        bytes: Arc<[u8]>,
    },
    /// A flush.
    Flush {
        /// The number of changes that had returned when the flush began. These changes are durable after the
        /// flush.
        covers: usize,
    },
    /// A discard.
    Discard {
        /// The first byte that was discarded.
        offset_bytes: u64,
        /// The length of the discard.
        len_bytes: u64,
    },
}

impl RecordingDevice {
    /// Creates a device that forwards calls to `inner` and logs them.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        Self {
            inner,
            reads: Mutex::new(Vec::new()),
            changes: Mutex::new(Vec::new()),
        }
    }

    /// Removes all logged reads and returns them, oldest first.
    #[must_use]
    pub fn take_log(&self) -> Vec<ReadRecord> {
        std::mem::take(&mut *self.reads.lock())
    }

    /// Returns the number of logged changes.
    #[must_use]
    pub fn change_count(&self) -> usize {
        self.changes.lock().len()
    }

    /// Removes all logged changes and returns them, oldest first.
    #[must_use]
    pub fn take_changes(&self) -> Vec<ChangeRecord> {
        std::mem::take(&mut *self.changes.lock())
    }
}

impl BlockDevice for RecordingDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.reads.lock().push(ReadRecord {
            offset_bytes,
            len_bytes: buf.len() as u64,
            buffers: 1,
        });
        self.inner.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        self.reads.lock().push(ReadRecord {
            offset_bytes,
            len_bytes: total_bytes(bufs),
            buffers: bufs.len(),
        });
        self.inner.read_vectored_at(bufs, offset_bytes)
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.inner.write_at(buf, offset_bytes)?;
        self.changes.lock().push(ChangeRecord::Write {
            offset_bytes,
            bytes: buf.into(),
        });
        Ok(())
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        self.inner.write_vectored_at(bufs, offset_bytes)?;
        let mut bytes = Vec::with_capacity(usize::try_from(gathered_bytes(bufs)).unwrap_or(0));
        for buf in bufs {
            bytes.extend_from_slice(buf);
        }
        self.changes.lock().push(ChangeRecord::Write {
            offset_bytes,
            bytes: bytes.into(),
        });
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let covers = self.change_count();
        self.inner.flush()?;
        self.changes.lock().push(ChangeRecord::Flush { covers });
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        let done = self.inner.discard(offset_bytes, len_bytes)?;
        if done {
            self.changes.lock().push(ChangeRecord::Discard {
                offset_bytes,
                len_bytes,
            });
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_block::MemoryDevice;

    #[test]
    fn log_taken_twice_contains_only_new_reads() {
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

    #[test]
    fn changes_are_logged_in_order_without_failed_ones() {
        let device = RecordingDevice::new(Arc::new(MemoryDevice::new(vec![1; 64])));
        device.write_at(&[5; 3], 8).unwrap();
        device.write_at(&[5; 3], 62).unwrap_err();
        device.flush().unwrap();
        device
            .write_vectored_at(&[IoSlice::new(&[1, 2]), IoSlice::new(&[3])], 9)
            .unwrap();
        let write = |offset_bytes, bytes: &[u8]| ChangeRecord::Write {
            offset_bytes,
            bytes: bytes.into(),
        };
        assert_eq!(device.change_count(), 3);
        assert_eq!(
            device.take_changes(),
            [
                write(8, &[5; 3]),
                ChangeRecord::Flush { covers: 1 },
                write(9, &[1, 2, 3])
            ]
        );
    }
}
