//! What one run of a workload showed.

use std::time::Duration;

use larder_readahead::PolicyName;
use serde::{Serialize, Serializer};

/// What one run of a workload showed. All times are virtual. As JSON it has the rates that its
/// methods work out too, under their names.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    /// The readahead policy.
    pub policy: PolicyName,
    /// From the start to the end of the last request.
    pub elapsed: Duration,
    /// Bytes that readers got.
    pub bytes_read: u64,
    /// Bytes that writers wrote, to the cache at first.
    pub bytes_written: u64,
    /// Requests done: reads, writes, faults and flushes.
    pub requests: u64,
    /// How long the requests took.
    pub latency: LatencyReport,
    /// Reads that the device served, after merging.
    pub device_reads: u64,
    /// Their bytes.
    pub device_read_bytes: u64,
    /// Writes that the device served, after merging.
    pub device_writes: u64,
    /// Their bytes.
    pub device_written_bytes: u64,
    /// What became of pages and lookups.
    pub pages: PageCounts,
    /// One sample for each second of the run, the last one for what is left: less than a second,
    /// unless the run took more than a day.
    pub samples: Vec<Sample>,
}

/// Pages and lookups of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageCounts {
    /// Pages that readers looked up: one for each page of each request.
    pub page_lookups: u64,
    /// Of these, pages that were there.
    pub page_hits: u64,
    /// Of these, pages that the reader had to wait for.
    pub page_misses: u64,
    /// Of the misses, pages that were already on their way.
    pub page_misses_in_flight: u64,
    /// Second lookups, of pages that a policy was asked for because they were missing.
    pub lookups_after_miss: u64,
    /// Calls of the policy that decide.
    pub readahead_calls: u64,
    /// Lookups of pages that a window wants brought in.
    pub insert_lookups: u64,
    /// Lookups by the policy itself.
    pub policy_lookups: u64,
    /// Pages brought in that nobody had asked for yet.
    pub pages_ahead: u64,
    /// Pages of these that were then used. Those of an earlier run count where they are used.
    pub pages_used: u64,
    /// Pages of these that were evicted before use: thrashed.
    pub pages_wasted: u64,
}

/// How long requests took, each from when it was due until it was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencyReport {
    /// The mean.
    pub mean_ns: u64,
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// 90 in 100 took no longer.
    pub p90_ns: u64,
    /// 99 in 100 took no longer.
    pub p99_ns: u64,
    /// 999 in 1000 took no longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// One second of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// The end of the second, counted from the start of the run.
    pub at_s: f64,
    /// Bytes that readers and writers got done in it, by the second.
    pub throughput_bytes_s: f64,
    /// Mean size of the reads that the device served in it; 0 if there were none.
    pub mean_read_bytes: f64,
    /// Readers that had begun and not ended.
    pub streams: u32,
}

impl PageCounts {
    /// What was counted since `earlier`.
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
    /// Bytes read and written by the second; 0 for a run that took no time.
    #[must_use]
    pub fn throughput_bytes_s(&self) -> f64 {
        ratio(
            as_f64(self.bytes_read + self.bytes_written),
            self.elapsed.as_secs_f64(),
        )
    }

    /// Mean size of a read that the device served.
    #[must_use]
    pub fn mean_device_read_bytes(&self) -> f64 {
        quotient(self.device_read_bytes, self.device_reads)
    }

    /// The share of lookups that found their page there, from 0 to 1.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        quotient(self.pages.page_hits, self.pages.page_lookups)
    }
}

/// `part / whole`, and 0 of nothing.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// [`ratio`] of counts.
pub(crate) fn quotient(part: u64, whole: u64) -> f64 {
    ratio(as_f64(part), as_f64(whole))
}

/// A count as the nearest number with a fraction.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts above 2^53 lose digits that no figure shows"
)]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}

/// A report as it is written: with its rates.
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
