//! What happened between two answers of a server.

use super::Sample;
use larder::{CacheKind, CacheStats, Stats};
use serde::Serialize;
use std::time::Duration;

/// An answer, and the one before it to compare with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    before: Option<&'a Sample>,
    pub now: &'a Sample,
}

impl<'a> Change<'a> {
    pub(super) fn new(before: Option<&'a Sample>, now: &'a Sample) -> Self {
        Self { before, now }
    }

    /// The time between the two.
    pub(super) fn elapsed(&self) -> Option<Duration> {
        let elapsed = self.now.at.saturating_duration_since(self.before?.at);
        (!elapsed.is_zero()).then_some(elapsed)
    }

    /// By how much a count grew. A mount that was made anew counts from 0.
    fn growth(&self, count: impl Fn(&Stats) -> u64) -> Option<u64> {
        let before = count(&self.before?.stats);
        Some(count(&self.now.stats).saturating_sub(before))
    }

    /// How fast a count grew, in a second.
    pub(super) fn rate(&self, count: impl Fn(&Stats) -> u64) -> Option<f64> {
        Some(as_f64(self.growth(count)?) / self.elapsed()?.as_secs_f64())
    }

    /// How much one count grew for each one that another grew.
    pub(super) fn ratio(
        &self,
        part: impl Fn(&Stats) -> u64,
        whole: impl Fn(&Stats) -> u64,
    ) -> Option<f64> {
        ratio(self.growth(part)?, self.growth(whole)?)
    }

    /// What happened in a cache.
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
            links_per_hit: ratio(|cache| cache.links_on_hits, |cache| cache.hits),
            links_per_miss: ratio(|cache| cache.links_on_misses, misses),
            came: rate(|cache| cache.inserted),
            went: rate(|cache| cache.inserted.saturating_sub(cache.objects)),
        }
    }
}

/// What happened in one cache between two answers; each `None` if there is nothing to divide by.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CacheChange {
    /// Lookups in a second.
    #[serde(rename = "lookups_s")]
    pub rate: Option<f64>,
    /// 0 to 1.
    pub hit_rate: Option<f64>,
    pub links_per_hit: Option<f64>,
    pub links_per_miss: Option<f64>,
    /// Objects inserted in a second.
    #[serde(rename = "inserted_s")]
    pub came: Option<f64>,
    /// Objects evicted or removed in a second.
    #[serde(rename = "removed_s")]
    pub went: Option<f64>,
}

pub(super) fn misses(cache: &CacheStats) -> u64 {
    cache.lookups.saturating_sub(cache.hits)
}

/// `part` of `whole`; nothing of nothing.
pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| as_f64(part) / as_f64(whole))
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(super) fn as_f64(count: u64) -> f64 {
    count as f64
}
