//! Recommends, for each cache, the hash table (hash function and number of buckets) that suits a trace.
//!
//! # Model
//! The current table of a cache is the table that a mount with the given memory and tables would use. A link is an
//! entry that a lookup compares with the key.
//!
//! 1. Selection. The first half of the trace is replayed in a table of each function and of several sizes. No
//!    size is below the current one, because a later workload may fill the memory more than the trace did.
//!    The tables are timed, and those that are slower than the fastest table by more than the noise are
//!    excluded. If the current table remains, it is selected. Otherwise the smallest remaining table is
//!    selected; of several tables of this size, the one with Larder's own function, or else the one with the
//!    fewest links.
//! 2. Measurement. The whole trace is replayed in the selected table and in the current one. Links are
//!    counted for the lookups of the second half only, which did not influence the selection. At the time
//!    in the second half when the cache has the most objects, the replay pauses, and the latest lookups are
//!    repeated and timed. The gain is the relative decrease in links, or in time, from the current table to
//!    the selected one. The gain estimates the decrease for other traces of the same workload.
//! 3. Recommendation. A change is recommended only if three conditions are met. First, the second half has enough
//!    lookups, and enough segments with links. Second, the selected table is faster than the current one by more
//!    than the noise in the second half as well. Third, the selected table is faster in at least 95% of the pairs
//!    of timed runs. A pair consists of one run of each table.
//!
//! Therefore noise alone seldom causes a recommendation to change a table. The recommendation for a trace is
//! the same in every run, unless the advantage of a table is close to the noise.
//!
//! The second half consists of 16 segments. The decrease in links is also computed for random samples of
//! these segments, drawn with replacement (bootstrap). The range of the results shows how much the decrease
//! depends on the particular lookups of the trace.
//!
//! A mount hashes the characters of names with a secret seed. A trace contains neither the characters nor the
//! seed, so Larder's function for names cannot be replayed. The mixer `xxh3-avalanche` is replayed instead: it
//! distributes keys as evenly, at a similar cost. A mount has one table for short names and one for long
//! names; the replay has a single table, with the size of the table for short names.

mod bootstrap;
mod candidates;
mod pairs;
mod report;
mod shrinking;
mod summary;

use pairs::{MIN_FASTER_SHARE, faster_share};
use shrinking::ShrinkingAdvice;

use crate::hash::{
    Capacity, Combination, Error, LookupTime, Outcome, Prefix, SEGMENTS, Source, Survey, Timing,
    Wanted, capacity_of, replay, segment_end, survey, survey_from,
};
use crate::run_report::{as_f64, quotient, ratio};
use crate::statistics::Interval;
use crate::trace::Losses;
use bootstrap::bootstrap;
use candidates::{candidates, current_table, division, select};
use larder_cache::table::Counts;
use larder_cache::tables::{Finder, Shrinking, Tables};
use larder_cache::tape::CacheKind;
use serde::Serialize;
use std::fmt::Write as _;

/// Explanation of the columns of the table.
pub(crate) const ABOUT_COLUMNS: &str = "\
Tables are selected in the first half of the trace, and measured in the second. The time of a lookup is the \
median of seven runs; the number after ± is the median absolute deviation of these runs. Links are the mean \
number of entries that a lookup compares with its key. Links by chance are the mean that is expected if the keys \
are distributed at random.";

/// The minimum number of lookups in the second half for a recommendation.
const MIN_SECOND_HALF_LOOKUPS: u64 = 10_000;

/// The properties of the mount for which tables are recommended, and the seed of the bootstrap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Memory of all caches of the mount, in bytes.
    pub memory_bytes: u64,
    /// The current tables of the mount, with which others are compared.
    pub tables: Tables,
    /// Cost of a missed lookup of a name, in nanoseconds. A trace does not contain this cost.
    pub miss_ns: f64,
    /// Seed of the random samples.
    pub seed: u64,
}

