//! Measures all batches on mbcache alone, on a volume, and on the kernel's ext4.

use std::time::Instant;

use larder::MbCacheVariant::{self, Off, Referenced};

use serde::{Deserialize, Serialize};

use super::Error;
use super::grid::{Grid, Timed};
use super::kernel::KernelMount;
use super::plan::{Batch, Cell, ORDER, REPEATED, Setting, Source};
use super::schedule::{Progress, Schedule};
use super::size::Size;
use crate::published::kara2016::OPERATIONS;
use crate::reproduce::{program, state};
use crate::run_report::as_f64;
use crate::xattr_bench::{
    self, BenchConfig, Case, Commits, MeanCommits, Measured, Target, Worker, measure,
};

/// The finished measurements of a reproduction, with which it resumes.
pub type State = state::State<Size, Part>;

/// The measured runs of a case in a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    batch: Batch,
    case: Case,
    /// Number of measured sets by each process.
    operations: u32,
    of: Vec<Runs>,
    /// The duration of all runs, including their preparation, in seconds.
    took_s: f64,
}

impl Part {
    pub(super) fn is(&self, batch: Batch, case: Case) -> bool {
        (self.batch, self.case) == (batch, case)
    }

    /// Returns whether the part contains the runs that `config` and the batch describe, with possible times and counts.
    pub(super) fn is_complete(&self, config: &BenchConfig) -> bool {
        const MIN_SECONDS: f64 = 1e-9;
        const MAX_SECONDS: f64 = 1e9;
        const MAX_COUNT: u64 = 1 << 53;
        let is_time = |seconds: f64| (0.0..=MAX_SECONDS).contains(&seconds);
        let is_run = |of: &Runs| {
            of.seconds.len() == config.runs as usize
                && of
                    .seconds
                    .iter()
                    .all(|&seconds| seconds >= MIN_SECONDS && is_time(seconds))
                && of.commits.len() <= of.seconds.len()
                && of
                    .commits
                    .iter()
                    .all(|of| is_time(of.seconds) && of.transactions.max(of.blocks) <= MAX_COUNT)
                && of.shares.unwrap_or(0) <= MAX_COUNT
        };
        let compared = self.of.iter().map(|of| (of.setting, of.variant));
        self.operations == config.operations
            && compared.eq(self.batch.compared())
            && self.of.iter().all(is_run)
            && is_time(self.took_s)
    }
}

impl State {
    /// Returns the estimated duration of the runs that are not finished, in minutes.
    #[must_use]
    pub fn estimated_minutes(&self) -> u64 {
        self.schedule().progress().left.as_secs().div_ceil(60)
    }

    pub(super) fn schedule(&self) -> Schedule {
        schedule(self.size(), self.parts())
    }
}

/// Returns the runs of a reproduction of which `parts` are finished.
pub(super) fn schedule(size: &Size, parts: &[Part]) -> Schedule {
    let parts = parts.iter();
    Schedule::new(size, parts.map(|part| (part.batch, part.case, part.took_s)))
}

/// The runs of a case under a variant, in a setting.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Runs {
    setting: Setting,
    variant: MbCacheVariant,
    seconds: Vec<f64>,
    commits: Vec<Commits>,
    /// Number of files that began to share a block, in the last run.
    shares: Option<u64>,
}

impl Runs {
    fn new((setting, variant): (Setting, MbCacheVariant), measured: Measured) -> Self {
        Self {
            setting,
            variant,
            shares: measured.stats.map(|stats| stats.shares),
            seconds: measured.seconds,
            commits: measured.commits,
        }
    }
}

/// A measured table, and other results of the same runs.
pub(super) struct Table {
    pub source: Source,
    /// The figures; `None` if there are none.
    pub grid: Option<Grid>,
    /// Why figures are missing.
    pub failure: Option<Failure>,
    pub shares: Vec<Shares>,
    pub commits: Vec<Committed>,
}

/// The reason why figures of a table are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub reason: String,
    /// Whether files did not have the values that were set.
    pub is_wrong_data: bool,
    /// Whether the table may become complete if the measurement is resumed. If the kernel's ext4 cannot be mounted at
    /// the start, it will not.
    pub is_resumable: bool,
}

impl Failure {
    /// Describes an error after `finished` parts. The reason is plain text, so that it can be read from a report again.
    fn new(error: &Error, finished: usize) -> Self {
        Self {
            reason: program::plain(&error.to_string()),
            is_wrong_data: matches!(error, Error::Bench(xattr_bench::Error::Lost { .. })),
            is_resumable: finished > 0 || !matches!(error, Error::Mount(_)),
        }
    }
}

