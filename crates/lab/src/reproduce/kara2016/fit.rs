//! Fits the costs of the simulated file system to the published times without a cache.
//!
//! # Model
//! With `off`, the times of the letter depend on the file system alone: on its work in a set, on the lines that
//! all sets share, and on the journal. Only these times are used. The other columns of the letter do not
//! influence any cost, so that they test the simulation.
//!
//! The search is an ignored test of this module. It changes one cost at a time, or two that depend on each other,
//! and keeps the change if the error decreases. The error is the root mean square of the logarithms of
//! simulated / published over all P and F. [`Costs::FITTED`] is the result of the search.

use larder::MbCacheVariant::Off;
use rayon::prelude::*;
use serde::Serialize;

use super::costs::Costs;
use super::grid::Grid;
use super::plan::Cell;
use super::residual::Residual;
use super::simulate::{Model, simulate_cell};
use super::size::Size;
use crate::statistics::{mean, median};
use crate::xattr_bench::{Case, Error};

/// The fitted costs, and what remains unexplained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    pub costs: Costs,
    /// The root mean square of the logarithms of simulated / published.
    pub error: f64,
    pub residuals: Vec<Residual>,
}

/// Simulates the times with `off` at these costs, and compares them with the published times.
pub(super) fn evaluated(size: &Size, published: &Grid, costs: Costs) -> Result<Fit, Error> {
    // Without a cache, the number of values has no influence, except that a set to the same value changes
    // nothing.
    let most = size.cases.iter().map(|case| case.values).max();
    let cases = size.cases.iter().filter(|case| Some(case.values) == most);
    let cases: Vec<Case> = cases.copied().collect();
    let residuals = cases.into_par_iter().map(|case| {
        let cell = Cell::letter(case, Off);
        let outcome = simulate_cell(size, Model::new(costs), cell, size.seed)?;
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
        error: mean(&squares.collect::<Vec<_>>()).sqrt(),
        residuals,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_report::as_f64;

    /// The factors by which the search changes a cost.
    const FACTORS: [f64; 4] = [1.6, 1.25, 1.1, 1.04];

    /// Searches for the costs at which the simulation fits the published times with `off` best, and prints them.
    /// The search takes a minute with optimization. Run it with `--nocapture` after a change of the model or of
    /// [`Costs::START`], and copy its result to [`Costs::FITTED`].
    #[test]
    #[ignore = "takes minutes"]
    fn fitted_costs_are_those_that_the_search_finds() {
        let (size, published) = (Size::full(2016), Grid::published());
        let mut best = evaluated(&size, &published, Costs::START).unwrap();
        for factor in FACTORS {
            while let Some(better) = improved(&size, &published, &best, factor) {
                best = better;
                println!("{:.4}: {:?}", best.error, best.costs);
            }
        }
        assert_eq!(best.costs, Costs::FITTED);
    }

    /// Returns the first neighbour with a smaller error, or `None` if `best` has the smallest.
    fn improved(size: &Size, published: &Grid, best: &Fit, factor: f64) -> Option<Fit> {
        let neighbours = neighbours(best.costs, factor).into_iter();
        let mut fits = neighbours.map(|costs| evaluated(size, published, costs).unwrap());
        fits.find(|fit| fit.error < best.error)
    }

    /// Returns variants of `costs`, each with one change: the work, the cost of a waiting process or the cost of
    /// a block is multiplied or divided by `factor`, or the number of lines is changed.
    fn neighbours(costs: Costs, factor: f64) -> Vec<Costs> {
        let mut neighbours = Vec::new();
        for factor in [factor, 1.0 / factor] {
            let mut work = costs;
            work.work.before_ns = scaled(work.work.before_ns, factor);
            work.work.held_ns = scaled(work.work.held_ns, factor);
            let mut waiter = costs;
            waiter.prices.waiter_ns = scaled(waiter.prices.waiter_ns, factor);
            let mut block = costs;
            block.journal.block_ns = scaled(block.journal.block_ns, factor);
            neighbours.extend([work, waiter, block]);
        }
        // With more lines, fewer processes wait for each line. Therefore the number of lines and the cost of a
        // waiting process are also changed together.
        let lines = costs.work.shared_lines;
        for shared_lines in [lines + 1, lines.saturating_sub(1)] {
            for factor in [1.0, factor, 1.0 / factor] {
                let mut costs = costs;
                costs.work.shared_lines = shared_lines;
                costs.prices.waiter_ns = scaled(costs.prices.waiter_ns, factor);
                neighbours.push(costs);
            }
        }
        neighbours
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "costs are small and positive"
    )]
    fn scaled(ns: u64, factor: f64) -> u64 {
        (as_f64(ns) * factor).round() as u64
    }
}
