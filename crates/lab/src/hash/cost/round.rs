//! Timed rounds.

use crate::run_report::as_f64;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Number of rounds, of which the fastest one is used.
const ROUNDS: u32 = 25;

/// Returns the duration of the fastest round.
pub(super) fn fastest(round: impl Fn() -> u64) -> Duration {
    let rounds = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        black_box(round());
        start.elapsed()
    });
    rounds.min().unwrap_or_default()
}

/// Returns the nanoseconds of one of the `count` steps of a round.
pub(super) fn nanos(round: Duration, count: u64) -> f64 {
    round.as_secs_f64() * 1e9 / as_f64(count)
}
