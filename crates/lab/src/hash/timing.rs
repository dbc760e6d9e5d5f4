//! Lookups timed alone: with no decoding, no insertion, and nothing else running.
//!
//! # Model
//! The last lookups of the trace before the table was fullest, over and over: in their order, so that
//! the processor's caches meet them as they came. What missed then may be there by now, so a run hits
//! more often than the trace. A table's time is that of its median run, and how far the others are from
//! that (the median of the distances, MAD) tells what of a difference is noise.

use super::replay::Replay;
use super::step::Key;
use crate::run_report::as_f64;
use crate::statistics::median;
use serde::Serialize;
use std::time::Duration;

/// Lookups of a run, at most.
pub(super) const TIMED_LOOKUPS: usize = 1 << 19;

/// Runs that count; one more goes before them.
const RUNS: usize = 7;

/// Times that differ by less than this part of them are taken for the same, however little runs scatter:
/// two tables of the same function and size differ so by where they lie in memory.
const SAME: f64 = 0.03;

/// And times that differ by less than so many MADs of both: three standard deviations of 1.48 MADs.
const NOISE_MADS: f64 = 4.5;

/// Nanoseconds of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LookupTime {
    /// In the median run.
    pub median_ns: f64,
    /// How far from that the runs are: the median of the distances.
    pub mad_ns: f64,
}

impl LookupTime {
    /// Of runs of which lookups took so long.
    pub fn of(runs_ns: &[f64]) -> Self {
        let median_ns = median(runs_ns);
        let distances: Vec<f64> = runs_ns.iter().map(|run| (run - median_ns).abs()).collect();
        Self {
            median_ns,
            mad_ns: median(&distances),
        }
    }

    /// Whether it is less than `other`, and not by noise.
    pub fn is_surely_less(self, other: Self) -> bool {
        let noise = NOISE_MADS * self.mad_ns.hypot(other.mad_ns);
        other.median_ns - self.median_ns > noise + SAME * other.median_ns
    }
}

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

    /// Nanoseconds of a lookup.
    pub fn lookup(&self) -> LookupTime {
        let runs = self.runs.iter();
        let nanos = runs.map(|run| run.as_secs_f64() * 1e9 / as_f64(self.lookups));
        LookupTime::of(&nanos.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_less_only_beyond_how_runs_scatter() {
        let steady = LookupTime::of(&[10.0, 10.1, 9.9, 10.0, 30.0]);
        assert!((steady.median_ns - 10.0).abs() < 1e-12);
        assert!((steady.mad_ns - 0.1).abs() < 1e-12);
        let time = |median_ns, mad_ns| LookupTime { median_ns, mad_ns };
        assert!(steady.is_surely_less(time(11.0, 0.1)));
        assert!(!steady.is_surely_less(time(11.0, 0.2)));
        assert!(!time(10.0, 0.0).is_surely_less(time(10.3, 0.0)));
        assert!(!time(11.0, 0.1).is_surely_less(steady));
    }
}
