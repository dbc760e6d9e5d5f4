//! Histograms of durations, which many threads record at the same time.
//!
//! # Model
//! The buckets are log-linear: each power of two is divided into four buckets of the same width. Therefore the upper
//! limit of a bucket is at most 1.25 times each duration in it. A bucket contains its upper limit, as in Prometheus,
//! and each power of two from [`FIRST_NS`] to [`LAST_NS`] is an upper limit. The first bucket also contains all shorter
//! durations, and the last bucket all longer ones.
//!
//! # Cost
//! A histogram has 113 counters of 8 bytes. Recording a duration takes two additions to atomic integers, and no lock.
//! Threads that often record at the same time should have different histograms, whose statistics are then
//! [added](LatencyStats::add).

use crate::timing::Measured;
use serde::{Deserialize, Serialize};
use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The upper limit of the first bucket, in nanoseconds.
const FIRST_NS: u64 = 1 << FIRST_BITS;
/// The upper limit of the last bucket, in nanoseconds: about 69 s.
const LAST_NS: u64 = 1 << LAST_BITS;
const FIRST_BITS: u32 = 8;
const LAST_BITS: u32 = 36;
/// The binary logarithm of the number of buckets for each power of two.
const PART_BITS: u32 = 2;
const PART_MASK: u64 = (1 << PART_BITS) - 1;
/// The number of buckets.
const BUCKETS: usize = 1 + (((LAST_BITS - FIRST_BITS) as usize) << PART_BITS);

/// A histogram of durations.
#[derive(Debug)]
pub struct LatencyHistogram {
    buckets: [AtomicU64; BUCKETS],
    total_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self {
            buckets: array::from_fn(|_| AtomicU64::new(0)),
            total_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }
}

impl LatencyHistogram {
    /// Records one duration.
    pub fn record(&self, duration: Duration) {
        self.record_measured(Measured {
            duration,
            weight: 1,
        });
    }

    /// Records a measured duration as often as its weight says.
    pub fn record_measured(&self, measured: Measured) {
        let Measured { duration, weight } = measured;
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let weight = u64::from(weight);
        self.buckets[bucket_of(ns)].fetch_add(weight, Relaxed);
        self.total_ns.fetch_add(ns.saturating_mul(weight), Relaxed);
        // Most durations are not the longest, so this is usually only a load.
        if ns > self.max_ns.load(Relaxed) {
            self.max_ns.fetch_max(ns, Relaxed);
        }
    }

    /// Returns the statistics so far.
    #[must_use]
    pub fn stats(&self) -> LatencyStats {
        let counts = self.buckets.iter().map(|count| count.load(Relaxed));
        let buckets = counts
            .enumerate()
            .filter(|(_, count)| *count > 0)
            .map(|(index, count)| (upper_ns(index), count));
        let mut stats = LatencyStats {
            total_ns: self.total_ns.load(Relaxed),
            buckets: buckets.collect(),
            ..LatencyStats::default()
        };
        stats.summarize(self.max_ns.load(Relaxed));
        stats
    }
}

/// Returns the index of the bucket for a duration.
fn bucket_of(ns: u64) -> usize {
    // The upper limit of a bucket belongs to the bucket.
    let below = ns.saturating_sub(1);
    if below < FIRST_NS {
        return 0;
    }
    let below = below.min(LAST_NS - 1);
    let bits = below.ilog2();
    let part = ((below >> (bits - PART_BITS)) & PART_MASK) as usize;
    1 + (((bits - FIRST_BITS) as usize) << PART_BITS) + part
}

/// Returns the upper limit of a bucket.
fn upper_ns(index: usize) -> u64 {
    let Some(later) = index.checked_sub(1) else {
        return FIRST_NS;
    };
    let part_ns = (FIRST_NS >> PART_BITS) << (later >> PART_BITS);
    let parts = (1 << PART_BITS) + (later & ((1 << PART_BITS) - 1)) + 1;
    part_ns * parts as u64
}

