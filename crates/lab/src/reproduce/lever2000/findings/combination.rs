//! Findings about kernels A to D, which change all four caches.

use super::published::{deviations as published_deviations, throughputs as published_throughputs};
use super::rule::{LONGER_RUNS, Rule, SHORT_TURNS, last};
use super::throughput::{Comparison, by_processor_time, deviations, throughputs};
use crate::reproduce::finding::{Bound, Finding, Observed, Verdict};
use crate::reproduce::lever2000::results::Lever2000;

pub(super) static RULES: [Rule; 3] = [
    Rule {
        finding: Finding {
            name: "kernels A to D",
            claim: "each of the four combinations is faster than the reference",
            published: Some("6.4% to 6.9% more scripts per hour"),
            criterion: "in Table 6, the throughput of each of A, B, C and D is above that of reference",
            is_non_inferiority: false,
            previous: last(Verdict::Holds, SHORT_TURNS),
            observe: |results| throughputs(results, &FASTER),
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
                        on an assumption if a lookup of a page walks at most 1.01 times as many links with D as with \
                        each of A, B and C for some of the computed addresses of inodes, and more for others",
            is_non_inferiority: false,
            previous: last(
                Verdict::DoesNotHold,
                "In the first version, the verdict was \"holds\": its rule held if all kernels were equal, and allowed \
                 D to walk up to 5% more links than another kernel; it did not judge the deviation, for which the \
                 document chose D. The page cache held 10,030 pages, and D walked 4.6% more links than the best kernel. \
                 Since the last version, kernels take shorter turns, and the pairs are rounds with new volumes instead of \
                 runs, with the same verdict. Then the chains of pages were computed for other addresses of inodes, and \
                 a verdict that depends on them is undecided",
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
            name: "kernel D, variance",
            claim: "tuned tables reduce the variance between runs",
            published: Some("s=15.73 with reference, s=10.98 with D"),
            criterion: "in Table 6, the deviation of the throughput, relative to its mean, is smaller with D than with \
                        reference",
            is_non_inferiority: false,
            previous: last(Verdict::WithinNoise, LONGER_RUNS),
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
    Some(observed.depending_on_assumption(depends_on_addresses(results)))
}

/// Returns whether the addresses of inodes decide how D compares with A, B and C, by the links of a lookup of a page:
/// with some addresses D is at least about as good, and with others it is not. Kernel B has the table of pages of A.
fn depends_on_addresses(results: &Lever2000) -> bool {
    let is_as_good = results.layouts.iter().filter_map(|layout| {
        let [a, c, d] = ["A", "C", "D"].map(|kernel| layout.links(6, kernel));
        Some(d? <= 1.01 * a?.min(c?))
    });
    let is_as_good: Vec<bool> = is_as_good.collect();
    is_as_good.contains(&true) && is_as_good.contains(&false)
}
