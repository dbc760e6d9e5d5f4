//! Lookups timed alone: with no decoding, no insertion, and nothing else running.
//!
//! # Model
//! The last lookups of the trace before the table was fullest, over and over: in their order, so that
//! the processor's caches meet them as they came. What missed then may be there by now, so a run hits
//! more often than the trace.

use super::replay::Replay;
use super::step::Key;
use crate::run_report::{as_f64, ratio};
use crate::statistics::deviation;
use std::time::Duration;

/// Lookups of a run, at most.
pub(super) const TIMED_LOOKUPS: usize = 1 << 19;

/// Runs that count; one more goes before them.
const RUNS: usize = 5;

/// Lookups, timed.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Lookups of a run.
    pub lookups: u64,
    /// How many of them hit.
    pub hits: u64,
    /// How long each run took.
    pub runs: Vec<Duration>,
}

impl Timing {
    /// Looks `keys` up in all of `tables`, which take turns: what else the machine does, and how fast
    /// it is, changes from one run to the next, and is no table's merit.
    pub(super) fn take(mut tables: Vec<&mut (dyn Replay + 'static)>, keys: &[Key]) -> Vec<Self> {
        let mut timings = Vec::with_capacity(tables.len());
        for table in &mut tables {
            timings.push(Self {
                lookups: keys.len() as u64,
                hits: table.time(keys).1,
                runs: Vec::with_capacity(RUNS),
            });
        }
        for _ in 0..RUNS {
            for (table, timing) in tables.iter_mut().zip(&mut timings) {
                timing.runs.push(table.time(keys).0);
            }
        }
        timings
    }

    /// Nanoseconds of a lookup, in the fastest run: whatever else the machine does can only slow one
    /// down.
    #[must_use]
    pub fn lookup_ns(&self) -> f64 {
        self.nanos().into_iter().fold(f64::INFINITY, f64::min)
    }

    /// How much these scatter from run to run (sample's standard deviation), in nanoseconds.
    #[must_use]
    pub fn deviation_ns(&self) -> f64 {
        deviation(&self.nanos())
    }

    /// Lookups by the second, in the fastest run.
    #[must_use]
    pub fn lookups_s(&self) -> f64 {
        ratio(1e9, self.lookup_ns())
    }

    fn nanos(&self) -> Vec<f64> {
        let runs = self.runs.iter();
        runs.map(|run| run.as_secs_f64() * 1e9 / as_f64(self.lookups))
            .collect()
    }
}
