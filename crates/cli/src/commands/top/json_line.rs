//! Writes each refresh of `larder top --json` as one line of JSON.

use super::change::{CacheChange, Change, as_f64};
use crate::json;
use larder::{CacheKind, RequestStats, ServerCounts, Stats};
use larder_console::{Result, write_json_line};
use serde::{Serialize, Serializer};

#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rates: Option<Rates>,
    stats: &'a Stats,
    histogram: json::Histogram,
}

#[derive(Debug, Serialize)]
struct Rates {
    page: CacheChange,
    buffer: CacheChange,
    dentry: CacheChange,
    inode: CacheChange,
    readahead: Fields<4>,
    device: Fields<5>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<Fields<5>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Fields<5>>,
}

/// A JSON object, as a list of its keys and values in the order in which they are written.
#[derive(Debug)]
struct Fields<const N: usize>([(&'static str, Option<f64>); N]);

impl<const N: usize> Serialize for Fields<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0)
    }
}

impl Rates {
    fn of(change: &Change<'_>) -> Self {
        let rate = |count: fn(&Stats) -> u64| change.rate(count);
        Self {
            page: change.cache(CacheKind::Page),
            buffer: change.cache(CacheKind::Buffer),
            dentry: change.cache(CacheKind::Dentry),
            inode: change.cache(CacheKind::Inode),
            readahead: Fields([
                ("windows_s", rate(|stats| stats.readahead.windows)),
                ("pages_ahead_s", rate(|stats| stats.readahead.pages_ahead)),
                ("pages_used_s", rate(|stats| stats.readahead.pages_used)),
                ("pages_wasted_s", rate(|stats| stats.readahead.pages_wasted)),
            ]),
            device: Fields([
                ("reads_s", rate(|stats| stats.device.reads)),
                ("bytes_s", rate(|stats| stats.device.bytes)),
                ("writes_s", rate(|stats| stats.device.writes)),
                ("written_bytes_s", rate(|stats| stats.device.written_bytes)),
                ("flushes_s", rate(|stats| stats.device.flushes)),
            ]),
            requests: change.now.stats.requests.is_some().then(|| {
                let rate = |count: fn(&RequestStats) -> u64| {
                    change.rate(|stats| stats.requests.as_ref().map_or(0, count))
                };
                let latency = change.request_latency().unwrap_or_default();
                Fields([
                    ("requests_s", rate(|requests| requests.requests)),
                    ("errors_s", rate(|requests| requests.errors)),
                    ("p50_ns", latency.p50_ns.map(as_f64)),
                    ("p90_ns", latency.p90_ns.map(as_f64)),
                    ("p99_ns", latency.p99_ns.map(as_f64)),
                ])
            }),
            server: change.now.stats.server.is_some().then(|| {
                let rate = |count: fn(&ServerCounts) -> u64| {
                    change.rate(|stats| stats.server.as_ref().map_or(0, count))
                };
                Fields([
                    ("requests_s", rate(|server| server.requests)),
                    ("failed_s", rate(|server| server.failed)),
                    ("fetched_bytes_s", rate(|server| server.fetched_bytes)),
                    ("memory_bytes_s", rate(|server| server.memory_bytes)),
                    ("disk_bytes_s", rate(|server| server.disk_bytes)),
                ])
            }),
        }
    }
}

impl<'a> Line<'a> {
    fn of(change: &Change<'a>) -> Self {
        let elapsed = change.elapsed();
        Self {
            elapsed_s: elapsed.map(|elapsed| elapsed.as_secs_f64()),
            rates: elapsed.map(|_| Rates::of(change)),
            stats: &change.now.stats,
            histogram: json::Histogram::new(&change.now.report),
        }
    }
}

pub(super) fn print(change: &Change<'_>) -> Result<()> {
    write_json_line(&Line::of(change))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{busy, sample};
    use super::*;
    use serde_json::Value;
    use std::time::Duration;

    fn json(change: &Change<'_>) -> Value {
        serde_json::to_value(Line::of(change)).unwrap()
    }

    #[test]
    fn json_has_rates_from_second_line_on() {
        let (before, mut now) = (sample(0, "dentry"), sample(2, "dentry"));
        now.at = before.at + Duration::from_secs(2);
        let line = json(&Change::new(None, &now));
        assert!(line.get("rates").is_none() && line.get("elapsed_s").is_none());
        assert_eq!(line["histogram"]["rows"][1]["buckets"], 82_000);
        assert_eq!(line["histogram"]["rows"][16]["length"], Value::Null);
        let line = json(&Change::new(Some(&before), &now));
        assert_eq!(line["elapsed_s"], 2.0);
        assert_eq!(line["rates"]["page"]["lookups_s"], 1_000_000.0);
        assert_eq!(line["rates"]["page"]["hit_rate"], 0.9999);
        assert_eq!(line["rates"]["page"]["inserted_s"], 1000.0);
        assert_eq!(line["rates"]["page"]["removed_s"], 1000.0);
        assert_eq!(line["rates"]["inode"]["hit_rate"], Value::Null);
        assert_eq!(line["stats"]["dentry"]["longest_chain"], 12);
        assert!(line["rates"].get("server").is_none());
    }

    #[test]
    fn json_of_a_mount_has_rates_and_latencies_of_requests() {
        let (before, mut now) = (busy(0), busy(2));
        now.at = before.at + Duration::from_secs(2);
        let line = json(&Change::new(Some(&before), &now));
        let requests = &line["rates"]["requests"];
        assert_eq!(requests["requests_s"], 146.0);
        assert_eq!(requests["errors_s"], 0.0);
        // Nine of ten requests are faster than the slowest reads.
        let [p50, p90, p99] = ["p50_ns", "p90_ns", "p99_ns"].map(|key| requests[key].as_f64());
        assert!(p50 < Some(4000.0) && p90 < Some(200_000.0), "{requests}");
        assert!(p99 > Some(2_000_000.0), "{requests}");
        assert_eq!(line["stats"]["hot"]["files"][0]["ino"], 4711);
        now.stats.requests = None;
        let line = json(&Change::new(Some(&before), &now));
        assert!(line["rates"].get("requests").is_none());
    }

    #[test]
    fn image_that_was_mounted_again_has_no_rates() {
        let (mut before, mut now) = (busy(0), busy(2));
        now.at = before.at + Duration::from_secs(2);
        before.stats.requests.as_mut().unwrap().start_ns = 1;
        let line = json(&Change::new(Some(&before), &now));
        assert!(line.get("rates").is_none() && line.get("elapsed_s").is_none());
    }

    #[test]
    fn json_of_a_remote_image_has_rates_of_its_server() {
        let sample_of = |seconds, requests, fetched_bytes| {
            let mut sample = sample(seconds, "page");
            sample.stats.server = Some(ServerCounts {
                requests,
                fetched_bytes,
                ..ServerCounts::default()
            });
            sample
        };
        let before = sample_of(0, 3, 1 << 20);
        let mut now = sample_of(2, 7, 5 << 20);
        now.at = before.at + Duration::from_secs(2);
        let line = json(&Change::new(Some(&before), &now));
        assert_eq!(line["rates"]["server"]["requests_s"], 2.0);
        assert_eq!(
            line["rates"]["server"]["fetched_bytes_s"],
            f64::from(2 << 20)
        );
        assert_eq!(line["rates"]["server"]["failed_s"], 0.0);
    }
}
