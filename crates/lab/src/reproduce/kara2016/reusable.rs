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
use super::measure::Measurement;
use super::schedule::FLAG_SOURCES;
use super::simulate::{SimulatedRun, simulate_flag};
use super::size::Size;
use crate::statistics::{Interval, mean, median};
use crate::xattr_bench::{self, Case, Target, measure};

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

/// Returns the gains that are measured in each case.
pub(super) fn measured(measurement: &mut Measurement<'_>) -> Result<Vec<Vec<MeasuredGain>>, Error> {
    let size = measurement.state.size().clone();
    let config = size.flagged_config();
    let each = size.flagged_cases().map(|(case, _)| {
        let gains = FLAG_SOURCES.map(|source| {
            let part = measurement.part(source, case, |run_done| {
                Ok(measure(&targets(source), case, &config, run_done)?)
            })?;
            let [with, without] = [0, 1].map(|target: usize| &part.of[target].seconds);
            Ok(MeasuredGain::new(source, with, without))
        });
        gains.into_iter().collect::<Result<Vec<_>, Error>>()
    });
    each.into_iter().collect()
}

/// Returns the targets with and without the flag.
fn targets(source: Source) -> [Target; 2] {
    match source {
        Source::Engine => [
            Target::Engine(Referenced),
            Target::EngineWithoutFlag(Referenced),
        ],
        _ => [
            Target::Volume(Referenced),
            Target::VolumeWithoutFlag(Referenced),
        ],
    }
}

/// Simulates all cases, and adds the measured gains of each.
pub(super) fn flagged(
    size: &Size,
    costs: Costs,
    measured: Vec<Vec<MeasuredGain>>,
) -> Result<Vec<Flagged>, Error> {
    let each = size.flagged_cases().into_iter().zip(measured);
    each.map(|((case, published_gain), measured)| {
        Ok(Flagged {
            case,
            published_gain,
            measured,
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
