//! What a run came to, as it is kept.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use larder_lab::xattr_bench::Case;
use serde::Serialize;

use crate::measure::median;
use crate::origin::{Origin, first_line};
use crate::outcome::Outcome;
use crate::xattr::plan::Plan;
use crate::xattr::side::Side;

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// The side.
    pub side: Side,
    /// Sets by all processes.
    pub sets: u32,
    /// From the start of all processes to the last one's end.
    pub seconds: f64,
}

impl Sample {
    /// How long a set took, in microseconds, whoever of the processes made it.
    #[must_use]
    pub fn microseconds_a_set(&self) -> f64 {
        self.seconds * 1e6 / f64::from(self.sets)
    }
}

/// A run as it is kept.
#[derive(Debug, Serialize)]
pub struct Results {
    /// When and where.
    #[serde(flatten)]
    pub origin: Origin,
    /// The version of fuse2fs, as it tells it.
    pub fuse2fs: Option<String>,
    /// How much was done.
    pub plan: Plan,
    /// What it came to.
    #[serde(flatten)]
    pub outcome: Outcome<Sample>,
}

impl Results {
    /// Puts what a run came to together with when and where that was.
    #[must_use]
    pub fn new(origin: Origin, plan: Plan, outcome: Outcome<Sample>) -> Self {
        Self {
            origin,
            fuse2fs: first_line(Command::new("fuse2fs").arg("-V")),
            plan,
            outcome,
        }
    }

    /// The median of how long a set took one side in a case.
    #[must_use]
    pub fn microseconds(&self, case: Case, side: Side) -> Option<f64> {
        let of_case = |sample: &&Sample| sample.case == case && sample.side == side;
        let samples = self.outcome.samples.iter().filter(of_case);
        let values: Vec<f64> = samples.map(Sample::microseconds_a_set).collect();
        median(&values)
    }

    /// How many times as long it took `side` as `other`.
    #[must_use]
    pub fn ratio(&self, case: Case, side: Side, other: Side) -> Option<f64> {
        Some(self.microseconds(case, side)? / self.microseconds(case, other)?)
    }

    /// Writes it to `folder`, under its date and commit, and returns the file's path.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        self.origin.save_samples(self, folder, "xattr", "processes")
    }
}
