//! Findings about the buffer cache: its functions, Table 3, and Histograms 1 to 4.

use super::published::{deviations as published_deviations, throughputs as published_throughputs};
use super::rule::{Rule, SAME_RULE, last, no_figures};
use super::throughput::{Comparison, deviations, throughputs};
use crate::published::lever2000 as published;
use crate::reproduce::finding::{Bound, Effect, Finding, Observed, Verdict};
use crate::reproduce::lever2000::measure::CacheFigures;
use crate::reproduce::lever2000::results::Lever2000;
use crate::run_report::{as_f64, quotient};
use crate::statistics::Interval;
use larder::CacheKind;
use larder_cache::table::Histogram;

/// The kernels with 16384 buckets, whose histograms the document shows.
const XOR: &str = "reference, 16384";
const MULT: &str = "mult shift 11, 16384";

/// The kernel with 16384 buckets and the function of Linux 2.2.16.
const SHIFT_XOR: &str = "2.2.16, 16384";

pub(super) static RULES: [Rule; 8] = [
    Rule {
        finding: Finding {
            name: "buffer cache, xor",
            claim: "the buffer cache's function, which does not mix bits, is terrible, and any mixing function fixes \
                    it",
            published: Some(
                "2.155 iterations per lookup with xor, 0.242 with mult shift 11; longest chains 116 and 11; 37,256 \
                 objects, 296,481 lookups",
            ),
            criterion: "with 16384 buckets, lookups with xor walk more than twice as many links after the first as \
                        with each mixing function, and the longest chain is more than four times as long, also \
                        with one entry more or less in each longest chain",
            is_non_inferiority: false,
            previous: last(
                Verdict::WithinNoise,
                "In the first version, the verdict was \"holds\": its rule also accepted a longest chain that is \
                 exactly four times as long, and the cache held fewer buffers (41,352 with xor), with longest chains of \
                 32 with xor and 7 with mult shift 17. In the version of 28 November 2026, it was \"does not hold\"; then a \
                 longest chain got a margin of one entry, so that one entry cannot refute the claim. Since the last \
                 version, the rule did not change",
            ),
            observe: xor,
        },
        published: published_xor,
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "buffer cache, 2.2.16",
            claim: "the buffer cache's function of Linux 2.2.16 distributes block numbers like a random function",
            published: Some("it \"is intended to randomize\" regular block numbers; no figures"),
            criterion: "with 16384 buckets, lookups with the function of 2.2.16 walk less than 1.5 times as many links \
                        after the first as with a random distribution, and those with xor more than twice as many as \
                        with it",
            is_non_inferiority: false,
            previous: last(Verdict::DoesNotHold, SAME_RULE),
            observe: shift_xor,
        },
        published: no_figures,
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "buffer cache, throughput",
            claim: "a function that mixes the bits of block numbers increases throughput",
            published: Some(
                "scripts per hour with 32768 buckets: 4282.8 with xor, 4369.3 with mult shift 16, 4380.8 with mult \
                 shift 11, 4388.9 with shift-add",
            ),
            criterion: "in Table 3, the throughput with mult shift 16, with mult shift 11 and with shift-add, each with \
                        32768 buckets, is above that with xor",
            is_non_inferiority: false,
            previous: last(Verdict::WithinNoise, SAME_RULE),
            observe: |results| throughputs(results, &MIXED),
        },
        published: || published_throughputs(&MIXED),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "buffer cache, fewer buckets",
            claim: "with a function that mixes the bits of block numbers, fewer buckets maintain the throughput",
            published: Some(
                "scripts per hour: mult shift 11 4380.8 with 32768 buckets, 4350.5 with 16384; shift-add 4388.9 with \
                 32768, 4390.2 with 16384, 4362.5 with 8192",
            ),
            criterion: "in Table 3, the throughput with mult shift 11 and 16384 buckets, and with shift-add and 16384 \
                        or 8192 buckets, is above 0.99 times that with the same function and 32768 buckets, and above \
                        that with xor and 32768 buckets",
            is_non_inferiority: false,
            previous: last(Verdict::WithinNoise, SAME_RULE),
            observe: |results| throughputs(results, &FEWER_BUCKETS),
        },
        published: || published_throughputs(&FEWER_BUCKETS),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "buffer cache, variance",
            claim: "of the mixing functions of buffers, shift-add has the smallest variance between runs",
            published: Some(
                "s with 32768 buckets: 21.90 with shift-add, 12.09 with mult shift 11, 19.35 with mult shift 16; with \
                 16384: 22.55, 99.75 with mult shift 11, 61.17 with mult shift 17; with 8192: 13.37, 16.61 with mult \
                 shift 18",
            ),
            criterion: "in Table 3, with each number of buckets, the deviation of the throughput, relative to its mean, \
                        is smaller with shift-add than with each multiplication",
            is_non_inferiority: false,
            previous: last(Verdict::WithinNoise, SAME_RULE),
            observe: |results| Some(deviations(results, &LEAST_VARIED)?.into()),
        },
        published: || published_deviations(&LEAST_VARIED),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "buffer cache, Histogram 2",
            claim: "with xor, most buffers that remain after the run are in long chains",
            published: Some(
                "85% of 2644 buffers are in chains of more than 15, with 16384 buckets; the longest chain is 80 with xor, \
                 and 6 with mult shift 11",
            ),
            criterion: "after the run, when most buffers were freed, the share of the buffers in chains of more than \
                        15 is greater with xor than with mult shift 11, by more than 0.5, and the longest chain is \
                        more than four times as long, also with one entry more or less in each longest chain",
            is_non_inferiority: false,
            previous: last(
                Verdict::DoesNotHold,
                "In the version of 28 November 2026, the rule did not compare the longest chains, which belonged to the rule \
                 of Histogram 4. Since the last version, it did not change",
            ),
            observe: |results| {
                let [xor, mult] = after(results)?;
                Some(congested(&xor, &mult).into())
            },
        },
        published: || {
            published_histograms([2, 4]).map_or_else(Vec::new, |[xor, mult]| congested(&xor, &mult))
        },
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "buffer cache, Histogram 3",
            claim: "mult shift 11 distributes a full cache about as evenly as a random function, or more evenly",
            published: Some("12.4% of the buckets are empty, 10.3% by chance; with xor, 73.5%"),
            criterion: "in the full cache, mult shift 11 leaves less than 1.5 times as many buckets empty as a random \
                        distribution, and the share of the buffers in chains of more than 15 is greater with xor, \
                        by more than 0.25",
            is_non_inferiority: false,
            previous: last(
                Verdict::Holds,
                "In the version of 28 November 2026, the claim was \"like a random function\", although the rule has no \
                 bound for a distribution that is more even. The rule did not change",
            ),
            observe: |results| {
                let [xor, mult] = [XOR, MULT].map(|kernel| buffers(results, kernel));
                let [xor, mult] = [&xor?.full.histogram, &mult?.full.histogram];
                Some(spread(xor, mult).into())
            },
        },
        published: || {
            published_histograms([1, 3]).map_or_else(Vec::new, |[xor, mult]| spread(&xor, &mult))
        },
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "buffer cache, Histogram 4",
            claim: "with mult shift 11, the distribution remains good as buffers are freed",
            published: Some(
                "87.3% of the buckets are empty, 84.7% by chance; the longest chain is 6, and 80 with xor; \"the bucket size \
                 distribution remains good\"",
            ),
            criterion: "after the run, when most buffers were freed, mult shift 11 leaves less than 1.5 times as many \
                        buckets empty as a random distribution, and its longest chain, also with one entry more or \
                        less, is less than twice as long as the length that the longest chain exceeds in at most 2.5% of \
                        random distributions; and the longest chain is longer with xor, also with one entry more or less \
                        in each longest chain",
            is_non_inferiority: false,
            previous: last(
                Verdict::Holds,
                "In the version of 28 November 2026, the verdict was \"does not hold\": the rule required that the longest \
                 chain with xor is more than four times as long, which shows nothing about mult shift 11 if chains with xor \
                 are short. In the last version, the longest chain was only compared with chance: the claim held, but it \
                 also held if all kernels were equal. On 30 November 2026, the comparison with xor was added, because the \
                 document refers the reader to Histogram 2 for it. Both changes were made when the figures were known",
            ),
            observe: |results| {
                let [xor, mult] = after(results)?;
                Some(remaining(&xor, &mult).into())
            },
        },
        published: || {
            published_histograms([2, 4]).map_or_else(Vec::new, |[xor, mult]| remaining(&xor, &mult))
        },
        is_counted_alone: false,
    },
];

