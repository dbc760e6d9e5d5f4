//! The results of a run, as they are stored.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use larder_lab::xattr_bench::Case;
use serde::{Deserialize, Serialize};

use crate::measure::median;
use crate::origin::{Origin, first_line};
use crate::outcome::Outcome;
use crate::xattr::plan::Plan;
use crate::xattr::side::Side;

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// The side.
    pub side: Side,
    /// The number of calls by all processes together.
    pub sets: u32,
    /// The time from the start of all processes to the end of the last one.
    pub seconds: f64,
}

impl Sample {
    /// Returns the mean time per call in microseconds, over the calls of all processes.
    #[must_use]
    pub fn microseconds_a_set(&self) -> f64 {
        self.seconds * 1e6 / f64::from(self.sets)
    }
}

/// The stored results of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// The time, the commit and the machine of the run.
    #[serde(flatten)]
    pub origin: Origin,
    /// The version that fuse2fs reports.
    pub fuse2fs: Option<String>,
    /// The sizes of the run.
    pub plan: Plan,
    /// The measurements.
    #[serde(flatten)]
    pub outcome: Outcome<Sample>,
}

impl Results {
    /// Combines the measurements of a run with its origin and plan.
    #[must_use]
    pub fn new(origin: Origin, plan: Plan, outcome: Outcome<Sample>) -> Self {
        Self {
            origin,
            fuse2fs: first_line(Command::new("fuse2fs").arg("-V")),
            plan,
            outcome,
        }
    }

    /// Returns the median time of a call for one side in a case, in microseconds.
    #[must_use]
    pub fn microseconds(&self, case: Case, side: Side) -> Option<f64> {
        let of_case = |sample: &&Sample| sample.case == case && sample.side == side;
        let samples = self.outcome.samples.iter().filter(of_case);
        let values: Vec<f64> = samples.map(Sample::microseconds_a_set).collect();
        median(&values)
    }

    /// Returns the median time of `side` divided by that of `other`.
    #[must_use]
    pub fn ratio(&self, case: Case, side: Side, other: Side) -> Option<f64> {
        Some(self.microseconds(case, side)? / self.microseconds(case, other)?)
    }

    /// Writes the results to a file in `folder` that is named by date and commit, and returns its path.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        self.origin.save_samples(self, folder, "xattr", "processes")
    }
}
