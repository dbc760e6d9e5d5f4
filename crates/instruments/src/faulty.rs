//! A device that injects faults, as planned or at random from a seed.

use larder_block::{
    BackEnd, BlockDevice, Error, Request, Result, check_range, gathered_bytes, total_bytes,
};
use rustix::io::Errno;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A device that forwards all calls to another device, except those that must fail according to its plan.
/// Failed calls return `EIO`, or the errno set by [`with_errno`](FaultyDevice::with_errno).
///
/// The plan is fixed when the device is created. Calls are numbered from 0. Each kind (reads, writes
/// including discards, flushes) has a sequence of numbers of its own, and all calls together have another
/// sequence. A request counts as a call when it is submitted. A single-threaded test therefore has the same
/// faults in every run. A failed write writes the first half of its first buffer to the other device.
#[derive(Debug)]
pub struct FaultyDevice {
    inner: Arc<dyn BlockDevice>,
    size_bytes: u64,
    errno: Errno,
    bad_reads: Vec<Range<u64>>,
    bad_numbers: Vec<(Option<Call>, Range<u64>)>,
    random: Option<Random>,
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
    calls: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug)]
struct Random {
    seed: u64,
    one_in: u64,
}

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Read,
    Write,
    Flush,
}

impl FaultyDevice {
    /// Creates a device that forwards all calls to `inner`. The functions `fail_*` and `shorten_to` add
    /// faults.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        Self {
            size_bytes: inner.size_bytes(),
            inner,
            errno: Errno::IO,
            bad_reads: Vec::new(),
            bad_numbers: Vec::new(),
            random: None,
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Sets the errno of failed calls, for example `ENOSPC` instead of `EIO`.
    #[must_use]
    pub fn with_errno(mut self, errno: Errno) -> Self {
        self.errno = errno;
        self
    }

    /// Fails each read that overlaps `bytes`.
    #[must_use]
    pub fn fail_range(mut self, bytes: Range<u64>) -> Self {
        self.bad_reads.push(bytes);
        self
    }

    /// Fails the read with this number, counted from 0.
    #[must_use]
    pub fn fail_read(self, number: u64) -> Self {
        self.fail_numbers(Some(Call::Read), number..number.saturating_add(1))
    }

    /// Fails the write with this number, counted from 0.
    #[must_use]
    pub fn fail_write(self, number: u64) -> Self {
        self.fail_numbers(Some(Call::Write), number..number.saturating_add(1))
    }

    /// Fails the flush with this number, counted from 0.
    #[must_use]
    pub fn fail_flush(self, number: u64) -> Self {
        self.fail_numbers(Some(Call::Flush), number..number.saturating_add(1))
    }

    /// Fails the calls with these numbers, where reads, writes and flushes are numbered together from 0.
    #[must_use]
    pub fn fail_calls(self, numbers: Range<u64>) -> Self {
        self.fail_numbers(None, numbers)
    }

    fn fail_numbers(mut self, call: Option<Call>, numbers: Range<u64>) -> Self {
        self.bad_numbers.push((call, numbers));
        self
    }

    /// Fails about one call in `one_in`, or none if `one_in` is 0. `seed` determines which calls fail.
    #[must_use]
    pub fn fail_randomly(mut self, seed: u64, one_in: u64) -> Self {
        self.random = Some(Random { seed, one_in });
        self
    }

    /// Makes the device appear to have only `size_bytes`.
    #[must_use]
    pub fn shorten_to(mut self, size_bytes: u64) -> Self {
        self.size_bytes = size_bytes.min(self.size_bytes);
        self
    }