impl Conditions {
    /// The default of `miss_ns`: the assumed time of a read from a flash disk.
    pub const DEFAULT_MISS_NS: u32 = 100_000;

    /// Returns the conditions of a mount whose caches have `memory_bytes`, with the default cost of a miss
    /// and the default seed.
    #[must_use]
    pub fn new(memory_bytes: u64) -> Self {
        Self {
            memory_bytes,
            tables: Tables::LARDER,
            miss_ns: Self::DEFAULT_MISS_NS.into(),
            seed: 1,
        }
    }
}

/// The recommendations for the caches of a mount.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Description of the trace, or of the generated keys.
    pub source: String,
    /// Events that are missing from the source.
    pub losses: Losses,
    /// Memory of all caches, in bytes.
    pub memory_bytes: u64,
    /// The recommended value of `-o`: `tables=...`.
    pub mount_option: String,
    /// The recommendation for each cache.
    pub caches: Vec<CacheAdvice>,
    /// The recommendation for eager shrinking of the dentry cache; `None` if the trace has no dentries, or if shrinking is
    /// eager already.
    pub shrinking: Option<ShrinkingAdvice>,
}

/// The recommendation for a cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheAdvice {
    /// The cache.
    pub cache: CacheKind,
    /// The result of the table that was selected on the first half.
    #[serde(rename = "best")]
    pub selected: SecondHalfResult,
    /// The result of the current table.
    #[serde(rename = "today")]
    pub current: SecondHalfResult,
    /// Number of lookups in the second half.
    pub lookups: u64,
    /// Relative decrease in the links that a lookup walks, compared with the current table.
    pub gain_links: Interval,
    /// Relative decrease in time of a lookup, compared with the current table; `None` if there are too few
    /// lookups.
    pub gain_time: Option<f64>,
    /// The share of all pairs of timed runs, one run of each table, in which the selected table was faster.
    #[serde(rename = "certainty")]
    pub faster_share: f64,
    /// Whether the selected table should replace the current one.
    pub is_worth_it: bool,
}

/// Results of a table in the second half of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SecondHalfResult {
    /// The function that distributes the keys.
    pub function: Finder,
    /// The table has 2^`bits` buckets.
    pub bits: u32,
    /// Mean number of links that a lookup walks.
    pub links: f64,
    /// Expected mean number of links if the keys were distributed over the buckets at random.
    pub chance_links: f64,
    /// Time of a lookup in the median run, in nanoseconds; `None` if no lookup could be timed.
    pub lookup_ns: Option<f64>,
    /// The median absolute deviation of the runs from `lookup_ns`.
    pub mad_ns: Option<f64>,
}

impl SecondHalfResult {
    fn new(outcome: &Outcome, parts: &[Counts], survey: &Survey) -> Self {
        let Combination { function, bits, .. } = outcome.combination;
        let parts = parts.iter().copied();
        let sum = parts.fold(Counts::default(), |sum, part| sum + part);
        let time = outcome.timing.as_ref().map(Timing::lookup);
        Self {
            function,
            bits,
            links: quotient(sum.links(), sum.lookups()),
            chance_links: survey.chance(bits).lookup,
            lookup_ns: time.map(|time| time.median_ns),
            mad_ns: time.map(|time| time.mad_ns),
        }
    }

    fn time(&self) -> Option<LookupTime> {
        let (median_ns, mad_ns) = self.lookup_ns.zip(self.mad_ns)?;
        Some(LookupTime { median_ns, mad_ns })
    }
}

