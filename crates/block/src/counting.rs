//! A device that counts its reads and writes, and measures their durations.

use crate::request::Latencies;
use crate::timing::{Sampler, Timing};
use crate::{
    BlockDevice, LatencyHistogram, LatencyStats, Request, Result, gathered_bytes, total_bytes,
    waiting,
};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

thread_local! {
    static READS: Sampler = const { Sampler::new() };
    static WRITES: Sampler = const { Sampler::new() };
}

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
    latencies: Arc<Latencies>,
    flush_latencies: LatencyHistogram,
}

/// The durations of the requests to a [`CountingDevice`], each from its submission to its completion. Cancelled
/// requests are not included. Of many reads or writes, only a [sample](crate::timing) is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoLatencies {
    /// Reads.
    pub reads: LatencyStats,
    /// Writes.
    pub writes: LatencyStats,
    /// Flushes.
    pub flushes: LatencyStats,
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
            latencies: Arc::default(),
            flush_latencies: LatencyHistogram::default(),
        }
    }

    /// Returns the durations of the requests so far.
    #[must_use]
    pub fn latencies(&self) -> IoLatencies {
        IoLatencies {
            reads: self.latencies.reads.stats(),
            writes: self.latencies.writes.stats(),
            flushes: self.flush_latencies.stats(),
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

    fn count_requests(&self, requests: &mut [Request]) {
        self.requests
            .fetch_add(requests.len() as u64, Ordering::Relaxed);
        for request in requests {
            let len_bytes = request.len_bytes();
            let timing = if request.is_write() {
                self.count_write(len_bytes);
                WRITES.with(Sampler::begin)
            } else {
                self.count(len_bytes);
                READS.with(Sampler::begin)
            };
            request.measure(&self.latencies, timing);
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
        waiting::check();
        self.count(buf.len() as u64);
        measured(&self.latencies.reads, READS.with(Sampler::begin), || {
            self.inner.read_at(buf, offset_bytes)
        })
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<()> {
        waiting::check();
        self.count(total_bytes(bufs));
        measured(&self.latencies.reads, READS.with(Sampler::begin), || {
            self.inner.read_vectored_at(bufs, offset_bytes)
        })
    }

    fn unchanged_bytes(&self, offset_bytes: u64, len_bytes: u64) -> u64 {
        self.inner.unchanged_bytes(offset_bytes, len_bytes)
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> Result<()> {
        waiting::check();
        self.count_write(buf.len() as u64);
        measured(&self.latencies.writes, WRITES.with(Sampler::begin), || {
            self.inner.write_at(buf, offset_bytes)
        })
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset_bytes: u64) -> Result<()> {
        waiting::check();
        self.count_write(gathered_bytes(bufs));
        measured(&self.latencies.writes, WRITES.with(Sampler::begin), || {
            self.inner.write_vectored_at(bufs, offset_bytes)
        })
    }

    fn submit(&self, mut requests: Vec<Request>) {
        self.count_requests(&mut requests);
        self.inner.submit(requests);
    }

    fn perform(&self, mut requests: Vec<Request>, timeout: Option<Duration>) -> Result<()> {
        waiting::check();
        self.count_requests(&mut requests);
        self.inner.perform(requests, timeout)
    }

    fn flush(&self) -> Result<()> {
        waiting::check();
        self.flushes.fetch_add(1, Ordering::Relaxed);
        measured(&self.flush_latencies, Timing::begin(), || {
            self.inner.flush()
        })
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool> {
        waiting::check();
        self.inner.discard(offset_bytes, len_bytes)
    }
}

/// Performs `call`, which begins at `timing`, and records its duration if it is measured.
fn measured<T>(latencies: &LatencyHistogram, timing: Timing, call: impl FnOnce() -> T) -> T {
    let result = call();
    if let Some(measured) = timing.end() {
        latencies.record_measured(measured);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CancelToken, MemoryDevice};

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

    #[test]
    fn each_completed_request_has_one_duration() {
        let device = CountingDevice::new(Arc::new(MemoryDevice::new(vec![7; 100])));
        device.read_at(&mut [0; 10], 0).unwrap();
        device.write_at(&[1; 10], 0).unwrap();
        device.flush().unwrap();
        device.read_at(&mut [0; 10], 200).unwrap_err();
        let read =
            |token: &CancelToken| Request::read(vec![0; 10], 0, |_, _| ()).with_cancel(token);
        let token = CancelToken::default();
        let write = Request::write(vec![0; 10], 0, |_, _| ());
        device.perform(vec![read(&token), write], None).unwrap();
        token.cancel();
        // A request that is dropped or cancelled does not complete.
        device.submit(vec![read(&token)]);
        let latencies = device.latencies();
        assert_eq!(latencies.reads.count, 3);
        assert_eq!(latencies.writes.count, 2);
        assert_eq!(latencies.flushes.count, 1);
    }

    #[test]
    fn few_requests_are_measured_among_many_of_another_kind() {
        let device = CountingDevice::new(Arc::new(MemoryDevice::new(vec![7; 100])));
        for _ in 0..10 {
            // So many reads that not all of them are measured: in most rounds, they are sampled.
            for _ in 0..5000 {
                device.read_at(&mut [0], 0).unwrap();
            }
            device.write_at(&[0], 0).unwrap();
            let write = Request::write(vec![0], 0, |_, _| ());
            device.perform(vec![write], None).unwrap();
        }
        for _ in 0..5000 {
            device.flush().unwrap();
        }
        let latencies = device.latencies();
        assert_eq!(
            (latencies.writes.count, latencies.flushes.count),
            (20, 5000)
        );
        assert_ne!(latencies.reads.count, 50_000);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn waiting_calls_panic_where_waiting_is_forbidden() {
        use crate::Waiting;
        use std::panic::{AssertUnwindSafe, catch_unwind};

        let device = CountingDevice::new(Arc::new(MemoryDevice::new(vec![7; 100])));
        let calls: [fn(&CountingDevice); 7] = [
            |device| drop(device.read_at(&mut [0], 0)),
            |device| drop(device.read_vectored_at(&mut [], 0)),
            |device| drop(device.write_at(&[1], 0)),
            |device| drop(device.write_vectored_at(&[], 0)),
            |device| drop(device.perform(Vec::new(), None)),
            |device| drop(device.flush()),
            |device| drop(device.discard(0, 1)),
        ];
        for call in calls {
            call(&device);
        }
        let _forbidden = Waiting::forbid();
        device.submit(Vec::new());
        for call in calls {
            catch_unwind(AssertUnwindSafe(|| call(&device))).unwrap_err();
        }
    }
}
