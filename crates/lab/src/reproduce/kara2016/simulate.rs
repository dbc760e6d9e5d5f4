//! Simulates all cases on the letter's machine in virtual time. The simulated operations are recorded from
//! real ones.

use rayon::prelude::*;
use serde::Serialize;

use super::costs::Costs;
use super::grid::{Grid, Timed};
use super::plan::{Batch, Cell, Comparison, Setting, Source};
use super::size::Size;
use crate::contention::record::Recording;
use crate::contention::{Machine, Outcome};
use crate::published::kara2016::{OPERATIONS, PROCESSORS};
use crate::run_report::as_f64;
use crate::statistics::mean;
use crate::xattr_bench::{Case, Error};

/// Number of NUMA nodes of the simulated machine. The letter does not state this number. Machines with 24
/// processors had two sockets.
const NODES: usize = 2;

/// The assumptions of a simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub costs: Costs,
    /// Number of NUMA nodes.
    pub nodes: usize,
}

impl Model {
    pub fn new(costs: Costs) -> Self {
        Self {
            costs,
            nodes: NODES,
        }
    }
}

/// A simulated run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SimulatedRun {
    /// The time for 50,000 sets by each process.
    pub seconds: f64,
    /// The results of the simulation.
    pub outcome: Outcome,
}

impl SimulatedRun {
    /// Returns a count divided by the number of sets.
    pub fn per_set(&self, count: fn(&Outcome) -> u64) -> f64 {
        as_f64(count(&self.outcome)) / as_f64(self.outcome.operations)
    }
}

/// A simulated cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contended {
    #[serde(flatten)]
    pub cell: Cell,
    /// One run for each seed.
    pub runs: Vec<SimulatedRun>,
}

impl Contended {
    /// Returns the mean of a count, divided by the number of sets.
    pub fn per_set(&self, count: fn(&Outcome) -> u64) -> f64 {
        let per_set = self.runs.iter().map(|run| run.per_set(count));
        mean(&per_set.collect::<Vec<_>>())
    }
}

/// Simulates the letter's table and the cases of the reusable flag, with each seed. Calls `done` after each run.
pub(super) fn simulate(
    size: &Size,
    costs: Costs,
    done: &(impl Fn(Batch, Case) + Sync),
) -> Result<Vec<Contended>, Error> {
    let model = Model::new(costs);
    let batches = [Comparison::Flag, Comparison::Variants];
    let contended = batches.map(|comparison| {
        let batch = Batch::new(Source::Simulated, comparison);
        let cells = size.cells(batch).into_iter().map(|cell| (model, cell));
        let cells: Vec<(Model, Cell)> = cells.collect();
        simulate_cells(size, &cells, size.simulated_seeds, &|case| {
            done(batch, case);
        })
    });
    let contended = contended.into_iter().collect::<Result<Vec<_>, Error>>()?;
    Ok(contended.concat())
}

/// Simulates cells, each with its model and with this number of seeds. Calls `done` with its case after each run.
pub(super) fn simulate_cells(
    size: &Size,
    cells: &[(Model, Cell)],
    seeds: u32,
    done: &(impl Fn(Case) + Sync),
) -> Result<Vec<Contended>, Error> {
    let runs = cells
        .iter()
        .flat_map(|run| (0..seeds).map(move |seed| (run, seed)));
    let runs: Vec<(&(Model, Cell), u32)> = runs.collect();
    let runs = runs.into_par_iter().map(|(&(model, cell), seed)| {
        let seed = size.seed.wrapping_add(seed.into());
        let run = simulate_cell(size, model, cell, seed);
        done(cell.case);
        run
    });
    let runs = runs.collect::<Result<Vec<SimulatedRun>, Error>>()?;
    let runs = runs.chunks(seeds as usize);
    let contended = cells.iter().zip(runs).map(|((_, cell), runs)| Contended {
        cell: *cell,
        runs: runs.to_vec(),
    });
    Ok(contended.collect())
}

pub(super) fn simulate_cell(
    size: &Size,
    model: Model,
    cell: Cell,
    seed: u64,
) -> Result<SimulatedRun, Error> {
    let Model { costs, nodes } = model;
    let machine = Machine {
        processors: PROCESSORS as usize,
        prices: costs.prices,
        journal: costs.journal,
    };
    let operations = size.simulated_sets.div_ceil(cell.case.processes);
    let recording = Recording {
        processors: machine.processors,
        nodes,
        operations,
        work: costs.work,
        has_reusable_flag: cell.setting != Setting::NoFlag,
        seed,
    };
    let outcome = machine.simulate(&recording.of(cell.variant, cell.case)?);
    let scale = f64::from(OPERATIONS) / f64::from(operations);
    Ok(SimulatedRun {
        seconds: as_f64(outcome.elapsed_ns) / 1e9 * scale,
        outcome,
    })
}

/// Returns the simulated times: the medians of all seeds.
pub(super) fn grid(contended: &[Contended]) -> Grid {
    let timed = contended.iter().map(|of| Timed {
        cell: of.cell,
        seconds: of.runs.iter().map(|run| run.seconds).collect(),
    });
    Grid::measured(&timed.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder::MbCacheVariant;
    use larder_testkit::Seed;

    fn contended() -> Vec<Contended> {
        let size = Size::quick(Seed::from_environment(2016).0);
        simulate(&size, Costs::START, &|_, _| ()).unwrap()
    }

    #[test]
    fn simulation_is_deterministic() {
        assert!(contended() == contended());
    }

    #[test]
    fn handovers_are_absent_with_one_process_and_most_frequent_with_old() {
        let contended = contended();
        for of in contended.iter().filter(|of| of.cell.case.processes == 1) {
            for SimulatedRun { outcome, .. } in &of.runs {
                let counts = [
                    outcome.lock_handovers,
                    outcome.line_handovers,
                    outcome.parks,
                ];
                assert_eq!(counts, [0; 3], "{of:?}");
            }
        }
        let many = |variant| {
            let of = |of: &&Contended| {
                let Cell { case, .. } = of.cell;
                of.cell == Cell::letter(case, variant) && case.processes == 64 && case.values == 10
            };
            contended.iter().find(of).expect("the case is simulated")
        };
        let (old, referenced) = (many(MbCacheVariant::Old), many(MbCacheVariant::Referenced));
        let handovers = |of: &Contended| of.per_set(|outcome| outcome.lock_handovers);
        assert!(handovers(old) > 2.0 * handovers(referenced));
        let parks = |of: &Contended| of.per_set(|outcome| outcome.parks);
        assert!(parks(old) > 0.0 && parks(referenced) < f64::EPSILON);
        assert!(old.runs[0].seconds > referenced.runs[0].seconds);
    }

    #[test]
    fn commits_slow_down_files_that_share_no_block_most() {
        let size = Size {
            simulated_sets: 20_000,
            ..Size::quick(Seed::from_environment(2016).0)
        };
        let case = |files| Case {
            processes: 8,
            files,
            values: 10,
        };
        let run = |files, variant| {
            let model = Model::new(Costs::START);
            simulate_cell(&size, model, Cell::letter(case(files), variant), size.seed).unwrap()
        };
        let few = run(10, MbCacheVariant::Off);
        let many = run(1000, MbCacheVariant::Off);
        let shared = run(1000, MbCacheVariant::Referenced);
        assert_eq!((few.outcome.commits, shared.outcome.commits), (0, 0));
        assert!(many.outcome.commits >= 4, "{many:?}");
        assert!(many.seconds > 3.0 * shared.seconds, "{many:?}, {shared:?}");
    }
}
