//! Latencies of requests: a histogram whose bucket widths are proportional to the values.
//!
//! Model: `HdrHistogram`. Values below 64 ns have a bucket each. Larger values share buckets: each range
//! between two powers of two is divided into 64 buckets, so a percentile is at most 1/64 too high. The
//! maximum and the mean are exact.
//!
//! Cost: 30 KiB, whatever the number of values.

use std::time::Duration;

use crate::run_report::LatencyReport;

/// The log2 of the number of buckets for each power of two.
const STEP_BITS: u32 = 6;
const STEPS: u64 = 1 << STEP_BITS;
const BUCKETS: usize = ((64 - STEP_BITS as usize) + 1) << STEP_BITS;

/// Counts of latencies.
#[derive(Debug)]
pub(super) struct Latencies {
    buckets: Box<[u64]>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Latencies {
    pub(super) fn new() -> Self {
        Self {
            buckets: vec![0; BUCKETS].into(),
            count: 0,
            sum_ns: 0,
            max_ns: 0,
        }
    }

    pub(super) fn add(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub(super) fn report(&self) -> LatencyReport {
        let mean_ns = self.sum_ns / u128::from(self.count.max(1));
        LatencyReport {
            mean_ns: u64::try_from(mean_ns).unwrap_or(u64::MAX),
            p50_ns: self.percentile(500),
            p90_ns: self.percentile(900),
            p99_ns: self.percentile(990),
            p999_ns: self.percentile(999),
            max_ns: self.max_ns,
        }
    }

    /// Returns the latency that `per_mille` thousandths of the values do not exceed, rounded up to the end of
    /// a bucket.
    fn percentile(&self, per_mille: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(per_mille)).div_ceil(1000);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= rank && seen > 0 {
                return highest(index).min(self.max_ns);
            }
        }
        0
    }
}

/// Returns the bucket of a value.
fn bucket(ns: u64) -> usize {
    let shift = (ns | STEPS).ilog2() - STEP_BITS;
    // The seven most significant bits of a value, or all bits of a value below 128.
    let step = ns >> shift;
    let index = u64::from(shift) * STEPS + step;
    usize::try_from(index).unwrap_or(BUCKETS - 1)
}

/// Returns the highest value of a bucket.
fn highest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / STEPS).saturating_sub(1);
    let step = bucket - shift * STEPS;
    u64::try_from(((u128::from(step) + 1) << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highest_value_of_a_bucket_exceeds_others_by_at_most_a_64th() {
        let near = |power: u32| [0, 1, 7].map(|more| (1u64 << power).saturating_add(more));
        let values = (0..64)
            .flat_map(near)
            .flat_map(|v| [v - 1, v])
            .chain([u64::MAX]);
        for value in values {
            let top = highest(bucket(value));
            assert!(
                top >= value && top - value <= value / STEPS,
                "{value}: {top}"
            );
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn percentiles_of_a_thousand_values_are_within_a_64th() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.report(), LatencyReport::default());
        for us in 1..=1000 {
            latencies.add(Duration::from_micros(us));
        }
        let report = latencies.report();
        let within = |got: u64, want: u64| got >= want && got <= want + want / STEPS;
        assert!(within(report.p50_ns, 500_000), "{report:?}");
        assert!(within(report.p90_ns, 900_000), "{report:?}");
        assert!(within(report.p999_ns, 999_000), "{report:?}");
        assert_eq!((report.mean_ns, report.max_ns), (500_500, 1_000_000));
    }
}