/// The commits of a journal in a cell.
#[derive(Clone, Debug, Serialize)]
pub struct Committed {
    /// The source of the table.
    pub source: Source,
    #[serde(flatten)]
    pub cell: Cell,
    /// Number of measured sets by each process.
    pub operations: u32,
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
        let mut tables = Vec::new();
        for source in Source::MEASURED {
            tables.push(self.table(source)?);
        }
        Ok(tables)
    }

    /// Measures a table. If the kernel's ext4 fails, the finished parts are kept.
    fn table(&mut self, source: Source) -> Result<Table, Error> {
        let size = self.state.size().clone();
        let worker = self.worker;
        let batches = Batch::ALL
            .into_iter()
            .filter(|batch| batch.source == source);
        let all = batches.flat_map(|batch| {
            let cases = size.cases(batch).into_iter();
            cases.map(move |case| (batch, case))
        });
        let mut parts = Vec::new();
        for (batch, case) in all {
            let config = size.config(batch, case);
            let part = self.part(batch, case, |run_done| {
                measured(batch, case, &config, worker, run_done)
            });
            match part {
                Ok(part) => parts.push(part),
                Err(error) if source != Source::Kernel || matches!(error, Error::State(_)) => {
                    return Err(error);
                }
                Err(error) => {
                    self.schedule.skip(source);
                    let failure = Failure::new(&error, parts.len());
                    return Ok(Table::new(source, &parts, Some(failure)));
                }
            }
        }
        Ok(Table::new(source, &parts, None))
    }

    /// Returns the runs of a case. If they are not finished, calls `measure`, and stores the measured runs.
    fn part(
        &mut self,
        batch: Batch,
        case: Case,
        measure: impl FnOnce(&mut dyn FnMut()) -> Result<Vec<Measured>, Error>,
    ) -> Result<Part, Error> {
        let mut parts = self.state.parts().iter();
        if let Some(finished) = parts.find(|part| part.is(batch, case)) {
            return Ok(finished.clone());
        }
        let started = Instant::now();
        let measured = measure(&mut || (self.progress)(self.schedule.run_done(batch, case)))?;
        let measured = batch.compared().into_iter().zip(measured);
        let part = Part {
            batch,
            case,
            operations: self.state.size().config(batch, case).operations,
            of: measured
                .map(|(compared, measured)| Runs::new(compared, measured))
                .collect(),
            took_s: started.elapsed().as_secs_f64(),
        };
        self.schedule.finish(batch, case, part.took_s);
        self.state.add(part.clone()).map_err(Error::State)?;
        Ok(part)
    }
}

impl Table {
    pub fn new(source: Source, parts: &[Part], failure: Option<Failure>) -> Self {
        let runs = || {
            let parts = parts.iter();
            parts.flat_map(|part| part.of.iter().map(move |of| (part, of)))
        };
        let cell = |part: &Part, of: &Runs| Cell {
            case: part.case,
            setting: of.setting,
            variant: of.variant,
        };
        let timed = runs().map(|(part, of)| {
            let scale = f64::from(OPERATIONS) / f64::from(part.operations);
            Timed {
                cell: cell(part, of),
                seconds: of.seconds.iter().map(|seconds| seconds * scale).collect(),
            }
        });
        let timed: Vec<Timed> = timed.collect();
        let commits = runs().map(|(part, of)| Committed {
            source,
            cell: cell(part, of),
            operations: part.operations,
            runs: of.commits.clone(),
        });
        let commits: Vec<Committed> = commits.filter(|of| !of.runs.is_empty()).collect();
        Self {
            source,
            grid: (!timed.is_empty()).then(|| Grid {
                commits: repeated_commits(&commits),
                ..Grid::measured(&timed)
            }),
            failure,
            shares: ORDER
                .into_iter()
                .filter_map(|variant| {
                    let of_variant = runs()
                        .filter(|(_, of)| (of.setting, of.variant) == (Setting::Letter, variant));
                    shares(source, variant, of_variant)
                })
                .collect(),
            commits,
        }
    }
}

/// Returns the mean number of commits in a run of [`REPEATED`] with a journal, under `referenced` and under `off`.
fn repeated_commits(commits: &[Committed]) -> Option<[f64; 2]> {
    let mean = |variant| {
        let cell = Cell {
            case: REPEATED,
            setting: Setting::Journal,
            variant,
        };
        let of = commits.iter().find(|of| of.cell == cell)?;
        Some(MeanCommits::of(&of.runs)?.transactions)
    };
    Some([mean(Referenced)?, mean(Off)?])
}

