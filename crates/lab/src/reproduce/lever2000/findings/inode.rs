//! Findings about the inode cache.

use super::published::{deviations as published_deviations, throughputs as published_throughputs};
use super::rule::{Rule, last, links_share, no_figures};
use super::throughput::{Comparison, by_processor_time, deviations, throughputs};
use crate::reproduce::finding::{Bound, Effect, Finding, Observed, Verdict};
use crate::reproduce::lever2000::measure::CacheFigures;
use crate::reproduce::lever2000::results::Lever2000;
use crate::statistics::Interval;
use larder::CacheKind;

pub(super) static RULES: [Rule; 5] = [
    Rule {
        finding: Finding {
            name: "inode table, size",
            claim: "the inode cache's table of 256 buckets is a bottleneck",
            published: Some("38.978 iterations per lookup, and 97% of lookups miss"),
            criterion: "lookups that miss walk more than four times as many links with 8 bits as with 14 bits, both \
                        with the reference function and with Larder's",
            is_non_inferiority: false,
            previous: last(
                Verdict::Holds,
                "In the first version, the verdict was \"holds\": its rule also accepted exactly four times as many \
                 links, and 98.9% of the lookups hit, because each operation looked up its inode in the table. Since \
                 the last version, the rule did not change",
            ),
            observe: size,
        },
        published: no_figures,
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "inode table, function",
            claim: "the inode cache gains from a larger table, not from another function",
            published: Some(
                "scripts per hour: 4282.8 with 8 bits, 4361.3 with 12 bits, 4346.0 with 12 bits and mult",
            ),
            criterion: "over all lookups, and over those that miss, a lookup walks more than 1.25 times as many links \
                        with 8 bits as with 12 bits, and mult saves less than a fifth of what these bits save; and in \
                        Table 5, the throughput with mult is below 1.01 times that with 12 bits",
            is_non_inferiority: false,
            previous: last(
                Verdict::Holds,
                "In the first version, the verdict was \"holds\": its rule judged only the 1.1% of the lookups that \
                 missed, and had no lower bound for the effect of the size, so that it held if all kernels were equal. \
                 The rule of the last version compared only links. A function that halves the chains of the table with 12 \
                 bits saves few links relative to 8 bits, so that it was not refuted. Now the throughput decides too. The \
                 rule was changed when the figures were known",
            ),
            observe: function,
        },
        published: || published_throughputs(&NO_BETTER_FUNCTION),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "inode table, throughput",
            claim: "the inode cache's table of 256 buckets reduces throughput",
            published: Some("1.8% less than with 12 bits"),
            criterion: "in Table 5, the throughput with 12 bits is above that with 8 bits",
            is_non_inferiority: false,
            previous: last(
                Verdict::Holds,
                "In the first version, the verdict was \"within the noise\": its rule compared means with twice the sum \
                 of both deviations, and 98.9% of the lookups hit; then pairs were compared, and most lookups missed. \
                 Since the last version, the rule did not change",
            ),
            observe: |results| throughputs(results, &SIZE),
        },
        published: || published_throughputs(&SIZE),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "inode table, 12 bits",
            claim: "12 bits suffice for the inode cache",
            published: Some(
                "scripts per hour: 4282.8 with 8 bits, 4361.3 with 12 bits, 4368.3 with 14 bits",
            ),
            criterion: "in Table 5, the throughput with 12 bits is above that with 8 bits, and above 0.99 times that \
                        with 14 bits",
            is_non_inferiority: false,
            previous: last(
                Verdict::DoesNotHold,
                "In the version of 28 November 2026, the verdict was \"within the noise\". The rule did not change",
            ),
            observe: |results| throughputs(results, &SUFFICIENT),
        },
        published: || published_throughputs(&SUFFICIENT),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "inode table, 14 bits, variance",
            claim: "14 bits for the inode cache increase the variance between runs, compared with 12 bits",
            published: Some("s=11.15 with 12 bits, s=20.41 with 14 bits"),
            criterion: "in Table 5, the deviation of the throughput, relative to its mean, is greater with 14 bits than \
                        with 12 bits",
            is_non_inferiority: false,
            previous: None,
            observe: |results| Some(deviations(results, &MORE_VARIED)?.into()),
        },
        published: || published_deviations(&MORE_VARIED),
        is_counted_alone: false,
    },
];

const NO_BETTER_FUNCTION: [Comparison; 1] =
    [Comparison::new(5, "mult", "12 bit", Bound::Below(1.01))];

const SIZE: [Comparison; 1] = [Comparison::new(5, "12 bit", "reference", Bound::Above(1.0))];

const SUFFICIENT: [Comparison; 2] = [
    Comparison::new(5, "12 bit", "reference", Bound::Above(1.0)),
    Comparison::new(5, "12 bit", "14 bit", Bound::Above(0.99)),
];

const MORE_VARIED: [Comparison; 1] = [Comparison::new(5, "14 bit", "12 bit", Bound::Above(1.0))];

fn size(results: &Lever2000) -> Option<Observed> {
    let mut effects = Vec::new();
    let mut figures = Vec::new();
    for (name, small, large) in [
        ("reference", "reference", "14 bit"),
        ("larder's", "larder's, 8 bit", "larder's, 14 bit"),
    ] {
        let [small, large] = [inodes(results, small)?, inodes(results, large)?];
        let ratio = small.links_per_miss() / large.links_per_miss();
        effects.push(Effect::ratio(
            format!("links per miss, {name}, 8 bits / 14 bits"),
            Interval::exact(ratio),
            Bound::Above(4.0),
        ));
        figures.push(format!(
            "{name}: {:.2} links per miss with 8 bits, {:.2} with 14 bits ({:.2} and {:.2} links per lookup; \
             with 8 bits, {:.1}% of lookups hit)",
            small.links_per_miss(),
            large.links_per_miss(),
            small.links_per_lookup(),
            large.links_per_lookup(),
            small.hit_rate_pct(),
        ));
    }
    Some(Observed::from(effects).with_figures(&figures.join("; ")))
}

fn function(results: &Lever2000) -> Option<Observed> {
    let [small, large, mult] =
        ["reference", "12 bit", "mult"].map(|kernel| inodes(results, kernel));
    let kernels = [small?, large?, mult?];
    let mut effects = Vec::new();
    let mut figures = Vec::new();
    for (lookups, links) in [
        (
            "lookup",
            CacheFigures::links_per_lookup as fn(&CacheFigures) -> f64,
        ),
        ("miss", CacheFigures::links_per_miss),
    ] {
        let [small, large, mult] = kernels.map(links);
        effects.push(Effect::ratio(
            format!("links per {lookups}, 8 bits / 12 bits"),
            Interval::exact(small / large),
            Bound::Above(1.25),
        ));
        let label =
            format!("links per {lookups} saved by mult, as a share of those saved by 12 bits");
        effects.push(links_share(label, [small, large, mult]));
        figures.push(format!(
            "links per {lookups}: {small:.2} with 8 bits, {large:.2} with 12 bits, {mult:.2} with 12 bits and mult"
        ));
    }
    effects.extend(throughputs(results, &NO_BETTER_FUNCTION)?.effects);
    figures.push(by_processor_time(results, &NO_BETTER_FUNCTION)?);
    Some(Observed::from(effects).with_figures(&figures.join("; ")))
}

fn inodes<'r>(results: &'r Lever2000, kernel: &str) -> Option<&'r CacheFigures> {
    Some(results.last_load(5, kernel)?.cache(CacheKind::Inode))
}
