//! The latency of the reads of a parallel device: constant, or log-normal.
//!
//! A log-normal latency is computed in floating point, unlike all other times. It is rounded to microseconds, so that a
//! run is almost always identical on every machine.

use std::f64::consts::TAU;
use std::iter;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::arithmetic::nanos;
use super::parameters::ParallelModel;

/// The 99th percentile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326_347_874;

/// The latencies of reads, in the order in which the device accepts the reads.
#[derive(Debug)]
pub(super) struct ReadLatency {
    median: Duration,
    /// The standard deviation of the logarithm. `None` if the latency is constant.
    deviation: Option<f64>,
    random: Pcg64Mcg,
}

impl ReadLatency {
    pub fn new(model: &ParallelModel, seed: u64) -> Self {
        let median = model.read_latency.value;
        let deviation = model
            .read_latency_p99
            .map(|p99| p99.value.div_duration_f64(median).ln() / NORMAL_P99);
        Self {
            median,
            deviation,
            random: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// Returns the latency of the next read.
    pub fn next_ns(&mut self) -> u64 {
        let Some(deviation) = self.deviation else {
            return nanos(self.median);
        };
        // The method of Box and Muller: two uniform numbers give a normal one.
        let (radius, angle): (f64, f64) = (self.random.random(), self.random.random());
        let normal = (-2.0 * (1.0 - radius).ln()).sqrt() * (TAU * angle).cos();
        let latency = self.median.mul_f64((deviation * normal).exp());
        nanos(latency) / 1000 * 1000
    }
}

impl ParallelModel {
    /// Returns the latencies of the reads of a device with `seed`, in the order in which the device accepts the reads.
    pub fn read_latencies(&self, seed: u64) -> impl Iterator<Item = Duration> + use<> {
        let mut latency = ReadLatency::new(self, seed);
        iter::from_fn(move || Some(Duration::from_nanos(latency.next_ns())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{DeviceModel, ServiceModel};

    /// Returns the first 100,000 latencies of a device in ascending order.
    fn sorted(name: &str, seed: u64) -> Vec<Duration> {
        let ServiceModel::Parallel(model) = DeviceModel::named(name).unwrap().service else {
            panic!("{name} is a disk");
        };
        let mut latencies: Vec<Duration> = model.read_latencies(seed).take(100_000).collect();
        latencies.sort_unstable();
        latencies
    }

    #[test]
    fn latencies_have_the_percentiles_of_the_model() {
        for seed in [1, 2] {
            let latencies = sorted("object-tail", seed);
            for (percent, millis) in [(50, 26.79), (90, 59.3), (99, 113.35)] {
                let found = latencies[percent * 1000].as_secs_f64() * 1000.0;
                assert!(
                    (found / millis - 1.0).abs() < 0.03,
                    "{percent}%: {found} ms"
                );
            }
        }
        assert_ne!(sorted("object-tail", 1), sorted("object-tail", 2));
    }

    #[test]
    fn latency_without_a_tail_is_constant() {
        let latencies = sorted("object-30ms", 1);
        assert_eq!(latencies.first(), latencies.last());
    }
}
