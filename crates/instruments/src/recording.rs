//! A device that logs its calls. The log of reads is for tests of which bytes are read in one call. The log
//! of writes, discards and flushes is for tests of power loss.

use larder_block::{BackEnd, BlockDevice, Request, Result, gathered_bytes, total_bytes};
use parking_lot::Mutex;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

/// A device that forwards all calls and requests to another device. A read is logged before it is forwarded.
/// A change (a write, discard or flush) is logged after it succeeded, and before the caller is notified.
///
/// The logs grow without bound, so this device is only for tests.
#[derive(Debug)]
pub struct RecordingDevice {
    inner: Arc<dyn BlockDevice>,
    reads: Mutex<Vec<ReadRecord>>,
    changes: Arc<Mutex<Vec<ChangeRecord>>>,
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
            changes: Arc::default(),
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

    /// Logs the reads of `requests`. Returns the requests to forward. Those that are writes log themselves
    /// when they are complete.
    fn logged(&self, requests: Vec<Request>) -> Vec<Request> {
        let logged = requests.into_iter().map(|mut request| {
            if request.is_write() {
                return self.logged_write(request);
            }
            let offset_bytes = request.offset_bytes();
            let record = |bufs: &mut [IoSliceMut<'_>]| self.log_read(bufs, offset_bytes);
            request.with_slices(record, |_| ());
            request
        });
        logged.collect()
    }

    fn log_read(&self, bufs: &[IoSliceMut<'_>], offset_bytes: u64) {
        self.reads.lock().push(ReadRecord {
            offset_bytes,
            len_bytes: total_bytes(bufs),
            buffers: bufs.len(),
        });
    }

    /// Returns a write of a copy of the buffers. When it completes, it is logged if it succeeded, and
    /// `request` completes with the same result.
    fn logged_write(&self, mut request: Request) -> Request {
        let changes = Arc::clone(&self.changes);
        let offset_bytes = request.offset_bytes();
        let (priority, cancel) = (request.priority(), request.cancel_token().cloned());
        let bytes = request.with_slices(|_| Vec::new(), gathered);
        let write = Request::write(bytes, offset_bytes, move |bytes, result| {
            if result.is_ok() {
                changes.lock().push(ChangeRecord::Write {
                    offset_bytes,
                    bytes: bytes.into(),
                });
            }
            request.complete(result);
        });
        let write = write.with_priority(priority);
        match cancel {
            Some(token) => write.with_cancel(&token),
            None => write,
        }
    }
}

/// Returns the bytes of `bufs`, in order.
fn gathered(bufs: &[IoSlice<'_>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(usize::try_from(gathered_bytes(bufs)).unwrap_or(0));
    for buf in bufs {
        bytes.extend_from_slice(buf);
    }
    bytes
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
        self.log_read(bufs, offset_bytes);
        self.inner.read_vectored_at(bufs, offset_bytes)
    }

    fn submit(&self, requests: Vec<Request>) {
        self.inner.submit(self.logged(requests));
    }

    fn perform(&self, requests: Vec<Request>, deadline: Option<Duration>) -> Result<()> {
        self.inner.perform(self.logged(requests), deadline)
    }

    fn back_end(&self) -> BackEnd {
        self.inner.back_end()
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
        self.changes.lock().push(ChangeRecord::Write {
            offset_bytes,
            bytes: gathered(bufs).into(),
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
    use crate::ReorderingDevice;
    use larder_block::{Error, MemoryDevice};
    use std::sync::mpsc::channel;

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

    #[test]
    fn writes_of_a_batch_are_logged_when_the_back_end_has_completed_them() {
        let memory = Arc::new(MemoryDevice::new(vec![1; 64]));
        let back_end = Arc::new(ReorderingDevice::new(memory, 1));
        back_end.hold(true);
        let device = Arc::new(RecordingDevice::new(Arc::clone(&back_end) as _));
        assert_eq!(device.back_end(), BackEnd::Threads);
        let (sender, receiver) = channel();
        let write = |at, parts: &[&[u8]]| {
            let (sender, device) = (sender.clone(), Arc::clone(&device));
            let parts: Vec<Arc<[u8]>> = parts.iter().map(|part| Arc::from(*part)).collect();
            Request::write(parts, at, move |_, result| {
                sender.send((at, device.change_count(), result)).unwrap();
            })
        };
        device.submit(vec![
            write(0, &[&[2, 3], &[4]]),
            write(62, &[&[5; 3]]),
            write(9, &[&[6]]),
            Request::read(vec![0; 2], 30, |_, _| ()),
        ]);
        // A flush while the writes are in flight does not cover them.
        device.flush().unwrap();
        assert_eq!((back_end.waiting(), device.change_count()), (4, 1));
        back_end.hold(false);
        let mut count = 1;
        for (at, changes, result) in receiver.iter().take(3) {
            if at == 62 {
                assert!(matches!(result, Err(Error::OutOfRange { .. })));
            } else {
                count += 1;
                assert!(
                    changes >= count,
                    "a write is logged before its end is reported"
                );
            }
        }
        let mut changes = device.take_changes();
        assert_eq!(changes.remove(0), ChangeRecord::Flush { covers: 0 });
        let logged = |offset_bytes, bytes: &[u8]| ChangeRecord::Write {
            offset_bytes,
            bytes: bytes.into(),
        };
        assert_eq!(changes.len(), 2);
        assert!(changes.contains(&logged(0, &[2, 3, 4])) && changes.contains(&logged(9, &[6])));
        assert_eq!(device.take_log().len(), 1);
    }
}
