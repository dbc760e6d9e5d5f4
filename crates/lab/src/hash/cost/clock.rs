//! How long the processor's cycle is.

use super::{fastest, nanos};

/// Steps of the chain in a round.
const STEPS: u64 = 4096;

/// Cycles of a step: three shifts and three xor, each of which waits for the one before. On the
/// processors of today each takes a cycle, and what copies a register takes none.
const STEP_CYCLES: f64 = 6.0;

/// Nanoseconds of a cycle, of the pace that the processor runs at now.
pub(super) fn cycle_ns() -> f64 {
    let round = fastest(|| (0..STEPS).fold(1, |state, _| step(state)));
    nanos(round, STEPS) / STEP_CYCLES
}

/// A step of Marsaglia's xorshift, which no compiler makes shorter.
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
