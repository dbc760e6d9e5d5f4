//! The results of a run, as they are stored.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::measure::median;
use crate::origin::Origin;
use crate::outcome::Outcome;
use crate::python::plan::{Plan, Side, Workload};

/// The times of a worker.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Times {
    /// The time of the first pass, in seconds.
    pub cold_seconds: f64,
    /// The time of the second pass, in seconds.
    pub warm_seconds: f64,
    /// The number of reads, or of files, in each pass.
    pub count: u32,
    /// The number of bytes that were read in a pass.
    pub bytes: u64,
}

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The workload.
    pub workload: Workload,
    /// The side.
    pub side: Side,
    /// The times.
    #[serde(flatten)]
    pub times: Times,
}

/// The stored results of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// The time, the commit and the machine of the run.
    #[serde(flatten)]
    pub origin: Origin,
    /// The version of Python.
    pub python: String,
    /// The sizes of the run.
    pub plan: Plan,
    /// The measurements.
    #[serde(flatten)]
    pub outcome: Outcome<Sample>,
}

impl Results {
    /// Returns the median number of reads, or of files, per second.
    #[must_use]
    pub fn rate(&self, workload: Workload, side: Side, is_warm: bool) -> Option<f64> {
        let samples = self.outcome.samples.iter();
        let samples = samples.filter(|one| one.workload == workload && one.side == side);
        let rates: Vec<f64> = samples
            .map(|one| {
                let times = one.times;
                let seconds = if is_warm {
                    times.warm_seconds
                } else {
                    times.cold_seconds
                };
                f64::from(times.count) / seconds
            })
            .collect();
        median(&rates)
    }

    /// Writes the results to a file in `folder` that is named by date and commit, and returns its path.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        self.origin.save_samples(self, folder, "python", "workload")
    }
}