/// Statistics of durations. If there are many operations, only a [sample](crate::timing) is measured; `count` then
/// differs slightly from the number of operations.
///
/// A percentile is the upper limit of the bucket that contains the exact value, or the longest duration if that is
/// shorter. It is at most 1.25 times the exact value, if this is between 0.3 µs and 69 s.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyStats {
    /// The number of durations.
    pub count: u64,
    /// The sum of the durations, in nanoseconds.
    pub total_ns: u64,
    /// The longest of the measured durations, in nanoseconds. `None` if there are no durations, or if it is unknown
    /// because these are the statistics of a [part](LatencyStats::since) of the time.
    pub max_ns: Option<u64>,
    /// The median, in nanoseconds.
    pub p50_ns: Option<u64>,
    /// The 90th percentile, in nanoseconds.
    pub p90_ns: Option<u64>,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: Option<u64>,
    /// The buckets that are not empty, in ascending order. Each has the longest duration that it contains, in
    /// nanoseconds, and the number of durations in it.
    pub buckets: Vec<(u64, u64)>,
}

impl LatencyStats {
    /// Returns an upper limit of the duration that `percent` percent of the durations did not exceed. Returns `None` if
    /// there are no durations.
    #[must_use]
    pub fn percentile_ns(&self, percent: u64) -> Option<u64> {
        let wanted = (u128::from(self.count) * u128::from(percent.min(100))).div_ceil(100);
        let mut seen = 0;
        let bucket = self.buckets.iter().find(|(_, count)| {
            seen += u128::from(*count);
            seen >= wanted.max(1)
        });
        let limit_ns = bucket?.0;
        Some(self.max_ns.map_or(limit_ns, |max_ns| limit_ns.min(max_ns)))
    }