    /// Returns the number of reads, writes and flushes so far, including those that failed.
    #[must_use]
    pub fn call_count(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns the number of calls that have failed so far because of the plan.
    #[must_use]
    pub fn failed_count(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Counts the call, and returns whether it must fail according to the plan.
    fn fails(&self, call: Call, bytes: &Range<u64>) -> bool {
        let counter = match call {
            Call::Read => &self.reads,
            Call::Write => &self.writes,
            Call::Flush => &self.flushes,
        };
        let number = counter.fetch_add(1, Ordering::Relaxed);
        let of_all = self.calls.fetch_add(1, Ordering::Relaxed);
        let by_chance = self.random.as_ref().is_some_and(|random| {
            random.one_in != 0 && split_mix(random.seed ^ of_all).is_multiple_of(random.one_in)
        });
        let by_number = self.bad_numbers.iter().any(|(only, bad)| match only {
            Some(only) => *only == call && bad.contains(&number),
            None => bad.contains(&of_all),
        });
        let meets = |bad: &Range<u64>| bad.start < bytes.end && bytes.start < bad.end;
        let by_range = call == Call::Read && self.bad_reads.iter().any(meets);
        let fails = by_chance || by_number || by_range;
        if fails {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        fails
    }

    fn source(&self) -> io::Error {
        io::Error::from_raw_os_error(self.errno.raw_os_error())
    }

    /// Counts the call. Returns an error if its bytes are not within the device, or if it must fail according
    /// to the plan.
    fn check(&self, call: Call, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let end_bytes = offset_bytes.saturating_add(len_bytes);
        let fails = self.fails(call, &(offset_bytes..end_bytes));
        check_range(self.size_bytes, offset_bytes, len_bytes)?;
        if !fails {
            return Ok(());
        }
        let source = self.source();
        Err(match call {
            Call::Read => Error::Io {
                offset_bytes,
                len_bytes,
                source,
            },
            Call::Write => Error::Write {
                offset_bytes,
                len_bytes,
                source,
            },
            Call::Flush => Error::Flush(source),
        })
    }

    /// Counts `requests` as calls, completes those that fail, and returns the others.
    fn accepted(&self, requests: Vec<Request>) -> Vec<Request> {
        let mut accepted = Vec::with_capacity(requests.len());
        for mut request in requests {
            let (offset_bytes, len_bytes) = (request.offset_bytes(), request.len_bytes());
            let call = if request.is_write() {
                Call::Write
            } else {
                Call::Read
            };
            match self.check(call, offset_bytes, len_bytes) {
                Ok(()) => accepted.push(request),
                Err(error) => {
                    request.with_slices(|_| (), |bufs| self.write_half(&error, bufs, offset_bytes));
                    request.complete(Err(error));
                }
            }
        }
        accepted
    }

    /// If `error` is that of a write, writes a part of the bytes, as a real device may do before a write
    /// fails.
    fn write_half(&self, error: &Error, bufs: &[IoSlice<'_>], offset_bytes: u64) {
        if let (Error::Write { .. }, Some(first)) = (error, bufs.first()) {
            let _ = self.inner.write_at(&first[..first.len() / 2], offset_bytes);
        }
    }
}

impl BlockDevice for FaultyDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        self.check(Call::Read, offset_bytes, buf.len() as u64)?;
        self.inner.read_at(buf, offset_bytes)
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        self.check(Call::Read, offset_bytes, total_bytes(bufs))?;
        self.inner.read_vectored_at(bufs, offset_bytes)
    }

    fn submit(&self, requests: Vec<Request>) {
        self.inner.submit(self.accepted(requests));
    }

    fn perform(&self, requests: Vec<Request>, deadline: Option<Duration>) -> Result<()> {
        self.inner.perform(self.accepted(requests), deadline)
    }

    fn back_end(&self) -> BackEnd {
        self.inner.back_end()
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        self.write_vectored_at(&[IoSlice::new(buf)], offset_bytes)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        self.check(Call::Write, offset_bytes, gathered_bytes(bufs))
            .inspect_err(|error| self.write_half(error, bufs, offset_bytes))?;
        self.inner.write_vectored_at(bufs, offset_bytes)
    }

    fn flush(&self) -> Result<()> {
        self.check(Call::Flush, 0, 0)?;
        self.inner.flush()
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        self.check(Call::Write, offset_bytes, len_bytes)?;
        self.inner.discard(offset_bytes, len_bytes)
    }
}

/// Returns one output of the `SplitMix64` generator.
pub(crate) fn split_mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReorderingDevice;
    use larder_block::MemoryDevice;
    use std::sync::mpsc::channel;

    fn device() -> FaultyDevice {
        FaultyDevice::new(Arc::new(MemoryDevice::new(vec![5; 4096])))
    }

    #[test]
    fn failed_range_fails_and_its_neighbours_succeed() {
        let device = device().fail_range(1024..2048);
        let read = |len: usize, at| device.read_at(&mut vec![0; len], at).is_ok();
        assert!(read(1024, 0));
        assert!(!read(1025, 0));
        assert!(!read(1, 2047));
        assert!(read(1, 2048));
        device.write_at(&[1; 4096], 0).unwrap();
    }

    #[test]
    fn numbered_read_fails_once() {
        let device = device().fail_read(1);
        let outcomes: Vec<bool> = (0..3)
            .map(|_| device.read_at(&mut [0; 8], 0).is_ok())
            .collect();
        assert_eq!(outcomes, [true, false, true]);
    }

    #[test]
    fn numbered_write_and_flush_fail_with_the_errno_that_was_set() {
        let device = device()
            .fail_write(1)
            .fail_flush(0)
            .with_errno(Errno::NOSPC);
        device.write_at(&[1], 0).unwrap();
        let errno = |source: &io::Error| Errno::from_io_error(source);
        match device.write_at(&[2; 8], 0) {
            Err(Error::Write { source, .. }) => assert_eq!(errno(&source), Some(Errno::NOSPC)),
            other => panic!("{other:?}"),
        }
        match device.flush() {
            Err(Error::Flush(source)) => assert_eq!(errno(&source), Some(Errno::NOSPC)),
            other => panic!("{other:?}"),
        }
        device.flush().unwrap();
        // The first half of the failed write is on the device.
        let mut buf = [0; 8];
        device.read_at(&mut buf, 0).unwrap();
        assert_eq!(buf, [2, 2, 2, 2, 5, 5, 5, 5]);
    }

    #[test]
    fn failed_request_in_a_batch_fails_alone_and_the_others_reach_the_back_end() {
        let memory = Arc::new(MemoryDevice::new(vec![5; 64]));
        let back_end = Arc::new(ReorderingDevice::new(memory, 1));
        back_end.hold(true);
        let device = FaultyDevice::new(Arc::clone(&back_end) as _)
            .fail_write(0)
            .fail_read(1);
        assert_eq!(device.back_end(), BackEnd::Threads);
        let (sender, receiver) = channel();
        let done = |number| {
            let sender = sender.clone();
            move |bytes: Vec<u8>, result| sender.send((number, bytes, result)).unwrap()
        };
        device.submit(vec![
            Request::read(vec![0; 4], 20, done(0)),
            Request::write(vec![1; 4], 0, done(1)),
            Request::read(vec![0; 4], 30, done(2)),
            Request::write(vec![2; 4], 8, done(3)),
        ]);
        assert_eq!((back_end.waiting(), device.failed_count()), (2, 2));
        let failed: Vec<_> = receiver.try_iter().collect();
        assert!(
            matches!(
                &failed[..],
                [
                    (1, _, Err(Error::Write { .. })),
                    (2, _, Err(Error::Io { .. }))
                ]
            ),
            "{failed:?}"
        );
        back_end.hold(false);
        for (number, bytes, result) in receiver.iter().take(2) {
            result.unwrap();
            assert!(matches!((number, bytes[0]), (0, 5) | (3, 2)));
        }
        let mut all = [0; 12];
        device.read_at(&mut all, 0).unwrap();
        assert_eq!(all, [1, 1, 5, 5, 5, 5, 5, 5, 2, 2, 2, 2]);
    }

    #[test]
    fn calls_of_all_kinds_are_counted_together() {
        let device = device().fail_calls(2..u64::MAX);
        device.write_at(&[1], 0).unwrap();
        device.flush().unwrap();
        device.read_at(&mut [0], 0).unwrap_err();
        device.write_at(&[1], 0).unwrap_err();
        device.flush().unwrap_err();
        assert_eq!((device.call_count(), device.failed_count()), (5, 3));
    }

    #[test]
    fn same_seed_fails_the_same_reads() {
        let run = || -> Vec<bool> {
            let device = device().fail_randomly(42, 4);
            (0..400)
                .map(|_| device.read_at(&mut [0; 8], 0).is_ok())
                .collect()
        };
        let failed = run().iter().filter(|ok| !**ok).count();
        assert!((50..150).contains(&failed), "{failed} of 400 failed");
        assert_eq!(run(), run());
    }

    #[test]
    fn shortened_device_past_end_is_out_of_range() {
        let device = device().shorten_to(1000);
        assert_eq!(device.size_bytes(), 1000);
        assert!(matches!(
            device.read_at(&mut [0; 2], 999),
            Err(Error::OutOfRange {
                size_bytes: 1000,
                ..
            })
        ));
    }
}
