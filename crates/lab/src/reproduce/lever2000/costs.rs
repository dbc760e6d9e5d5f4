//! What hash functions cost, measured several times, so that differences can be told from noise.

use crate::hash::cost::{Costs, Cycles};
use crate::statistics::Figures;
use larder_cache::hash::Function;
use serde::Serialize;

/// How often each function is measured.
const ROUNDS: usize = 9;

/// Bits of the tables that buckets are chosen in.
const BITS: u32 = 14;

/// Functions of the published kernels, and Larder's.
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

/// What a function costs.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionCost {
    pub function: Function,
    /// Compiled into the loop that uses it.
    pub inlined: CycleFigures,
    /// Called.
    pub stand_alone: CycleFigures,
    /// Bytes of instructions of the one that is called; none where the executable has no symbols.
    pub instruction_bytes: Option<u64>,
}

/// [`Cycles`] of all rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CycleFigures {
    /// From a key to its bucket, where the next key waits for it.
    pub latency: Figures,
    /// From one bucket to the next, where none waits.
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
