//! Simulates the letter's table with other assumptions. A verdict that they reverse does not count.
//!
//! # Model
//! Some costs are fitted to the published times with `off`, or are taken from measurements of other machines, and the
//! letter does not state the number of NUMA nodes. One of these assumptions is changed at a time: a cost is halved or
//! doubled, or the number of nodes is 1 or 4.

use larder::MbCacheVariant::ListLru;
use serde::Serialize;

use super::costs::Costs;
use super::grid::Grid;
use super::plan::{Batch, Cell, Comparison, Source};
use super::simulate::{Contended, Model, grid, simulate_cells};
use super::size::Size;
use crate::xattr_bench::{Case, Error};

/// The numbers of NUMA nodes that are assumed instead.
const NODES: [usize; 2] = [1, 4];

/// The letter's table, simulated with another assumption.
#[derive(Clone, Debug, Serialize)]
pub struct Assumption {
    /// What is assumed instead.
    pub change: String,
    pub grid: Grid,
}

/// Returns the number of simulations of a case with each seed.
pub(super) fn runs() -> usize {
    let variants = Batch::new(Source::Simulated, Comparison::Assumptions).compared();
    changed_costs(Costs::FITTED).len() * variants.len() + NODES.len()
}

/// Simulates the letter's table with each other assumption. `contended` are the simulations with the original
/// assumptions. Calls `done` with its case after each run.
pub(super) fn assumptions(
    size: &Size,
    costs: Costs,
    contended: &[Contended],
    done: &(impl Fn(Case) + Sync),
) -> Result<Vec<Assumption>, Error> {
    let simulated = |model, cells: &[Cell]| {
        let cells = cells.iter().map(|cell| (model, *cell));
        let cells: Vec<(Model, Cell)> = cells.collect();
        simulate_cells(size, &cells, size.assumed_seeds, done)
    };
    let cells = size.cells(Batch::new(Source::Simulated, Comparison::Assumptions));
    let mut assumptions = Vec::new();
    for (change, costs) in changed_costs(costs) {
        let changed = simulated(Model::new(costs), &cells)?;
        assumptions.push(Assumption {
            change,
            grid: grid(&changed),
        });
    }
    // Only `list-lru` has lists for each node. The other variants have the times that they had with the same seeds.
    let (listed, other): (Vec<Cell>, Vec<Cell>) =
        cells.into_iter().partition(|cell| cell.variant == ListLru);
    let others = contended.iter().filter(|of| other.contains(&of.cell));
    let others = others.map(|of| Contended {
        runs: of.runs[..size.assumed_seeds as usize].to_vec(),
        ..*of
    });
    let others: Vec<Contended> = others.collect();
    for nodes in NODES {
        let model = Model {
            nodes,
            ..Model::new(costs)
        };
        let mut changed = simulated(model, &listed)?;
        changed.extend_from_slice(&others);
        assumptions.push(Assumption {
            change: match nodes {
                1 => "the machine has one node".to_owned(),
                nodes => format!("the machine has {nodes} nodes"),
            },
            grid: grid(&changed),
        });
    }
    Ok(assumptions)
}

/// Returns the costs of which one is halved or doubled, each with a description.
fn changed_costs(costs: Costs) -> Vec<(String, Costs)> {
    /// A cost: its name, and a reference to it.
    type Cost = (&'static str, fn(&mut Costs) -> &mut u64);
    const CHANGED: [Cost; 5] = [
        ("a transfer", |of| &mut of.prices.transfer_ns),
        ("a waiting process", |of| &mut of.prices.waiter_ns),
        ("waking", |of| &mut of.prices.wake_ns),
        ("a switch", |of| &mut of.prices.switch_ns),
        ("work with an entry held", |of| &mut of.work.held_ns),
    ];
    let changed = CHANGED.iter().flat_map(|(name, cost)| {
        [("half", 1, 2), ("twice", 2, 1)].map(|(times, by, of)| {
            let mut costs = costs;
            let ns = cost(&mut costs);
            *ns = *ns * by / of;
            (format!("{name} costs {times} as much"), costs)
        })
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use super::super::simulate::simulate;
    use super::*;
    use larder::MbCacheVariant::Old;
    use larder_testkit::Seed;

    #[test]
    fn each_assumption_is_simulated_in_all_cases_of_the_letter() {
        let size = Size::quick(Seed::from_environment(2016).0);
        let contended = simulate(&size, Costs::FITTED, &|_, _| ()).unwrap();
        let done = std::sync::atomic::AtomicUsize::new(0);
        let count = |_: Case| {
            done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        };
        let assumptions = assumptions(&size, Costs::FITTED, &contended, &count).unwrap();
        assert_eq!(done.into_inner(), runs() * size.cases.len());
        assert_eq!(assumptions.len(), 12);
        let of = |grid: &Grid, variant| grid.row(size.cases[1]).unwrap().of(variant).unwrap();
        let first = assumptions.first().unwrap();
        assert_eq!(first.change, "a transfer costs half as much");
        let nodes = assumptions.last().unwrap();
        assert_eq!(nodes.change, "the machine has 4 nodes");
        for Assumption { grid, .. } in &assumptions {
            assert_eq!(grid.rows.len(), size.cases.len());
            assert!(grid.repetitions.len() == size.assumed_seeds as usize);
        }
        // The number of nodes changes only `list-lru`.
        let [costs, nodes] = [first, nodes].map(|of_assumption| of(&of_assumption.grid, Old));
        let cell = Cell::letter(size.cases[1], Old);
        let original = contended.iter().find(|of| of.cell == cell).unwrap();
        assert!((nodes - original.runs[0].seconds).abs() < 1e-9);
        assert!((costs - nodes).abs() > 1e-9);
    }
}