const MIXED: [Comparison; 3] = [
    mixed("mult shift 16, 32768"),
    mixed("mult shift 11, 32768"),
    mixed("shift-add, 32768"),
];

const fn mixed(kernel: &'static str) -> Comparison {
    Comparison::new(3, kernel, "reference, 32768", Bound::Above(1.0))
}

const FEWER_BUCKETS: [Comparison; 6] = [
    maintained("mult shift 11, 16384", "mult shift 11, 32768"),
    maintained("shift-add, 16384", "shift-add, 32768"),
    maintained("shift-add, 8192", "shift-add, 32768"),
    mixed("mult shift 11, 16384"),
    mixed("shift-add, 16384"),
    mixed("shift-add, 8192"),
];

const fn maintained(fewer: &'static str, more: &'static str) -> Comparison {
    Comparison::new(3, fewer, more, Bound::Above(0.99))
}

const LEAST_VARIED: [Comparison; 5] = [
    less_varied("shift-add, 32768", "mult shift 11, 32768"),
    less_varied("shift-add, 32768", "mult shift 16, 32768"),
    less_varied("shift-add, 16384", "mult shift 11, 16384"),
    less_varied("shift-add, 16384", "mult shift 17, 16384"),
    less_varied("shift-add, 8192", "mult shift 18, 8192"),
];

