//! Measures all cases (the matrix of V, F and P) on mbcache alone, on a volume, and on the kernel's ext4.

use std::time::Instant;

use larder::MbCacheVariant;

use serde::{Deserialize, Serialize};

use super::Error;
use super::findings::Source;
use super::grid::{Grid, ORDER, Timed};
use super::kernel::{self, KernelMount};
use super::schedule::{Progress, Schedule};
use super::size::Size;
use crate::reproduce::state;
use crate::run_report::as_f64;
use crate::xattr_bench::{BenchConfig, Case, Commits, Measured, Target, Worker, measure};

/// The finished measurements of a reproduction, with which it resumes.
pub type State = state::State<Size, Part>;

/// The measured runs of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    source: Source,
    case: Case,
    pub(super) of: Vec<Runs>,
    /// The duration of all runs, including their preparation, in seconds.
    took_s: f64,
}

impl State {
    /// Returns the estimated duration of the runs that are not finished, in minutes.
    #[must_use]
    pub fn estimated_minutes(&self) -> u64 {
        self.schedule().progress().left.as_secs().div_ceil(60)
    }

    pub(super) fn schedule(&self) -> Schedule {
        let parts = self.parts().iter();
        Schedule::new(
            self.size(),
            parts.map(|part| (part.source, part.case, part.took_s)),
        )
    }
}

/// The runs of a case under a variant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Runs {
    variant: MbCacheVariant,
    pub seconds: Vec<f64>,
    commits: Vec<Commits>,
    /// Number of files that began to share a block, in the last run.
    shares: Option<u64>,
}

impl Runs {
    fn of(measured: Measured) -> Option<Self> {
        Some(Self {
            variant: measured.variant?,
            shares: measured.stats.map(|stats| stats.shares),
            seconds: measured.seconds,
            commits: measured.commits,
        })
    }
}

/// A measured table, and other results of the same runs.
pub(super) struct Table {
    pub source: Source,
    /// The figures, or the reason why they are missing.
    pub grid: Result<Grid, String>,
    pub shares: Vec<Shares>,
    pub commits: Vec<Committed>,
}

/// The commits of a journal in a case.
#[derive(Clone, Debug, Serialize)]
pub struct Committed {
    /// The source of the table.
    pub source: Source,
    pub case: Case,
    pub variant: MbCacheVariant,
    /// The commits in each run.
    pub runs: Vec<Commits>,
}

/// How often a variant finds a block to share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// The source of the table.
    pub source: Source,
    pub variant: MbCacheVariant,
    /// Number of files that began to share a block, for each set, in the last runs of all cases.
    pub per_set: f64,
}

/// The measurements of a reproduction: the finished parts, and what is needed to measure the other parts.
pub(super) struct Measurement<'a> {
    pub state: &'a mut State,
    /// The program that each process runs on the kernel's ext4.
    pub worker: &'a Worker,
    pub schedule: &'a Schedule,
    /// Called after each run.
    pub progress: &'a dyn Fn(Progress),
}

impl Measurement<'_> {
    /// Measures every table.
    pub fn tables(&mut self) -> Result<Vec<Table>, Error> {
        let volume = self.each_case(Source::Volume, Target::Volume)?;
        let engine = self.each_case(Source::Engine, Target::Engine)?;
        let kernel = self.kernel()?;
        let operations = self.state.size().config.operations;
        Ok([
            (Source::Volume, Ok(volume)),
            (Source::Engine, Ok(engine)),
            (Source::Kernel, kernel),
        ]
        .map(|(source, parts)| Table::new(source, parts, operations))
        .into())
    }

    fn each_case(
        &mut self,
        source: Source,
        target: fn(MbCacheVariant) -> Target,
    ) -> Result<Vec<Part>, Error> {
        let targets = MbCacheVariant::ALL.map(target);
        let size = self.state.size().clone();
        let cases = size.cases.iter();
        cases
            .map(|case| {
                self.part(source, *case, |run_done| {
                    Ok(measure(&targets, *case, &size.config, run_done)?)
                })
            })
            .collect()
    }

    /// Measures the cases of the kernel's table. Returns the reason if the kernel's ext4 cannot be mounted.
    fn kernel(&mut self) -> Result<Result<Vec<Part>, String>, Error> {
        let size = self.state.size().clone();
        let worker = self.worker;
        let mut parts = Vec::new();
        for case in size.kernel_cases() {
            let part = self.part(Source::Kernel, case, |run_done| {
                kernel_case(&size.config, case, worker, run_done)
            });
            match part {
                Ok(part) => parts.push(part),
                Err(Error::State(error)) => return Err(Error::State(error)),
                Err(error) => {
                    self.schedule.skip(Source::Kernel);
                    return Ok(Err(error.to_string()));
                }
            }
        }
        Ok(Ok(parts))
    }

    /// Returns the runs of a case. If they are not finished, calls `measure`, and stores the measured runs.
    pub fn part(
        &mut self,
        source: Source,
        case: Case,
        measure: impl FnOnce(&mut dyn FnMut()) -> Result<Vec<Measured>, Error>,
    ) -> Result<Part, Error> {
        let mut parts = self.state.parts().iter();
        if let Some(finished) = parts.find(|part| (part.source, part.case) == (source, case)) {
            return Ok(finished.clone());
        }
        let started = Instant::now();
        let measured = measure(&mut || (self.progress)(self.schedule.run_done(source, case)))?;
        let part = Part {
            source,
            case,
            of: measured.into_iter().filter_map(Runs::of).collect(),
            took_s: started.elapsed().as_secs_f64(),
        };
        self.schedule.finish(source, case, part.took_s);
        self.state.add(part.clone()).map_err(Error::State)?;
        Ok(part)
    }
}

