//! The runs of a reproduction, and how long they take.
//!
//! # Model
//! The duration of a run is the sum of a constant, a time for each file and a time for each set. These costs are
//! those of two processors. Once some parts of a kind are finished, the estimate of the other parts of that kind is
//! multiplied by the ratio of the measured to the estimated duration of the finished ones.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use larder::MbCacheVariant;

use super::findings::Source;
use super::grid::ORDER;
use super::kernel;
use super::size::Size;
use crate::run_report::as_f64;
use crate::xattr_bench::Case;

/// How far a reproduction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of finished runs.
    pub finished: usize,
    /// Number of all runs.
    pub runs: usize,
    /// The estimated duration of the other runs.
    pub left: Duration,
}

/// The sources in which the gain of the reusable flag is measured.
pub(super) const FLAG_SOURCES: [Source; 2] = [Source::Volume, Source::Engine];

/// The duration of a run: of itself, of each file, and of each set.
#[derive(Clone, Copy, Debug)]
struct Costs {
    run_ms: f64,
    file_us: f64,
    set_us: f64,
}

/// A kind of runs, with its own costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Runs of a table.
    Table(Source),
    /// Runs with and without the reusable flag.
    Flag(Source),
}

impl Kind {
    fn all() -> impl Iterator<Item = Self> {
        Source::ALL
            .map(Self::Table)
            .into_iter()
            .chain(FLAG_SOURCES.map(Self::Flag))
    }

    /// Returns the costs on two processors. Those of the volume add up to the 30 minutes that 102 of its 105 cases
    /// took with ten runs of 2,000 sets. The others are estimates. Simulations run concurrently.
    fn costs(self) -> Costs {
        let (run_ms, file_us, set_us) = match self {
            Self::Table(Source::Volume) => (80.0, 12.0, 4.0),
            Self::Table(Source::Engine) => (2.0, 0.5, 0.2),
            Self::Table(Source::Kernel) => (50.0, 30.0, 5.0),
            Self::Table(Source::Simulated) => (1.0, 0.5, 1.3),
            Self::Flag(Source::Engine) => (10.0, 1.0, 1.0),
            Self::Flag(_) => (100.0, 4.0, 12.0),
        };
        Costs {
            run_ms,
            file_us,
            set_us,
        }
    }
}

/// All runs of a case from one source.
#[derive(Debug)]
struct Part {
    kind: Kind,
    case: Case,
    /// Number of runs.
    runs: usize,
    /// Number of sets of all processes in each run.
    sets: u64,
    finished: usize,
    /// The duration of all runs in seconds, once they are measured.
    took_s: Option<f64>,
}

impl Part {
    fn is(&self, source: Source, case: Case) -> bool {
        let (Kind::Table(of) | Kind::Flag(of)) = self.kind;
        (of, self.case) == (source, case)
    }

    /// Returns the estimated duration of all runs in seconds.
    fn estimated_s(&self) -> f64 {
        let costs = self.kind.costs();
        let files_us = as_f64(self.case.all_files()) * costs.file_us;
        let sets_us = as_f64(self.sets) * costs.set_us;
        as_f64(self.runs as u64) * (costs.run_ms * 1e3 + files_us + sets_us) / 1e6
    }

    /// Returns the estimated duration of the runs that are not finished, in seconds.
    fn left_s(&self) -> f64 {
        let left = self.runs.saturating_sub(self.finished);
        self.estimated_s() * as_f64(left as u64) / as_f64(self.runs as u64)
    }
}

/// The runs of a reproduction.
#[derive(Debug)]
pub(super) struct Schedule {
    parts: Mutex<Vec<Part>>,
}

impl Schedule {
    /// Returns the runs of a reproduction of `size`. `finished` contains the parts that are measured already: their
    /// source, their case and their duration in seconds.
    pub fn new(size: &Size, finished: impl IntoIterator<Item = (Source, Case, f64)>) -> Self {
        let schedule = Self {
            parts: Mutex::new(parts(size)),
        };
        for (source, case, took_s) in finished {
            schedule.finish(source, case, took_s);
        }
        schedule
    }

    /// Counts a finished run of a case.
    pub fn run_done(&self, source: Source, case: Case) -> Progress {
        let mut parts = self.lock();
        if let Some(part) = parts.iter_mut().find(|part| part.is(source, case)) {
            part.finished += 1;
        }
        progress(&parts)
    }

    /// Counts all runs of a case as finished, and records how long they took.
    pub fn finish(&self, source: Source, case: Case, took_s: f64) {
        for part in self.lock().iter_mut().filter(|part| part.is(source, case)) {
            part.finished = part.runs;
            part.took_s = Some(took_s);
        }
    }

    /// Counts all runs of a table as finished, because it cannot be measured.
    pub fn skip(&self, source: Source) {
        for part in self
            .lock()
            .iter_mut()
            .filter(|part| part.kind == Kind::Table(source))
        {
            part.finished = part.runs;
        }
    }

