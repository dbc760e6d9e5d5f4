//! Counters of a remote image.

use larder_block::ServerCounts;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The number of ranges of latencies. Range `n` counts latencies from `2^n` to `2^(n+1)` microseconds.
const LATENCY_RANGES: usize = 32;

/// What a remote image has read since it was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) repeated: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) fetched_bytes: AtomicU64,
    pub(crate) memory_bytes: AtomicU64,
    pub(crate) disk_bytes: AtomicU64,
    pub(crate) ahead_bytes: AtomicU64,
    pub(crate) profile_bytes: AtomicU64,
    pub(crate) profile_used_bytes: AtomicU64,
    latencies: Latencies,
    activity: Mutex<Activity>,
    last_failure: Mutex<Option<String>>,
}

impl Counters {
    /// Counts the time from a request to the head of its reply.
    pub(crate) fn count_latency(&self, latency: Duration) {
        self.latencies.count(latency);
    }

    /// Counts bytes that arrived.
    pub(crate) fn count_fetched(&self, bytes: u64) {
        self.fetched_bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts a request, which is in flight until the result is dropped.
    pub(crate) fn start_request(self: &Arc<Self>) -> InFlight {
        self.requests.fetch_add(1, Relaxed);
        self.activity.lock().begin(Instant::now());
        InFlight(Arc::clone(self))
    }

    /// Returns all counts.
    pub(crate) fn to_counts(&self) -> ServerCounts {
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let micros = |latency: Duration| u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        ServerCounts {
            requests: count(&self.requests),
            repeated: count(&self.repeated),
            failed: count(&self.failed),
            fetched_bytes: count(&self.fetched_bytes),
            ahead_bytes: count(&self.ahead_bytes),
            profile_bytes: count(&self.profile_bytes),
            profile_used_bytes: count(&self.profile_used_bytes),
            memory_bytes: count(&self.memory_bytes),
            disk_bytes: count(&self.disk_bytes),
            busy_ns: nanos(self.activity.lock().busy(Instant::now())),
            latency_p50_us: self.latencies.percentile(50).map(micros),
            latency_p99_us: self.latencies.percentile(99).map(micros),
            // The device knows it.
            unversioned: false,
            last_failure: self.last_failure.lock().clone(),
        }
    }

    pub(crate) fn set_last_failure(&self, why: String) {
        *self.last_failure.lock() = Some(why);
    }
}

/// A request in flight.
#[must_use]
pub(crate) struct InFlight(Arc<Counters>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.activity.lock().end(Instant::now());
    }
}

/// The time in which requests were in flight.
#[derive(Debug, Default)]
struct Activity {
    in_flight: u32,
    /// When `in_flight` became 1, if it is not 0.
    start: Option<Instant>,
    /// The time before `start` in which requests were in flight.
    past: Duration,
}

impl Activity {
    fn begin(&mut self, now: Instant) {
        self.in_flight += 1;
        self.start.get_or_insert(now);
    }

    fn end(&mut self, now: Instant) {
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.past = self.busy(now);
            self.start = None;
        }
    }

    /// Returns the time in which at least one request was in flight.
    fn busy(&self, now: Instant) -> Duration {
        let since = |start| now.saturating_duration_since(start);
        self.past + self.start.map_or(Duration::ZERO, since)
    }
}

/// A histogram of latencies, by powers of two.
#[derive(Debug, Default)]
struct Latencies([AtomicU64; LATENCY_RANGES]);

impl Latencies {
    fn count(&self, latency: Duration) {
        let micros = latency.as_micros().max(1);
        let range = usize::try_from(micros.ilog2()).unwrap_or(LATENCY_RANGES);
        self.0[range.min(LATENCY_RANGES - 1)].fetch_add(1, Relaxed);
    }

    /// Returns an upper bound of the latency that `percent` percent of the requests did not exceed. The bound is
    /// at most twice this latency. Returns `None` if no request was counted.
    fn percentile(&self, percent: u64) -> Option<Duration> {
        let counts: Vec<u64> = self.0.iter().map(|count| count.load(Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let wanted = (total * percent.min(100)).div_ceil(100).max(1);
        let mut below = 0;
        let range = counts.iter().position(|&count| {
            below += count;
            below >= wanted
        })?;
        Some(Duration::from_micros(2 << range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_request_is_not_busy() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut activity = Activity::default();
        assert_eq!(activity.busy(at(5)), Duration::ZERO);
        activity.begin(at(5));
        activity.begin(at(6));
        activity.end(at(8));
        assert_eq!(activity.busy(at(9)), Duration::from_secs(4));
        activity.end(at(10));
        assert_eq!(activity.busy(at(20)), Duration::from_secs(5));
        activity.begin(at(20));
        assert_eq!(activity.busy(at(21)), Duration::from_secs(6));
    }

    #[test]
    fn request_is_counted_when_it_starts() {
        let counters = Arc::new(Counters::default());
        let requests = || counters.to_counts().requests;
        let request = counters.start_request();
        assert_eq!(requests(), 1);
        drop(request);
        assert_eq!(requests(), 1);
        assert_eq!(counters.activity.lock().in_flight, 0);
    }

    #[test]
    fn percentiles_bound_the_latencies() {
        let latencies = Latencies::default();
        assert_eq!(latencies.percentile(50), None);
        for _ in 0..99 {
            latencies.count(Duration::from_millis(1));
        }
        latencies.count(Duration::from_secs(3));
        assert_eq!(latencies.percentile(50), Some(Duration::from_micros(1024)));
        assert_eq!(latencies.percentile(99), Some(Duration::from_micros(1024)));
        assert_eq!(
            latencies.percentile(100),
            Some(Duration::from_micros(1 << 22))
        );
    }
}
