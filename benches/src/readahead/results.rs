//! The results of a run of the readahead benches.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::database;
use crate::measure::{as_f64, median, megabytes};
use crate::origin::{Origin, first_line};
use crate::outcome::Outcome;
use crate::readahead::device::Reads;
use crate::readahead::peer::Peer;
use crate::readahead::plan::Disk;
use crate::readahead::plan::Plan;

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The case.
    pub case: String,
    /// The disk.
    pub disk: Disk,
    /// The side.
    pub peer: String,
    /// The round, from 0.
    pub round: usize,
    /// Bytes that the readers received.
    pub bytes: u64,
    /// The elapsed time.
    pub seconds: f64,
    /// The reads of the device in this time. For a database, they include those of its start and end.
    pub device: Reads,
    /// For a database: the number of transactions. The bytes that it received are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<u64>,
    /// For streams: the bytes that they read in each second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bytes_by_second: Vec<u64>,
    /// For streams: the number of device reads since their start. The first element is zero. One element
    /// follows for the end of each second, and one for the end of the streams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_by_second: Vec<Reads>,
}

/// The length of an interval in seconds. The extremes of a thrashing run are those of intervals of this length.
const WINDOW_SECONDS: usize = 5;

impl Sample {
    /// Returns the rate of the readers, in 10^6 bytes per second.
    #[must_use]
    pub fn megabytes_per_second(&self) -> f64 {
        megabytes(self.bytes) / self.seconds
    }

    /// Returns the transactions per second of a database.
    #[must_use]
    pub fn transactions_per_second(&self) -> Option<f64> {
        Some(as_f64(self.transactions?) / self.seconds)
    }

    /// Returns the reads of the device for each transaction of a database.
    #[must_use]
    pub fn reads_per_transaction(&self) -> Option<f64> {
        Some(as_f64(self.device.reads) / as_f64(self.transactions?))
    }

    /// Returns the maximum rate over an interval of [`WINDOW_SECONDS`], in 10^6 bytes per second.
    #[must_use]
    pub fn max_megabytes_per_second(&self) -> Option<f64> {
        let windows = self.bytes_by_second.windows(self.window());
        windows
            .map(|window| megabytes(window.iter().sum()) / as_f64(window.len() as u64))
            .max_by(f64::total_cmp)
    }

    /// Returns the rate in the last [`WINDOW_SECONDS`], in 10^6 bytes per second.
    #[must_use]
    pub fn last_megabytes_per_second(&self) -> Option<f64> {
        let window = self.bytes_by_second.windows(self.window()).next_back()?;
        Some(megabytes(window.iter().sum()) / as_f64(window.len() as u64))
    }

    /// Returns the minimum of the mean size of a device read over an interval of [`WINDOW_SECONDS`].
    #[must_use]
    pub fn min_mean_read_bytes(&self) -> Option<u64> {
        let windows = self.device_by_second.windows(self.window() + 1);
        windows
            .filter_map(|window| Some(window.last()?.since(*window.first()?)))
            .filter(|reads| reads.reads > 0)
            .map(Reads::mean_bytes)
            .min()
    }

    fn window(&self) -> usize {
        WINDOW_SECONDS.min(self.bytes_by_second.len()).max(1)
    }
}

/// The stored results of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// The time, the commit and the machine of the run.
    #[serde(flatten)]
    pub origin: Origin,
    /// The command line.
    pub command: String,
    /// The versions of fio and sysbench, if they are installed, and of the database server, if it was measured.
    pub versions: Vec<String>,
    /// The sizes of the run.
    pub plan: Plan,
    /// The duration of the run.
    pub seconds: f64,
    /// The measurements.
    #[serde(flatten)]
    pub outcome: Outcome<Sample>,
}

impl Results {
    /// Combines the measurements of a run with its origin and plan.
    #[must_use]
    pub fn new(origin: Origin, plan: Plan, started: Instant, outcome: Outcome<Sample>) -> Self {
        let fio = first_line(Command::new("fio").arg("--version"));
        let sysbench = first_line(Command::new("sysbench").arg("--version"));
        let has_database = outcome.samples.iter().any(|of| of.transactions.is_some());
        let database = has_database.then(database::version).flatten();
        let args: Vec<String> = std::env::args().skip(1).collect();
        Self {
            origin,
            command: format!("larder-benches {}", args.join(" ")),
            versions: fio.into_iter().chain(sysbench).chain(database).collect(),
            plan,
            seconds: started.elapsed().as_secs_f64(),
            outcome,
        }
    }

    /// Returns the measurements of one side of a case.
    pub fn of(&self, case: &str, peer: Peer) -> impl Iterator<Item = &Sample> {
        self.outcome
            .samples
            .iter()
            .filter(move |sample| sample.case == case && sample.peer == peer.name())
    }

    /// Returns the median of `value` over the measurements of one side of a case.
    pub fn median(
        &self,
        case: &str,
        peer: Peer,
        value: impl Fn(&Sample) -> Option<f64>,
    ) -> Option<f64> {
        let values: Vec<f64> = self.of(case, peer).filter_map(value).collect();
        median(&values)
    }

    /// Returns the median of the rates of one side of a case, in 10^6 bytes per second.
    #[must_use]
    pub fn rate(&self, case: &str, peer: Peer) -> Option<f64> {
        self.median(case, peer, |sample| Some(sample.megabytes_per_second()))
    }

    /// Returns the cases that were measured, in order.
    #[must_use]
    pub fn cases(&self) -> Vec<(Disk, &str)> {
        let mut cases: Vec<(Disk, &str)> = Vec::new();
        for sample in &self.outcome.samples {
            let case = (sample.disk, sample.case.as_str());
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        cases
    }

    /// Writes the results to a file in `folder` that is named by date and commit, and returns its path.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        self.origin.save_samples(self, folder, "readahead", "case")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_of_a_thrashing_run_are_averages_of_five_seconds() {
        let reads = |reads, bytes| Reads { reads, bytes };
        let sample = Sample {
            case: String::new(),
            disk: Disk::Slow,
            peer: "kernel".to_owned(),
            round: 0,
            bytes: 60_000_000,
            seconds: 6.0,
            device: Reads::default(),
            transactions: None,
            bytes_by_second: vec![
                0, 10_000_000, 10_000_000, 10_000_000, 10_000_000, 20_000_000,
            ],
            device_by_second: vec![
                reads(0, 0),
                reads(1, 100_000),
                reads(2, 200_000),
                reads(3, 300_000),
                reads(4, 400_000),
                reads(5, 500_000),
                reads(105, 1_500_000),
            ],
        };
        assert_eq!(sample.megabytes_per_second().to_string(), "10");
        assert_eq!(sample.max_megabytes_per_second(), Some(12.0));
        assert_eq!(sample.last_megabytes_per_second(), Some(12.0));
        assert_eq!(sample.min_mean_read_bytes(), Some(1_400_000 / 104));
    }

    #[test]
    fn rates_of_a_database_are_those_of_its_transactions() {
        let mut sample: Sample = serde_json::from_str(
            r#"{"case": "slow-oltp-8", "disk": "slow", "peer": "kernel", "round": 0, "bytes": 0, "seconds": 20.0,
                "device": {"reads": 3000, "bytes": 0}}"#,
        )
        .unwrap();
        let rates = |sample: &Sample| {
            (
                sample.transactions_per_second(),
                sample.reads_per_transaction(),
            )
        };
        assert_eq!(rates(&sample), (None, None));
        sample.transactions = Some(2000);
        assert_eq!(rates(&sample), (Some(100.0), Some(1.5)));
    }
}
