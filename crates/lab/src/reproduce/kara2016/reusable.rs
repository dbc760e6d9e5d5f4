//! Measures and simulates the gain of the reusable flag.
//!
//! The last patch of the rewrite ("mbcache: add reusable flag to cache entries") reports it: with 5 values
//! and 20,000 files of each process, 64 processes are 25 times as fast as before, and 8 processes almost 3 times.

use larder::MbCacheVariant::Referenced;
use serde::Serialize;

use super::costs::Costs;
use super::measure::Size;
use super::simulate::{SimulatedRun, simulate_flag};
use crate::statistics::median;
use crate::xattr_bench::{BenchConfig, Case, Error, Target, measure};

/// Numbers of processes, with the published gains.
const PUBLISHED: [(u32, f64); 2] = [(8, 3.0), (64, 25.0)];

const VALUES: u32 = 5;

/// A case with and without the flag.
#[derive(Clone, Debug, Serialize)]
pub struct Flagged {
    pub case: Case,
    /// The published time without the flag divided by the time with it.
    pub published_gain: f64,
    /// Measured on the cache alone, in seconds.
    pub engine_s: WithAndWithout<f64>,
    /// Simulated on the letter's machine.
    pub simulated: WithAndWithout<SimulatedRun>,
}

/// A result with the flag and one without it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WithAndWithout<T> {
    pub with: T,
    pub without: T,
}

impl<T> WithAndWithout<T> {
    /// Returns the time without the flag divided by the time with it.
    pub fn gain(&self, seconds: impl Fn(&T) -> f64) -> f64 {
        seconds(&self.without) / seconds(&self.with)
    }
}

/// Returns the number of runs.
pub(super) fn runs(size: &Size) -> usize {
    2 * PUBLISHED.len() * size.config.runs as usize
}

/// Measures and simulates both cases.
pub(super) fn flagged(
    size: &Size,
    costs: Costs,
    run_done: &mut dyn FnMut(),
) -> Result<Vec<Flagged>, Error> {
    let each = PUBLISHED.map(|(processes, published_gain)| {
        let case = Case {
            processes,
            files: size.flagged_files,
            values: VALUES,
        };
        let config = BenchConfig {
            // Each file is set once before blocks are full.
            operations: size.config.operations + case.files,
            ..size.config
        };
        let targets = [
            Target::Engine(Referenced),
            Target::EngineWithoutFlag(Referenced),
        ];
        let measured = measure(&targets, case, &config, run_done)?;
        let seconds = |at: usize| median(&measured[at].seconds);
        let simulated =
            |has_flag| simulate_flag(size, costs, case, Referenced, size.config.seed, has_flag);
        Ok(Flagged {
            case,
            published_gain,
            engine_s: WithAndWithout {
                with: seconds(0),
                without: seconds(1),
            },
            simulated: WithAndWithout {
                with: simulated(true)?,
                without: simulated(false)?,
            },
        })
    });
    each.into_iter().collect()
}
