//! Findings about the recorded keys of processes, users and memory areas.
//!
//! The document leaves these tables to future work and claims nothing about them. The claims are those that it makes
//! about its own four tables, and the conjecture that the search structure of Linux 2.4 suits memory areas better than
//! that of Linux 2.2.

use super::rule::{Rule, UNCHANGED, last, no_figures};
use crate::reproduce::finding::{Bound, Effect, Finding, Observed, Verdict};
use crate::reproduce::lever2000::recorded::{
    AreaSearch, BITS_OF_4000_SLOTS, RecordedKeys, RecordedRow,
};
use crate::reproduce::lever2000::results::Lever2000;
use crate::statistics::Interval;
use crate::trace::procfs::KeyTable;
use larder_cache::hash::Function;

/// What changed for the process table, whose verdict was the same in all versions.
const OF_PROCESSES: &str = "In the version of 28 November 2026, the rule took the links of few keys for exact; then each \
                            number of links got the range of random distributions of as many keys. Since the last version, \
                            neither the rule nor the measurement changed";

/// What changed for the user table.
const OF_USERS: &str = "In the version of 28 November 2026, the verdict was \"holds\": the rule took the links of few keys \
                        for exact; then each number of links got the range of random distributions of as many keys. Since \
                        the last version, neither the rule nor the measurement changed";

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
            previous: last(Verdict::Holds, OF_PROCESSES),
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
            previous: last(Verdict::WithinNoise, OF_USERS),
            observe: |results| gains_from_size(keys(results, KeyTable::Users)?, [5, 7]),
        },
        published: no_figures,
        is_counted_alone: true,
    },
    Rule {
        finding: Finding {
            name: "memory areas",
            claim: "a red-black tree, as in Linux 2.4, suits memory areas better than the list and, from 32 areas on, \
                    the AVL tree of Linux 2.2",
            published: QUESTION,
            criterion: "with the recorded keys, a search by any address compares more than twice as many areas in the \
                        list of processes that never had 32 areas and the AVL tree of the others as in a red-black tree, \
                        also if the depth of the AVL tree is that of the best possible tree, or the greatest height",
            is_non_inferiority: false,
            previous: last(
                Verdict::Holds,
                "The claim was \"a search tree suits memory areas better than a list\". Its rule compared a list for any \
                 number of areas with the red-black tree, and called it the list of Linux 2.2, which uses an AVL tree from \
                 32 areas on. The bound did not change. The rule was changed when the figures of the list were known",
            ),
            observe: areas,
        },
        published: no_figures,
        is_counted_alone: true,
    },
];

pub(super) fn keys(results: &Lever2000, table: KeyTable) -> Option<&RecordedKeys> {
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
    let saved = few.value - many.value;
    let effects = vec![
        Effect::ratio(
            format!("links per lookup, {small} bits / {large} bits"),
            few.per(&many),
            Bound::Above(1.25),
        ),
        Effect::share(
            format!("links saved by Larder's function, as a share of those saved by {large} bits"),
            Interval::new(
                (many.value - other.value) / saved,
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
        few.value, many.value, other.value, keys.peak, keys.lookups
    );
    Some(Observed::from(effects).with_figures(&figures))
}

/// The mean links of a lookup.
pub(super) struct Links {
    value: f64,
    /// The lower end of the range of `value`.
    least: f64,
    /// The upper end of this range.
    most: f64,
}

impl Links {
    pub(super) fn new(value: f64, [least, most]: [f64; 2]) -> Self {
        Self { value, least, most }
    }

    /// Returns the links of recorded keys. Their range is that of the links in 95% of random distributions of the same
    /// number of keys, scaled from their mean to the links of the recorded keys.
    pub(super) fn of(row: &RecordedRow) -> Self {
        let range = row
            .random_links_range
            .map(|end| row.links * end / row.random_links);
        Self::new(row.links, range)
    }

    /// Returns these links divided by those of `other`, with the range that both ranges permit.
    pub(super) fn per(&self, other: &Self) -> Interval {
        Interval::new(
            self.value / other.value,
            [self.least / other.most, self.most / other.least],
        )
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
        linux_2_2: [least, most],
        balanced,
        red_black,
        most_areas,
        ..
    } = keys(results, KeyTable::Areas)?.search?;
    let effect = Effect::ratio(
        "areas compared, Linux 2.2 / red-black tree",
        Interval::new(least / red_black, [least / red_black, most / red_black]),
        Bound::Above(2.0),
    );
    let figures = format!(
        "{least:.1} to {most:.1} areas per search in Linux 2.2, {red_black:.1} in a red-black tree, {balanced:.1} in the \
         best possible binary tree, {list:.1} in a list for any number of areas; at most {most_areas} areas of a process"
    );
    Some(Observed::from(vec![effect]).with_figures(&figures))
}
