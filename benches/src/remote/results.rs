//! The results of a run, as they are stored.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::measure::median;
use crate::origin::Origin;
use crate::outcome::Outcome;
use crate::remote::measure::{Measure, Side};
use crate::remote::network::Network;
use crate::remote::plan::Plan;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What was measured.
    pub measure: Measure,
    /// The link.
    pub network: Network,
    /// The side.
    pub side: Side,
    /// The value, in the unit of the measure.
    pub value: f64,
}

/// The stored results of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// The time, the commit and the machine of the run.
    #[serde(flatten)]
    pub origin: Origin,
    /// The sizes of the run.
    pub plan: Plan,
    /// The measurements.
    #[serde(flatten)]
    pub outcome: Outcome<Sample>,
}

impl Results {
    /// Returns the median of a measure over a link, for one side.
    #[must_use]
    pub fn value(&self, measure: Measure, network: Network, side: Side) -> Option<f64> {
        let values: Vec<f64> = self.values(measure, network, side).collect();
        median(&values)
    }

    /// Returns the largest value of a measure over a link, for one side.
    #[must_use]
    pub fn largest(&self, measure: Measure, network: Network, side: Side) -> Option<f64> {
        self.values(measure, network, side).reduce(f64::max)
    }

    fn values(
        &self,
        measure: Measure,
        network: Network,
        side: Side,
    ) -> impl Iterator<Item = f64> + '_ {
        let is_of = move |one: &&Sample| {
            one.measure == measure && one.network == network && one.side == side
        };
        let samples = self.outcome.samples.iter().filter(is_of);
        samples.map(|one| one.value)
    }

    /// Writes the results to a file in `folder` that is named by date and commit, and returns its path.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        self.origin.save_samples(self, folder, "remote", "measure")
    }
}