const fn less_varied(shift_add: &'static str, multiply: &'static str) -> Comparison {
    Comparison::new(3, shift_add, multiply, Bound::Below(1.0))
}

/// The xor function is called terrible if its longest chain exceeds this multiple of the longest chain with a mixing
/// function.
const FAR_LONGER: f64 = 4.0;

/// Returns the mean links of a lookup, without the first.
fn beyond_first(figures: &CacheFigures) -> f64 {
    (figures.links_per_lookup() - 1.0).max(0.0)
}

fn shift_xor(results: &Lever2000) -> Option<Observed> {
    let [xor, mixed] = [XOR, SHIFT_XOR].map(|kernel| buffers(results, kernel));
    let (xor, mixed) = (xor?, mixed?);
    let histogram = &mixed.full.histogram;
    // On average, half of the other objects in the bucket are before the object that is looked up.
    let by_chance = quotient(histogram.objects() - 1, 2 * histogram.buckets());
    let effects = vec![
        Effect::ratio(
            "links after the first, 2.2.16 / by chance",
            Interval::exact(beyond_first(mixed) / by_chance),
            Bound::Below(1.5),
        ),
        Effect::ratio(
            "links after the first, xor / 2.2.16",
            Interval::exact(beyond_first(xor) / beyond_first(mixed)),
            Bound::Above(2.0),
        ),
    ];
    Some(effects.into())
}

fn xor(results: &Lever2000) -> Option<Observed> {
    let xor = buffers(results, XOR)?;
    let mut effects = Vec::new();
    for kernel in [MULT, "mult shift 17, 16384", "shift-add, 16384"] {
        let mixed = buffers(results, kernel)?;
        let links = beyond_first(xor) / beyond_first(mixed);
        effects.push(Effect::ratio(
            format!("links after the first, xor / {kernel}"),
            Interval::exact(links),
            Bound::Above(2.0),
        ));
        effects.push(longest(
            kernel,
            xor.longest_chain,
            mixed.longest_chain,
            FAR_LONGER,
        ));
    }
    let figures = format!(
        "with xor, {:.3} links per lookup, longest chain {}, {} objects and {} lookups",
        xor.links_per_lookup(),
        xor.longest_chain,
        xor.full.histogram.objects(),
        xor.lookups,
    );
    Some(Observed::from(effects).with_figures(&figures))
}

fn published_xor() -> Vec<Effect> {
    let histograms = published::histograms();
    let of = |number| {
        histograms
            .iter()
            .find(|histogram| histogram.number == number)
    };
    let (Some(xor), Some(mult)) = (of(1), of(3)) else {
        return Vec::new();
    };
    let links = quotient(
        xor.iterations_per_1000_lookups,
        mult.iterations_per_1000_lookups,
    );
    vec![
        Effect::ratio(
            format!("links after the first, xor / {MULT}"),
            Interval::exact(links),
            Bound::Above(2.0),
        ),
        longest(MULT, xor.largest_bucket, mult.largest_bucket, FAR_LONGER),
    ]
}

