//! A run: several rounds of all cases. In each case the sides take turns, in an order that rotates from
//! round to round.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use larder_lab::xattr_bench::{BenchConfig, Case, Target, Worker, measure};
use larder_testkit::requirement::Requirement;

use crate::outcome::Outcome;
use crate::peer::Programs;
use crate::scratch::{Scratch, Size};
use crate::xattr::plan::Plan;
use crate::xattr::results::Sample;
use crate::xattr::side::Side;

/// The subcommand of this crate's binary that runs one of the processes.
pub const WORKER: &str = "xattr-worker";

/// The parameters of a run.
#[derive(Debug)]
pub struct Run<'r> {
    /// The sizes.
    pub plan: &'r Plan,
    /// The cases.
    pub cases: &'r [Case],
    /// The programs.
    pub programs: &'r Programs,
    /// The directory of images and logs.
    pub folder: &'r Path,
    /// Ends the run early when it is set, with everything unmounted.
    pub interrupted: &'r AtomicBool,
    /// Called with the name of each case.
    pub progress: fn(&str),
}

/// Returns the reason why this machine cannot run the benches, if there is one.
#[must_use]
pub fn missing() -> Option<String> {
    let needed = [Requirement::Tool("mke2fs"), Requirement::Tool("e2fsck")];
    needed.into_iter().find_map(Requirement::missing)
}

/// Returns the name of a case.
#[must_use]
pub fn name(case: Case) -> String {
    format!("values-{}-processes-{}", case.values, case.processes)
}

/// Runs `case` once below `root`. Returns the time in seconds from the start of all processes to the end of
/// the last one.
pub(crate) fn seconds(
    programs: &Programs,
    root: &Path,
    case: Case,
    config: &BenchConfig,
) -> Result<f64> {
    let target = Target::Directory {
        path: root.to_owned(),
        worker: Worker {
            program: programs.harness.clone(),
            arguments: vec![WORKER.to_owned()],
            interrupt: None,
        },
    };
    let measured = measure(&[target], case, config, &mut || {})?;
    let seconds = measured.first().and_then(|one| one.seconds.first());
    seconds
        .copied()
        .context("the benchmark returned no measurement")
}

impl Run<'_> {
    /// Runs everything. If a side fails, the failure is recorded, and the run continues.
    #[must_use]
    pub fn measure(&self) -> Outcome<Sample> {
        let mut outcome = Outcome::default();
        let sides = self.possible_sides(&mut outcome);
        for round in 0..self.plan.rounds {
            for case in self.cases {
                let what = name(*case);
                (self.progress)(&format!(
                    "round {} of {}: {what}",
                    round + 1,
                    self.plan.rounds
                ));
                for turn in 0..sides.len() {
                    if self.interrupted.load(Ordering::Relaxed) {
                        outcome.failures.push("interrupted".to_owned());
                        return outcome;
                    }
                    let side = sides[(turn + round) % sides.len()];
                    match self.measure_side(*case, side) {
                        Ok(sample) => outcome.samples.push(sample),
                        Err(error) => outcome
                            .failures
                            .push(format!("{what} of {}: {error:#}", side.name())),
                    }
                }
            }
        }
        outcome
    }

    fn possible_sides(&self, outcome: &mut Outcome<Sample>) -> Vec<Side> {
        let mut sides = Side::ALL.to_vec();
        sides.retain(|side| match self.programs.missing(side.peer()) {
            Some(reason) => {
                outcome.skipped.push(format!("{}: {reason}", side.name()));
                false
            }
            None => true,
        });
        sides
    }

    fn measure_side(&self, case: Case, side: Side) -> Result<Sample> {
        let config = self.plan.config(case);
        let scratch = Scratch::make(self.folder, Size::of_files(case.all_files()))?;
        let mounted = scratch.mount(self.programs, side.peer(), side.options())?;
        let seconds = seconds(self.programs, mounted.root(), case, &config)?;
        drop(mounted);
        scratch.check()?;
        Ok(Sample {
            case,
            side,
            sets: config.operations * case.processes,
            seconds,
        })
    }
}
