//! The measured figures of a device, and the model of a device with these figures.

use crate::run_report::as_f64;
use larder_instruments::simulated::{
    DEVICE_MODELS, DeviceModel, ParallelModel, QueueModel, ServiceModel, SourcedValue, StripedUnits,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version of the file with figures.
pub(super) const VERSION: u32 = 1;

/// A device with a random read of at least this time moves a head.
const MIN_SEEK: Duration = Duration::from_millis(2);

/// Assumed size of the part of the device that one of its units reads at once.
const STRIPE_BYTES: u64 = 16 << 10;

const MEASURED: &str = "measured by larder lab device";

/// The measured figures of a device: the content of the file that `larder lab device` writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFigures {
    /// The version of the format.
    pub version: u32,
    /// The measured image or device.
    pub path: String,
    /// The size of the image or device.
    pub size_bytes: u64,
    /// Mean time of a random read of 4 KiB, if each read waits for the previous one.
    pub random_read_ns: f64,
    /// The 99th percentile of this time.
    pub random_read_p99_ns: f64,
    /// Random reads of 4 KiB per second, if 32 reads are in progress at any time.
    pub random_reads_per_s: f64,
    /// Bytes per second of sequential reads of 1 MiB.
    pub sequential_bytes_per_s: f64,
    /// Median time of a flush without preceding writes; `None` if the file cannot be flushed.
    pub flush_ns: Option<f64>,
}

/// The reason why figures cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FiguresError {
    /// The text is not the JSON of figures.
    #[error("not the figures of a device: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version of the format.
    #[error("unsupported version {0} of the figures; supported: {VERSION}")]
    Version(u32),
    /// A figure is not a positive number.
    #[error("{name} is {value}, which is not a positive number")]
    Invalid {
        /// The name of the figure.
        name: &'static str,
        /// The value.
        value: f64,
    },
}

impl DeviceFigures {
    /// Parses the JSON of figures.
    ///
    /// # Errors
    /// Returns an error if the text has another format or version, or contains an impossible figure.
    pub fn parse(text: &str) -> Result<Self, FiguresError> {
        let figures: Self = serde_json::from_str(text)?;
        if figures.version != VERSION {
            return Err(FiguresError::Version(figures.version));
        }
        let positive = [
            ("size_bytes", as_f64(figures.size_bytes)),
            ("random_read_ns", figures.random_read_ns),
            ("random_reads_per_s", figures.random_reads_per_s),
            ("sequential_bytes_per_s", figures.sequential_bytes_per_s),
        ];
        let mut invalid = positive
            .into_iter()
            .filter(|(_, value)| !(1e-3..1e18).contains(value));
        match invalid.next() {
            Some((name, value)) => Err(FiguresError::Invalid { name, value }),
            None => Ok(figures),
        }
    }

    /// Returns a model of the device.
    ///
    /// The number of reads in progress is their rate times their duration (Little's law). The number that 32 readers
    /// achieve gives the number *n* of units of the device: 32 reads, each at a random unit, keep 32 *n* / (31 + *n*)
    /// units busy. A device with slow random reads and fast sequential reads is modelled as a disk, whose seeks take
    /// the measured time.
    #[must_use]
    pub fn model(&self) -> DeviceModel {
        let latency = Duration::from_secs_f64(self.random_read_ns / 1e9);
        let sequential_ns_of_4k = 4096.0 / self.sequential_bytes_per_s * 1e9;
        if latency >= MIN_SEEK && sequential_ns_of_4k * 20.0 < self.random_read_ns {
            return self.disk(latency);
        }
        let busy = (self.random_reads_per_s * latency.as_secs_f64()).clamp(1.0, 31.5);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 1 to 1953"
        )]
        let units = (31.0 * busy / (32.0 - busy)).round() as usize;
        let mut model = DEVICE_MODELS[0];
        for one in DEVICE_MODELS {
            if one.name == "nvme" {
                model = *one;
            }
        }
        DeviceModel {
            name: "measured",
            about: "a measured device",
            size_bytes: measured(self.size_bytes.max(1 << 40)),
            file_start_bytes: measured(0),
            queue: QueueModel {
                max_command_bytes: Some(measured(1 << 20)),
                ..model.queue
            },
            service: ServiceModel::Parallel(ParallelModel {
                read_latency: measured(Duration::ZERO),
                read_latency_p99: None,
                write_latency: measured(latency),
                units: Some(StripedUnits {
                    count: measured(units.max(1)),
                    stripe_bytes: measured(STRIPE_BYTES),
                    read_time: measured(latency),
                }),
                stream_bytes_per_second: None,
                link_bytes_per_second: Some(measured(whole(self.sequential_bytes_per_s))),
            }),
        }
    }

    /// Returns the model of a disk with the measured figures. All other properties are those of `sata-2007`.
    fn disk(&self, latency: Duration) -> DeviceModel {
        let base = DeviceModel::named("sata-2007").unwrap_or(&DEVICE_MODELS[0]);
        let mut model = DeviceModel {
            name: "measured",
            about: "a measured disk",
            file_start_bytes: measured(0),
            size_bytes: measured(self.size_bytes.max(base.size_bytes.value)),
            ..*base
        };
        if let ServiceModel::Disk(disk) = &mut model.service {
            let rate = whole(self.sequential_bytes_per_s);
            disk.outer_bytes_per_second = measured(rate);
            disk.inner_bytes_per_second = measured(rate / 2 + 1);
            // The seeks of the base take 8.5 ms on average, and a read also waits for half a revolution.
            let rotation = disk.revolution.value / 2 + disk.overhead_miss.value;
            let seek = latency
                .saturating_sub(rotation)
                .max(Duration::from_micros(500));
            let factor = seek.as_secs_f64() / 0.0085;
            disk.seek_settle = measured(disk.seek_settle.value.mul_f64(factor));
            disk.seek_full_stroke = measured(disk.seek_full_stroke.value.mul_f64(factor));
        }
        model
    }
}

