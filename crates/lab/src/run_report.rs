//! Results of one run of a workload.

use std::time::Duration;

use larder_readahead::PolicyName;
use serde::{Serialize, Serializer};

/// Results of one run of a workload. All times are virtual. The JSON also contains the rates that the methods
/// compute, with the names of the methods as keys.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    /// The readahead policy.
    pub policy: PolicyName,
    /// Time from the start of the run to the end of the last request.
    pub elapsed: Duration,
    /// Number of bytes read.
    pub bytes_read: u64,
    /// Number of bytes that writers wrote to the cache.
    pub bytes_written: u64,
    /// Number of completed requests: reads, writes, faults, flushes and evictions.
    pub requests: u64,
    /// Latencies of the requests.
    pub latency: LatencyReport,
    /// Number of read commands that the device served. Requests that were merged count as one.
    pub device_reads: u64,
    /// Number of bytes that the device read.
    pub device_read_bytes: u64,
    /// Number of write commands that the device served. Requests that were merged count as one.
    pub device_writes: u64,
    /// Number of bytes that the device wrote.
    pub device_written_bytes: u64,
    /// Counts of pages and lookups.
    pub pages: PageCounts,
    /// One sample for each second of the run, for at most one day. The last sample covers the remaining time.
    pub samples: Vec<Sample>,
}

/// Counts of pages and lookups in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageCounts {
    /// Lookups of pages by readers: one for each page of each request.
    pub page_lookups: u64,
    /// The `page_lookups` that found the page in the cache.
    pub page_hits: u64,
    /// The `page_lookups` after which the reader had to wait for the page.
    pub page_misses: u64,
    /// The `page_misses` in which the page was already being read from the device.
    pub page_misses_in_flight: u64,
    /// Second lookups of missing pages, after the call of the policy.
    pub lookups_after_miss: u64,
    /// Calls of the policy to decide on a readahead window.
    pub readahead_calls: u64,
    /// Lookups to find which pages of a window must be read.
    pub insert_lookups: u64,
    /// Lookups by the policy itself.
    pub policy_lookups: u64,
    /// Pages that were read from the device before a reader requested them.
    pub pages_ahead: u64,
    /// Pages read ahead that were later used. A page that was read ahead in an earlier run counts in the run
    /// that uses it.
    pub pages_used: u64,
    /// Pages read ahead that were evicted before they were used.
    pub pages_wasted: u64,
}

/// Latencies of requests, each from its due time until its completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencyReport {
    /// The mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The maximum.
    pub max_ns: u64,
}

/// One second of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// The end of the second, counted from the start of the run.
    pub at_s: f64,
    /// Bytes per second that readers and writers transferred.
    pub throughput_bytes_s: f64,
    /// Mean size of the read commands that the device served; 0 if there were none.
    pub mean_read_bytes: f64,
    /// Number of readers that had started and had not finished at the end of the second.
    pub streams: u32,
}

impl PageCounts {
    /// Returns the counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            page_lookups: self.page_lookups - earlier.page_lookups,
            page_hits: self.page_hits - earlier.page_hits,
            page_misses: self.page_misses - earlier.page_misses,
            page_misses_in_flight: self.page_misses_in_flight - earlier.page_misses_in_flight,
            lookups_after_miss: self.lookups_after_miss - earlier.lookups_after_miss,
            readahead_calls: self.readahead_calls - earlier.readahead_calls,
            insert_lookups: self.insert_lookups - earlier.insert_lookups,
            policy_lookups: self.policy_lookups - earlier.policy_lookups,
            pages_ahead: self.pages_ahead - earlier.pages_ahead,
            pages_used: self.pages_used - earlier.pages_used,
            pages_wasted: self.pages_wasted - earlier.pages_wasted,
        }
    }
}

impl RunReport {
    /// Returns the bytes read and written per second; 0 for a run that took no time.
    #[must_use]
    pub fn throughput_bytes_s(&self) -> f64 {
        ratio(
            as_f64(self.bytes_read + self.bytes_written),
            self.elapsed.as_secs_f64(),
        )
    }

    /// Returns the mean size of a read command that the device served.
    #[must_use]
    pub fn mean_device_read_bytes(&self) -> f64 {
        quotient(self.device_read_bytes, self.device_reads)
    }

    /// Returns the share of `page_lookups` that hit, from 0 to 1.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        quotient(self.pages.page_hits, self.pages.page_lookups)
    }
}

/// Returns `part / whole`, or 0 if `whole` is 0.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Returns the [`ratio`] of two counts.
pub(crate) fn quotient(part: u64, whole: u64) -> f64 {
    ratio(as_f64(part), as_f64(whole))
}

/// Returns the nearest floating-point number to a count.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts above 2^53 lose digits that no figure shows"
)]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}

/// The serialized form of a report, which includes the rates.
#[derive(Serialize)]
struct WithRates<'a> {
    policy: &'static str,
    elapsed_s: f64,
    throughput_bytes_s: f64,
    bytes_read: u64,
    bytes_written: u64,
    requests: u64,
    latency: &'a LatencyReport,
    device_reads: u64,
    device_read_bytes: u64,
    mean_device_read_bytes: f64,
    device_writes: u64,
    device_written_bytes: u64,
    hit_rate: f64,
    #[serde(flatten)]
    pages: &'a PageCounts,
    samples: &'a [Sample],
}

impl Serialize for RunReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WithRates {
            policy: self.policy.as_str(),
            elapsed_s: self.elapsed.as_secs_f64(),
            throughput_bytes_s: self.throughput_bytes_s(),
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
            requests: self.requests,
            latency: &self.latency,
            device_reads: self.device_reads,
            device_read_bytes: self.device_read_bytes,
            mean_device_read_bytes: self.mean_device_read_bytes(),
            device_writes: self.device_writes,
            device_written_bytes: self.device_written_bytes,
            hit_rate: self.hit_rate(),
            pages: &self.pages,
            samples: &self.samples,
        }
        .serialize(serializer)
    }
}
