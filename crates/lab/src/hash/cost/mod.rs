//! Measures the cost of computing a hash function: the time when it is inlined and when it is called, and the
//! size of its instructions.
//!
//! # Model
//! Lever 2000 estimated cycles from processor tables, and examined the benefit of inlining (section 6). Here
//! the inlined and the called function are timed on this machine. *Latency* is the time to compute a bucket
//! if the next key depends on this bucket. *Throughput* is the time to compute a bucket if the keys do not
//! depend on the buckets. Both are measured in a loop; the time of the same loop with a function that does
//! nothing is subtracted. Of several rounds, the fastest one is used, since other programs can only slow a
//! round down.
//!
//! Times are converted to core cycles. The duration of a cycle is measured with dependent instructions that
//! take one cycle each ([`clock`]), because the time-stamp counter that programs can read runs at another
//! frequency.

mod clock;
mod instructions;
mod round;

use instructions::Instructions;
use larder_cache::hash::{Function, FunctionVisitor, HashKey};
use larder_cache::table::HashFunction;
use round::{fastest, nanos};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::Duration;

/// Number of keys in one round.
const KEYS: u64 = 4096;

/// Core cycles to compute one bucket, without the overhead of the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cycles {
    /// Cycles for a bucket if the next key depends on it.
    pub latency: f64,
    /// Cycles for a bucket if the keys do not depend on the buckets.
    pub throughput: f64,
}

/// The cost of one hash function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub function: Function,
    /// Cost when inlined into the loop that uses it.
    pub inlined: Cycles,
    /// Cost when called.
    pub stand_alone: Cycles,
    /// Size of the instructions of the called function in bytes, without the functions that it calls. `None`
    /// if the executable file has no unwind information.
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
    /// Times `functions` for tables of 2^`bits` buckets. This takes about two milliseconds for each function.
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

/// The measurements of one hash function.
struct Measured {
    inlined: Loops,
    stand_alone: Loops,
    /// Address of the called function.
    address: usize,
}

/// Measures the hash function that it visits.
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

/// A hash function without computation, to measure the overhead of the loops.
#[derive(Clone, Copy, Debug)]
struct Nothing;

impl HashFunction<HashKey> for Nothing {
    #[inline]
    fn bucket(&self, key: HashKey, _: u32) -> u32 {
        let half = key.index & u64::from(u32::MAX);
        u32::try_from(half).unwrap_or_default()
    }
}

/// A hash function that is called instead of inlined.
#[derive(Clone, Copy, Debug)]
struct StandAlone<H>(H);

impl<H: HashFunction<HashKey> + Copy> HashFunction<HashKey> for StandAlone<H> {
    #[inline]
    fn bucket(&self, key: HashKey, bits: u32) -> u32 {
        stand_alone(self.0, key.object, key.index, bits)
    }
}

/// Computes a bucket. `object` and `index` are separate arguments, so that they are passed in registers.
#[inline(never)]
fn stand_alone<H: HashFunction<HashKey> + Copy>(
    hash: H,
    object: u64,
    index: u64,
    bits: u32,
) -> u32 {
    hash.bucket(HashKey { object, index }, bits)
}

/// For each of the two loops around a hash function, the duration of the fastest round.
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
            // The test's executable has unwind information, and a multiplication takes at least three bytes.
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
