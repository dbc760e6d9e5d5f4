//! Measures the costs of hash functions several times, so that differences can be distinguished
//! from noise.

use crate::hash::cost::{Costs, Cycles};
use crate::statistics::Figures;
use larder_cache::hash::Function;
use serde::{Deserialize, Serialize};

/// Number of rounds. Each function is measured once in each round.
pub(super) const ROUNDS: usize = 9;

/// Size of the tables for which buckets are computed, as log2 of the number of buckets.
const BITS: u32 = 14;

/// Functions of the published kernels, and Larder's functions.
const COSTED: [Function; 9] = [
    Function::PageReference,
    Function::PageOffset,
    Function::PageMult,
    Function::BufferReference,
    Function::BufferMult11,
    Function::BufferSteiner,
    Function::DentryAdd,
    Function::InodeModified,
    Function::Golden,
];

/// The cost of a function.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FunctionCost {
    pub function: Function,
    /// Cost when inlined into the loop that uses it.
    pub inlined: CycleFigures,
    /// Cost when called.
    pub stand_alone: CycleFigures,
    /// Bytes of instructions of the called function; `None` if it is unknown.
    pub instruction_bytes: Option<u64>,
}

/// [`Cycles`] of all rounds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CycleFigures {
    /// Cycles for a bucket if the next key depends on it.
    pub latency: Figures,
    /// Cycles for a bucket if the keys do not depend on the buckets.
    pub throughput: Figures,
}

impl CycleFigures {
    fn of(rounds: &[Cycles]) -> Self {
        let figures = |of: fn(&Cycles) -> f64| {
            let cycles: Vec<f64> = rounds.iter().map(of).collect();
            Figures::of(&cycles)
        };
        Self {
            latency: figures(|cycles| cycles.latency),
            throughput: figures(|cycles| cycles.throughput),
        }
    }
}

/// Measures all functions, one after the other, in each round.
pub(super) fn measure() -> Vec<FunctionCost> {
    let rounds: Vec<Costs> = (0..ROUNDS).map(|_| Costs::measure(&COSTED, BITS)).collect();
    let cost = |(at, function): (usize, &Function)| {
        let of_rounds = rounds.iter().map(|round| round.costs[at]);
        let (inlined, stand_alone): (Vec<_>, Vec<_>) = of_rounds
            .map(|cost| (cost.inlined, cost.stand_alone))
            .unzip();
        FunctionCost {
            function: *function,
            inlined: CycleFigures::of(&inlined),
            stand_alone: CycleFigures::of(&stand_alone),
            instruction_bytes: rounds[0].costs[at].instruction_bytes,
        }
    };
    COSTED.iter().enumerate().map(cost).collect()
}
