//! The figures of the last refreshes, from which graphs are drawn.
//!
//! # Cost
//! At most [`CAPACITY`] points are kept: about 150 KiB.

use super::change::{Change, as_f64};
use larder::{CacheKind, LatencyStats, RequestStats, ServerCounts, Stats, WritingStats};
use std::collections::VecDeque;
use std::time::Duration;

/// The maximum number of points. If a graph has more columns, its left part is blank.
pub(super) const CAPACITY: usize = 600;

/// The figures of one refresh. Figures that end in `_s` are rates per second. A figure is `None` if it is not known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    /// The time since the refresh before.
    pub elapsed: Duration,
    lookups_s: [Option<f32>; CacheKind::ALL.len()],
    hit_share: [Option<f32>; CacheKind::ALL.len()],
    inserted_s: [Option<f32>; CacheKind::ALL.len()],
    pub reads_s: Option<f32>,
    pub read_bytes_s: Option<f32>,
    pub writes_s: Option<f32>,
    pub written_bytes_s: Option<f32>,
    pub flushes_s: Option<f32>,
    pub dirty_bytes: Option<f32>,
    pub dirty_metadata_bytes: Option<f32>,
    pub waiting_handles: Option<f32>,
    pub commits_s: Option<f32>,
    pub pages_ahead_s: Option<f32>,
    pub fetched_bytes_s: Option<f32>,
    pub fetches_s: Option<f32>,
    pub requests_s: Option<f32>,
    pub errors_s: Option<f32>,
    pub request_p50_ns: Option<f32>,
    pub request_p99_ns: Option<f32>,
    pub waiting: Option<f32>,
}

impl Point {
    /// Returns the figures of `change`, or `None` if there is no earlier reply.
    fn of(change: &Change<'_>) -> Option<Self> {
        let elapsed = change.elapsed()?;
        let stats = &change.now.stats;
        let rate = |count: fn(&Stats) -> u64| narrow(change.rate(count));
        let server = |count: fn(&ServerCounts) -> u64| {
            stats.server.as_ref()?;
            narrow(change.rate(|stats| stats.server.as_ref().map_or(0, count)))
        };
        let written = |count: fn(&WritingStats) -> u64| {
            narrow(stats.writing.as_ref().map(|writing| as_f64(count(writing))))
        };
        let requests = stats.requests.as_ref();
        let request = |count: fn(&RequestStats) -> u64| {
            requests?;
            narrow(change.rate(|stats| stats.requests.as_ref().map_or(0, count)))
        };
        let latency = change.request_latency();
        let percentile = |of: fn(&LatencyStats) -> Option<u64>| {
            requests?;
            // An interval without requests is shown as 0, because a gap would look like a missing reply.
            narrow(
                latency
                    .as_ref()
                    .map(|latency| of(latency).map_or(0.0, as_f64)),
            )
        };
        Some(Self {
            elapsed,
            lookups_s: CacheKind::ALL.map(|kind| narrow(change.cache(kind).rate)),
            hit_share: CacheKind::ALL.map(|kind| narrow(change.cache(kind).hit_rate)),
            inserted_s: CacheKind::ALL.map(|kind| narrow(change.cache(kind).inserted)),
            reads_s: rate(|stats| stats.device.reads),
            read_bytes_s: rate(|stats| stats.device.bytes),
            writes_s: rate(|stats| stats.device.writes),
            written_bytes_s: rate(|stats| stats.device.written_bytes),
            flushes_s: rate(|stats| stats.device.flushes),
            dirty_bytes: written(|writing| writing.dirty_bytes),
            dirty_metadata_bytes: written(|writing| writing.dirty_metadata_bytes),
            waiting_handles: written(|writing| writing.waiting_handles),
            commits_s: rate(|stats| stats.writing.as_ref().map_or(0, |writing| writing.commits)),
            pages_ahead_s: rate(|stats| stats.readahead.pages_ahead),
            fetched_bytes_s: server(|server| server.fetched_bytes),
            fetches_s: server(|server| server.requests),
            requests_s: request(|requests| requests.requests),
            errors_s: request(|requests| requests.errors),
            request_p50_ns: percentile(|latency| latency.p50_ns),
            request_p99_ns: percentile(|latency| latency.p99_ns),
            waiting: requests.and_then(|requests| narrow(requests.waiting.map(as_f64))),
        })
    }

    /// Returns the lookups in a cache.
    pub(super) fn lookups_s(&self, cache: CacheKind) -> Option<f32> {
        self.lookups_s[cache as usize]
    }

    /// Returns the share of the lookups in a cache that were hits.
    pub(super) fn hit_share(&self, cache: CacheKind) -> Option<f32> {
        self.hit_share[cache as usize]
    }

    /// Returns the objects that were inserted into a cache.
    pub(super) fn inserted_s(&self, cache: CacheKind) -> Option<f32> {
        self.inserted_s[cache as usize]
    }
}

/// The points of the last refreshes, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct History(VecDeque<Point>);

impl History {
    /// Appends the figures of `change`, and removes the oldest point if there are too many.
    pub(super) fn push(&mut self, change: &Change<'_>) {
        let Some(point) = Point::of(change) else {
            return;
        };
        if self.0.len() == CAPACITY {
            self.0.pop_front();
        }
        self.0.push_back(point);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns one figure of the last `count` points, oldest first. There may be fewer points.
    pub(super) fn last(
        &self,
        count: usize,
        figure: impl Fn(&Point) -> Option<f32>,
    ) -> Vec<Option<f32>> {
        let first = self.0.len().saturating_sub(count);
        self.0.range(first..).map(figure).collect()
    }

    /// Returns the time that the last `count` points cover.
    pub(super) fn span(&self, count: usize) -> Duration {
        let first = self.0.len().saturating_sub(count);
        self.0.range(first..).map(|point| point.elapsed).sum()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "drawn as a few levels")]
fn narrow(value: Option<f64>) -> Option<f32> {
    value.map(|value| value as f32)
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn history_keeps_the_newest_points() {
        let mut history = History::default();
        let first = sample(0, "page");
        history.push(&Change::new(None, &first));
        assert!(history.last(10, |point| point.reads_s).is_empty());

        let mut before = first;
        for refresh in 1..=CAPACITY as u64 + 5 {
            let mut now = sample(refresh, "page");
            now.at = before.at + Duration::from_secs(1);
            now.stats.device.reads = before.stats.device.reads + refresh;
            history.push(&Change::new(Some(&before), &now));
            before = now;
        }
        let reads = history.last(usize::MAX, |point| point.reads_s);
        assert_eq!(reads.len(), CAPACITY);
        assert_eq!(reads.first(), Some(&Some(6.0)));
        assert_eq!(
            history.last(2, |point| point.reads_s),
            [Some(604.0), Some(605.0)]
        );
        assert_eq!(
            history.last(1, |point| point.lookups_s(CacheKind::Page)),
            [Some(1e6)]
        );
        assert_eq!(history.last(1, |point| point.fetches_s), [None]);
        assert_eq!(history.span(30), Duration::from_secs(30));
        assert_eq!(
            history.span(usize::MAX),
            Duration::from_secs(CAPACITY as u64)
        );

        history.clear();
        assert!(history.last(10, |point| point.reads_s).is_empty());
    }
}
