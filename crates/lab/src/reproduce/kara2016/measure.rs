//! Measures all cases (the matrix of V, F and P) on mbcache alone, on a volume, and on the kernel's ext4.

use larder::MbCacheVariant;

use serde::{Deserialize, Serialize};

use super::Error;
use super::findings::Source;
use super::grid::{Grid, ORDER, Timed};
use super::kernel::KernelMount;
use crate::published::kara2016::{OPERATIONS, RUNS};
use crate::reproduce::state;
use crate::run_report::as_f64;
use crate::xattr_bench::{BenchConfig, Case, Commits, Measured, Target, Worker, measure};

/// The size of a reproduction, and the seed of its random numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// The cases.
    pub cases: Vec<Case>,
    /// Number of sets by each process, and of runs.
    #[serde(flatten)]
    pub config: BenchConfig,
    /// Number of simulated sets of all processes together.
    pub simulated_sets: u32,
    /// Number of seeds with which each case is simulated.
    pub simulated_seeds: u32,
    /// Number of files of each process in the cases with and without the reusable flag.
    pub flagged_files: u32,
    /// Number of files of each process in the plots and the tables of handovers.
    pub pictured_files: u32,
}

impl Size {
    /// Returns all cases, with a number of sets that takes about half an hour on two processors.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self {
            cases: Case::matrix(&Case::PROCESSES, &Case::FILES, &Case::VALUES),
            config: BenchConfig {
                operations: 2000,
                runs: 10,
                seed,
            },
            simulated_sets: 24_000,
            simulated_seeds: 10,
            flagged_files: 20_000,
            pictured_files: 100,
        }
    }

    /// Returns the published sizes: as many sets and runs as in the letter. The number of simulated sets is the
    /// same as in [`Size::full`].
    #[must_use]
    pub fn published(seed: u64) -> Self {
        Self {
            config: BenchConfig {
                operations: OPERATIONS,
                runs: RUNS,
                seed,
            },
            ..Self::full(seed)
        }
    }

    /// Returns few cases and sets. The report takes only seconds, but is not a reproduction.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        Self {
            cases: Case::matrix(&[1, 64], &[10], &[10, 100_000]),
            config: BenchConfig {
                operations: 40,
                runs: 1,
                seed,
            },
            simulated_sets: 1280,
            simulated_seeds: 2,
            flagged_files: 2000,
            pictured_files: 10,
        }
    }

    /// Returns whether the cases are those of the letter, so that verdicts are meaningful.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.cases.len() == Self::full(0).cases.len()
    }

    /// Returns whether the numbers of sets and runs are those of the letter too.
    #[must_use]
    pub fn is_published(&self) -> bool {
        self.config == Self::published(self.config.seed).config
    }

    /// Returns the estimated duration of the measurements on two processors, in minutes. The volume takes most of
    /// the time.
    #[must_use]
    pub fn estimated_minutes(&self) -> u64 {
        let processes = self.cases.iter().map(|case| u64::from(case.processes));
        let sets = processes.sum::<u64>() * u64::from(self.config.operations);
        let runs = MbCacheVariant::ALL.len() as u64 * u64::from(self.config.runs);
        runs * (sets / SETS_MS + self.cases.len() as u64 * RUN_MS) / 60_000
    }

    /// Returns the number of measured runs.
    pub(super) fn runs(&self) -> usize {
        let kernel = KERNEL.len() * self.kernel_cases().count();
        let ours = 2 * MbCacheVariant::ALL.len() * self.cases.len();
        (ours + kernel) * self.config.runs as usize
    }

    /// Returns the cases that the findings about the kernel need: cases in which values hardly repeat, and
    /// cases with many processes or files in which values repeat most.
    fn kernel_cases(&self) -> impl Iterator<Item = Case> {
        let cases = self.cases.iter().copied();
        cases.filter(|case| {
            let is_unique = case.values == 100_000;
            let is_repeated = case.values <= 100 && case.files >= 100 && case.processes == 64;
            is_unique || is_repeated || (case.values == 10 && case.files == 1000)
        })
    }
}

/// Number of sets of the volume, divided by the duration of the measurements in milliseconds. The duration includes
/// the other tables.
const SETS_MS: u64 = 270;

/// The time in which a volume is opened, verified and closed, in milliseconds.
const RUN_MS: u64 = 150;

/// The variants that the kernel supports, with their mount options.
const KERNEL: [(MbCacheVariant, Option<&str>); 2] = [
    (MbCacheVariant::Referenced, None),
    (MbCacheVariant::Off, Some("no_mbcache")),
];

/// The finished measurements of a reproduction, with which it resumes.
pub type State = state::State<Size, Part>;

/// The measured runs of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    source: Source,
    case: Case,
    pub(super) of: Vec<Runs>,
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
    /// Called with the number of runs that were finished since the last call.
    pub runs_done: &'a dyn Fn(usize),
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
                Err(error) => return Ok(Err(error.to_string())),
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
            let runs = finished.of.iter().map(|of| of.seconds.len());
            (self.runs_done)(runs.sum());
            return Ok(finished.clone());
        }
        let measured = measure(&mut || (self.runs_done)(1))?.into_iter();
        let part = Part {
            source,
            case,
            of: measured.filter_map(Runs::of).collect(),
        };
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
    for (_, option) in KERNEL {
        mounts.push(KernelMount::new(case, option).map_err(Error::Mount)?);
    }
    let targets = mounts.iter().map(|mount| Target::Directory {
        path: mount.path(),
        worker: worker.clone(),
    });
    let mut measured = measure(&targets.collect::<Vec<_>>(), case, config, run_done)?;
    for (measured, (variant, _)) in measured.iter_mut().zip(KERNEL) {
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
        let mut state = State::new(Size::quick(1)).unwrap();
        let worker = Worker {
            program: "none".into(),
            arguments: Vec::new(),
            interrupt: None,
        };
        let done = Cell::new(0);
        let mut measurement = Measurement {
            state: &mut state,
            worker: &worker,
            runs_done: &|runs| done.set(done.get() + runs),
        };
        let case = Case::matrix(&[1, 2], &[10], &[10]);
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
        let measured = [
            seconds(case[0], 1.0),
            seconds(case[1], 2.0),
            seconds(case[0], 3.0),
        ];
        assert!((measured[2] - 1.0).abs() < 1e-9, "{measured:?}");
        assert_eq!(done.get(), 3);
        assert_eq!(state.parts().len(), 2);
    }
}
