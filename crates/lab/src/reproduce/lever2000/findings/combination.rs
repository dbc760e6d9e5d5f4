//! Findings about kernels A to D, which change all four caches.

use super::addresses::{self, throughputs_of_pages};
use super::published::{deviations as published_deviations, throughputs as published_throughputs};
use super::rule::{BY_ADDRESSES, Rule, SAME_RULE, last, no_figures};
use super::throughput::{Comparison, by_processor_time, deviations, throughputs};
use crate::reproduce::finding::{Bound, Finding, Observed, Verdict};
use crate::reproduce::lever2000::results::Lever2000;

pub(super) static RULES: [Rule; 4] = [
    Rule {
        finding: Finding {
            name: "kernels A to D",
            claim: "each of the four combinations is faster than the reference",
            published: Some("6.4% to 6.9% more scripts per hour"),
            criterion: "in Table 6, the throughput of each of A, B, C and D is above that of reference; the verdict \
                        depends on an assumption if, for some of the computed addresses of inodes only, each of them \
                        walks fewer links in a lookup of a page than reference",
            is_non_inferiority: false,
            previous: last(Verdict::Holds, BY_ADDRESSES),
            observe: |results| throughputs_of_pages(results, &FASTER),
        },
        published: || published_throughputs(&FASTER),
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "kernel D",
            claim: "D is the best compromise of the four combinations",
            published: Some(
                "scripts per hour: A 4582.9 s=12.55; B 4577.9 s=16.22; C 4596.2 s=22.30; D 4591.3 s=10.98",
            ),
            criterion: "in Table 6, the throughput of D is above that of reference, and above 0.99 times those of A, \
                        B and C, and its deviation, relative to its mean, is smaller than theirs; the verdict depends \
                        on an assumption if, for some of the computed addresses of inodes only, the links that reference, \
                        A, B and C walk in a lookup of a page, divided by those of D, are within the same bounds",
            is_non_inferiority: false,
            previous: last(
                Verdict::DependsOnAssumption,
                "In the first version, the verdict was \"holds\": its rule held if all kernels were equal, and allowed \
                 D to walk up to 5% more links than another kernel; it did not judge the deviation, for which the \
                 document chose D. The page cache held 10,030 pages, and D walked 4.6% more links than the best kernel. \
                 In the version of 28 November 2026, it was \"does not hold\". In the last version, it depended on an \
                 assumption if D walked at most 1.01 times as many links as A and C for some of the computed addresses \
                 of inodes only. Now the links of B and of reference are also compared, with the bounds of the \
                 throughputs, and the criterion says so. Otherwise, the rule did not change",
            ),
            observe: compromise,
        },
        published: || {
            let mut effects = published_throughputs(&COMPROMISE);
            effects.extend(published_deviations(&LESS_VARIED));
            effects
        },
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "kernel D, elapsed time",
            claim: "D has the shortest elapsed time of all kernels of Table 6",
            published: Some(
                "reference 1601 s, A 1524 s, B 1518 s, C 1518 s, D 1515 s, in all ten runs",
            ),
            criterion: "in Table 6, where all kernels execute the same scripts, the throughput of D is above those of \
                        reference, A, B and C, judged by the geometric mean of the throughput ratios of all rounds; the \
                        verdict depends on an assumption if, for some of the computed addresses of inodes only, D walks \
                        fewer links in a lookup of a page than each of them",
            is_non_inferiority: false,
            previous: None,
            observe: |results| throughputs_of_pages(results, &SHORTEST),
        },
        published: no_figures,
        is_counted_alone: false,
    },
    Rule {
        finding: Finding {
            name: "kernel D, variance",
            claim: "tuned tables reduce the variance between runs",
            published: Some("s=15.73 with reference, s=10.98 with D"),
            criterion: "in Table 6, the deviation of the throughput, relative to its mean, is smaller with D than with \
                        reference",
            is_non_inferiority: false,
            previous: last(Verdict::WithinNoise, SAME_RULE),
            observe: |results| Some(deviations(results, &TUNED)?.into()),
        },
        published: || published_deviations(&TUNED),
        is_counted_alone: false,
    },
];

const FASTER: [Comparison; 4] = [
    Comparison::new(6, "A", "reference", Bound::Above(1.0)),
    Comparison::new(6, "B", "reference", Bound::Above(1.0)),
    Comparison::new(6, "C", "reference", Bound::Above(1.0)),
    Comparison::new(6, "D", "reference", Bound::Above(1.0)),
];

const COMPROMISE: [Comparison; 4] = [
    Comparison::new(6, "D", "reference", Bound::Above(1.0)),
    Comparison::new(6, "D", "A", Bound::Above(0.99)),
    Comparison::new(6, "D", "B", Bound::Above(0.99)),
    Comparison::new(6, "D", "C", Bound::Above(0.99)),
];

const SHORTEST: [Comparison; 4] = [
    Comparison::new(6, "D", "reference", Bound::Above(1.0)),
    Comparison::new(6, "D", "A", Bound::Above(1.0)),
    Comparison::new(6, "D", "B", Bound::Above(1.0)),
    Comparison::new(6, "D", "C", Bound::Above(1.0)),
];

const LESS_VARIED: [Comparison; 3] = [
    Comparison::new(6, "D", "A", Bound::Below(1.0)),
    Comparison::new(6, "D", "B", Bound::Below(1.0)),
    Comparison::new(6, "D", "C", Bound::Below(1.0)),
];

const TUNED: [Comparison; 1] = [Comparison::new(6, "D", "reference", Bound::Below(1.0))];

fn compromise(results: &Lever2000) -> Option<Observed> {
    let mut effects = throughputs(results, &COMPROMISE)?.effects;
    effects.extend(deviations(results, &LESS_VARIED)?);
    let links = ["A", "B", "C", "D"].map(|kernel| {
        let load = results.last_load(6, kernel)?;
        Some(format!("{kernel} {:.0}", load.links_per_script()))
    });
    let links: Vec<String> = links.into_iter().collect::<Option<_>>()?;
    let figures = format!(
        "{}; links per script: {}",
        by_processor_time(results, &COMPROMISE)?,
        links.join(", ")
    );
    let observed = Observed::from(effects).with_figures(&figures);
    Some(observed.depending_on_assumption(addresses::decide(results, &COMPROMISE)))
}
