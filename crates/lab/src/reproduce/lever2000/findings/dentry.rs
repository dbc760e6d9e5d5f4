//! Findings about the dentry cache.

use super::published::throughputs as published_throughputs;
use super::rule::{Rule, no_figures};
use super::throughput::{Comparison, throughputs};
use crate::reproduce::finding::{Bound, Effect, Finding, Observed, Previous, Verdict};
use crate::reproduce::lever2000::results::Lever2000;
use larder::CacheKind;

pub(super) static RULES: [Rule; 2] = [
    Rule {
        finding: Finding {
            name: "miss of the dentry cache",
            claim: "a miss in the dentry cache costs less than a miss in the page cache",
            published: Some("an open question in section 6"),
            criterion: "the time of a lookup that misses, divided by that of a read that misses in the same round, is \
                        below 1, without the time of a disk",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::DoesNotHold,
                reason: "The first rule compared medians without a margin for noise",
            }),
            observe: misses,
        },
        published: no_figures,
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "eager shrinking",
            claim: "eager shrinking of the dentry cache increases throughput",
            published: Some(
                "scripts per hour: 4380.4 with shrink + mult 11, 4368.7 with mult 11; the difference is less than \
                 the standard deviation of 62.65",
            ),
            criterion: "in Table 4, the throughput with shrink + mult 11 is above that with mult shift 11",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::WithinNoise,
                reason: "The first rule compared means with twice the sum of both deviations; runs are now compared \
                         in pairs, and memory is short",
            }),
            observe: shrinking,
        },
        published: || published_throughputs(&SHRINKING),
        is_counted_alone: false,
    },
];

const SHRINKING: [Comparison; 1] = [Comparison::new(
    4,
    "shrink + mult 11",
    "mult shift 11",
    Bound::Above(1.0),
)];

fn shrinking(results: &Lever2000) -> Option<Observed> {
    let dentries = |kernel| {
        let load = results.last_load(4, kernel)?;
        Some(load.cache(CacheKind::Dentry).full.histogram.objects())
    };
    let [Comparison { one, other, .. }] = SHRINKING;
    let figures = format!(
        "dentries at the end: {} and {}",
        dentries(one)?,
        dentries(other)?
    );
    Some(throughputs(results, &SHRINKING)?.with_figures(&figures))
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of all findings")]
fn misses(results: &Lever2000) -> Option<Observed> {
    let misses = &results.misses;
    let effect = Effect::ratio(
        "time of a miss, dentry / page",
        misses.dentry_per_page(),
        Bound::Below(1.0),
    );
    let figures = format!(
        "dentry: {:.0} ns per miss, {:.0} ns per hit; page: {:.0} ns per miss, {:.0} ns per hit",
        misses.dentry_miss_ns, misses.dentry_hit_ns, misses.page_miss_ns, misses.page_hit_ns
    );
    Some(Observed::from(vec![effect]).with_figures(&figures))
}
