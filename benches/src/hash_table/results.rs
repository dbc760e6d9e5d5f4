//! What a run came to, as it is kept.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use crate::hash_table::plan::Plan;
use crate::hash_table::run::{Case, Measured, Shape};
use crate::hash_table::side::Side;
use crate::measure::median;
use crate::origin::Origin;

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// What was measured.
    #[serde(flatten)]
    pub case: Case,
    /// The side.
    pub side: Side,
    /// Million lookups a second of processor time, of all threads together.
    pub million_a_second: f64,
    /// How long the slowest thread took by the clock on the wall.
    pub wall_seconds: f64,
}

/// A run as it is kept.
#[derive(Debug, Serialize)]
pub struct Results {
    /// When and where.
    #[serde(flatten)]
    pub origin: Origin,
    /// How much was done.
    pub plan: Plan,
    /// What our tables look like.
    pub shapes: Vec<Shape>,
    /// Every single measurement, in order.
    pub samples: Vec<Sample>,
}

impl Results {
    /// Puts what a run came to together with when and where that was.
    #[must_use]
    pub fn new(origin: Origin, plan: Plan, measured: Measured) -> Self {
        Self {
            origin,
            plan,
            shapes: measured.shapes,
            samples: measured.samples,
        }
    }

    /// The rates of a side in a case, round by round.
    fn rates(&self, case: Case, side: Side) -> Vec<f64> {
        let of_case = |sample: &&Sample| sample.case == case && sample.side == side;
        let samples = self.samples.iter().filter(of_case);
        samples.map(|sample| sample.million_a_second).collect()
    }

    /// The median of them, in million lookups a second.
    #[must_use]
    pub fn rate(&self, case: Case, side: Side) -> Option<f64> {
        median(&self.rates(case, side))
    }

    /// How many times as fast `side` was as the fastest of `others`: the median over the rounds.
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

    /// Writes it to `folder`, under its date and commit, and returns the file's path.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        self.origin.save_samples(self, folder, "tables", "workload")
    }
}
