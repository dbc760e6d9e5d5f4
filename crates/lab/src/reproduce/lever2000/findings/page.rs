//! Findings about the page cache.

use super::addresses::throughputs_of_pages;
use super::published::{deviations as published_deviations, throughputs as published_throughputs};
use super::rule::{
    BY_ADDRESSES, BY_LOAD_AND_ADDRESSES, Rule, SAME_RULE, last, links_share, no_figures,
};
use super::throughput::{Comparison, deviations};
use crate::reproduce::finding::{Bound, Effect, Finding, Observed, Verdict};
use crate::reproduce::lever2000::results::Lever2000;
use crate::statistics::Interval;
use larder::CacheKind;

pub(super) static RULES: [Rule; 9] = [
    Rule {
        finding: Finding {
            name: "page cache, size",
            claim: "the page cache gains from a larger table, not from another function",
            published: Some(
                "no counts of links; scripts per hour with 16 scripts: 1864.7 with 11 bits, 1877.2 with 14 bits, \
                 1880.0 with 14 bits and offset, 1876.4 with 14 bits and mult",
            ),
            criterion: "with 16 scripts, a lookup walks more than 1.25 times as many links with 11 bits as with 14 \
                        bits, and another function saves less than a fifth of what these bits save; the verdict \
                        depends on an assumption if this rule has another verdict for some of the computed addresses of \
                        inodes (with random addresses, for the median of the links)",
            is_non_inferiority: false,
            previous: last(
                Verdict::DependsOnAssumption,
                "In the first version, the verdict was \"holds\": its rule compared both differences without a lower \
                 bound for that of the size, so that it held if all kernels were equal; the cache held 1,294 pages. In the \
                 version of 28 November 2026, it was \"holds\" too; then the chains of pages were computed for other \
                 addresses of inodes. Since the last version, the rule did not change",
            ),
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
            criterion: "in Table 2, the throughput with 8192 and with 32768 buckets is above that with 2048; the \
                        verdict depends on an assumption if, for some of the computed addresses of inodes only, a lookup \
                        of a page walks fewer links with each of them than with 2048",
            is_non_inferiority: false,
            previous: last(Verdict::Holds, BY_ADDRESSES),
            observe: |results| throughputs_of_pages(results, &LARGER),
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
                        scripts; the verdict depends on an assumption if a lookup of a page walks fewer links with \
                        rbtree than with reference for some of the computed addresses of inodes only",
            is_non_inferiority: false,
            previous: last(Verdict::Holds, BY_LOAD_AND_ADDRESSES),
            observe: |results| throughputs_of_pages(results, &TREES),
        },
        published: || published_throughputs(&TREES),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "page cache, trees, variance",
            claim: "red-black trees of pages reduce the variance between runs",
            published: Some(
                "s with 16 to 64 scripts: 6.57, 5.59, 3.01 and 17.26 with trees, 3.77, 8.51, 3.61 and 29.35 with the \
                 reference, in the middle five of seven runs",
            ),
            criterion: "in Table 1, over all numbers of scripts, the deviation of the throughput of all runs, relative \
                        to its mean, is smaller with rbtree than with reference",
            is_non_inferiority: false,
            previous: last(Verdict::WithinNoise, SAME_RULE),
            observe: |results| Some(deviations(results, &EVEN_TREES)?.into()),
        },
        published: || published_deviations(&EVEN_TREES),
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
                        that of reference (11 bits), and above 0.99 times that with 15 bits; the verdict depends on an \
                        assumption if, for some of the computed addresses of inodes only, the links of a lookup of a page \
                        with 11 and with 15 bits, divided by those with 14 and with 13 bits, are within the same bounds",
            is_non_inferiority: false,
            previous: last(Verdict::DoesNotHold, BY_LOAD_AND_ADDRESSES),
            observe: |results| throughputs_of_pages(results, &SMALLER),
        },
        published: || published_throughputs(&SMALLER),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "page cache, offset",
            claim: "with 64 scripts, offset is slower than mult and than the reference function with 14 bits",
            published: Some(
                "scripts per hour with 64 scripts: 1685.4 with offset, 1691.7 with mult, 1694.3 with 14 bits",
            ),
            criterion: "in Table 1, with 64 scripts, the throughput of offset is below those of mult and of 14-bit; the \
                        verdict depends on an assumption if, for some of the computed addresses of inodes only, a lookup \
                        of a page walks more links with offset than with each of them",
            is_non_inferiority: false,
            previous: last(Verdict::WithinNoise, BY_ADDRESSES),
            observe: |results| throughputs_of_pages(results, &SLOW_OFFSET),
        },
        published: || published_throughputs(&SLOW_OFFSET),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "page cache, cost of offset",
            claim: "the unshifted offset costs throughput, whatever the number of scripts",
            published: Some(
                "\"a slight but measurable across-the-board performance cost\"; scripts per hour with 16 to 64 scripts: \
                 1880.0, 1843.7, 1774.5 and 1685.4 with offset, 1877.2, 1830.8, 1770.5 and 1694.3 with 14 bits",
            ),
            criterion: "in Table 1, with 16, with 32, with 48 and with 64 scripts, the throughput of offset is below that \
                        of 14-bit; the verdict depends on an assumption if a lookup of a page walks more links with offset \
                        than with 14-bit for some of the computed addresses of inodes only",
            is_non_inferiority: false,
            previous: None,
            observe: |results| throughputs_of_pages(results, &COSTLY_OFFSET),
        },
        published: || published_throughputs(&COSTLY_OFFSET),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "page cache, elapsed time of mult",
            claim: "mult has the shortest elapsed time of all kernels of Table 1",
            published: Some(
                "reference 3025 s, 13-bit 2983 s, 14-bit 2975 s, 15-bit 2976 s, offset 2980 s, mult 2969 s, rbtree 3003 s, \
                 in all runs",
            ),
            criterion: "in Table 1, where all kernels execute the same scripts, the throughput of mult is above that of \
                        each other published kernel, judged by the geometric mean of the throughput ratios over all \
                        numbers of scripts; the verdict depends on an assumption if, for some of the computed addresses \
                        of inodes only, mult walks fewer links in a lookup of a page than each of them",
            is_non_inferiority: false,
            previous: None,
            observe: |results| throughputs_of_pages(results, &SHORTEST),
        },
        published: no_figures,
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
            previous: last(Verdict::WithinNoise, SAME_RULE),
            observe: |results| Some(deviations(results, &LESS_VARIED)?.into()),
        },
        published: || published_deviations(&LESS_VARIED),
        is_counted_alone: false,
    },
];

