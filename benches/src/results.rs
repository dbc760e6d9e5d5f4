//! What a run came to: every single value, and what they say of the targets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use serde::Serialize;

use crate::measure::{Measure, Target, Unit, median};
use crate::origin::{Origin, first_line};
use crate::peer::Peer;
use crate::plan::Plan;

/// All values of a run, in the order in which they were measured.
#[derive(Debug, Default)]
pub struct Samples {
    values: BTreeMap<(Measure, Peer), Vec<f64>>,
    /// What could not be measured at all, and why.
    pub skipped: Vec<String>,
    /// What went wrong.
    pub failures: Vec<String>,
}

impl Samples {
    /// Adds one value.
    pub fn add(&mut self, measure: Measure, peer: Peer, value: f64) {
        self.values.entry((measure, peer)).or_default().push(value);
    }

    /// The values of one side of a measure.
    #[must_use]
    pub fn of(&self, measure: Measure, peer: Peer) -> &[f64] {
        self.values.get(&(measure, peer)).map_or(&[], Vec::as_slice)
    }

    /// Their median.
    #[must_use]
    pub fn median(&self, measure: Measure, peer: Peer) -> Option<f64> {
        median(self.of(measure, peer))
    }

    /// Ours divided by `peer`'s.
    #[must_use]
    pub fn ratio(&self, measure: Measure, peer: Peer) -> Option<f64> {
        Some(self.median(measure, measure.ours())? / self.median(measure, peer)?)
    }

    /// What [`Target::is_met_by`] asks for: the ratio, or our own value.
    #[must_use]
    pub fn figure(&self, measure: Measure, target: Target) -> Option<f64> {
        match target.against() {
            Some(peer) => self.ratio(measure, peer),
            None => self.median(measure, measure.ours()),
        }
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
    /// Each measure that was asked for.
    pub measures: Vec<MeasureResult>,
    /// What was not measured, and why.
    pub skipped: Vec<String>,
    /// What went wrong.
    pub failures: Vec<String>,
}

/// One measure as it is kept.
#[derive(Debug, Serialize)]
pub struct MeasureResult {
    /// Its name.
    pub name: &'static str,
    /// The unit of all values.
    pub unit: Unit,
    /// Each value, by peer.
    pub runs: BTreeMap<&'static str, Vec<f64>>,
    /// Their medians.
    pub medians: BTreeMap<&'static str, f64>,
    /// What was to be reached, and what was.
    pub targets: Vec<TargetResult>,
}

/// How far a measure came.
#[derive(Debug, Serialize)]
pub struct TargetResult {
    /// What was to be reached.
    pub target: Target,
    /// Ours divided by the target's peer, or ours where the target has none.
    pub figure: Option<f64>,
    /// Whether it was; `None` if there is no figure.
    pub met: Option<bool>,
}

impl Results {
    /// Puts `samples` of `measures` together with when and where they were taken.
    #[must_use]
    pub fn new(origin: Origin, plan: &Plan, measures: &[Measure], samples: &Samples) -> Self {
        Self {
            origin,
            fuse2fs: first_line(Command::new("fuse2fs").arg("-V")),
            plan: plan.clone(),
            measures: measures
                .iter()
                .map(|measure| summary(*measure, samples))
                .collect(),
            skipped: samples.skipped.clone(),
            failures: samples.failures.clone(),
        }
    }

    /// Writes it to `folder`, under its date and commit, and returns the file's path.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        self.origin
            .save(serde_json::to_string_pretty(self)?, folder, "")
    }
}

fn summary(measure: Measure, samples: &Samples) -> MeasureResult {
    let sides = || measure.peers().iter().copied();
    let reached = |&target: &Target| {
        let figure = samples.figure(measure, target);
        TargetResult {
            target,
            figure,
            met: figure.map(|figure| target.is_met_by(figure)),
        }
    };
    MeasureResult {
        name: measure.name(),
        unit: measure.unit(),
        runs: sides()
            .map(|peer| (peer.name(), samples.of(measure, peer).to_vec()))
            .filter(|(_, values)| !values.is_empty())
            .collect(),
        medians: sides()
            .filter_map(|peer| Some((peer.name(), samples.median(measure, peer)?)))
            .collect(),
        targets: measure.targets().iter().map(reached).collect(),
    }
}
