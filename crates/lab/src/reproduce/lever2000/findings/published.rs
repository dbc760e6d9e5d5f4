//! Effects in the published figures.

use super::throughput::Comparison;
use crate::published::lever2000::{Throughput, throughputs as rows};
use crate::reproduce::finding::Effect;
use crate::reproduce::lever2000::kernels::{Average, TABLES};
use crate::statistics::{Figures, Interval};

/// Returns the effects on the throughput, over all loads of a table.
pub(super) fn throughputs(comparisons: &[Comparison]) -> Vec<Effect> {
    let effects = comparisons.iter().map(|comparison| {
        let (groups, runs) = groups(comparison)?;
        Some(comparison.throughput(Interval::of_mean_ratio(&groups, runs)))
    });
    effects.flatten().collect()
}

/// Returns the effect on the deviation of the throughput, under the last load of a table.
pub(super) fn deviation(comparison: &Comparison) -> Option<Effect> {
    let (groups, runs) = groups(comparison)?;
    let (one, other) = *groups.last()?;
    let ratio = Interval::of_deviation_ratio(one, other, runs);
    Some(comparison.deviation(ratio))
}

/// Returns the figures of both kernels under each load, and the number of runs of each.
fn groups(comparison: &Comparison) -> Option<(Vec<(Figures, Figures)>, usize)> {
    let table = TABLES.get(comparison.table.checked_sub(1)?)?;
    let groups = (0..table.loads.len()).map(|load| {
        let rows = rows(table.number, load);
        let of = |kernel| {
            let mut kernels = table.kernels.iter();
            let (all, _) = *rows.get(kernels.position(|of| of.name == kernel)?)?;
            let Throughput { mean, s } = all?;
            Some(Figures { mean, s: Some(s) })
        };
        Some((of(comparison.one)?, of(comparison.other)?))
    });
    let runs = match table.average {
        Average::All => table.runs,
        Average::Middle => table.runs - 2,
    };
    Some((groups.collect::<Option<_>>()?, runs as usize))
}