impl Table {
    fn new(source: Source, parts: Result<Vec<Part>, String>, operations: u32) -> Self {
        let (parts, missing) = match parts {
            Ok(parts) => (parts, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let runs = || {
            parts
                .iter()
                .flat_map(|part| part.of.iter().map(|of| (part.case, of)))
        };
        let timed = runs().map(|(case, of)| Timed {
            case,
            variant: of.variant,
            seconds: of.seconds.clone(),
        });
        let commits = runs().map(|(case, of)| Committed {
            source,
            case,
            variant: of.variant,
            runs: of.commits.clone(),
        });
        Self {
            source,
            grid: match missing {
                Some(reason) => Err(reason),
                None => Ok(Grid::measured(&timed.collect::<Vec<_>>(), operations)),
            },
            shares: ORDER
                .into_iter()
                .filter_map(|variant| {
                    let of_variant = runs().filter(|(_, of)| of.variant == variant);
                    shares(source, variant, of_variant, operations)
                })
                .collect(),
            commits: commits.filter(|of| !of.runs.is_empty()).collect(),
        }
    }
}

/// Returns how often a variant finds a block to share, in all its runs.
fn shares<'r>(
    source: Source,
    variant: MbCacheVariant,
    runs: impl Iterator<Item = (Case, &'r Runs)>,
    operations: u32,
) -> Option<Shares> {
    let counts = runs.filter_map(|(case, of)| {
        let sets = u64::from(case.processes) * u64::from(operations);
        Some((of.shares?, sets))
    });
    let sum = |(shares, sets), (more, by)| (shares + more, sets + by);
    let (shares, sets) = counts.reduce(sum)?;
    Some(Shares {
        source,
        variant,
        per_set: as_f64(shares) / as_f64(sets),
    })
}

/// Measures a case on the kernel's ext4 under each variant that the kernel supports. Each variant has its own
/// mount.
fn kernel_case(
    config: &BenchConfig,
    case: Case,
    worker: &Worker,
    run_done: &mut dyn FnMut(),
) -> Result<Vec<Measured>, Error> {
    let mut mounts = Vec::new();
    for (_, option) in kernel::VARIANTS {
        mounts.push(KernelMount::new(case, option).map_err(Error::Mount)?);
    }
    let targets = mounts.iter().map(|mount| Target::Directory {
        path: mount.path(),
        worker: worker.clone(),
    });
    let mut measured = measure(&targets.collect::<Vec<_>>(), case, config, run_done)?;
    for (measured, (variant, _)) in measured.iter_mut().zip(kernel::VARIANTS) {
        measured.variant = Some(variant);
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn finished_part_is_counted_but_not_measured_again() {
        let size = Size::quick(1);
        let mut state = State::new(size.clone()).unwrap();
        let worker = Worker {
            program: "none".into(),
            arguments: Vec::new(),
            interrupt: None,
        };
        let schedule = state.schedule();
        let finished = Cell::new(0);
        let mut measurement = Measurement {
            state: &mut state,
            worker: &worker,
            schedule: &schedule,
            progress: &|progress| finished.set(progress.finished),
        };
        let mut seconds = |case, second| {
            let part = measurement.part(Source::Engine, case, |run_done| {
                run_done();
                Ok(vec![Measured {
                    case,
                    operations: 1,
                    variant: Some(MbCacheVariant::Off),
                    seconds: vec![second],
                    stats: None,
                    commits: Vec::new(),
                }])
            });
            part.unwrap().of[0].seconds[0]
        };
        let case = &size.cases;
        let measured = [
            seconds(case[0], 1.0),
            seconds(case[1], 2.0),
            seconds(case[0], 3.0),
        ];
        assert!((measured[2] - 1.0).abs() < 1e-9, "{measured:?}");
        // All six runs of the first case, and one of the second, after which it was finished too.
        assert_eq!(finished.get(), 7);
        assert_eq!(state.parts().len(), 2);
        assert_eq!(state.schedule().progress().finished, 12);
    }
}