fn measured<T: Copy>(value: T) -> SourcedValue<T> {
    SourcedValue {
        value,
        source: MEASURED,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures are positive"
)]
fn whole(rate: f64) -> u64 {
    (rate as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::{CpuModel, Simulator, SimulatorConfig};
    use crate::workload::Workload;
    use larder_readahead::PolicyName;

    fn figures() -> DeviceFigures {
        DeviceFigures {
            version: VERSION,
            path: "disk.img".to_owned(),
            size_bytes: 1 << 30,
            random_read_ns: 90_000.0,
            random_read_p99_ns: 200_000.0,
            random_reads_per_s: 200_000.0,
            sequential_bytes_per_s: 2e9,
            flush_ns: Some(1e6),
        }
    }

    /// Returns the mean time of a request of a workload on the model, in seconds, and the bytes per second.
    fn simulated(figures: &DeviceFigures, workload: &str) -> (f64, f64) {
        let mut simulator = Simulator::new(SimulatorConfig {
            policy: PolicyName::Modern,
            device: figures.model(),
            memory_bytes: 1 << 28,
            readahead_max_bytes: 4 << 20,
            seed: 1,
            cpu: CpuModel::default(),
        })
        .unwrap();
        let workload = Workload::named(workload).unwrap();
        let files = simulator.add_files(&workload.file_sizes()).unwrap();
        let report = simulator.run(workload.jobs(&files, 1));
        let requests = as_f64(report.requests);
        (
            report.elapsed.as_secs_f64() / requests,
            report.throughput_bytes_s(),
        )
    }

    #[test]
    fn model_has_the_measured_figures() {
        let disk = DeviceFigures {
            random_read_ns: 9e6,
            random_reads_per_s: 180.0,
            sequential_bytes_per_s: 150e6,
            ..figures()
        };
        for figures in [figures(), disk] {
            let close = |value: f64, expected: f64, name| {
                let ratio = value / expected;
                assert!(
                    (0.7..1.4).contains(&ratio),
                    "{name}: {value} instead of {expected}"
                );
            };
            let (one, _) = simulated(&figures, "random:file=100G,requests=500");
            close(one, figures.random_read_ns / 1e9, "random reads");
            let (_, rate) = simulated(&figures, "sequential:file=256M");
            close(rate, figures.sequential_bytes_per_s, "sequential reads");
        }
        let (each, _) = simulated(&figures(), "random:file=100G,requests=500,threads=32");
        assert!((0.7..1.5).contains(&(each * 200_000.0)), "{each}");
    }

    #[test]
    fn measured_disk_is_as_large_as_its_figures() {
        for (size_bytes, latency) in [(1 << 30, 9e6), (8 << 40, 9e6), (8 << 40, 90_000.0)] {
            let figures = DeviceFigures {
                size_bytes,
                random_read_ns: latency,
                random_reads_per_s: 2e9 / latency,
                sequential_bytes_per_s: 150e6,
                ..figures()
            };
            let model = figures.model();
            assert!(model.size_bytes.value >= size_bytes, "{figures:?}");
            let is_disk = matches!(model.service, ServiceModel::Disk(_));
            assert_eq!(is_disk, latency > 1e6);
        }
        let large = DeviceFigures {
            size_bytes: 1 << 40,
            random_read_ns: 9e6,
            random_reads_per_s: 180.0,
            sequential_bytes_per_s: 150e6,
            ..figures()
        };
        let (one, _) = simulated(&large, "random:file=1000G,requests=500");
        assert!((0.7..1.4).contains(&(one / 9e-3)), "{one}");
    }

    #[test]
    fn figures_of_another_kind_are_refused() {
        let json = serde_json::to_string(&figures()).unwrap();
        assert_eq!(DeviceFigures::parse(&json).unwrap(), figures());
        let refused = |from: &str, to: &str| {
            DeviceFigures::parse(&json.replace(from, to))
                .unwrap_err()
                .to_string()
        };
        assert!(refused("\"version\":1", "\"version\":2").contains("version 2"));
        assert!(refused("90000.0", "-1.0").contains("random_read_ns is -1"));
        assert!(refused("\"path\"", "\"patch\"").contains("patch"));
        assert!(DeviceFigures::parse("").is_err() && DeviceFigures::parse("[]").is_err());
    }
}
