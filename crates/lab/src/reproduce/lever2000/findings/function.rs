//! Findings about hash functions alone: their cost, words of 64 bits, and keys of the swap cache.

use super::recorded::{Links, keys};
use super::rule::{Rule, last, no_figures};
use crate::reproduce::finding::{Bound, Effect, Finding, Observed, Verdict};
use crate::reproduce::lever2000::costs::ROUNDS;
use crate::reproduce::lever2000::results::Lever2000;
use crate::run_report::quotient;
use crate::statistics::{Figures, Interval};
use crate::trace::procfs::KeyTable;
use larder::CacheKind;
use larder_cache::hash::Function;

pub(super) static RULES: [Rule; 4] = [
    Rule {
        finding: Finding {
            name: "64 bits",
            claim: "words of 64 bits need another constant",
            published: Some("an open question in section 6"),
            criterion: "with the recorded keys of memory areas, in 2048 and in 8192 buckets, lookups with page-mult in \
                        words of 64 bits, which multiplies by 2654435761, walk more than twice as many links as with \
                        page-mult in words of 32 bits, and as with Larder's function, which multiplies by the golden ratio \
                        of 2^64, also if each number of links differs as in 95% of random distributions; generated keys are \
                        listed, but do not decide",
            is_non_inferiority: false,
            previous: last(
                Verdict::Holds,
                "The rule compared two constants with the worst keys of `larder lab constant --bits 64`, which are \
                 generated. Now recorded keys decide, which the last version contained. The rule was changed when their \
                 figures were known",
            ),
            observe: word_size,
        },
        published: no_figures,
        is_counted_alone: true,
    },
    Rule {
        finding: Finding {
            name: "shift-add or multiply",
            claim: "a shift-add function is almost as expensive as a multiplication",
            published: Some("estimates: a multiplication takes 5 or 9 cycles on a P6"),
            criterion: "the latency of Steiner's shift-add, inlined, is above 0.8 times that of mult-11; this is a \
                        claim that it is not much cheaper, and holds if both are equal",
            is_non_inferiority: true,
            previous: last(
                Verdict::Holds,
                "In the first version, the verdict was \"holds\": its rule compared means without a margin for noise. \
                 Since the last version, neither the rule nor the measurement changed",
            ),
            observe: shift_add,
        },
        published: no_figures,
        is_counted_alone: true,
    },
    Rule {
        finding: Finding {
            name: "inlined or stand-alone",
            claim: "inlining the function saves the cost of a call",
            published: Some("an open question in section 6"),
            criterion: "more than half of the functions have a higher latency called than inlined, by more than the \
                        noise",
            is_non_inferiority: false,
            previous: last(
                Verdict::Holds,
                "In the first version, the verdict was \"holds\": its rule compared means with twice the sum of both \
                 deviations. Since the last version, neither the rule nor the measurement changed",
            ),
            observe: inlining,
        },
        published: no_figures,
        is_counted_alone: true,
    },
    Rule {
        finding: Finding {
            name: "swap-like keys",
            claim: "keys of the swap cache need a function that uses the unshifted offset (judged with generated keys)",
            published: Some("\"reduced bucket size distribution anomolies\", at a slight cost"),
            criterion: "with 16384 swap entries in 16384 buckets, the longest chain with swap-reference is more than \
                        twice as long as with swap-offset; the entries are generated: consecutive pages of one swap \
                        area",
            is_non_inferiority: false,
            previous: last(
                Verdict::Holds,
                "In the first version, the verdict was \"holds\": its rule computed the chains itself, and ignored the \
                 results that it judged. Since the last version, neither the rule nor the keys changed",
            ),
            observe: swap,
        },
        published: no_figures,
        is_counted_alone: true,
    },
];

fn word_size(results: &Lever2000) -> Option<Observed> {
    const BITS: [u32; 2] = [11, 13];
    let areas = keys(results, KeyTable::Areas)?;
    let mut effects = Vec::new();
    for bits in BITS {
        let links = |function| Some(Links::of(areas.row(function, bits)?));
        let wide = links(Function::PageMult64)?;
        for other in [Function::PageMult, Function::Golden] {
            effects.push(Effect::ratio(
                format!(
                    "links per lookup of memory areas, {} buckets, page-mult-64 / {other}",
                    1 << bits
                ),
                wide.per(&links(other)?),
                Bound::Above(2.0),
            ));
        }
    }
    let mut observed = Observed::from(effects);
    if let Some(constants) = results.constants {
        let figures = format!(
            "with generated keys, the worst for each constant, {:.2} times the links of a random distribution with \
             2654435761, {:.2} times with the prime nearest the golden ratio of 64 bits",
            constants.published, constants.prime
        );
        observed = observed.with_figures(&figures);
    }
    let (narrow, wide) = (
        results.last_load(6, "D")?,
        results.last_load(6, "D in 64 bits")?,
    );
    for cache in CacheKind::ALL {
        let [narrow, wide] = [narrow, wide].map(|load| load.cache(cache).links_per_lookup());
        let figures = format!(
            "kernel D, {}: {narrow:.3} links per lookup with words of 32 bits, {wide:.3} with 64",
            cache.as_str()
        );
        observed = observed.with_figures(&figures);
    }
    Some(observed.with_figures(
        "kernel D does not answer the question, because its only multiplication always shifts by 11",
    ))
}

fn shift_add(results: &Lever2000) -> Option<Observed> {
    let latency = |function| Some(results.cost(function)?.inlined.latency);
    let (shift_add, multiply) = (
        latency(Function::BufferSteiner)?,
        latency(Function::BufferMult11)?,
    );
    let effect = Effect::ratio(
        "latency, shift-add / mult-11",
        ratio(shift_add, multiply),
        Bound::Above(0.8),
    );
    let figures = format!("latency in cycles: shift-add {shift_add}, mult-11 {multiply}");
    Some(Observed::from(vec![effect]).with_figures(&figures))
}

fn inlining(results: &Lever2000) -> Option<Observed> {
    let costs = &results.costs;
    let slower = costs.iter().filter(|cost| {
        let called = ratio(cost.stand_alone.latency, cost.inlined.latency);
        Bound::Above(1.0).verdict(called) == Verdict::Holds
    });
    let slower = slower.count();
    let effect = Effect::share(
        "share of functions with a higher latency called",
        Interval::exact(quotient(slower as u64, costs.len() as u64)),
        Bound::Above(0.5),
    );
    let golden = results.cost(Function::Golden)?;
    let figures = format!(
        "{slower} of {} functions; Larder's function has a latency of {} cycles inlined and {} called, and a \
         throughput of {} and {}",
        costs.len(),
        golden.inlined.latency,
        golden.stand_alone.latency,
        golden.inlined.throughput,
        golden.stand_alone.throughput,
    );
    Some(Observed::from(vec![effect]).with_figures(&figures))
}

/// Returns the ratio of two costs, which were measured in turns.
fn ratio(one: Figures, other: Figures) -> Interval {
    Interval::of_mean_ratio(&[(one, other)], ROUNDS)
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of all findings")]
fn swap(results: &Lever2000) -> Option<Observed> {
    let swap = results.swap;
    let effect = Effect::ratio(
        "longest chain of generated keys, swap-reference / swap-offset",
        Interval::exact(quotient(swap.longest_reference, swap.longest_offset)),
        Bound::Above(2.0),
    );
    let figures = format!(
        "longest chain: swap-reference {}, swap-offset {}",
        swap.longest_reference, swap.longest_offset
    );
    Some(Observed::from(vec![effect]).with_figures(&figures))
}
