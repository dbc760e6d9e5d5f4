//! The cost of computing a hash function: time, inlined and called, and bytes of instructions.
//!
//! # Model
//! Lever 2000 estimated cycles from processor tables, and examined the benefit of inlining (section 6).
//! Here both are timed on this machine. *Latency* is the time for a bucket from which the next key is
//! computed; *throughput* is the time for buckets that do not depend on one another. The time of the same
//! loop with a function that does nothing is subtracted from both. The fastest of several rounds counts,
//! since other programs can only slow a round down.
//!
//! Cycles are core cycles, measured with a chain of instructions that take one cycle each ([`clock`]),
//! because the counter that programs can read runs at another frequency.

mod clock;
mod instructions;

use crate::run_report::as_f64;
use instructions::Instructions;
use larder_cache::hash::{Function, FunctionVisitor, HashKey};
use larder_cache::table::HashFunction;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Keys in one round.
const KEYS: u64 = 4096;

/// Number of rounds, of which the fastest counts.
const ROUNDS: u32 = 25;

/// Cycles for one bucket, without the loop overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cycles {
    /// Time from a key to its bucket, if the next key depends on it.
    pub latency: f64,
    /// Time from one bucket to the next, if they are independent.
    pub throughput: f64,
}

/// The cost of a function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub function: Function,
    /// Cost when inlined into the loop that uses it.
    pub inlined: Cycles,
    /// Cost when called.
    pub stand_alone: Cycles,
    /// Bytes of instructions of the called function, without its callees. `None` if the executable has no
    /// symbols.
    pub instruction_bytes: Option<u64>,
}

/// The costs of functions on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names are keys of the JSON")]
pub struct Costs {
    /// Size of the tables for which buckets were computed, in bits.
    pub bits: u32,
    pub cycle_ns: f64,
    /// The cost of each function.
    pub costs: Vec<Cost>,
}

impl Costs {
    /// Times `functions` for tables of 2^`bits` buckets. Each takes about two milliseconds.
    pub fn measure(functions: &[Function], bits: u32) -> Self {
        let instructions = Instructions::of_this_program();
        let cycle_ns = clock::cycle_ns();
        let nothing = Loops::time(Nothing, bits);
        let costs = functions.iter().map(|function| {
            let measured = function.visit(Measure { bits });
            let net = |loops: Loops| loops.cycles(nothing, cycle_ns);
            Cost {
                function: *function,
                inlined: net(measured.inlined),
                stand_alone: net(measured.stand_alone),
                instruction_bytes: instructions.size_of(measured.address),
            }
        });
        Self {
            bits,
            cycle_ns,
            costs: costs.collect(),
        }
    }
}

/// The measurements of one function.
struct Measured {
    inlined: Loops,
    stand_alone: Loops,
    /// Address of the called function.
    address: usize,
}

/// A visitor that measures the function that it receives.
struct Measure {
    bits: u32,
}

impl FunctionVisitor for Measure {
    type Output = Measured;

    fn visit<H: HashFunction<HashKey> + Copy + 'static>(self, hash: H) -> Measured {
        Measured {
            inlined: Loops::time(hash, self.bits),
            stand_alone: Loops::time(StandAlone(hash), self.bits),
            address: (stand_alone::<H> as *const ()).addr(),
        }
    }
}

/// A function that does nothing.
#[derive(Clone, Copy, Debug)]
struct Nothing;

impl HashFunction<HashKey> for Nothing {
    #[inline]
    fn bucket(&self, key: HashKey, _: u32) -> u32 {
        let half = key.index & u64::from(u32::MAX);
        u32::try_from(half).unwrap_or_default()
    }
}

/// A function that is called, not inlined.
#[derive(Clone, Copy, Debug)]
struct StandAlone<H>(H);

impl<H: HashFunction<HashKey> + Copy> HashFunction<HashKey> for StandAlone<H> {
    #[inline]
    fn bucket(&self, key: HashKey, bits: u32) -> u32 {
        stand_alone(self.0, key.object, key.index, bits)
    }
}

/// Computes a bucket. The numbers are separate arguments, so that they are passed in registers.
#[inline(never)]
fn stand_alone<H: HashFunction<HashKey> + Copy>(
    hash: H,
    object: u64,
    index: u64,
    bits: u32,
) -> u32 {
    hash.bucket(HashKey { object, index }, bits)
}

/// The fastest round of each loop around a function.
#[derive(Clone, Copy, Debug)]
struct Loops {
    latency: Duration,
    throughput: Duration,
}

impl Loops {
    fn time<H: HashFunction<HashKey> + Copy>(hash: H, bits: u32) -> Self {
        let bits = black_box(bits);
        let object = black_box(1_u64 << 20);
        Self {
            latency: fastest(|| {
                let mut index = 0_u64;
                for number in 0..KEYS {
                    let key = HashKey {
                        object: object + number,
                        index,
                    };
                    index = u64::from(hash.bucket(key, bits)).rotate_left(5) ^ number;
                }
                index
            }),
            throughput: fastest(|| {
                for index in 0..KEYS {
                    let key = HashKey {
                        object: object + index,
                        index,
                    };
                    black_box(hash.bucket(key, bits));
                }
                KEYS
            }),
        }
    }

    fn cycles(self, nothing: Self, cycle_ns: f64) -> Cycles {
        let cycles = |loops: Duration, nothing: Duration| {
            nanos(loops.saturating_sub(nothing), KEYS) / cycle_ns
        };
        Cycles {
            latency: cycles(self.latency, nothing.latency),
            throughput: cycles(self.throughput, nothing.throughput),
        }
    }
}

/// Returns the duration of the fastest round.
fn fastest(round: impl Fn() -> u64) -> Duration {
    let rounds = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        black_box(round());
        start.elapsed()
    });
    rounds.min().unwrap_or_default()
}

/// Returns the nanoseconds for one of `count`.
fn nanos(round: Duration, count: u64) -> f64 {
    round.as_secs_f64() * 1e9 / as_f64(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_functions_are_finite_and_include_instruction_sizes() {
        let functions = [Function::PageMult, Function::Golden, Function::Tabulation];
        let measured = Costs::measure(&functions, 14);
        assert!(measured.cycle_ns > 0.0, "{measured:?}");
        assert_eq!(measured.costs.len(), functions.len());
        for (cost, function) in measured.costs.iter().zip(functions) {
            assert_eq!(cost.function, function);
            for cycles in [cost.inlined, cost.stand_alone] {
                let figures = [cycles.latency, cycles.throughput];
                let right = figures.iter().all(|one| one.is_finite() && *one >= 0.0);
                assert!(right, "{cost:?}");
            }
            // The test's executable has symbols, and a multiplication takes at least three bytes.
            assert!(
                cost.instruction_bytes.is_some_and(|bytes| bytes > 3),
                "{cost:?}"
            );
        }
    }

    #[test]
    fn costs_are_read_as_written() {
        let costs = Costs::measure(&[Function::Golden], 10);
        let text = serde_json::to_string(&costs).unwrap();
        let read: Costs = serde_json::from_str(&text).unwrap();
        assert_eq!(read.costs[0].function, Function::Golden);
        assert_eq!(
            read.costs[0].instruction_bytes,
            costs.costs[0].instruction_bytes
        );
    }
}
