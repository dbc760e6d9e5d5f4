//! Measures the durations of operations, at a cost that does not depend on their number.
//!
//! # Model
//! Reading a precise clock twice takes about 1% of the time of a short request. Therefore each thread measures only the first
//! [`ALL`] operations of each kind and of each period of [`PERIOD_NS`]. Of the others, it measures a random sample of one in
//! [`GAP`], with the weight [`GAP`]. For an operation that it does not measure, it reads only a coarse clock. The kinds
//! are separate, so that many short operations of one kind do not hide a few slow ones of another. Kinds that are
//! always slow, such as flushes, are always measured ([`Timing::begin`]).

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The number of operations that a thread measures in each period before it measures only a sample.
const ALL: u32 = 200;
const PERIOD_NS: u64 = 100_000_000;
/// The mean distance between two measured operations of a sample.
const GAP: u32 = 64;

/// The state of a thread for one kind of operations, which decides for each operation whether it is measured.
#[derive(Debug)]
pub struct Sampler(Cell<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    /// When the period ends.
    end_ns: u64,
    /// The number of operations in this period.
    operations: u32,
    /// The number of operations up to the next one of the sample, inclusive.
    left: u32,
    random: u32,
}

/// The start of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    coarse_ns: u64,
    start: Option<Instant>,
    weight: u32,
}

/// A measured duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The duration.
    pub duration: Duration,
    /// The number of operations that this one represents.
    pub weight: u32,
}

impl Sampler {
    /// Creates the state of a thread that has performed no operation.
    #[must_use]
    pub const fn new() -> Self {
        Self(Cell::new(State::NEW))
    }

    /// Begins an operation.
    #[must_use]
    pub fn begin(&self) -> Timing {
        let coarse_ns = coarse_ns();
        let mut state = self.0.get();
        let weight = state.weight(coarse_ns);
        self.0.set(state);
        Timing {
            coarse_ns,
            start: (weight > 0).then(Instant::now),
            weight,
        }
    }
}

impl Timing {
    /// Begins an operation that is always measured.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            coarse_ns: coarse_ns(),
            start: Some(Instant::now()),
            weight: 1,
        }
    }

    /// Ends the operation. Returns `None` if it is not measured.
    #[must_use]
    pub fn end(self) -> Option<Measured> {
        Some(Measured {
            duration: self.start?.elapsed(),
            weight: self.weight,
        })
    }

    /// Returns when the operation began: the value of [`coarse_ns`].
    #[must_use]
    pub fn coarse_ns(self) -> u64 {
        self.coarse_ns
    }
}

/// Returns the monotonic time in nanoseconds, which can be some milliseconds late.
#[must_use]
pub fn coarse_ns() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    let (seconds, ns) = (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned());
    seconds.wrapping_mul(1_000_000_000).wrapping_add(ns)
}

impl Default for Sampler {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    const NEW: Self = Self {
        end_ns: 0,
        operations: 0,
        left: GAP,
        random: 0x9e37_79b9,
    };

    /// Returns the weight with which an operation that begins at `now_ns` is measured, or 0 if it is not measured.
    fn weight(&mut self, now_ns: u64) -> u32 {
        if now_ns >= self.end_ns {
            self.end_ns = now_ns.saturating_add(PERIOD_NS);
            self.operations = 0;
        }
        self.operations = self.operations.saturating_add(1);
        if self.operations <= ALL {
            return 1;
        }
        self.left -= 1;
        if self.left > 0 {
            return 0;
        }
        // A random distance, so that a repeated sequence of operations is not always sampled at the same place.
        self.left = 1 + self.random() % (2 * GAP - 1);
        GAP
    }

    /// Returns the next number of Marsaglia's generator xorshift32.
    fn random(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_operations_are_all_measured() {
        let mut state = State::NEW;
        for period in 0..10 {
            for operation in 0..u64::from(ALL) {
                assert_eq!(state.weight(period * PERIOD_NS + operation), 1);
            }
        }
        let measured = Sampler::default().begin().end().unwrap();
        assert_eq!(measured.weight, 1);
    }

    #[test]
    fn weights_of_many_operations_add_up_to_their_number() {
        let mut state = State::NEW;
        let count = 1_000_000;
        // A repeated sequence of 16 operations, as long as the mean gap.
        let mut weights = [0_u32; 16];
        for operation in 0..count {
            weights[operation % 16] += state.weight(0);
        }
        let expected = u32::try_from(count / 16).unwrap();
        for weight in weights {
            assert!(weight.abs_diff(expected) < expected / 10, "{weights:?}");
        }
    }

    #[test]
    fn coarse_time_is_near_the_precise_time() {
        let precise_ns = || {
            let time = clock_gettime(ClockId::Monotonic);
            time.tv_sec * 1_000_000_000 + time.tv_nsec
        };
        let (before, coarse, after) = (precise_ns(), coarse_ns(), precise_ns());
        let coarse = i64::try_from(coarse).unwrap();
        // A clock tick is at most 10 ms.
        assert!((before - 10_000_000..=after).contains(&coarse));
    }
}
