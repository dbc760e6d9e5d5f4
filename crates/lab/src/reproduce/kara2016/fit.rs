//! Fits the costs of the simulated file system to the published times without a cache.
//!
//! # Model
//! With `off`, the times of the letter depend on the file system alone: on its work in a set, on the lines that
//! all sets share, and on the journal. Only these times are used. The other columns of the letter do not
//! influence any cost, so that they test the simulation.
//!
//! The search changes one cost at a time, and keeps the change if the error decreases. The error is the root
//! mean square of the logarithms of simulated / published over all P and F.

use larder::MbCacheVariant::Off;
use rayon::prelude::*;
use serde::Serialize;

use super::grid::Grid;
use super::measure::Size;
use super::simulate::simulate_case;
use crate::contention::record::FileSystemWork;
use crate::contention::{JournalSize, Prices};
use crate::run_report::as_f64;
use crate::statistics::{mean, median};
use crate::xattr_bench::{Case, Error};

/// The number of blocks of a transaction: a quarter of a journal of 16,384 blocks, which mke2fs creates by default
/// on a device of 2 to 16 GB.
const TRANSACTION_BLOCKS: usize = 4096;

/// The first factor by which the search changes a cost, and the last one.
const FACTORS: [f64; 4] = [1.6, 1.25, 1.1, 1.04];

/// The costs of the simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Costs {
    pub prices: Prices,
    pub work: FileSystemWork,
    pub journal: JournalSize,
}

impl Costs {
    /// The costs from which the search starts.
    ///
    /// For a line that another processor used last, T. David, R. Guerraoui and V. Trigonakis,
    /// "Everything you always wanted to know about synchronization", SOSP 2013, measure about 110
    /// cycles within one socket and 290 between sockets, on machines like the letter's (2 GHz): 50 to
    /// 140 ns. The costs of waking a process and of switching to it have the order of magnitude that
    /// lmbench reports for Linux of that time. These costs are not fitted.
    ///
    /// The letter's table has 2.9 microseconds for a set with `off` and one process. The share of a third with
    /// the entry held is an assumption. With F=1000 and many processes, it has about 5 microseconds for a set,
    /// which changes about one block.
    pub const START: Self = Self {
        prices: Prices {
            own_ns: 5,
            transfer_ns: 100,
            waiter_ns: 20,
            wake_ns: 500,
            switch_ns: 3000,
        },
        work: FileSystemWork {
            before_ns: 1900,
            held_ns: 950,
            shared_lines: 4,
        },
        journal: JournalSize {
            limit_blocks: TRANSACTION_BLOCKS,
            block_ns: 5000,
        },
    };

    /// Returns the costs with one of them multiplied or divided by `factor`.
    fn neighbours(self, factor: f64) -> Vec<Self> {
        let mut neighbours = Vec::new();
        for factor in [factor, 1.0 / factor] {
            let mut work = self;
            work.work.before_ns = scaled(work.work.before_ns, factor);
            work.work.held_ns = scaled(work.work.held_ns, factor);
            let mut waiter = self;
            waiter.prices.waiter_ns = scaled(waiter.prices.waiter_ns, factor);
            let mut block = self;
            block.journal.block_ns = scaled(block.journal.block_ns, factor);
            neighbours.extend([work, waiter, block]);
        }
        let lines = self.work.shared_lines;
        for shared_lines in [lines + 1, lines.saturating_sub(1)] {
            let mut costs = self;
            costs.work.shared_lines = shared_lines;
            neighbours.push(costs);
        }
        neighbours
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "costs are small and positive"
)]
fn scaled(ns: u64, factor: f64) -> u64 {
    (as_f64(ns) * factor).round() as u64
}

/// The fitted costs, and what remains unexplained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    pub costs: Costs,
    /// Whether the costs were searched; otherwise they are [`Costs::START`].
    pub is_fitted: bool,
    /// The root mean square of the logarithms of simulated / published.
    pub error: f64,
    pub residuals: Vec<Residual>,
}

/// The times of a number of processes and files with `off`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Residual {
    pub processes: u32,
    pub files: u32,
    /// The median of the published times for all numbers of values, in seconds.
    pub published_s: f64,
    pub simulated_s: f64,
}

impl Residual {
    /// Returns simulated / published.
    pub fn ratio(&self) -> f64 {
        self.simulated_s / self.published_s
    }
}

/// Returns the costs with which the simulation fits the published times with `off` best. A quick reproduction has
/// too few cases for a search.
pub(super) fn fit(size: &Size, published: &Grid) -> Result<Fit, Error> {
    let mut best = evaluated(size, published, Costs::START)?;
    if !size.is_full() {
        return Ok(best);
    }
    best.is_fitted = true;
    for factor in FACTORS {
        while let Some(better) = improved(size, published, &best, factor)? {
            best = better;
        }
    }
    Ok(best)
}

/// Returns the first neighbour with a smaller error; `None` if there is none.
fn improved(size: &Size, published: &Grid, best: &Fit, factor: f64) -> Result<Option<Fit>, Error> {
    for costs in best.costs.neighbours(factor) {
        let fit = evaluated(size, published, costs)?;
        if fit.error < best.error {
            return Ok(Some(Fit {
                is_fitted: true,
                ..fit
            }));
        }
    }
    Ok(None)
}

fn evaluated(size: &Size, published: &Grid, costs: Costs) -> Result<Fit, Error> {
    // The number of values has no influence, except that a set to the same value changes nothing.
    let most = size.cases.iter().map(|case| case.values).max();
    let cases = size.cases.iter().filter(|case| Some(case.values) == most);
    let cases: Vec<Case> = cases.copied().collect();
    let residuals = cases.into_par_iter().map(|case| {
        let outcome = simulate_case(size, costs, case, Off, size.config.seed)?;
        let rows = published
            .rows
            .iter()
            .filter(|row| (row.case.processes, row.case.files) == (case.processes, case.files));
        let seconds: Vec<f64> = rows.filter_map(|row| row.of(Off)).collect();
        Ok(Residual {
            processes: case.processes,
            files: case.files,
            published_s: median(&seconds),
            simulated_s: outcome.seconds,
        })
    });
    let residuals = residuals.collect::<Result<Vec<_>, Error>>()?;
    let squares = residuals.iter().map(|of| of.ratio().ln().powi(2));
    Ok(Fit {
        costs,
        is_fitted: false,
        error: mean(&squares.collect::<Vec<_>>()).sqrt(),
        residuals,
    })
}