/// Recommends tables for the caches whose lookups are in `source`. Calls `tick` as [`replay`] does.
///
/// # Errors
/// Returns the errors of [`replay`], and [`Error::Empty`] if the first half of the trace has no lookups.
pub fn tune(
    source: &dyn Source,
    conditions: Conditions,
    tick: &mut dyn FnMut(u64),
) -> Result<Advice, Error> {
    let Conditions {
        memory_bytes,
        tables,
        miss_ns,
        seed,
    } = conditions;
    let events = segment_end(SEGMENTS / 2 - 1, source.events()).unwrap_or(0);
    let first_half = Prefix::new(source, events);
    let capacities = capacities(source, memory_bytes);
    let first_half_surveys = survey(&first_half, capacities)?;
    if first_half_surveys.is_empty() {
        return Err(Error::Empty);
    }
    let candidates = candidates(&first_half_surveys, memory_bytes, tables);
    let outcomes = replay(
        &first_half,
        capacities,
        &first_half_surveys,
        &candidates,
        tick,
    )?;
    let surveys = survey_from(source, capacities, events)?;
    let division = division(memory_bytes, tables);
    let mut caches = Vec::new();
    for (cache, first_half_survey) in &first_half_surveys {
        let Some(whole_survey) = surveys.get(cache) else {
            continue;
        };
        let current = current_table(*cache, &division, tables);
        let second_half_survey = whole_survey.since(first_half_survey);
        // Without lookups in the second half, the gain is unknown: the current table is kept.
        let selection = match second_half_survey.lookups {
            0 => Some(current),
            _ => select(&outcomes, first_half_survey, current),
        };
        let Some(selected) = selection else {
            continue;
        };
        let pair = [current, selected];
        let compared = if selected == current {
            &pair[..1]
        } else {
            &pair[..]
        };
        let outcomes_of_pair = replay(source, capacities, &surveys, compared, tick)?;
        if let [current, ..] = &outcomes_of_pair[..]
            && let Some(selected) = outcomes_of_pair.last()
        {
            caches.push(compare_on_second_half(
                [selected, current],
                &second_half_survey,
                seed,
            ));
        }
    }
    let shrinking = match tables.shrinking {
        Shrinking::Normal => {
            let dentry_table = current_table(CacheKind::Dentry, &division, tables);
            shrinking::advise(source, dentry_table, &surveys, miss_ns, tick)?
        }
        Shrinking::Eager => None,
    };
    Ok(Advice {
        source: source.title(),
        losses: source.losses(),
        memory_bytes,
        mount_option: mount_option(tables, &caches, shrinking.as_ref()),
        caches,
        shrinking,
    })
}

/// Returns, for each cache, the rule that decides which objects its tables contain during a replay. If the
/// source has insertions and removals, the tables follow them. Otherwise, each cache contains at most as
/// many objects as fit in an equal share of the memory.
fn capacities(source: &dyn Source, memory_bytes: u64) -> Wanted {
    let each = memory_bytes / CacheKind::ALL.len() as u64;
    let capacity = |cache| {
        if source.has_changes() {
            Capacity::AsRecorded
        } else {
            Capacity::Objects(capacity_of(cache, each))
        }
    };
    let caches = CacheKind::ALL.into_iter();
    caches.fold(Wanted::default(), |capacities, cache| {
        capacities.with(cache, capacity(cache))
    })
}

/// Compares the selected table with the current one. `survey` describes the second half.
fn compare_on_second_half(
    [selected, current]: [&Outcome; 2],
    survey: &Survey,
    seed: u64,
) -> CacheAdvice {
    let parts = |outcome: &Outcome| -> Vec<Counts> {
        let segments = (0..).zip(&outcome.segments);
        let second = segments.filter(|(number, _)| *number >= SEGMENTS / 2);
        second.map(|(_, counts)| *counts).collect()
    };
    let (selected_counts, current_counts) = (parts(selected), parts(current));
    let links = |counts: &Counts| as_f64(counts.links());
    let pairs = selected_counts.iter().zip(&current_counts);
    let pairs: Vec<_> = pairs
        .map(|(selected, current)| (links(selected), links(current)))
        .collect();
    let lookups = selected_counts.iter().map(Counts::lookups).sum();
    let mut gain_links = bootstrap(&pairs, seed);
    if lookups < MIN_SECOND_HALF_LOOKUPS {
        (gain_links.low, gain_links.high) = (None, None);
    }
    let faster_share = faster_share(selected, current);
    let cache = selected.combination.cache;
    let selected = SecondHalfResult::new(selected, &selected_counts, survey);
    let current = SecondHalfResult::new(current, &current_counts, survey);
    let times = selected.time().zip(current.time());
    let is_faster =
        times.is_some_and(|(selected, current)| selected.is_significantly_less(current));
    let is_long_enough = gain_links.low.is_some();
    CacheAdvice {
        cache,
        selected,
        current,
        lookups,
        gain_links,
        gain_time: times
            .map(|(selected, current)| 1.0 - ratio(selected.median_ns, current.median_ns)),
        faster_share,
        is_worth_it: is_long_enough && is_faster && faster_share >= MIN_FASTER_SHARE,
    }
}

