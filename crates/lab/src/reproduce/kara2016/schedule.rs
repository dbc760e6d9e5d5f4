//! The runs of a reproduction, and how long they take.
//!
//! # Model
//! The duration of a run is the sum of a constant, a time for each file and a time for each set. These costs are
//! those of two processors. Once some parts of a batch are finished, the estimate of the other parts of that batch is
//! multiplied by the ratio of the measured to the estimated duration of the finished ones.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::assumption;
use super::plan::{Batch, Comparison, Source};
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

/// The parts of the duration of a run: a constant, a time for each file, and a time for each set.
#[derive(Clone, Copy, Debug)]
struct Costs {
    run_ms: f64,
    file_us: f64,
    set_us: f64,
}

impl Batch {
    /// Returns the costs on two processors. Those of the volume add up to the 30 minutes that 102 of its 105 cases
    /// took with ten runs of 2,000 sets. The time of the engine for a set is that of the report of 22 November 2026. The
    /// others are estimates. Simulations run concurrently.
    fn costs(self) -> Costs {
        let (run_ms, file_us, set_us) = match (self.source, self.comparison) {
            (Source::Volume, Comparison::Flag) => (100.0, 4.0, 12.0),
            (Source::Volume, _) => (80.0, 12.0, 4.0),
            (Source::Engine, Comparison::Flag) => (10.0, 1.0, 1.0),
            (Source::Engine, _) => (2.0, 0.5, 0.14),
            (Source::Kernel, _) => (50.0, 30.0, 5.0),
            (Source::Simulated, Comparison::Flag) => (10.0, 4.0, 1.3),
            (Source::Simulated, _) => (1.0, 0.5, 1.3),
        };
        Costs {
            run_ms,
            file_us,
            set_us,
        }
    }
}

/// All runs of a case in a batch.
#[derive(Debug)]
struct Part {
    batch: Batch,
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
    fn is(&self, batch: Batch, case: Case) -> bool {
        (self.batch, self.case) == (batch, case)
    }

    /// Returns the estimated duration of all runs in seconds.
    fn estimated_s(&self) -> f64 {
        let costs = self.batch.costs();
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
    /// batch, their case and their duration in seconds.
    pub fn new(size: &Size, finished: impl IntoIterator<Item = (Batch, Case, f64)>) -> Self {
        let schedule = Self {
            parts: Mutex::new(parts(size)),
        };
        for (batch, case, took_s) in finished {
            schedule.finish(batch, case, took_s);
        }
        schedule
    }

    /// Counts a finished run of a case.
    pub fn run_done(&self, batch: Batch, case: Case) -> Progress {
        let mut parts = self.lock();
        if let Some(part) = parts.iter_mut().find(|part| part.is(batch, case)) {
            part.finished += 1;
        }
        progress(&parts)
    }

    /// Counts all runs of a case as finished, and records how long they took.
    pub fn finish(&self, batch: Batch, case: Case, took_s: f64) {
        for part in self.lock().iter_mut().filter(|part| part.is(batch, case)) {
            part.finished = part.runs;
            part.took_s = Some(took_s);
        }
    }

    /// Counts all runs of a source as finished, because the others cannot be measured.
    pub fn skip(&self, source: Source) {
        for part in self
            .lock()
            .iter_mut()
            .filter(|part| part.batch.source == source)
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
    let part = |batch: Batch, case: Case| {
        let config = size.config(batch, case);
        let compared = match batch.comparison {
            Comparison::Assumptions => assumption::runs(),
            _ => batch.compared().len(),
        };
        let unmeasured = if config.is_warm { case.files } else { 0 };
        Part {
            batch,
            case,
            runs: config.runs as usize * compared,
            sets: u64::from(case.processes) * u64::from(config.operations + unmeasured),
            finished: 0,
            took_s: None,
        }
    };
    let parts = Batch::ALL.into_iter().flat_map(|batch| {
        let cases = size.cases(batch).into_iter();
        cases.map(move |case| (batch, case))
    });
    parts.map(|(batch, case)| part(batch, case)).collect()
}

fn progress(parts: &[Part]) -> Progress {
    let left_s = Batch::ALL.into_iter().map(|batch| {
        let of_batch = || parts.iter().filter(move |part| part.batch == batch);
        let left_s: f64 = of_batch().map(Part::left_s).sum();
        let measured = of_batch().filter_map(|part| Some((part.took_s?, part.estimated_s())));
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

    /// The help of the command states these durations.
    #[test]
    fn full_size_takes_90_minutes_and_the_published_size_eight_hours() {
        let (full, published) = (minutes(&Size::full(1)), minutes(&Size::published(1)));
        assert!((80..=90).contains(&full), "{full}");
        assert!((450..540).contains(&published), "{published}");
        assert!(minutes(&Size::quick(1)) < 1);
    }

    #[test]
    fn all_runs_are_counted_once() {
        let size = Size::quick(1);
        let schedule = Schedule::new(&size, []);
        let start = schedule.progress();
        // Four cases under six variants from two sources, and with two seeds; the two cases with unique values on
        // the kernel; two cases with and without the flag from two sources, and with two seeds; one case with and
        // without a journal from two sources; and four cases under five variants with ten changed costs, and under one
        // variant with two numbers of nodes.
        let variants = 4 * 6 * (2 + 2) + 2 * 2;
        let runs = variants + 2 * 2 * (2 + 2) + 4 * 2 + 4 * (5 * 10 + 2);
        assert_eq!((start.finished, start.runs), (0, runs));
        let volume = Batch::new(Source::Volume, Comparison::Variants);
        let first = schedule.run_done(volume, size.cases[0]);
        assert_eq!((first.finished, first.runs), (1, runs));
        assert!(first.left < start.left);
        schedule.finish(volume, size.cases[0], 1.0);
        assert_eq!(schedule.progress().finished, 6);
        schedule.skip(Source::Kernel);
        assert_eq!(schedule.progress().finished, 6 + 4 + 4);
        let parts = schedule
            .lock()
            .iter()
            .map(|part| (part.batch, part.case))
            .collect::<Vec<_>>();
        for (batch, case) in parts {
            schedule.finish(batch, case, 1.0);
        }
        let end = schedule.progress();
        assert_eq!((end.finished, end.left), (runs, Duration::ZERO));
    }

    #[test]
    fn estimate_follows_the_measured_parts_of_a_batch() {
        let size = Size::full(1);
        let schedule = Schedule::new(&size, []);
        let volume = Batch::new(Source::Volume, Comparison::Variants);
        let estimated_s = |case: Case| {
            let parts = schedule.lock();
            let part = parts.iter().find(|part| part.is(volume, case));
            part.unwrap().estimated_s()
        };
        let left_s = || schedule.progress().left.as_secs_f64();
        let before_s = left_s();
        let volume_s: f64 = size.cases.iter().map(|case| estimated_s(*case)).sum();
        let first_s = estimated_s(size.cases[0]);
        schedule.finish(volume, size.cases[0], 2.0 * first_s);
        // The other cases of the volume are expected to take twice as long as well.
        let expected_s = before_s - volume_s + 2.0 * (volume_s - first_s);
        assert!(
            (left_s() - expected_s).abs() < 1e-3,
            "{} {expected_s}",
            left_s()
        );
    }
}