    /// Returns how far the reproduction is.
    pub fn progress(&self) -> Progress {
        progress(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parts(size: &Size) -> Vec<Part> {
    let part = |kind, case: Case, runs: u32, targets: usize, sets: u64| Part {
        kind,
        case,
        runs: runs as usize * targets,
        sets,
        finished: 0,
        took_s: None,
    };
    let measured = |kind, case: Case, targets, operations: u32| {
        let sets = u64::from(case.processes) * u64::from(operations);
        part(kind, case, size.config.runs, targets, sets)
    };
    let operations = size.config.operations;
    let tables = size.cases.iter().flat_map(|&case| {
        let variants = MbCacheVariant::ALL.len();
        let [volume, engine] = [Source::Volume, Source::Engine]
            .map(|source| measured(Kind::Table(source), case, variants, operations));
        let (seeds, sets) = (size.simulated_seeds, size.simulated_sets.into());
        let simulated = Kind::Table(Source::Simulated);
        [
            volume,
            engine,
            part(simulated, case, seeds, ORDER.len(), sets),
        ]
    });
    let kernel = size.kernel_cases().map(|case| {
        let variants = kernel::VARIANTS.len();
        measured(Kind::Table(Source::Kernel), case, variants, operations)
    });
    let flagged = size.flagged_cases().into_iter().flat_map(|(case, _)| {
        let operations = size.flagged_config().operations;
        FLAG_SOURCES.map(|source| measured(Kind::Flag(source), case, 2, operations))
    });
    tables.chain(kernel).chain(flagged).collect()
}

fn progress(parts: &[Part]) -> Progress {
    let left_s = Kind::all().map(|kind| {
        let of_kind = || parts.iter().filter(move |part| part.kind == kind);
        let left_s: f64 = of_kind().map(Part::left_s).sum();
        let measured = of_kind().filter_map(|part| Some((part.took_s?, part.estimated_s())));
        let (took_s, estimated_s) = measured.fold((0.0, 0.0), |(took, estimated), (s, of)| {
            (took + s, estimated + of)
        });
        if estimated_s > 0.0 {
            left_s * took_s / estimated_s
        } else {
            left_s
        }
    });
    Progress {
        finished: parts.iter().map(|part| part.finished).sum(),
        runs: parts.iter().map(|part| part.runs).sum(),
        left: Duration::try_from_secs_f64(left_s.sum()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(size: &Size) -> u64 {
        Schedule::new(size, []).progress().left.as_secs() / 60
    }

    #[test]
    fn full_size_takes_an_hour_and_the_published_size_hours() {
        let (full, published) = (minutes(&Size::full(1)), minutes(&Size::published(1)));
        assert!((45..75).contains(&full), "{full}");
        assert!((180..360).contains(&published), "{published}");
        assert!(minutes(&Size::quick(1)) < 1);
    }

    #[test]
    fn all_runs_are_counted_once() {
        let size = Size::quick(1);
        let schedule = Schedule::new(&size, []);
        let start = schedule.progress();
        // Four cases under six variants from two sources, and with two seeds; the two cases with unique values on
        // the kernel; and two cases with and without the flag from two sources.
        let runs = 4 * 6 * (2 + 2) + 2 * 2 + 2 * 2 * 2;
        assert_eq!((start.finished, start.runs), (0, runs));
        let first = schedule.run_done(Source::Volume, size.cases[0]);
        assert_eq!((first.finished, first.runs), (1, runs));
        assert!(first.left < start.left);
        schedule.finish(Source::Volume, size.cases[0], 1.0);
        assert_eq!(schedule.progress().finished, 6);
        schedule.skip(Source::Kernel);
        assert_eq!(schedule.progress().finished, 10);
        let parts = schedule
            .lock()
            .iter()
            .map(|part| (part.kind, part.case))
            .collect::<Vec<_>>();
        for (Kind::Table(source) | Kind::Flag(source), case) in parts {
            schedule.finish(source, case, 1.0);
        }
        let end = schedule.progress();
        assert_eq!((end.finished, end.left), (runs, Duration::ZERO));
    }

    #[test]
    fn estimate_follows_the_measured_parts_of_a_kind() {
        let size = Size::full(1);
        let schedule = Schedule::new(&size, []);
        let estimated_s = |case: Case| {
            let parts = schedule.lock();
            let part = parts.iter().find(|part| part.is(Source::Volume, case));
            part.unwrap().estimated_s()
        };
        let left_s = || schedule.progress().left.as_secs_f64();
        let before_s = left_s();
        let volume_s: f64 = size.cases.iter().map(|case| estimated_s(*case)).sum();
        let first_s = estimated_s(size.cases[0]);
        schedule.finish(Source::Volume, size.cases[0], 2.0 * first_s);
        // The other cases of the volume are expected to take twice as long as well.
        let expected_s = before_s - volume_s + 2.0 * (volume_s - first_s);
        assert!(
            (left_s() - expected_s).abs() < 1e-3,
            "{} {expected_s}",
            left_s()
        );
    }
}
