//! The results of a run, as they are stored.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::hash_table::plan::Plan;
use crate::hash_table::run::{Case, Measured, Sample, Shape};
use crate::hash_table::side::Side;
use crate::measure::median;
use crate::origin::Origin;

/// The stored results of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// The time, the commit and the machine of the run.
    #[serde(flatten)]
    pub origin: Origin,
    /// The sizes of the run.
    pub plan: Plan,
    /// The shapes of Larder's tables.
    pub shapes: Vec<Shape>,
    /// Every measurement, in order.
    pub samples: Vec<Sample>,
}

impl Results {
    /// Combines the measurements of a run with its origin and plan.
    #[must_use]
    pub fn new(origin: Origin, plan: Plan, measured: Measured) -> Self {
        Self {
            origin,
            plan,
            shapes: measured.shapes,
            samples: measured.samples,
        }
    }

    /// Returns the rates of a side in a case, round by round.
    fn rates(&self, case: Case, side: Side) -> Vec<f64> {
        let of_case = |sample: &&Sample| sample.case == case && sample.side == side;
        let samples = self.samples.iter().filter(of_case);
        samples.map(|sample| sample.million_a_second).collect()
    }

    /// Returns the median of the rates, in million lookups per second.
    #[must_use]
    pub fn rate(&self, case: Case, side: Side) -> Option<f64> {
        median(&self.rates(case, side))
    }

    /// Returns the speed of `side` relative to the fastest of `others`: the median over the rounds.
    #[must_use]
    pub fn ratio(&self, case: Case, side: Side, others: &[Side]) -> Option<f64> {
        let others: Vec<Vec<f64>> = others.iter().map(|&one| self.rates(case, one)).collect();
        let ratio_of_round = |(round, rate): (usize, f64)| {
            let of_round = others.iter().filter_map(|rates| rates.get(round).copied());
            Some(rate / of_round.reduce(f64::max)?)
        };
        let rates = self.rates(case, side).into_iter().enumerate();
        median(&rates.filter_map(ratio_of_round).collect::<Vec<_>>())
    }

    /// Writes the results to a file in `folder` that is named by date and commit, and returns its path.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        self.origin.save_samples(self, folder, "tables", "workload")
    }
}
