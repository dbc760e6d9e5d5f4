//! Comparisons of throughputs, and the scatter of the throughputs.

use crate::reproduce::finding::{Bound, Effect, Observed};
use crate::reproduce::lever2000::kernels::TABLES;
use crate::reproduce::lever2000::measure::Load;
use crate::reproduce::lever2000::results::Lever2000;
use crate::reproduce::lever2000::runs::Runs;
use crate::statistics::{Figures, Interval, median};
use std::fmt::Write as _;

/// Returns the figures without the first run, or of all runs if the first run is the only one.
fn steady(load: &Load) -> Figures {
    load.runs.without_first().unwrap_or_else(|| load.runs.all())
}

/// Standard deviations without the first runs, in percent of the averages.
pub(in crate::reproduce::lever2000) struct Scatter {
    /// Number of combinations of a row and a load.
    pub rows: usize,
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

impl Scatter {
    /// Computes the scatter of all rows; `None` if there are only single runs.
    pub(in crate::reproduce::lever2000) fn of(results: &Lever2000) -> Option<Self> {
        let loads = results.tables.iter().flatten().flat_map(|row| &row.loads);
        let parts = loads.map(|load| {
            let steady = steady(load);
            Some(100.0 * steady.s? / steady.mean)
        });
        let parts: Vec<f64> = parts.collect::<Option<_>>()?;
        Some(Self {
            rows: parts.len(),
            least: parts.iter().copied().fold(f64::INFINITY, f64::min),
            median: median(&parts),
            most: parts.iter().copied().fold(0.0, f64::max),
        })
    }
}

/// Two kernels of a table, and the bound of a ratio: the figure of `one` divided by the figure of `other`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    /// Number of the table, from 1.
    pub table: usize,
    pub one: &'static str,
    pub other: &'static str,
    pub bound: Bound,
    /// The only load to compare, given as its number of scripts in the document; `None` compares all loads.
    pub scripts: Option<u32>,
}

impl Comparison {
    pub(super) const fn new(
        table: usize,
        one: &'static str,
        other: &'static str,
        bound: Bound,
    ) -> Self {
        Self {
            table,
            one,
            other,
            bound,
            scripts: None,
        }
    }

    /// Returns the comparison under one load only.
    pub(super) const fn with_scripts(self, scripts: u32) -> Self {
        Self {
            scripts: Some(scripts),
            ..self
        }
    }

    /// Returns whether the load at this index of the table is compared.
    pub(super) fn compares(&self, load: usize) -> bool {
        let table = self.table.checked_sub(1).and_then(|at| TABLES.get(at));
        let published = table.and_then(|table| table.loads.get(load));
        self.scripts.is_none() || self.scripts.as_ref() == published
    }

    /// Returns the effect on the throughput.
    pub(super) fn throughput(&self, ratio: Interval) -> Effect {
        self.effect("scripts per hour", ratio)
    }

    /// Returns the effect on the deviation of the throughput.
    pub(super) fn deviation(&self, ratio: Interval) -> Effect {
        self.effect("deviation of scripts per hour", ratio)
    }

    fn effect(&self, what: &str, ratio: Interval) -> Effect {
        let mut label = format!("{what}, {} / {}", self.one, self.other);
        if let Some(scripts) = self.scripts {
            // Writing to a string does not fail.
            let _ = write!(label, ", {scripts} scripts");
        }
        Effect::ratio(label, ratio, self.bound)
    }

    /// Returns both kernels under each compared load.
    fn loads<'r>(&self, results: &'r Lever2000) -> Option<Vec<[&'r Load; 2]>> {
        let [one, other] = [self.one, self.other].map(|kernel| results.row(self.table, kernel));
        let loads = one?.loads.iter().zip(&other?.loads).enumerate();
        let compared = loads.filter(|(at, _)| self.compares(*at));
        Some(compared.map(|(_, (one, other))| [one, other]).collect())
    }
}

/// Compares throughputs over the compared loads. The text of the result also has the ratios by
/// processor time.
pub(super) fn throughputs(results: &Lever2000, comparisons: &[Comparison]) -> Option<Observed> {
    let observed = Observed::from(effects(results, comparisons, Runs::round_throughputs)?);
    Some(observed.with_figures(&by_processor_time(results, comparisons)?))
}

/// Compares throughputs by processor time, as text.
pub(super) fn by_processor_time(results: &Lever2000, comparisons: &[Comparison]) -> Option<String> {
    let observed = Observed::from(effects(
        results,
        comparisons,
        Runs::round_processor_throughputs,
    )?);
    Some(format!("by processor time: {}", observed.figures))
}

/// Compares throughputs over the compared loads. The throughputs of both kernels in one round are a pair.
fn effects(
    results: &Lever2000,
    comparisons: &[Comparison],
    throughputs: fn(&Runs) -> Vec<f64>,
) -> Option<Vec<Effect>> {
    let effects = comparisons.iter().map(|comparison| {
        let loads = comparison.loads(results)?.into_iter();
        Some(comparison.throughput(ratio(loads, throughputs)))
    });
    effects.collect()
}

/// Returns the ratio of the throughputs of two kernels over all loads. The pairs of each load are a group, because the
/// ratio may differ between loads.
fn ratio<'r>(
    loads: impl Iterator<Item = [&'r Load; 2]>,
    throughputs: fn(&Runs) -> Vec<f64>,
) -> Interval {
    let groups = loads.map(|loads| {
        let [one, other] = loads.map(|load| throughputs(&load.runs));
        one.into_iter().zip(other).collect::<Vec<_>>()
    });
    Interval::of_grouped_ratio(&groups.collect::<Vec<_>>())
}

/// Returns the median half-width of the intervals of the throughputs of all kernels, in percent of the throughput.
/// The throughputs are relative to the first kernel of their table. Returns `None` if there are too few rounds.
pub(in crate::reproduce::lever2000) fn median_half_width_pct(
    results: &Lever2000,
    throughputs: fn(&Runs) -> Vec<f64>,
) -> Option<f64> {
    let ratios = results.tables.iter().flat_map(|rows| {
        let (first, others) = rows.split_at(rows.len().min(1));
        let pairs = others.iter().flat_map(move |other| {
            first
                .iter()
                .map(move |first| other.loads.iter().zip(&first.loads))
        });
        pairs.map(move |loads| ratio(loads.map(|(one, other)| [one, other]), throughputs))
    });
    let half_widths: Option<Vec<f64>> = ratios
        .map(|ratio| Some(ratio.half_width()? / ratio.value))
        .collect();
    Some(100.0 * median(&half_widths?))
}

/// Compares the deviations of the throughputs of all runs, relative to their means, over the compared loads.
pub(super) fn deviations(results: &Lever2000, comparisons: &[Comparison]) -> Option<Vec<Effect>> {
    let effects = comparisons.iter().map(|comparison| {
        let loads = comparison.loads(results)?;
        let runs = loads.first()?[0].runs.elapsed_s.len();
        let groups = loads.iter().map(|loads| {
            let [one, other] = loads.map(|load| Figures::of(&load.runs.throughputs()));
            (one, other)
        });
        let groups: Vec<_> = groups.collect();
        Some(comparison.deviation(Interval::of_deviation_ratio(&groups, runs)))
    });
    effects.collect()
}
