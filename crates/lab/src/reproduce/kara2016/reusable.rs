//! Measures and simulates the gain of the reusable flag.
//!
//! The last patch of the rewrite ("mbcache: add reusable flag to cache entries") reports this gain. With 5 values
//! and 20,000 files of each process, 64 processes are 25 times as fast as before, and 8 processes almost 3 times as
//! fast.

use larder::MbCacheVariant::Referenced;
use rayon::prelude::*;
use serde::Serialize;

use super::Error;
use super::costs::Costs;
use super::findings::Source;
use super::measure::{Measurement, Size};
use super::simulate::{SimulatedRun, simulate_flag};
use crate::statistics::{Interval, mean, median};
use crate::xattr_bench::{self, BenchConfig, Case, Target, measure};

/// Numbers of processes, with the published gains.
const PUBLISHED: [(u32, f64); 2] = [(8, 3.0), (64, 25.0)];

const VALUES: u32 = 5;

/// A case with and without the flag.
#[derive(Clone, Debug, Serialize)]
pub struct Flagged {
    pub case: Case,
    /// The published time without the flag divided by the time with the flag.
    pub published_gain: f64,
    pub measured: Vec<MeasuredGain>,
    pub simulated: SimulatedGain,
}

/// The measured gain of the flag.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MeasuredGain {
    pub source: Source,
    /// The median of the runs with the flag, in seconds.
    pub with_s: f64,
    /// The median of the runs without the flag, in seconds.
    pub without_s: f64,
    /// The time without the flag divided by the time with the flag.
    pub gain: Interval,
}

/// The gain of the flag on the simulated machine.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SimulatedGain {
    /// The time without the flag divided by the time with the flag: the median of all seeds.
    pub gain: Interval,
    /// The mean number of handovers of locks per set, with the flag.
    pub handovers_with: f64,
    /// The mean number of handovers of locks per set, without the flag.
    pub handovers_without: f64,
}

impl MeasuredGain {
    fn new(source: Source, with_s: &[f64], without_s: &[f64]) -> Self {
        let pairs = without_s.iter().copied().zip(with_s.iter().copied());
        Self {
            source,
            with_s: median(with_s),
            without_s: median(without_s),
            gain: Interval::of_paired_ratio(&pairs.collect::<Vec<_>>()),
        }
    }
}

fn cases(size: &Size) -> [(Case, f64); PUBLISHED.len()] {
    PUBLISHED.map(|(processes, published_gain)| {
        let case = Case {
            processes,
            files: size.flagged_files,
            values: VALUES,
        };
        (case, published_gain)
    })
}

/// Returns the number of runs.
pub(super) fn runs(size: &Size) -> usize {
    2 * PUBLISHED.len() * size.config.runs as usize
}

/// Returns the measured gain of each case.
pub(super) fn measured(measurement: &mut Measurement<'_>) -> Result<Vec<MeasuredGain>, Error> {
    let size = measurement.state.size().clone();
    let each = cases(&size).map(|(case, _)| {
        let config = BenchConfig {
            // Blocks become full only after each file was set once.
            operations: size.config.operations + case.files,
            ..size.config
        };
        let targets = [
            Target::Engine(Referenced),
            Target::EngineWithoutFlag(Referenced),
        ];
        let part = measurement.part(Source::Engine, case, |run_done| {
            Ok(measure(&targets, case, &config, run_done)?)
        })?;
        let [with, without] = [0, 1].map(|target: usize| &part.of[target].seconds);
        Ok(MeasuredGain::new(Source::Engine, with, without))
    });
    each.into_iter().collect()
}

/// Simulates all cases, and adds the measured gains.
pub(super) fn flagged(
    size: &Size,
    costs: Costs,
    measured: Vec<MeasuredGain>,
) -> Result<Vec<Flagged>, Error> {
    let each = cases(size).into_iter().zip(measured);
    each.map(|((case, published_gain), measured)| {
        Ok(Flagged {
            case,
            published_gain,
            measured: vec![measured],
            simulated: simulated(size, costs, case)?,
        })
    })
    .collect()
}

fn simulated(size: &Size, costs: Costs, case: Case) -> Result<SimulatedGain, xattr_bench::Error> {
    let seeds = (0..size.simulated_seeds).into_par_iter();
    let pairs = seeds.map(|seed| {
        let seed = size.config.seed.wrapping_add(seed.into());
        let run = |has_flag| simulate_flag(size, costs, case, Referenced, seed, has_flag);
        Ok([run(true)?, run(false)?])
    });
    let pairs: Vec<[SimulatedRun; 2]> = pairs.collect::<Result<_, xattr_bench::Error>>()?;
    let gains = pairs
        .iter()
        .map(|[with, without]| without.seconds / with.seconds);
    let handovers = |at: usize| {
        let per_set = pairs
            .iter()
            .map(|pair| pair[at].per_set(|of| of.lock_handovers));
        mean(&per_set.collect::<Vec<_>>())
    };
    Ok(SimulatedGain {
        gain: Interval::of_median(&gains.collect::<Vec<_>>()),
        handovers_with: handovers(0),
        handovers_without: handovers(1),
    })
}
