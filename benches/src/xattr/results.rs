//! What a run came to, as it is kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use larder_lab::xattr_bench::Case;
use serde::Serialize;

use crate::measure::median;
use crate::results::{Machine, Origin, first_line};
use crate::xattr::plan::Plan;
use crate::xattr::run::Outcome;
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
    /// On what.
    #[serde(flatten)]
    pub machine: Machine,
    /// The version of fuse2fs, as it tells it.
    pub fuse2fs: Option<String>,
    /// How much was done.
    pub plan: Plan,
    /// Every single measurement, in order.
    pub samples: Vec<Sample>,
    /// What was not measured, and why.
    pub skipped: Vec<String>,
    /// What went wrong.
    pub failures: Vec<String>,
}

impl Results {
    /// Puts what a run came to together with what is known of the machine.
    #[must_use]
    pub fn new(origin: Origin, plan: Plan, outcome: Outcome) -> Self {
        Self {
            origin,
            machine: Machine::this(),
            fuse2fs: first_line(Command::new("fuse2fs").arg("-V")),
            plan,
            samples: outcome.samples,
            skipped: outcome.skipped,
            failures: outcome.failures,
        }
    }

    /// The median of how long a set took one side in a case.
    #[must_use]
    pub fn microseconds(&self, case: Case, side: Side) -> Option<f64> {
        let of_case = |sample: &&Sample| sample.case == case && sample.side == side;
        let samples = self.samples.iter().filter(of_case);
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
        fs::create_dir_all(folder)?;
        let path = folder.join(format!("{}-xattr.json", self.origin.file_name()));
        // One line a sample.
        let mut json = serde_json::to_string(self)?.replace("{\"processes\"", "\n{\"processes\"");
        json.push('\n');
        fs::write(&path, json).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }
}
