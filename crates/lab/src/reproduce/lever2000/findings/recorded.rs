//! Findings about the recorded keys of processes, users and memory areas.
//!
//! The document leaves these tables to future work and claims nothing about them. The claims are those that it makes
//! about its own four tables, and the conjecture that another search structure suits memory areas.

use super::rule::{Rule, UNCHANGED, last, no_figures};
use crate::reproduce::finding::{Bound, Effect, Finding, Observed, Verdict};
use crate::reproduce::lever2000::recorded::{
    AreaSearch, BITS_OF_4000_SLOTS, RecordedKeys, RecordedRow,
};
use crate::reproduce::lever2000::results::Lever2000;
use crate::statistics::Interval;
use crate::trace::procfs::KeyTable;
use larder_cache::hash::Function;

/// What changed since the last version for a finding about functions and sizes.
const BY_CHANCE: &str = "The measurement did not change. The rule took the links of few keys for exact; now each number of \
                         links has the range of random distributions of as many keys";

const QUESTION: Option<&str> = Some("an open question in section 6");

pub(super) static RULES: [Rule; 4] = [
    Rule {
        finding: Finding {
            name: "process table",
            claim: "the table of processes gains from a larger table, not from another function",
            published: QUESTION,
            criterion: "with the recorded keys, a lookup walks more than 1.25 times as many links in the 128 buckets \
                        of Linux 2.2 as in 1024, and Larder's function saves less than a fifth of what these \
                        buckets save, also if each number of links differs as in 95% of random distributions",
            is_non_inferiority: false,
            previous: last(Verdict::Holds, BY_CHANCE),
            observe: |results| gains_from_size(keys(results, KeyTable::Processes)?, [7, 10]),
        },
        published: no_figures,
        is_counted_alone: true,
    },
    Rule {
        finding: Finding {
            name: "process table, 4000 slots",
            claim: "the mask of a kernel with 4000 process slots wastes buckets of the table of processes",
            published: QUESTION,
            criterion: "with the recorded keys, a lookup walks more than 1.1 times as many links with the mask 999 as \
                        with 1024 buckets",
            is_non_inferiority: false,
            previous: last(Verdict::Holds, UNCHANGED),
            observe: slots,
        },
        published: no_figures,
        is_counted_alone: true,
    },
    Rule {
        finding: Finding {
            name: "user table",
            claim: "the table of users gains from a larger table, not from another function",
            published: QUESTION,
            criterion: "with the recorded keys, a lookup walks more than 1.25 times as many links in the 32 buckets of \
                        Linux 2.2 as in 128, and Larder's function saves less than a fifth of what these buckets save, \
                        also if each number of links differs as in 95% of random distributions",
            is_non_inferiority: false,
            previous: last(Verdict::Holds, BY_CHANCE),
            observe: |results| gains_from_size(keys(results, KeyTable::Users)?, [5, 7]),
        },
        published: no_figures,
        is_counted_alone: true,
    },
    Rule {
        finding: Finding {
            name: "memory areas",
            claim: "a search tree suits memory areas better than a list",
            published: QUESTION,
            criterion: "with the recorded keys, a search by any address compares more than twice as many areas in the \
                        list of Linux 2.2 as in a red-black tree",
            is_non_inferiority: false,
            previous: last(Verdict::Holds, UNCHANGED),
            observe: areas,
        },
        published: no_figures,
        is_counted_alone: true,
    },
];

fn keys(results: &Lever2000, table: KeyTable) -> Option<&RecordedKeys> {
    let mut recorded = results.recorded_keys.iter();
    recorded.find(|keys| keys.table == table.as_str())
}

/// Compares the links in a small and in a large table, and those of another function in the large table. The sizes
/// are in bits.
fn gains_from_size(keys: &RecordedKeys, [small, large]: [u32; 2]) -> Option<Observed> {
    let links = |function, bits| Some(Links::of(keys.row(function, bits)?));
    let [few, many, other] = [
        links(Function::PidReference, small)?,
        links(Function::PidReference, large)?,
        links(Function::Golden, large)?,
    ];
    let saved = few.measured - many.measured;
    let effects = vec![
        Effect::ratio(
            format!("links per lookup, {small} bits / {large} bits"),
            Interval::new(
                few.measured / many.measured,
                [few.least / many.most, few.most / many.least],
            ),
            Bound::Above(1.25),
        ),
        Effect::share(
            format!("links saved by Larder's function, as a share of those saved by {large} bits"),
            Interval::new(
                (many.measured - other.measured) / saved,
                [
                    (many.least - other.most) / saved,
                    (many.most - other.least) / saved,
                ],
            ),
            Bound::Below(0.2),
        ),
    ];
    let figures = format!(
        "{:.3} links per lookup with {small} bits, {:.3} with {large} bits, {:.3} with Larder's function; at most {} keys \
         at once, {} lookups",
        few.measured, many.measured, other.measured, keys.peak, keys.lookups
    );
    Some(Observed::from(effects).with_figures(&figures))
}

/// The links of a lookup.
struct Links {
    measured: f64,
    /// The lower end of the range of `measured`: the range of the links in 95% of random distributions of the same
    /// number of keys, scaled from their mean to `measured`.
    least: f64,
    /// The upper end of this range.
    most: f64,
}

impl Links {
    fn of(row: &RecordedRow) -> Self {
        let [least, most] = row
            .random_links_range
            .map(|end| row.links * end / row.random_links);
        Self {
            measured: row.links,
            least,
            most,
        }
    }
}

fn slots(results: &Lever2000) -> Option<Observed> {
    let keys = keys(results, KeyTable::Processes)?;
    let [slots, reference] = [Function::Pid4000Slots, Function::PidReference]
        .map(|function| keys.row(function, BITS_OF_4000_SLOTS));
    let (slots, reference) = (slots?, reference?);
    let effect = Effect::ratio(
        "links per lookup, mask 999 / 1024 buckets",
        Interval::exact(slots.links / reference.links),
        Bound::Above(1.1),
    );
    let figures = format!(
        "longest chain {} with the mask, {} with 1024 buckets",
        slots.longest, reference.longest
    );
    Some(Observed::from(vec![effect]).with_figures(&figures))
}

fn areas(results: &Lever2000) -> Option<Observed> {
    let AreaSearch {
        list,
        balanced,
        red_black,
        most_areas,
        ..
    } = keys(results, KeyTable::Areas)?.search?;
    let effect = Effect::ratio(
        "areas compared, list / red-black tree",
        Interval::exact(list / red_black),
        Bound::Above(2.0),
    );
    let figures = format!(
        "{list:.1} areas per search in the list, {red_black:.1} in a red-black tree, {balanced:.1} in the best \
         possible binary tree; at most {most_areas} areas of a process"
    );
    Some(Observed::from(vec![effect]).with_figures(&figures))
}
