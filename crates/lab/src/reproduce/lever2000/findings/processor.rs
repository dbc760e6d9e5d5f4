//! Findings about the processor time of a miss and of a hash function.

use super::finding::{Observed, Verdict};
use crate::reproduce::lever2000::results::Lever2000;
use larder_cache::hash::Function;
use std::cmp::Ordering;

#[expect(clippy::unnecessary_wraps, reason = "the signature of all findings")]
pub(super) fn misses(results: &Lever2000) -> Option<Observed> {
    let misses = &results.misses;
    let text = format!(
        "dentry: {:.0} ns per miss, {:.0} ns per hit; page: {:.0} ns per miss, {:.0} ns per hit",
        misses.dentry_miss_ns, misses.dentry_hit_ns, misses.page_miss_ns, misses.page_hit_ns
    );
    Some((text, Verdict::of(misses.dentries_per_page() > 1.0)))
}

pub(super) fn shift_add(results: &Lever2000) -> Option<Observed> {
    let latency = |function| Some(results.cost(function)?.inlined.latency);
    let (shift_add, multiply) = (
        latency(Function::BufferSteiner)?,
        latency(Function::BufferMult11)?,
    );
    let text = format!("latency in cycles: shift-add {shift_add}, mult-11 {multiply}");
    Some((text, Verdict::of(shift_add.mean >= 0.8 * multiply.mean)))
}

pub(super) fn inlining(results: &Lever2000) -> Option<Observed> {
    let costs = &results.costs;
    let differences = costs.iter().filter_map(|cost| {
        let called = cost.stand_alone.latency;
        called.beyond_noise(cost.inlined.latency)
    });
    let differences: Vec<_> = differences.collect();
    let count = |wanted| differences.iter().filter(|one| **one == wanted).count();
    let (higher, lower) = (count(Ordering::Greater), count(Ordering::Less));
    let verdict = if 2 * higher > costs.len() {
        Verdict::Holds
    } else if 2 * lower > costs.len() {
        Verdict::DoesNotHold
    } else {
        Verdict::WithinNoise
    };
    let golden = results.cost(Function::Golden)?;
    let text = format!(
        "called instead of inlined, {higher} of {} functions have a higher latency, {lower} a lower one, and {} \
         show no difference; Larder's function has a latency of {} cycles inlined and {} called, and a throughput \
         of {} and {}",
        costs.len(),
        count(Ordering::Equal),
        golden.inlined.latency,
        golden.stand_alone.latency,
        golden.inlined.throughput,
        golden.stand_alone.throughput,
    );
    Some((text, verdict))
}
