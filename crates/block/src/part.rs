//! A part of another device, such as a partition of a disk.

use crate::{
    BlockDevice, Error, FileRange, Pieces, Priority, Request, Result, accepted, check_range,
    gathered_bytes, total_bytes,
};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

/// A part of another device. It can be written to if the other device can.
#[derive(Debug)]
pub struct PartDevice {
    inner: Arc<dyn BlockDevice>,
    start_bytes: u64,
    size_bytes: u64,
}

impl PartDevice {
    /// Creates a device for the `range` of `inner`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `range` is not inside `inner`.
    pub fn new(inner: Arc<dyn BlockDevice>, range: FileRange) -> Result<Self> {
        let start_bytes = range.offset_bytes;
        let left_bytes = inner.size_bytes().saturating_sub(start_bytes);
        let size_bytes = range.size_bytes.unwrap_or(left_bytes);
        check_range(inner.size_bytes(), start_bytes, size_bytes)?;
        Ok(Self {
            inner,
            start_bytes,
            size_bytes,
        })
    }

    /// Returns `requests` with their offsets on the inner device. If this device refuses a request, the request
    /// completes with an error.
    fn translated(&self, requests: Vec<Request>) -> Vec<Request> {
        let requests = accepted(requests, |at, len, is_write| {
            if is_write && !self.is_writable() {
                return Err(Error::ReadOnly);
            }
            check_range(self.size_bytes, at, len)
        });
        let translated = requests.into_iter().map(|request| {
            let offset_bytes = self.start_bytes + request.offset_bytes();
            request.with_offset(offset_bytes)
        });
        translated.collect()
    }
}

impl BlockDevice for PartDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn inner(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.inner)
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes, offset_bytes, buf.len() as u64)?;
        self.inner.read_at(buf, self.start_bytes + offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes, offset_bytes, total_bytes(bufs))?;
        self.inner
            .read_vectored_at(bufs, self.start_bytes + offset_bytes)
    }

    fn submit(&self, requests: Vec<Request>) {
        self.inner.submit(self.translated(requests));
    }

    fn perform(&self, requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        self.inner.perform(self.translated(requests), timeout)
    }

    fn expedite(&self, offset_bytes: u64, len_bytes: u64) {
        if check_range(self.size_bytes, offset_bytes, len_bytes).is_ok() {
            self.inner
                .expedite(self.start_bytes + offset_bytes, len_bytes);
        }
    }

    fn announce(&self, offset_bytes: u64, len_bytes: u64, priority: Priority) {
        if check_range(self.size_bytes, offset_bytes, len_bytes).is_ok() {
            self.inner
                .announce(self.start_bytes + offset_bytes, len_bytes, priority);
        }
    }

    fn pieces(&self) -> Option<Pieces> {
        Some(self.inner.pieces()?.of_part(self.start_bytes))
    }

    fn unchanged_bytes(&self, offset_bytes: u64, len_bytes: u64) -> u64 {
        match check_range(self.size_bytes, offset_bytes, len_bytes) {
            Ok(()) => self
                .inner
                .unchanged_bytes(self.start_bytes + offset_bytes, len_bytes),
            Err(_) => 0,
        }
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes, offset_bytes, buf.len() as u64)?;
        self.inner.write_at(buf, self.start_bytes + offset_bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        check_range(self.size_bytes, offset_bytes, gathered_bytes(bufs))?;
        self.inner
            .write_vectored_at(bufs, self.start_bytes + offset_bytes)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        check_range(self.size_bytes, offset_bytes, len_bytes)?;
        self.inner
            .discard(self.start_bytes + offset_bytes, len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;
    use parking_lot::Mutex;
    use std::num::NonZeroU64;

    fn part(offset_bytes: u64, size_bytes: Option<u64>) -> Result<PartDevice> {
        let disk = Arc::new(MemoryDevice::new((0..100).collect()));
        let range = FileRange {
            offset_bytes,
            size_bytes,
        };
        PartDevice::new(disk, range)
    }

    #[test]
    fn only_the_part_is_read() {
        let part = part(40, Some(10)).unwrap();
        assert_eq!(part.size_bytes(), 10);
        let mut buf = [0; 4];
        part.read_at(&mut buf, 6).unwrap();
        assert_eq!(buf, [46, 47, 48, 49]);
        for offset_bytes in [7, u64::MAX] {
            let read = part.read_at(&mut buf, offset_bytes);
            assert!(matches!(read, Err(Error::OutOfRange { .. })));
        }
    }

    #[test]
    fn requests_are_moved_to_the_part() {
        let part = part(40, None).unwrap();
        let results = Arc::new(Mutex::new(Vec::new()));
        let done = || {
            let results = Arc::clone(&results);
            move |bytes: Vec<u8>, result: Result<()>| results.lock().push(result.map(|()| bytes))
        };
        let write = |offset_bytes| vec![Request::write(vec![7; 2], offset_bytes, done())];
        let read = |offset_bytes| vec![Request::read(vec![0; 2], offset_bytes, done())];
        for request in [write(58), read(57), write(59), read(59)] {
            part.perform(request, None).unwrap();
        }
        let results = results.lock();
        assert!(results[0].is_ok());
        assert_eq!(*results[1].as_ref().unwrap(), [97, 7]);
        for outside in &results[2..] {
            assert!(matches!(outside, Err(Error::OutOfRange { .. })));
        }
    }

    #[test]
    fn writes_change_only_the_part() {
        let disk = Arc::new(MemoryDevice::new((0..100).collect()));
        let range = FileRange {
            offset_bytes: 40,
            size_bytes: Some(10),
        };
        let part = PartDevice::new(Arc::clone(&disk) as _, range).unwrap();
        assert!(part.is_writable());
        part.write_at(&[7; 4], 6).unwrap();
        part.write_vectored_at(&[IoSlice::new(&[8]), IoSlice::new(&[9])], 0)
            .unwrap();
        part.flush().unwrap();
        for offset_bytes in [7, u64::MAX] {
            let written = part.write_at(&[1; 4], offset_bytes);
            assert!(matches!(written, Err(Error::OutOfRange { .. })));
            let discarded = part.discard(offset_bytes, 4);
            assert!(matches!(discarded, Err(Error::OutOfRange { .. })));
        }
        let mut expected: Vec<u8> = (0..100).collect();
        expected[46..50].fill(7);
        expected[40..42].copy_from_slice(&[8, 9]);
        assert_eq!(disk.to_bytes(), expected);
    }

    #[test]
    fn part_outside_of_the_device_is_refused() {
        for (offset_bytes, size_bytes) in [(101, None), (90, Some(11)), (u64::MAX, Some(1))] {
            assert!(matches!(
                part(offset_bytes, size_bytes),
                Err(Error::OutOfRange { .. })
            ));
        }
        assert_eq!(part(100, None).unwrap().size_bytes(), 0);
    }

    #[test]
    fn pieces_of_a_part_end_where_those_of_the_device_end() {
        let len_bytes = NonZeroU64::new(64).unwrap();
        let pieces = Pieces::new(len_bytes, 10).of_part(100);
        // The first piece of the device ends at 54, the second one at 118, and the part begins at 100.
        assert_eq!(pieces.number(17), pieces.number(0));
        assert_eq!(pieces.number(18), pieces.number(0) + 1);
    }
}
