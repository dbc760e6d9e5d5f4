//! Findings about the dentry cache.

use super::published::throughputs as published_throughputs;
use super::rule::{Rule, SAME_RULE, UNCHANGED, last, no_figures};
use super::throughput::{Comparison, throughputs};
use crate::reproduce::finding::{Bound, Effect, Finding, Observed, Verdict};
use crate::reproduce::lever2000::disk::DiskCosts;
use crate::reproduce::lever2000::results::Lever2000;
use crate::statistics::Interval;
use larder::CacheKind;

pub(super) static RULES: [Rule; 6] = [
    Rule {
        finding: Finding {
            name: "miss of the dentry cache",
            claim: "a miss in the dentry cache costs less than a miss in the page cache",
            published: Some("an open question in section 6"),
            criterion: "the time of a lookup that misses, divided by that of a read that misses in the same round, \
                        is below 1, without the time of a disk",
            is_non_inferiority: false,
            previous: last(
                Verdict::WithinNoise,
                "In the first version, the verdict was \"does not hold\": its rule compared medians without a margin \
                 for noise, and the medians were 6733 ns for a dentry miss and 4254 ns for a page miss. In the version of \
                 28 November 2026, it was \"holds\". Since then, the rule did not change; since the last version, there \
                 are 30 rounds instead of 5",
            ),
            observe: misses,
        },
        published: no_figures,
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "miss of the dentry cache, buffer miss with a disk",
            claim: "with a disk, a miss in the dentry cache costs less than a miss in the buffer cache (almost by \
                    construction)",
            published: Some("an open question in section 6"),
            criterion: "with each simulated device, the time of a buffer miss, divided by that of a dentry miss, is \
                        above 1; this holds almost by construction, because the buffer misses are the reads of these \
                        dentry misses, and not every dentry miss reads",
            is_non_inferiority: false,
            previous: last(
                Verdict::Holds,
                "In the version of 28 November 2026, the time of a buffer miss was computed from that of the dentry \
                 misses, so that the ratio was the same with all devices; then buffer misses were simulated themselves. \
                 Since the last version, neither the rule nor the measurement changed, but the claim says that it holds \
                 almost by construction",
            ),
            observe: |results| {
                on_disks(results, "buffer miss / dentry miss", |costs| {
                    costs.buffer_misses_per_dentry_miss
                })
            },
        },
        published: no_figures,
        is_counted_alone: true,
    },
    Rule {
        finding: Finding {
            name: "miss of the dentry cache, page fault with a disk",
            claim: "with a disk, a miss in the dentry cache costs less than a page fault",
            published: Some("an open question in section 6"),
            criterion: "with each simulated device, the time of a page fault, divided by that of a dentry miss, is \
                        above 1",
            is_non_inferiority: false,
            previous: last(Verdict::Holds, UNCHANGED),
            observe: |results| {
                on_disks(results, "page fault / dentry miss", |costs| {
                    costs.faults_per_dentry_miss
                })
            },
        },
        published: no_figures,
        is_counted_alone: true,
    },
    Rule {
        finding: Finding {
            name: "dentry cache, 14 bits",
            claim: "a larger table of the dentry cache increases throughput",
            published: Some("scripts per hour: 4282.8 with 10 bits, 4375.2 with 14 bits"),
            criterion: "in Table 4, the throughput with 14 bits is above that of reference (10 bits)",
            is_non_inferiority: false,
            previous: last(Verdict::Holds, SAME_RULE),
            observe: |results| throughputs(results, &LARGER),
        },
        published: || published_throughputs(&LARGER),
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
            previous: last(
                Verdict::DoesNotHold,
                "In the first version, the verdict was \"within the noise\": its rule compared means with twice the sum \
                 of both deviations; then pairs were compared, and memory was short. In the version of 28 November 2026, \
                 it was \"within the noise\" too. Since then, the rule did not change",
            ),
            observe: shrinking,
        },
        published: || published_throughputs(&SHRINKING),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "eager shrinking, fastest kernel",
            claim: "shrink + mult 11 is the fastest kernel of Table 4",
            published: Some(
                "scripts per hour: 4380.4 with shrink + mult 11, 4282.8 with reference, 4375.2 with 14 bit, 4368.7 with \
                 mult shift 11, 4375.9 with mult shift 17, 4368.7 with shrink, 4368.5 with shrink + mult 17",
            ),
            criterion: "in Table 4, the throughput with shrink + mult 11 is above that of each other published kernel",
            is_non_inferiority: false,
            previous: None,
            observe: |results| throughputs(results, &FASTEST),
        },
        published: || published_throughputs(&FASTEST),
        is_counted_alone: false,
    },
];

const LARGER: [Comparison; 1] = [Comparison::new(4, "14 bit", "reference", Bound::Above(1.0))];

const SHRINKING: [Comparison; 1] = [Comparison::new(
    4,
    "shrink + mult 11",
    "mult shift 11",
    Bound::Above(1.0),
)];

const FASTEST: [Comparison; 6] = [
    fastest("reference"),
    fastest("14 bit"),
    fastest("mult shift 11"),
    fastest("mult shift 17"),
    fastest("shrink"),
    fastest("shrink + mult 17"),
];

const fn fastest(other: &'static str) -> Comparison {
    Comparison::new(4, "shrink + mult 11", other, Bound::Above(1.0))
}

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

/// Compares the costs of misses with each device.
fn on_disks(
    results: &Lever2000,
    what: &str,
    ratio: fn(&DiskCosts) -> Interval,
) -> Option<Observed> {
    let devices = &results.disk_misses.devices;
    let effects = devices.iter().map(|costs| {
        let place = costs.placement.as_str();
        let label = format!("time, {what}, {} ({place})", costs.device);
        Effect::ratio(label, ratio(costs), Bound::Above(1.0))
    });
    (!devices.is_empty()).then(|| effects.collect::<Vec<_>>().into())
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
