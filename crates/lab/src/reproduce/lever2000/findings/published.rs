//! Effects in the published figures.

use super::throughput::Comparison;
use crate::published::lever2000::{Throughput, throughputs as rows};
use crate::reproduce::finding::Effect;
use crate::reproduce::lever2000::kernels::{Average, TABLES};
use crate::statistics::{Figures, Interval};

/// Returns the effects on the throughput, over the compared loads of a table.
pub(super) fn throughputs(comparisons: &[Comparison]) -> Vec<Effect> {
    let effects = comparisons.iter().map(|comparison| {
        let (groups, runs) = groups(comparison)?;
        Some(comparison.throughput(Interval::of_mean_ratio(&groups, runs)))
    });
    effects.flatten().collect()
}

/// Returns the effects on the deviation of the throughput, over the compared loads of a table.
pub(super) fn deviations(comparisons: &[Comparison]) -> Vec<Effect> {
    let effects = comparisons.iter().map(|comparison| {
        let (groups, runs) = groups(comparison)?;
        Some(comparison.deviation(Interval::of_deviation_ratio(&groups, runs)))
    });
    effects.flatten().collect()
}

/// Returns the figures of both kernels under each compared load, and the number of runs of each.
fn groups(comparison: &Comparison) -> Option<(Vec<(Figures, Figures)>, usize)> {
    let table = TABLES.get(comparison.table.checked_sub(1)?)?;
    let loads = (0..table.loads.len()).filter(|load| comparison.compares(*load));
    let groups = loads.map(|load| {
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
