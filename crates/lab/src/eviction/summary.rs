//! Summarizes a study: the misses of each policy relative to those of the clock of Larder's frames.

use super::policy::PolicyName;
use super::size::CacheSize;
use super::study::{Cell, Study};
use serde::Serialize;

/// To be adopted, a policy must save this share of the misses in the mean over the traces.
const LEAST_GAIN: f64 = 0.03;
/// To be adopted, a policy must have at most this share of additional misses for each trace and size.
const MOST_LOSS: f64 = 0.01;

/// A change of the misses for one trace and one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Extreme {
    /// The change, as a share of the misses of the clock.
    pub change: f64,
    /// The name of the trace.
    pub trace: String,
    /// The size of the cache.
    pub size: CacheSize,
}

/// The misses of a policy relative to those of the clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicySummary {
    /// The policy.
    pub policy: PolicyName,
    /// The change of the misses, as a share of the misses of the clock. It is first averaged over the sizes of each
    /// trace, and then over the traces.
    pub mean_change: f64,
    /// The change for each trace, averaged over the sizes, in the order of [`Study::traces`]; `None` if no size applies
    /// to the trace.
    pub trace_changes: Vec<Option<f64>>,
    /// The share of the avoidable misses that the policy avoids, over all cells. The avoidable misses are the misses of
    /// the clock that the optimum avoids. `None` if the optimum was not part of the study.
    pub share_of_optimum: Option<f64>,
    /// The best result.
    pub best: Extreme,
    /// The worst result.
    pub worst: Extreme,
    /// Whether the policy would be adopted.
    pub verdict: Verdict,
}

/// Whether a policy would be adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It saves at least 3% of the misses in the mean, and adds at most 1% for each trace and size.
    Adopt,
    /// It saves less than 3% in the mean.
    GainIsTooSmall,
    /// It adds more than 1% for a trace and a size.
    LosesTooMuch,
    /// It needs knowledge of the future.
    Optimum,
}

impl Verdict {
    /// Returns the verdict as a phrase.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Adopt => "meets the rule",
            Self::GainIsTooSmall => "gain below 3%",
            Self::LosesTooMuch => "a loss above 1%",
            Self::Optimum => "the optimum",
        }
    }
}

/// Returns the mean; `None` if there are no values.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

/// Returns the change from `base` to `misses`, as a share of `base`.
fn change(misses: u32, base: u32) -> f64 {
    f64::from(misses) / f64::from(base.max(1)) - 1.0
}

impl Study {
    /// Returns the result of another policy with the same trace and the same size as `cell`.
    #[must_use]
    pub fn beside(&self, cell: &Cell, policy: PolicyName) -> Option<&Cell> {
        self.cells.iter().find(|other| {
            other.policy == policy && other.trace == cell.trace && other.size == cell.size
        })
    }

    /// Returns a summary of each policy except the clock of the frames; empty if this clock was not part of the study.
    #[must_use]
    pub fn summaries(&self) -> Vec<PolicySummary> {
        let others = self.policies.iter();
        others
            .filter(|policy| **policy != PolicyName::Larder)
            .filter_map(|policy| self.summary(*policy))
            .collect()
    }

    fn summary(&self, policy: PolicyName) -> Option<PolicySummary> {
        let cells = self.cells.iter().filter(|cell| cell.policy == policy);
        let pairs: Vec<(&Cell, &Cell)> = cells
            .filter_map(|cell| Some((cell, self.beside(cell, PolicyName::Larder)?)))
            .collect();
        let changes = |trace| {
            let pairs = pairs.iter().filter(move |(cell, _)| cell.trace == trace);
            pairs.map(|(cell, clock)| change(cell.misses, clock.misses))
        };
        let trace_changes: Vec<_> = (0..self.traces.len())
            .map(|trace| mean(changes(trace)))
            .collect();
        let mean_change = mean(trace_changes.iter().copied().flatten())?;
        let extremes = pairs.iter().map(|(cell, clock)| Extreme {
            change: change(cell.misses, clock.misses),
            trace: self.traces[cell.trace].origin.name.clone(),
            size: cell.size,
        });
        let best = extremes
            .clone()
            .min_by(|a, b| a.change.total_cmp(&b.change))?;
        let worst = extremes.max_by(|a, b| a.change.total_cmp(&b.change))?;
        let verdict = match policy {
            PolicyName::Belady => Verdict::Optimum,
            _ if mean_change > -LEAST_GAIN => Verdict::GainIsTooSmall,
            _ if worst.change > MOST_LOSS => Verdict::LosesTooMuch,
            _ => Verdict::Adopt,
        };
        Some(PolicySummary {
            policy,
            mean_change,
            trace_changes,
            share_of_optimum: self.share_of_optimum(&pairs),
            best,
            worst,
            verdict,
        })
    }

    /// Returns the share of the avoidable misses that a policy avoids. Each of `pairs` contains a cell of the policy
    /// and the cell of the clock for the same trace and size.
    fn share_of_optimum(&self, pairs: &[(&Cell, &Cell)]) -> Option<f64> {
        let (mut avoided, mut avoidable) = (0.0, 0.0);
        for (cell, clock) in pairs {
            let optimum = self.beside(cell, PolicyName::Belady)?;
            avoided += f64::from(clock.misses) - f64::from(cell.misses);
            avoidable += f64::from(clock.misses) - f64::from(optimum.misses);
        }
        (avoidable > 0.0).then(|| avoided / avoidable)
    }
}
