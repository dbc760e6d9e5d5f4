//! The changes of a mount's counts between two replies of its server.

use super::poller::Sample;
use larder::{CacheKind, CacheStats, LatencyStats, OperationStats, Stats};
use serde::Serialize;
use std::time::Duration;

/// The last reply of the server, and an earlier reply with which it is compared, if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    before: Option<&'a Sample>,
    pub now: &'a Sample,
}

impl<'a> Change<'a> {
    /// Compares `now` with `before`. If the image was mounted again in the meantime, there is nothing to compare.
    pub(super) fn new(before: Option<&'a Sample>, now: &'a Sample) -> Self {
        let before = before.filter(|before| before.is_of_mount_of(now));
        Self { before, now }
    }

    /// Returns the time between the two replies.
    pub(super) fn elapsed(&self) -> Option<Duration> {
        let elapsed = self.now.at.saturating_duration_since(self.before?.at);
        (!elapsed.is_zero()).then_some(elapsed)
    }

    /// Returns how much a count has grown between the two replies. If the count is smaller than before, returns 0.
    fn growth(&self, count: impl Fn(&Stats) -> u64) -> Option<u64> {
        let before = count(&self.before?.stats);
        Some(count(&self.now.stats).saturating_sub(before))
    }

    /// Returns the growth of a count per second.
    pub(super) fn rate(&self, count: impl Fn(&Stats) -> u64) -> Option<f64> {
        Some(as_f64(self.growth(count)?) / self.elapsed()?.as_secs_f64())
    }

    /// Returns the growth of one count divided by the growth of another.
    pub(super) fn ratio(
        &self,
        part: impl Fn(&Stats) -> u64,
        whole: impl Fn(&Stats) -> u64,
    ) -> Option<f64> {
        ratio(self.growth(part)?, self.growth(whole)?)
    }

    /// Returns the durations that were recorded between the two replies.
    pub(super) fn latency(
        &self,
        latency: impl Fn(&Stats) -> Option<&LatencyStats>,
    ) -> Option<LatencyStats> {
        let now = latency(&self.now.stats)?;
        let none = LatencyStats::default();
        let before = latency(&self.before?.stats).unwrap_or(&none);
        Some(now.since(before))
    }

    /// Returns the times of all requests of the kernel that were answered between the two replies.
    pub(super) fn request_latency(&self) -> Option<LatencyStats> {
        let mut all = LatencyStats::default();
        for operation in self.operations() {
            all.add(&operation.latency?);
        }
        Some(all)
    }

    /// Returns the activity of each operation that the kernel has requested.
    pub(super) fn operations(&self) -> Vec<OperationChange<'a>> {
        let now = self.now.stats.requests.as_ref();
        let operations = now.map_or(&[][..], |requests| &requests.operations);
        operations.iter().map(|now| self.operation(now)).collect()
    }

    fn operation(&self, now: &'a OperationStats) -> OperationChange<'a> {
        let find = |stats: &'a Stats| {
            let mut operations = stats.requests.as_ref()?.operations.iter();
            operations.find(|before| before.operation == now.operation)
        };
        let none = OperationStats::default();
        let before = self
            .before
            .map(|before| find(&before.stats).unwrap_or(&none));
        let rate = |count: fn(&OperationStats) -> u64| {
            let growth = count(now).saturating_sub(count(before?));
            Some(as_f64(growth) / self.elapsed()?.as_secs_f64())
        };
        OperationChange {
            rate: rate(|operation| operation.requests),
            byte_rate: rate(|operation| operation.bytes),
            latency: before.map(|before| now.latency.since(&before.latency)),
            now,
        }
    }

    /// Returns the memory that all caches use, in bytes.
    pub(super) fn used_bytes(&self) -> u64 {
        let caches = self.now.stats.caches();
        caches.iter().map(|(_, cache)| cache.bytes).sum()
    }

    /// Returns the activity of a cache.
    pub(super) fn cache(&self, kind: CacheKind) -> CacheChange {
        let rate = |count: fn(&CacheStats) -> u64| self.rate(|stats| count(stats.cache(kind)));
        let ratio = |part: fn(&CacheStats) -> u64, whole: fn(&CacheStats) -> u64| {
            self.ratio(
                |stats| part(stats.cache(kind)),
                |stats| whole(stats.cache(kind)),
            )
        };
        CacheChange {
            rate: rate(|cache| cache.lookups),
            hit_rate: ratio(|cache| cache.hits, |cache| cache.lookups),
            links_per_hit: ratio(|cache| cache.links_on_hits, |cache| cache.searches().hits),
            links_per_miss: ratio(
                |cache| cache.links_on_misses,
                |cache| cache.searches().misses,
            ),
            inserted: rate(|cache| cache.inserted),
            removed: rate(|cache| cache.inserted.saturating_sub(cache.objects)),
        }
    }
}

/// The activity of one cache between two replies. A value is `None` if there is no earlier reply, or if its
/// divisor is 0.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CacheChange {
    /// Lookups per second.
    #[serde(rename = "lookups_s")]
    pub rate: Option<f64>,
    /// The share of lookups that were hits, from 0 to 1.
    pub hit_rate: Option<f64>,
    pub links_per_hit: Option<f64>,
    pub links_per_miss: Option<f64>,
    /// Objects inserted per second.
    #[serde(rename = "inserted_s")]
    pub inserted: Option<f64>,
    /// Objects evicted or removed per second.
    #[serde(rename = "removed_s")]
    pub removed: Option<f64>,
}

/// The activity of one operation between two replies. A value is `None` if there is no earlier reply.
#[derive(Clone, Debug)]
pub(super) struct OperationChange<'a> {
    /// The statistics since the mount.
    pub now: &'a OperationStats,
    /// Requests per second.
    pub rate: Option<f64>,
    /// Bytes of content per second.
    pub byte_rate: Option<f64>,
    pub latency: Option<LatencyStats>,
}

/// Returns `part` divided by `whole`; `None` if `whole` is 0.
pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| as_f64(part) / as_f64(whole))
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(super) fn as_f64(count: u64) -> f64 {
    count as f64
}
