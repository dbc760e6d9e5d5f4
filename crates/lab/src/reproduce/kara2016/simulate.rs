//! Simulates all cases on the letter's machine in virtual time. The simulated operations are recorded from
//! real ones.

use larder::MbCacheVariant;
use rayon::prelude::*;
use serde::Serialize;

use super::costs::Costs;
use super::grid::{Grid, ORDER, Timed};
use super::size::Size;
use crate::contention::record::{FileSystemWork, Recording};
use crate::contention::{Machine, Outcome, Prices};
use crate::published::kara2016::{OPERATIONS, PROCESSORS};
use crate::run_report::as_f64;
use crate::statistics::mean;
use crate::xattr_bench::{Case, Error};

/// Number of NUMA nodes of the simulated machine. The letter does not state this number. Machines with 24
/// processors had two sockets.
const NODES: usize = 2;

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

/// A simulated case under a variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contended {
    pub case: Case,
    pub variant: MbCacheVariant,
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

/// Simulates all cases under all variants, with each seed. Calls `done` with its case after each run.
pub(super) fn simulate(
    size: &Size,
    costs: Costs,
    done: &(impl Fn(Case) + Sync),
) -> Result<Vec<Contended>, Error> {
    let cases = size.cases.iter();
    let all: Vec<(Case, MbCacheVariant)> = cases
        .flat_map(|case| ORDER.map(|variant| (*case, variant)))
        .collect();
    all.into_par_iter()
        .map(|(case, variant)| {
            let runs = (0..size.simulated_seeds).map(|seed| {
                let seed = size.config.seed.wrapping_add(seed.into());
                let run = simulate_case(size, costs, case, variant, seed);
                done(case);
                run
            });
            Ok(Contended {
                case,
                variant,
                runs: runs.collect::<Result<_, Error>>()?,
            })
        })
        .collect()
}

pub(super) fn simulate_case(
    size: &Size,
    costs: Costs,
    case: Case,
    variant: MbCacheVariant,
    seed: u64,
) -> Result<SimulatedRun, Error> {
    simulate_flag(size, costs, case, variant, seed, true)
}

/// Simulates a case as [`simulate_case`] does, but with or without the flag that marks the entries of full blocks
/// as not reusable.
pub(super) fn simulate_flag(
    size: &Size,
    costs: Costs,
    case: Case,
    variant: MbCacheVariant,
    seed: u64,
    has_reusable_flag: bool,
) -> Result<SimulatedRun, Error> {
    let machine = Machine {
        processors: PROCESSORS as usize,
        prices: costs.prices,
        journal: costs.journal,
    };
    let operations = size.simulated_sets.div_ceil(case.processes);
    let recording = Recording {
        processors: machine.processors,
        nodes: NODES,
        operations,
        work: costs.work,
        has_reusable_flag,
        seed,
    };
    let outcome = machine.simulate(&recording.of(variant, case)?);
    let scale = f64::from(OPERATIONS) / f64::from(operations);
    Ok(SimulatedRun {
        seconds: as_f64(outcome.elapsed_ns) / 1e9 * scale,
        outcome,
    })
}

/// Returns the simulated times: the medians of all seeds.
pub(super) fn grid(contended: &[Contended]) -> Grid {
    let timed = contended.iter().map(|of| Timed {
        case: of.case,
        variant: of.variant,
        seconds: of.runs.iter().map(|run| run.seconds).collect(),
    });
    Grid::measured(&timed.collect::<Vec<_>>(), OPERATIONS)
}

/// The growth of times with the number of processes, if one assumed cost is changed.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// The changed cost.
    pub change: String,
    /// Time of 64 processes divided by the time of one, with V=10, under `old`.
    pub old_growth: Option<f64>,
    /// Time of 64 processes divided by the time of one, with V=10, under `referenced`.
    pub referenced_growth: Option<f64>,
}

/// Computes the growth of times with each assumed or fitted cost halved and doubled.
pub(super) fn sensitivity(size: &Size, costs: Costs) -> Result<Vec<Sensitivity>, Error> {
    let half_and_twice = [("half", 1, 2), ("twice", 2, 1)];
    let changed = half_and_twice.into_par_iter().flat_map(|(name, by, of)| {
        let scaled = move |ns: u64| ns * by / of;
        let prices = |change: fn(&mut Prices) -> &mut u64| {
            let mut costs = costs;
            let price = change(&mut costs.prices);
            *price = scaled(*price);
            costs
        };
        let held = Costs {
            work: FileSystemWork {
                held_ns: scaled(costs.work.held_ns),
                ..costs.work
            },
            ..costs
        };
        vec![
            (name, "a transfer", prices(|of| &mut of.transfer_ns)),
            (name, "a waiting process", prices(|of| &mut of.waiter_ns)),
            (name, "waking", prices(|of| &mut of.wake_ns)),
            (name, "a switch", prices(|of| &mut of.switch_ns)),
            (name, "work with an entry held", held),
        ]
    });
    changed
        .map(|(name, what, costs)| {
            let mut timed = Vec::new();
            let few = size
                .cases
                .iter()
                .filter(|case| case.values == Case::VALUES[0] && [1, 64].contains(&case.processes));
            for case in few {
                for variant in [MbCacheVariant::Old, MbCacheVariant::Referenced] {
                    let run = simulate_case(size, costs, *case, variant, size.config.seed)?;
                    timed.push(Contended {
                        case: *case,
                        variant,
                        runs: vec![run],
                    });
                }
            }
            let grid = grid(&timed);
            let growth = |variant| grid.growth(variant, 64, Case::VALUES[0]);
            Ok(Sensitivity {
                change: format!("{what} costs {name} as much"),
                old_growth: growth(MbCacheVariant::Old),
                referenced_growth: growth(MbCacheVariant::Referenced),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::Seed;

    fn contended() -> Vec<Contended> {
        let size = Size::quick(Seed::from_environment(2016).0);
        simulate(&size, Costs::START, &|_| ()).unwrap()
    }

    #[test]
    fn simulation_is_deterministic() {
        assert!(contended() == contended());
    }

    #[test]
    fn one_process_has_no_handovers_and_old_has_most_with_many() {
        let contended = contended();
        for of in contended.iter().filter(|of| of.case.processes == 1) {
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
                of.variant == variant && of.case.processes == 64 && of.case.values == 10
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
            simulate_case(&size, Costs::START, case(files), variant, size.config.seed).unwrap()
        };
        let few = run(10, MbCacheVariant::Off);
        let many = run(1000, MbCacheVariant::Off);
        let shared = run(1000, MbCacheVariant::Referenced);
        assert_eq!((few.outcome.commits, shared.outcome.commits), (0, 0));
        assert!(many.outcome.commits >= 4, "{many:?}");
        assert!(many.seconds > 3.0 * shared.seconds, "{many:?}, {shared:?}");
    }
}
