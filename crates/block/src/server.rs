//! What a device has read from a server.

use serde::{Deserialize, Serialize};

/// Counts of a device whose bytes come from a server, since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCounts {
    /// Requests to the server, including repeated ones.
    pub requests: u64,
    /// Requests that repeated a failed request.
    pub repeated: u64,
    /// Reads that failed, because no attempt was successful in time.
    pub failed: u64,
    /// Bytes that the server sent.
    pub fetched_bytes: u64,
    /// The part of `fetched_bytes` for which no thread waited.
    pub ahead_bytes: u64,
    /// Bytes that were fetched for a profile, or read from a pack. `ahead_bytes` does not contain them.
    #[serde(default)]
    pub profile_bytes: u64,
    /// The part of `profile_bytes` that was read.
    #[serde(default)]
    pub profile_used_bytes: u64,
    /// Bytes that were read from units (fetched parts of the image) in memory.
    pub memory_bytes: u64,
    /// Bytes that were read from the disk cache.
    pub disk_bytes: u64,
    /// The time in which at least one request was in flight, in nanoseconds.
    #[serde(default)]
    pub busy_ns: u64,
    /// An upper bound of the median latency of successful requests, in microseconds. The latency is the time
    /// until the head of the reply has arrived. The bound is at most twice the median.
    pub latency_p50_us: Option<u64>,
    /// The same for the 99th percentile.
    pub latency_p99_us: Option<u64>,
    /// Whether the server sends no strong `ETag`, so that a replaced object is detected only by its length and its time of
    /// modification.
    #[serde(default)]
    pub unversioned: bool,
    /// Why the most recent failed attempt failed. The text contains no secret.
    pub last_failure: Option<String>,
}

impl ServerCounts {
    /// Returns the mean rate at which the server sent bytes while requests were in flight, in bytes per second.
    /// Returns `None` if no request was sent.
    #[must_use]
    pub fn bandwidth_bytes(&self) -> Option<u64> {
        let sent = u128::from(self.fetched_bytes) * 1_000_000_000;
        let rate = sent.checked_div(self.busy_ns.into())?;
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}