/// Returns how often a variant finds a block to share, in all its runs.
fn shares<'r>(
    source: Source,
    variant: MbCacheVariant,
    runs: impl Iterator<Item = (&'r Part, &'r Runs)>,
) -> Option<Shares> {
    let counts = runs.filter_map(|(part, of)| {
        let sets = u64::from(part.case.processes) * u64::from(part.operations);
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

/// Measures a case of a batch.
fn measured(
    batch: Batch,
    case: Case,
    config: &BenchConfig,
    worker: &Worker,
    run_done: &mut dyn FnMut(),
) -> Result<Vec<Measured>, Error> {
    // Each target of the kernel has its own mount.
    let mut mounts = Vec::new();
    let targets = batch.compared().into_iter().map(|(setting, variant)| {
        Ok(match (batch.source, setting) {
            (Source::Engine, Setting::NoFlag) => Target::EngineWithoutFlag(variant),
            (Source::Engine, _) => Target::Engine(variant),
            (Source::Kernel, _) => {
                let has_journal = setting != Setting::NoJournal;
                let mount = KernelMount::new(case, variant, has_journal).map_err(Error::Mount)?;
                let path = mount.path();
                mounts.push(mount);
                Target::Directory {
                    path,
                    worker: worker.clone(),
                }
            }
            (_, Setting::NoFlag) => Target::VolumeWithoutFlag(variant),
            (_, Setting::NoJournal) => Target::VolumeWithoutJournal(variant),
            (_, _) => Target::Volume(variant),
        })
    });
    let targets = targets.collect::<Result<Vec<_>, Error>>()?;
    Ok(measure(&targets, case, config, run_done)?)
}

#[cfg(test)]
mod tests {
    use super::super::plan::Comparison;
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
        let engine = Batch::new(Source::Engine, Comparison::Variants);
        let mut seconds = |case, second| {
            let part = measurement.part(engine, case, |run_done| {
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

    #[test]
    fn late_failure_keeps_the_finished_parts_and_names_wrong_data() {
        let lost = Error::Bench(xattr_bench::Error::Lost {
            process: 1,
            file: 2,
        });
        let mount = Error::Mount("no loop device".to_owned());
        let marked = Error::Mount("`mount`: <b>\n".repeat(100));
        assert!(program::is_plain(&Failure::new(&marked, 0).reason));
        for (error, finished, is_wrong_data, is_resumable) in [
            (&mount, 0, false, false),
            (&mount, 3, false, true),
            (&lost, 0, true, true),
            (&lost, 3, true, true),
        ] {
            let failure = Failure::new(error, finished);
            assert_eq!(failure.reason, error.to_string());
            let flags = (failure.is_wrong_data, failure.is_resumable);
            assert_eq!(flags, (is_wrong_data, is_resumable));
        }
        let runs = Runs {
            setting: Setting::Letter,
            variant: MbCacheVariant::Off,
            seconds: vec![1.0, 3.0],
            commits: Vec::new(),
            shares: None,
        };
        let part = Part {
            batch: Batch::new(Source::Kernel, Comparison::Variants),
            case: Size::quick(1).cases[0],
            operations: OPERATIONS / 2,
            of: vec![runs],
            took_s: 1.0,
        };
        let table = Table::new(Source::Kernel, &[part], Some(Failure::new(&lost, 1)));
        let grid = table.grid.unwrap();
        assert_eq!(grid.rows[0].of(MbCacheVariant::Off), Some(4.0));
        assert_eq!(grid.commits, None);
        assert!(table.failure.unwrap().is_wrong_data);
        let none = Table::new(Source::Kernel, &[], Some(Failure::new(&mount, 0)));
        assert!(none.grid.is_none());
    }

    #[test]
    fn commits_are_those_of_the_judged_case_with_a_journal() {
        let runs = |setting, variant, transactions: &[u64]| Runs {
            setting,
            variant,
            seconds: vec![1.0; transactions.len()],
            commits: transactions
                .iter()
                .map(|&transactions| Commits {
                    transactions,
                    blocks: 0,
                    seconds: 0.0,
                })
                .collect(),
            shares: None,
        };
        let part = |case| Part {
            batch: Batch::new(Source::Kernel, Comparison::Journal),
            case,
            operations: OPERATIONS,
            of: vec![
                runs(Setting::Journal, Referenced, &[1, 1]),
                runs(Setting::Journal, Off, &[11, 12]),
                runs(Setting::NoJournal, Off, &[100, 100]),
            ],
            took_s: 1.0,
        };
        let fewer = Case {
            files: 100,
            ..REPEATED
        };
        let commits = |case| {
            let table = Table::new(Source::Kernel, &[part(case)], None);
            table.grid.unwrap().commits
        };
        assert_eq!(commits(REPEATED), Some([1.0, 11.5]));
        assert_eq!(commits(fewer), None);
    }
}
