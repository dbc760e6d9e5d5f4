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

use super::costs::Costs;
use super::grid::Grid;
use super::measure::Size;
use super::simulate::simulate_case;
use crate::statistics::{mean, median};
use crate::xattr_bench::{Case, Error};

/// The first factor by which the search changes a cost, and the last one.
const FACTORS: [f64; 4] = [1.6, 1.25, 1.1, 1.04];

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

/// Returns the first neighbour with a smaller error, or `None` if `best` has the smallest.
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