/// Returns the length of the longest chain with xor, divided by this length with `kernel`. Both lengths are single
/// observations. Therefore the range contains all ratios with one entry more or less in each chain.
pub(super) fn longest(kernel: &str, xor: u64, mixed: u64, bound: f64) -> Effect {
    let low = quotient(xor.saturating_sub(1), mixed + 1);
    let high = quotient(xor + 1, mixed.saturating_sub(1).max(1));
    Effect::ratio(
        format!("longest chain \u{b1} 1 entry, xor / {kernel}"),
        Interval::new(quotient(xor, mixed), [low, high]),
        Bound::Above(bound),
    )
}

/// Returns a difference: the share of buffers in chains of more than 15 with xor, minus this share with mult shift
/// 11.
fn long_chains(xor: &Histogram, mult: &Histogram, bound: f64) -> Effect {
    let share = |histogram: &Histogram| {
        let long = histogram.rows().filter(|(length, ..)| length.is_none());
        quotient(long.map(|(.., objects)| objects).sum(), histogram.objects())
    };
    Effect::share(
        "share of buffers in chains of more than 15, xor - mult shift 11",
        Interval::exact(share(xor) - share(mult)),
        Bound::Above(bound),
    )
}

fn spread(xor: &Histogram, mult: &Histogram) -> Vec<Effect> {
    vec![empty(mult), long_chains(xor, mult, 0.25)]
}

fn congested(xor: &Histogram, mult: &Histogram) -> Vec<Effect> {
    vec![
        long_chains(xor, mult, 0.5),
        longest_chains(xor, mult, FAR_LONGER),
    ]
}

fn longest_chains(xor: &Histogram, mult: &Histogram, bound: f64) -> Effect {
    let [xor, mult] = [xor, mult].map(Histogram::longest_chain);
    longest("mult shift 11", xor, mult, bound)
}

fn remaining(xor: &Histogram, mult: &Histogram) -> Vec<Effect> {
    let chance = as_f64(longest_by_chance(mult)).max(1.0);
    let longest = as_f64(mult.longest_chain());
    let margin = [longest - 1.0, longest + 1.0];
    vec![
        empty(mult),
        Effect::ratio(
            "longest chain \u{b1} 1 entry, mult shift 11 / by chance",
            Interval::new(longest / chance, margin.map(|length| length / chance)),
            Bound::Below(2.0),
        ),
        longest_chains(xor, mult, 1.0),
    ]
}

/// Returns the length that the longest chain exceeds in at most 2.5% of random distributions. The probability of a
/// longer chain is at most the expected number of longer chains. Chains of more than 15 count as chains of 16.
pub(super) fn longest_by_chance(histogram: &Histogram) -> u64 {
    let mut longer = 0.0;
    let expected = histogram.poisson();
    let exceeded = expected.iter().enumerate().rev().find(|(_, buckets)| {
        longer += *buckets;
        longer > 0.025
    });
    exceeded.map_or(0, |(length, _)| length as u64)
}

/// Returns the number of empty buckets, divided by this number in a random distribution.
fn empty(mult: &Histogram) -> Effect {
    let ratio = as_f64(mult.empty_buckets()) / mult.poisson()[0];
    Effect::ratio(
        "empty buckets with mult shift 11 / by chance",
        Interval::exact(ratio),
        Bound::Below(1.5),
    )
}

/// Returns the histograms with xor and with mult shift 11 after the run; `None` if fewer than half of the buffers
/// were freed.
fn after(results: &Lever2000) -> Option<[Histogram; 2]> {
    let [xor, mult] = [XOR, MULT].map(|kernel| {
        let figures = buffers(results, kernel)?;
        let [full, after] =
            [&figures.full, &figures.after].map(|report| report.histogram.objects());
        (2 * after < full).then(|| figures.after.histogram.clone())
    });
    Some([xor?, mult?])
}

fn buffers<'r>(results: &'r Lever2000, kernel: &str) -> Option<&'r CacheFigures> {
    Some(results.last_load(3, kernel)?.cache(CacheKind::Buffer))
}

/// Returns published histograms.
fn published_histograms(numbers: [u32; 2]) -> Option<[Histogram; 2]> {
    let histograms = published::histograms();
    let [xor, mult] = numbers.map(|number| {
        let mut histograms = histograms.iter();
        histograms
            .find(|histogram| histogram.number == number)
            .map(published::Histogram::chain_lengths)
    });
    Some([xor?, mult?])
}