    /// Returns the statistics of the durations that were recorded after `earlier`. These must be statistics of the same
    /// operations at an earlier time.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let count_before = |limit_ns| {
            let found = earlier
                .buckets
                .binary_search_by_key(&limit_ns, |(ns, _)| *ns);
            found.map_or(0, |at| earlier.buckets[at].1)
        };
        let buckets = self
            .buckets
            .iter()
            .map(|&(limit_ns, count)| (limit_ns, count.saturating_sub(count_before(limit_ns))));
        let mut stats = Self {
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            buckets: buckets.filter(|(_, count)| *count > 0).collect(),
            ..Self::default()
        };
        stats.summarize(0);
        stats
    }

    /// Adds the durations of `other`.
    pub fn add(&mut self, other: &Self) {
        for &(limit_ns, count) in &other.buckets {
            match self.buckets.binary_search_by_key(&limit_ns, |(ns, _)| *ns) {
                Ok(at) => self.buckets[at].1 += count,
                Err(at) => self.buckets.insert(at, (limit_ns, count)),
            }
        }
        self.total_ns = self.total_ns.wrapping_add(other.total_ns);
        self.summarize(self.max_ns.max(other.max_ns).unwrap_or(0));
    }

    /// Returns the number of durations that were at most `limit_ns`, which must be the upper limit of a bucket.
    #[must_use]
    pub fn count_within(&self, limit_ns: u64) -> u64 {
        let within = self.buckets.iter().take_while(|(ns, _)| *ns <= limit_ns);
        within.map(|(_, count)| count).sum()
    }

    /// Sets the values that follow from the buckets. `max_ns` is the longest duration, or 0 if it is not known.
    fn summarize(&mut self, max_ns: u64) {
        self.count = self.buckets.iter().map(|(_, count)| count).sum();
        self.max_ns = (self.count > 0 && max_ns > 0).then_some(max_ns);
        self.p50_ns = self.percentile_ns(50);
        self.p90_ns = self.percentile_ns(90);
        self.p99_ns = self.percentile_ns(99);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator of the numbers of `SplitMix64`, whose seed is fixed.
    fn numbers() -> impl Iterator<Item = u64> {
        let mut state = 0x0b5e_0002_u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        })
    }

    fn recorded(durations_ns: impl IntoIterator<Item = u64>) -> LatencyHistogram {
        let histogram = LatencyHistogram::default();
        for ns in durations_ns {
            histogram.record(Duration::from_nanos(ns));
        }
        histogram
    }

    #[test]
    fn bucket_contains_its_upper_limit_and_nothing_below_the_previous_one() {
        assert_eq!((upper_ns(0), upper_ns(BUCKETS - 1)), (FIRST_NS, LAST_NS));
        for index in 0..BUCKETS {
            assert_eq!(bucket_of(upper_ns(index)), index);
            let next = (index + 1).min(BUCKETS - 1);
            assert_eq!(bucket_of(upper_ns(index) + 1), next);
            if index > 0 {
                assert!(upper_ns(index) * 4 <= upper_ns(index - 1) * 5, "{index}");
            }
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
        for bits in FIRST_BITS..=LAST_BITS {
            let limit_ns = 1 << bits;
            assert_eq!(upper_ns(bucket_of(limit_ns)), limit_ns);
        }
    }

    #[test]
    fn percentiles_are_within_a_quarter_of_the_exact_ones() {
        // Durations of each magnitude from 0.3 us to 69 s.
        let durations = numbers().map(|number| {
            let magnitude = 1_u64 << (8 + number % 28);
            magnitude + (number >> 32) % magnitude
        });
        let mut exact: Vec<u64> = durations.take(10_000).collect();
        let stats = recorded(exact.iter().copied()).stats();
        exact.sort_unstable();
        assert_eq!(stats.count, 10_000);
        assert_eq!(stats.total_ns, exact.iter().sum::<u64>());
        assert_eq!(stats.max_ns, exact.last().copied());
        let summary = [(50, stats.p50_ns), (90, stats.p90_ns), (99, stats.p99_ns)];
        for (percent, shown) in summary {
            assert_eq!(shown, stats.percentile_ns(percent));
        }
        for percent in 1..=100 {
            let exact_ns = exact[usize::try_from(percent).unwrap() * 100 - 1];
            let shown_ns = stats.percentile_ns(percent).unwrap();
            assert!(
                (exact_ns..=exact_ns + exact_ns / 4).contains(&shown_ns),
                "{percent}%: {shown_ns} instead of {exact_ns}"
            );
        }
    }

    #[test]
    fn no_percentile_exceeds_the_longest_duration() {
        let stats = recorded([1_000_000]).stats();
        assert_eq!(stats.p50_ns, Some(1_000_000));
        assert_eq!(LatencyHistogram::default().stats(), LatencyStats::default());
    }

    #[test]
    fn difference_contains_only_later_durations() {
        let histogram = recorded([1000, 1000, 2000]);
        let earlier = histogram.stats();
        for ns in [1000, 500_000] {
            histogram.record(Duration::from_nanos(ns));
        }
        let difference = histogram.stats().since(&earlier);
        assert_eq!((difference.count, difference.total_ns), (2, 501_000));
        assert_eq!(
            difference.buckets,
            recorded([1000, 500_000]).stats().buckets
        );
        assert_eq!(difference.max_ns, None);
        assert_eq!(earlier.since(&earlier), LatencyStats::default());
    }

    #[test]
    fn sum_of_statistics_equals_the_statistics_of_all() {
        let durations: Vec<u64> = numbers().map(|number| number >> 30).take(1000).collect();
        let (first, second) = durations.split_at(300);
        let mut sum = recorded(first.iter().copied()).stats();
        sum.add(&recorded(second.iter().copied()).stats());
        assert_eq!(sum, recorded(durations.iter().copied()).stats());
    }

    #[test]
    fn count_within_a_limit_contains_the_limit() {
        let stats = recorded([1024, 1025, 2048, 5000]).stats();
        let within = [1024, 2048, 8192].map(|ns| stats.count_within(ns));
        assert_eq!(within, [1, 3, 4]);
    }

    #[test]
    fn threads_record_every_duration() {
        let histogram = LatencyHistogram::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for ns in 0..10_000 {
                        histogram.record(Duration::from_nanos(ns));
                    }
                });
            }
        });
        let stats = histogram.stats();
        assert_eq!((stats.count, stats.max_ns), (40_000, Some(9999)));
        assert_eq!(stats.total_ns, 4 * 49_995_000);
    }
}