/// Returns the value of `-o` that makes a mount use the recommended tables: `tables=`, the current tables, and the
/// settings that are worth a change. Of several settings of a table, the last one applies.
#[must_use]
pub fn mount_option(
    current: Tables,
    caches: &[CacheAdvice],
    shrinking: Option<&ShrinkingAdvice>,
) -> String {
    let mut option = format!("tables={current}");
    for advice in caches.iter().filter(|advice| advice.is_worth_it) {
        let SecondHalfResult { function, bits, .. } = advice.selected;
        let cache = advice.cache.as_str();
        // Writing to a string does not fail.
        let _ = write!(option, "+{cache}={function}/{bits}");
    }
    if shrinking.is_some_and(|advice| advice.is_worth_it) {
        option.push_str("+shrink=eager");
    }
    option
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Functions;
    use larder_cache::hash::Function;

    fn advice(cache: CacheKind, function: Finder, is_worth_it: bool) -> CacheAdvice {
        let table = SecondHalfResult {
            function,
            bits: 14,
            links: 1.0,
            chance_links: 1.0,
            lookup_ns: None,
            mad_ns: None,
        };
        CacheAdvice {
            cache,
            selected: table,
            current: table,
            lookups: 1,
            gain_links: bootstrap(&[], 1),
            gain_time: None,
            faster_share: 1.0,
            is_worth_it,
        }
    }

    #[test]
    fn mount_option_is_parsed_by_a_mount_and_contains_only_worthwhile_changes() {
        let shrinking = ShrinkingAdvice {
            lookups: 1,
            misses_normal: 0,
            misses_eager: 0,
            saved_ns: Some(1.0),
            faster_share: 1.0,
            break_even_ns: Some(1e6),
            assumed_miss_ns: 1e5,
            is_worth_it: true,
        };
        for cache in CacheKind::ALL {
            let all = Functions::all().of(cache).into_iter();
            for function in all.filter(|one| *one != Finder::RedBlackTrees) {
                let caches = [advice(cache, function, true)];
                let option = mount_option(Tables::LARDER, &caches, Some(&shrinking));
                let tables = option.strip_prefix("tables=").unwrap();
                let tables: Tables = tables.parse().unwrap();
                let text = tables.to_string();
                assert!(
                    text.contains(&function.to_string()) && text.contains("/14"),
                    "{text}"
                );
                assert!(text.contains("shrink=eager"), "{text}");
            }
        }
        let none = [advice(CacheKind::Inode, Function::InodeMult.into(), false)];
        assert_eq!(mount_option(Tables::LARDER, &none, None), "tables=larder");
    }

    #[test]
    fn mount_option_keeps_the_current_tables_that_are_not_changed() {
        let current = "A+inode=mult/12+iget=all".parse().unwrap();
        let caches = [
            advice(CacheKind::Page, Function::PageOffset.into(), true),
            advice(CacheKind::Inode, Finder::Larder, false),
        ];
        let option = mount_option(current, &caches, None);
        let tables: Tables = option.strip_prefix("tables=").unwrap().parse().unwrap();
        let expected: Tables = "A+page=offset/14+inode=mult/12+iget=all".parse().unwrap();
        assert_eq!(tables, expected);
    }
}
