//! Simulates all cases on the letter's machine in virtual time. The simulated operations are recorded from
//! real ones.

use larder::MbCacheVariant;
use rayon::prelude::*;
use serde::Serialize;

use super::grid::{Grid, ORDER, Timed};
use super::measure::Size;
use crate::contention::record::{FileSystemWork, Recording};
use crate::contention::{Machine, Outcome, Prices};
use crate::published::kara2016::PROCESSORS;
use crate::run_report::as_f64;
use crate::xattr_bench::{Case, Error};

/// Costs of steps on the letter's machine.
///
/// For a line that another processor used last, T. David, R. Guerraoui and V. Trigonakis,
/// "Everything you always wanted to know about synchronization", SOSP 2013, measure about 110
/// cycles within one socket and 290 between sockets, on machines like the letter's (2 GHz): 50 to
/// 140 ns. The costs of waking a process and of switching to it have the order of magnitude that
/// lmbench reports for Linux of that time.
pub const PRICES: Prices = Prices {
    own_ns: 5,
    transfer_ns: 100,
    wake_ns: 500,
    switch_ns: 3000,
};

/// Time that the file system spends in a set. The letter's table has 2.9 microseconds for a set with
/// `off` and one process. The share of a third with the entry held is an assumption.
pub const WORK: FileSystemWork = FileSystemWork {
    before_ns: 1900,
    held_ns: 950,
};

/// A simulated case under a variant.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Contended {
    pub case: Case,
    pub variant: MbCacheVariant,
    /// The results of the simulation.
    pub outcome: Outcome,
}

impl Contended {
    /// Returns a count divided by the number of sets.
    pub fn per_set(&self, count: u64) -> f64 {
        as_f64(count) / as_f64(self.outcome.operations)
    }
}

/// Returns the number of combinations of cases and variants.
pub(super) fn runs(size: &Size) -> usize {
    size.cases.len() * ORDER.len()
}

/// Simulates all cases under all variants.
pub(super) fn simulate(size: &Size, done: &(impl Fn() + Sync)) -> Result<Vec<Contended>, Error> {
    let cases = size.cases.iter();
    let all: Vec<(Case, MbCacheVariant)> = cases
        .flat_map(|case| ORDER.map(|variant| (*case, variant)))
        .collect();
    all.into_par_iter()
        .map(|(case, variant)| {
            let outcome = simulate_case(size, PRICES, WORK, case, variant)?;
            done();
            Ok(Contended {
                case,
                variant,
                outcome,
            })
        })
        .collect()
}

fn simulate_case(
    size: &Size,
    prices: Prices,
    work: FileSystemWork,
    case: Case,
    variant: MbCacheVariant,
) -> Result<Outcome, Error> {
    let machine = Machine {
        processors: PROCESSORS as usize,
        prices,
    };
    let recording = Recording {
        processors: machine.processors,
        operations: size.simulated_operations,
        work,
        seed: size.config.seed,
    };
    Ok(machine.simulate(&recording.of(variant, case)?))
}

/// Returns the simulated times.
pub(super) fn grid(size: &Size, contended: &[Contended]) -> Grid {
    let timed = contended.iter().map(|of| Timed {
        case: of.case,
        variant: of.variant,
        seconds: vec![as_f64(of.outcome.elapsed_ns) / 1e9],
    });
    Grid::measured(&timed.collect::<Vec<_>>(), size.simulated_operations)
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

/// Computes the growth of times with each assumed cost halved and doubled.
pub(super) fn sensitivity(size: &Size) -> Result<Vec<Sensitivity>, Error> {
    let half_and_twice = [("half", 1, 2), ("twice", 2, 1)];
    let changed = half_and_twice.into_par_iter().flat_map(|(name, by, of)| {
        let scaled = move |ns: u64| ns * by / of;
        let prices = |change: fn(&mut Prices) -> &mut u64| {
            let mut prices = PRICES;
            let price = change(&mut prices);
            *price = scaled(*price);
            prices
        };
        let work = FileSystemWork {
            held_ns: scaled(WORK.held_ns),
            ..WORK
        };
        vec![
            (name, "a transfer", prices(|of| &mut of.transfer_ns), WORK),
            (name, "waking", prices(|of| &mut of.wake_ns), WORK),
            (name, "a switch", prices(|of| &mut of.switch_ns), WORK),
            (name, "work with an entry held", PRICES, work),
        ]
    });
    changed
        .map(|(name, what, prices, work)| {
            let mut timed = Vec::new();
            let few = size
                .cases
                .iter()
                .filter(|case| case.values == Case::VALUES[0] && [1, 64].contains(&case.processes));
            for case in few {
                for variant in [MbCacheVariant::Old, MbCacheVariant::Referenced] {
                    let outcome = simulate_case(size, prices, work, *case, variant)?;
                    timed.push(Contended {
                        case: *case,
                        variant,
                        outcome,
                    });
                }
            }
            let grid = grid(size, &timed);
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
        simulate(&size, &|| ()).unwrap()
    }

    #[test]
    fn simulation_is_deterministic() {
        let outcomes = |contended: Vec<Contended>| -> Vec<Outcome> {
            contended.iter().map(|of| of.outcome).collect()
        };
        assert_eq!(outcomes(contended()), outcomes(contended()));
    }

    #[test]
    fn one_process_has_no_handovers_and_old_has_most_with_many() {
        let contended = contended();
        for of in contended.iter().filter(|of| of.case.processes == 1) {
            let outcome = of.outcome;
            let counts = [
                outcome.lock_handovers,
                outcome.line_handovers,
                outcome.parks,
            ];
            assert_eq!(counts, [0; 3], "{of:?}");
        }
        let many = |variant| {
            let of = |of: &&Contended| {
                of.variant == variant && of.case.processes == 64 && of.case.values == 10
            };
            contended.iter().find(of).expect("the case is simulated")
        };
        let (old, referenced) = (many(MbCacheVariant::Old), many(MbCacheVariant::Referenced));
        let handovers = |of: &Contended| of.per_set(of.outcome.lock_handovers);
        assert!(handovers(old) > 2.0 * handovers(referenced));
        assert!(old.outcome.parks > 0 && referenced.outcome.parks == 0);
        assert!(old.outcome.elapsed_ns > referenced.outcome.elapsed_ns);
    }
}