const LARGER: [Comparison; 2] = [
    Comparison::new(2, "8192", "2048", Bound::Above(1.0)),
    Comparison::new(2, "32768", "2048", Bound::Above(1.0)),
];

const TREES: [Comparison; 1] = [Comparison::new(1, "rbtree", "reference", Bound::Above(1.0))];

const EVEN_TREES: [Comparison; 1] = [Comparison::new(1, "rbtree", "reference", Bound::Below(1.0))];

const SLOW_OFFSET: [Comparison; 2] = [
    Comparison::new(1, "offset", "mult", Bound::Below(1.0)).with_scripts(64),
    Comparison::new(1, "offset", "14-bit", Bound::Below(1.0)).with_scripts(64),
];

const COSTLY_OFFSET: [Comparison; 4] = [
    costly_offset(16),
    costly_offset(32),
    costly_offset(48),
    costly_offset(64),
];

const fn costly_offset(scripts: u32) -> Comparison {
    Comparison::new(1, "offset", "14-bit", Bound::Below(1.0)).with_scripts(scripts)
}

const SHORTEST: [Comparison; 6] = [
    faster_mult("reference"),
    faster_mult("13-bit"),
    faster_mult("14-bit"),
    faster_mult("15-bit"),
    faster_mult("offset"),
    faster_mult("rbtree"),
];

const fn faster_mult(other: &'static str) -> Comparison {
    Comparison::new(1, "mult", other, Bound::Above(1.0))
}

const SMALLER: [Comparison; 4] = [
    Comparison::new(1, "14-bit", "reference", Bound::Above(1.0)),
    Comparison::new(1, "13-bit", "reference", Bound::Above(1.0)),
    Comparison::new(1, "14-bit", "15-bit", Bound::Above(0.99)),
    Comparison::new(1, "13-bit", "15-bit", Bound::Above(0.99)),
];

const LESS_VARIED: [Comparison; 1] = [Comparison::new(2, "32768", "2048", Bound::Below(1.0))];

fn size(results: &Lever2000) -> Option<Observed> {
    // With sixteen scripts, which fit in memory.
    let links = |kernel: &str| {
        let load = results.row(1, kernel)?.loads.first()?;
        Some(load.cache(CacheKind::Page).links_per_lookup())
    };
    let figures = format!(
        "{:.3} links per lookup with 11 bits, {:.3} with 14 bits",
        links("reference")?,
        links("14-bit")?
    );
    let observed = Observed::from(gains(links)?).with_figures(&figures);
    let with_addresses = results
        .layouts
        .iter()
        .filter_map(|layout| gains(|kernel| layout.links(1, kernel)));
    let measured = observed.verdict();
    let depends = with_addresses
        .map(|effects| Observed::from(effects).verdict())
        .any(|verdict| verdict != measured);
    Some(observed.depending_on_assumption(depends))
}

/// Compares what a larger table and other functions save, given the links per lookup of each kernel of Table 1.
fn gains(links: impl Fn(&str) -> Option<f64>) -> Option<Vec<Effect>> {
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
    Some(effects)
}
