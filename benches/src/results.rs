//! The results of a run: every value, and the comparison with the targets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::measure::{Measure, Target, Unit, median};
use crate::measured::Measured;
use crate::origin::{Origin, first_line};
use crate::peer::Peer;
use crate::plan::Plan;

/// All values of a run, in the order in which they were measured.
#[derive(Debug, Default)]
pub struct Samples {
    values: BTreeMap<(Measure, Peer), Vec<f64>>,
    processor_seconds: BTreeMap<(Measure, Peer), Vec<f64>>,
    /// What could not be measured, with the reasons.
    pub skipped: Vec<String>,
    /// The failures.
    pub failures: Vec<String>,
}

impl Samples {
    /// Adds one value.
    pub fn add(&mut self, peer: Peer, measured: Measured) {
        let key = (measured.measure, peer);
        self.values.entry(key).or_default().push(measured.value);
        if let Some(seconds) = measured.processor_seconds {
            let all = self.processor_seconds.entry(key).or_default();
            all.push(seconds);
        }
    }

    /// Returns the values of one side of a measure.
    #[must_use]
    pub fn of(&self, measure: Measure, peer: Peer) -> &[f64] {
        self.values.get(&(measure, peer)).map_or(&[], Vec::as_slice)
    }

    /// Returns the processor times of one side of a measure.
    #[must_use]
    pub fn processor_seconds(&self, measure: Measure, peer: Peer) -> &[f64] {
        let seconds = self.processor_seconds.get(&(measure, peer));
        seconds.map_or(&[], Vec::as_slice)
    }

    /// Returns the median of the values.
    #[must_use]
    pub fn median(&self, measure: Measure, peer: Peer) -> Option<f64> {
        median(self.of(measure, peer))
    }

    /// Returns the figure for [`Target::is_met_by`]: the median of `side` divided by that of the target's
    /// peer, or the median itself if the target has no peer.
    #[must_use]
    pub fn figure(&self, measure: Measure, side: Peer, target: Target) -> Option<f64> {
        let value = self.median(measure, side)?;
        match target.against() {
            Some(peer) => Some(value / self.median(measure, peer)?),
            None => Some(value),
        }
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
    /// Each measure that was selected.
    pub measures: Vec<MeasureResult>,
    /// What was not measured, with the reasons.
    pub skipped: Vec<String>,
    /// The failures.
    pub failures: Vec<String>,
}

/// The stored results of one measure.
#[derive(Debug, Serialize, Deserialize)]
pub struct MeasureResult {
    /// Its name.
    pub name: Measure,
    /// The unit of all values.
    pub unit: Unit,
    /// The values by peer.
    pub runs: BTreeMap<Peer, Vec<f64>>,
    /// Their medians.
    pub medians: BTreeMap<Peer, f64>,
    /// The processor times of workload and server together, in seconds, by peer.
    #[serde(default)]
    pub processor_seconds: BTreeMap<Peer, Vec<f64>>,
    /// The targets, and the results for them.
    pub targets: Vec<TargetResult>,
}

/// The result for a target.
#[derive(Debug, Serialize, Deserialize)]
pub struct TargetResult {
    /// The side that has the target. It is missing in old results, where each measure had one such side.
    #[serde(default)]
    pub side: Option<Peer>,
    /// The target.
    pub target: Target,
    /// The value of the side divided by that of the target's peer, or the value if the target has no peer.
    pub figure: Option<f64>,
    /// Whether the target is met; `None` if there is no figure.
    pub met: Option<bool>,
}

impl Results {
    /// Combines `samples` of `measures` with their origin and plan.
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

    /// Returns the results of `measure`, if it was selected.
    #[must_use]
    pub fn of(&self, measure: Measure) -> Option<&MeasureResult> {
        self.measures.iter().find(|result| result.name == measure)
    }

    /// Writes the results to a file in `folder` that is named by date and commit, and returns its path.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        self.origin
            .save(serde_json::to_string_pretty(self)?, folder, "")
    }
}

fn summary(measure: Measure, samples: &Samples) -> MeasureResult {
    let sides = || measure.peers().iter().copied();
    let reached = |&(side, target): &(Peer, Target)| {
        let figure = samples.figure(measure, side, target);
        TargetResult {
            side: Some(side),
            target,
            figure,
            met: figure.map(|figure| target.is_met_by(figure)),
        }
    };
    MeasureResult {
        name: measure,
        unit: measure.unit(),
        runs: by_peer(measure, |peer| samples.of(measure, peer)),
        medians: sides()
            .filter_map(|peer| Some((peer, samples.median(measure, peer)?)))
            .collect(),
        processor_seconds: by_peer(measure, |peer| samples.processor_seconds(measure, peer)),
        targets: measure.targets().iter().map(reached).collect(),
    }
}

/// Returns the list of `values` of each peer of `measure`, without the empty lists.
fn by_peer<'s>(measure: Measure, values: impl Fn(Peer) -> &'s [f64]) -> BTreeMap<Peer, Vec<f64>> {
    let peers = measure.peers().iter().copied();
    peers
        .map(|peer| (peer, values(peer).to_vec()))
        .filter(|(_, values)| !values.is_empty())
        .collect()
}
