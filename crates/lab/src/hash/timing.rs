//! Times lookups in tables. During the timing, no other replay runs, and no objects are inserted. The decoding thread
//! soon blocks, because its queue to the replay holds only a few batches.
//!
//! # Model
//! When the number of objects is largest, the replay pauses and repeats the last lookups in their order, so the
//! processor's caches see the recorded sequence. Objects that recorded lookups missed may have been inserted before the
//! pause, so a run has more hits than the recorded lookups. The time of a table is the time of its median run. The
//! median absolute deviation (MAD) of the runs shows how large a difference noise can cause.

use super::replay::Replay;
use super::step::Key;
use crate::run_report::as_f64;
use crate::statistics::median;
use serde::Serialize;
use std::time::Duration;

/// Maximum number of lookups in a run.
pub(super) const TIMED_LOOKUPS: usize = 1 << 19;

/// Number of timed runs. One run for warm-up precedes them.
const RUNS: usize = 7;

/// A difference between two times is significant if it exceeds the noise by more than this share of the larger
/// time.
/// Two tables of the same function and size can differ this much due to their location in memory.
const MARGIN_SHARE: f64 = 0.03;

/// The noise of a difference between two times, in combined MADs: three standard deviations, at 1.48 MADs
/// each.
const NOISE_MADS: f64 = 4.5;

/// The time of a lookup, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LookupTime {
    /// The time in the median run.
    pub median_ns: f64,
    /// The median absolute deviation of the runs from `median_ns`.
    pub mad_ns: f64,
}

impl LookupTime {
    /// Computes the median and the deviation of `runs_ns`. Each element is the mean time of a lookup in one run.
    pub fn of(runs_ns: &[f64]) -> Self {
        let median_ns = median(runs_ns);
        let distances: Vec<f64> = runs_ns.iter().map(|run| (run - median_ns).abs()).collect();
        Self {
            median_ns,
            mad_ns: median(&distances),
        }
    }

    /// Returns whether `self` is significantly less than `other`: by more than the noise plus
    /// [`MARGIN_SHARE`] of `other`.
    pub fn is_significantly_less(self, other: Self) -> bool {
        let noise = NOISE_MADS * self.mad_ns.hypot(other.mad_ns);
        other.median_ns - self.median_ns > noise + MARGIN_SHARE * other.median_ns
    }
}

/// The timed runs of one table.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Number of lookups in a run.
    pub lookups: u64,
    /// Number of lookups in a run that hit.
    pub hits: u64,
    /// Duration of each run.
    pub runs: Vec<Duration>,
}

impl Timing {
    /// Times the lookups of `keys` in each of `tables`. The tables take turns: a run of one table is followed by
    /// a run of the next one. Therefore changes in the speed of the machine affect all tables alike.
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

    /// Returns the median and the deviation of the runs' mean times for a lookup.
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
    fn time_is_less_only_if_the_difference_exceeds_the_noise() {
        let steady = LookupTime::of(&[10.0, 10.1, 9.9, 10.0, 30.0]);
        assert!((steady.median_ns - 10.0).abs() < 1e-12);
        assert!((steady.mad_ns - 0.1).abs() < 1e-12);
        let time = |median_ns, mad_ns| LookupTime { median_ns, mad_ns };
        assert!(steady.is_significantly_less(time(11.0, 0.1)));
        assert!(!steady.is_significantly_less(time(11.0, 0.2)));
        assert!(!time(10.0, 0.0).is_significantly_less(time(10.3, 0.0)));
        assert!(!time(11.0, 0.1).is_significantly_less(steady));
    }
}
