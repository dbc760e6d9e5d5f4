//! Findings about the page cache.

use super::published::{deviation, throughputs as published_throughputs};
use super::rule::{Rule, links_share, no_figures};
use super::throughput::{Comparison, deviations, throughputs};
use crate::reproduce::finding::{Bound, Effect, Finding, Observed, Previous, Verdict};
use crate::reproduce::lever2000::results::Lever2000;
use crate::statistics::Interval;
use larder::CacheKind;

pub(super) static RULES: [Rule; 5] = [
    Rule {
        finding: Finding {
            name: "page cache, size",
            claim: "the page cache gains from a larger table, not from another function",
            published: Some(
                "no counts of links; scripts per hour with 16 scripts: 1864.7 with 11 bits, 1877.2 with 14 bits, \
                 1880.0 with 14 bits and offset, 1876.4 with 14 bits and mult",
            ),
            criterion: "with 16 scripts, a lookup walks more than 1.25 times as many links with 11 bits as with 14 \
                        bits, and another function saves less than a fifth of what these bits save",
            is_non_inferiority: false,
            previous: Some(Previous {
                verdict: Verdict::Holds,
                reason: "The first rule compared both differences without a lower bound for that of the size, so \
                         that it held if all kernels were equal; the cache held 1,294 pages",
            }),
            observe: size,
        },
        published: no_figures,
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "page cache, throughput",
            claim: "a larger table of the page cache increases throughput, on a machine with much memory",
            published: Some(
                "scripts per hour: 4282.8 with 2048 buckets, 4387.3 with 8192, 4405.3 with 32768",
            ),
            criterion: "in Table 2, the throughput with 8192 and with 32768 buckets is above that with 2048",
            is_non_inferiority: false,
            previous: None,
            observe: |results| throughputs(results, &LARGER),
        },
        published: || published_throughputs(&LARGER),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "page cache, trees",
            claim: "red-black trees of pages are faster than the reference table",
            published: Some(
                "scripts per hour with 16 to 64 scripts: 1874.9, 1817.0, 1755.3 and 1670.8 with trees, 1864.7, 1800.8, \
                 1739.9 and 1644.6 with the reference",
            ),
            criterion: "in Table 1, the throughput of rbtree is above that of reference, over all numbers of \
                        scripts",
            is_non_inferiority: false,
            previous: None,
            observe: |results| throughputs(results, &TREES),
        },
        published: || published_throughputs(&TREES),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "page cache, smaller",
            claim: "a table of half or a quarter of a bucket for each page of memory can still perform well",
            published: Some(
                "the machine of Table 1 has 2^15 pages; scripts per hour with 16 scripts: 1875.4 with 15 bits, 1877.2 \
                 with 14 bits, 1875.8 with 13 bits",
            ),
            criterion: "in Table 1, over all numbers of scripts, the throughput with 14 and with 13 bits is above \
                        that of reference (11 bits), and above 0.99 times that with 15 bits",
            is_non_inferiority: false,
            previous: None,
            observe: |results| throughputs(results, &SMALLER),
        },
        published: || published_throughputs(&SMALLER),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "page cache, variance",
            claim: "a larger table of the page cache reduces the variance between runs, on a machine with much \
                    memory",
            published: Some("s=29.96 with 2048 buckets, s=5.59 with 32768"),
            criterion: "in Table 2, the deviation of the throughput, relative to its mean, is smaller with 32768 \
                        buckets than with 2048",
            is_non_inferiority: false,
            previous: None,
            observe: |results| Some(deviations(results, &LESS_VARIED)?.into()),
        },
        published: || LESS_VARIED.iter().filter_map(deviation).collect(),
        is_counted_alone: false,
    },
];

const LARGER: [Comparison; 2] = [
    Comparison::new(2, "8192", "2048", Bound::Above(1.0)),
    Comparison::new(2, "32768", "2048", Bound::Above(1.0)),
];

const TREES: [Comparison; 1] = [Comparison::new(1, "rbtree", "reference", Bound::Above(1.0))];

const SMALLER: [Comparison; 4] = [
    Comparison::new(1, "14-bit", "reference", Bound::Above(1.0)),
    Comparison::new(1, "13-bit", "reference", Bound::Above(1.0)),
    Comparison::new(1, "14-bit", "15-bit", Bound::Above(0.99)),
    Comparison::new(1, "13-bit", "15-bit", Bound::Above(0.99)),
];

const LESS_VARIED: [Comparison; 1] = [Comparison::new(2, "32768", "2048", Bound::Below(1.0))];

fn size(results: &Lever2000) -> Option<Observed> {
    // With sixteen scripts, which fit in memory.
    let links = |kernel| {
        let load = results.row(1, kernel)?.loads.first()?;
        Some(load.cache(CacheKind::Page).links_per_lookup())
    };
    let (small, large) = (links("reference")?, links("14-bit")?);
    let ratio = Interval::exact(small / large);
    let mut effects = vec![Effect::ratio(
        "links per lookup, 11 bits / 14 bits",
        ratio,
        Bound::Above(1.25),
    )];
    for function in ["offset", "mult"] {
        let label = format!("links saved by {function}, as a share of those saved by 14 bits");
        effects.push(links_share(label, [small, large, links(function)?]));
    }
    let figures = format!("{small:.3} links per lookup with 11 bits, {large:.3} with 14 bits");
    Some(Observed::from(effects).with_figures(&figures))
}
