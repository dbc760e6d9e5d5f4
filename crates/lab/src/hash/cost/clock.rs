//! Measures the duration of a processor cycle.

use super::round::{fastest, nanos};

/// Number of steps in one timed round. Each step depends on the previous one.
const STEPS: u64 = 4096;

/// Cycles of one step: three shifts and three xors, each of which depends on the previous instruction. On
/// current processors, each of these instructions takes one cycle, and register copies take none.
const STEP_CYCLES: f64 = 6.0;

/// Returns the nanoseconds of one cycle at the processor's present speed.
pub(super) fn cycle_ns() -> f64 {
    let round = fastest(|| (0..STEPS).fold(1, |state, _| step(state)));
    nanos(round, STEPS) / STEP_CYCLES
}

/// Executes one step of Marsaglia's xorshift. Compilers cannot simplify a sequence of such steps.
#[inline]
fn step(state: u64) -> u64 {
    let state = state ^ state << 13;
    let state = state ^ state >> 7;
    state ^ state << 17
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_visits_no_state_twice() {
        let states = std::iter::successors(Some(1), |state| Some(step(*state)));
        let states: std::collections::HashSet<u64> = states.take(10_000).collect();
        assert_eq!(states.len(), 10_000);
    }
}
