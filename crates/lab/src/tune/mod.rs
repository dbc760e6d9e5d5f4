//! Selects the tables that suit a trace on its first half, and judges them on the second.
//!
//! # Model
//! Every function and some sizes are replayed with the first half of the trace. Sizes below the current one
//! are excluded, since a trace need not have filled the memory as later work will. Among the tables that the
//! fastest one does not beat by more than noise, the current table of a mount is selected if it is one of
//! them. Otherwise the smallest is selected, with Larder's own function if that is available. Therefore noise
//! alone changes nothing, and the same trace gives the same advice, unless the advantage of a table is close
//! to the noise. The second half, which did not influence the selection, is then replayed with the selected
//! table and with the current one. The gain there is an estimate of the gain to expect. Links are those of
//! the second half's lookups alone. Times are of the last lookups before the number of objects was largest in
//! the second half.
//!
//! The second half consists of parts. Random samples of these, drawn with replacement, show how much the gain
//! depends on the particular lookups (bootstrap).
//!
//! The current table has the size that the caches choose for the given memory. A mount hashes names with a
//! secret key, from the names themselves, which a trace does not contain. A mixer represents that function,
//! because it is equally close to chance, and one table represents the tables of short and of long names.
//!
//! A table is changed only if it is faster beyond noise on the second half as well.

mod bootstrap;
mod candidates;
mod report;
mod shrinking;
mod summary;

use bootstrap::Interval;
use shrinking::ShrinkingAdvice;

use crate::hash::{
    Capacity, Combination, Error, LookupTime, Outcome, Prefix, SEGMENTS, Source, Survey, Timing,
    Wanted, capacity_of, replay, segment_end, survey, survey_from,
};
use crate::run_report::{as_f64, quotient, ratio};
use crate::trace::Losses;
use bootstrap::bootstrap;
use candidates::{candidates, choose, current_table, division};
use larder_cache::table::Counts;
use larder_cache::tables::Finder;
use larder_cache::tape::CacheKind;
use serde::Serialize;
use std::fmt::Write as _;

/// The share of all pairs of runs in which a table must be faster.
const MIN_CERTAINTY: f64 = 0.95;

/// The minimum number of lookups in the second half for a judgement.
const MIN_LOOKUPS: u64 = 10_000;

/// The conditions for which tables are selected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Memory of the mount's caches, in bytes.
    pub memory_bytes: u64,
    /// Cost of a missed lookup of a name, in nanoseconds, which a trace does not contain.
    pub miss_ns: f64,
    /// Seed of the random samples.
    pub seed: u64,
}

impl Conditions {
    /// The default cost of a miss, in nanoseconds: a read from a flash disk. It is an assumption, not a
    /// measurement.
    pub const MISS_NS: u32 = 100_000;

    /// Returns the conditions of a mount whose caches have `memory_bytes`, with defaults for the rest.
    #[must_use]
    pub fn new(memory_bytes: u64) -> Self {
        Self {
            memory_bytes,
            miss_ns: Self::MISS_NS.into(),
            seed: 1,
        }
    }
}

/// A recommendation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Origin of the keys.
    pub source: String,
    /// Events that are missing from the source.
    pub losses: Losses,
    /// Memory of the caches, in bytes.
    pub memory_bytes: u64,
    /// The recommended value of `-o`: `tables=...`.
    pub mount_option: String,
    /// The recommendation for each cache.
    pub caches: Vec<CacheAdvice>,
    /// The recommendation for shrinking dentries, if the trace has any.
    pub shrinking: Option<ShrinkingAdvice>,
}

/// The recommendation for a cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheAdvice {
    /// The cache.
    pub cache: CacheKind,
    /// The selected table.
    pub best: Judged,
    /// The table that a mount uses now.
    #[serde(rename = "today")]
    pub current: Judged,
    /// Number of lookups in the second half.
    pub lookups: u64,
    /// Relative decrease in links of a lookup in the second half, compared with the current table.
    pub gain_links: Interval,
    /// Relative decrease in time of a lookup, compared with the current table; `None` if there are too few
    /// lookups.
    pub gain_time: Option<f64>,
    /// The share of all pairs of timed runs in which the selected table was faster.
    pub certainty: f64,
    /// Whether to replace the current table.
    pub is_worth_it: bool,
}

/// Results of a table on the second half.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The function that distributes the keys.
    pub function: Finder,
    /// The table has 2^`bits` buckets.
    pub bits: u32,
    /// Mean links of a lookup.
    pub links: f64,
    /// Mean links of a lookup if chance distributed the keys.
    pub chance_links: f64,
    /// Nanoseconds of a lookup at the largest number of objects, in the median run; `None` if there are too
    /// few lookups.
    pub lookup_ns: Option<f64>,
    /// The median absolute deviation of the runs from this.
    pub mad_ns: Option<f64>,
}

impl Judged {
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

/// Selects tables for the caches in `source` under `conditions`. Calls `tick` as [`replay`] does.
///
/// # Errors
/// As [`replay`]; also if the trace has no lookups.
pub fn tune(
    source: &dyn Source,
    conditions: Conditions,
    tick: &mut dyn FnMut(u64),
) -> Result<Advice, Error> {
    let Conditions {
        memory_bytes,
        miss_ns,
        seed,
    } = conditions;
    let events = segment_end(SEGMENTS / 2 - 1, source.events()).unwrap_or(0);
    let half = Prefix::new(source, events);
    let wanted = wanted(source, memory_bytes);
    let fitted = survey(&half, wanted)?;
    if fitted.is_empty() {
        return Err(Error::Empty);
    }
    let tried = candidates(&fitted, memory_bytes);
    let outcomes = replay(&half, wanted, &fitted, &tried, tick)?;
    let all = survey_from(source, wanted, events)?;
    let division = division(memory_bytes);
    let mut caches = Vec::new();
    for (cache, of_half) in &fitted {
        let Some(of_all) = all.get(cache) else {
            continue;
        };
        let current = current_table(*cache, &division);
        let later = of_all.since(of_half);
        // A table without lookups in the second half cannot be judged.
        let chosen = match later.lookups {
            0 => Some(current),
            _ => choose(&outcomes, of_half, current),
        };
        let Some(best) = chosen else {
            continue;
        };
        let pair = [current, best];
        let tables = if best == current {
            &pair[..1]
        } else {
            &pair[..]
        };
        let judged = replay(source, wanted, &all, tables, tick)?;
        if let [current, ..] = &judged[..]
            && let Some(best) = judged.last()
        {
            caches.push(judge([best, current], &later, seed));
        }
    }
    let names = current_table(CacheKind::Dentry, &division);
    let shrinking = shrinking::advise(source, names, &all, miss_ns, tick)?;
    Ok(Advice {
        source: source.title(),
        losses: source.losses(),
        memory_bytes,
        mount_option: mount_option(&caches, shrinking.as_ref()),
        caches,
        shrinking,
    })
}

/// Returns all caches, with the recorded objects, or with the number of objects that fit in an equal share of
/// the memory.
fn wanted(source: &dyn Source, memory_bytes: u64) -> Wanted {
    let each = memory_bytes / CacheKind::ALL.len() as u64;
    let capacity = |cache| {
        if source.has_changes() {
            Capacity::AsRecorded
        } else {
            Capacity::Objects(capacity_of(cache, each))
        }
    };
    let caches = CacheKind::ALL.into_iter();
    caches.fold(Wanted::default(), |wanted, cache| {
        wanted.with(cache, capacity(cache))
    })
}

/// Compares the selected table with the current one, on the second half, which `survey` describes.
fn judge([best, current]: [&Outcome; 2], survey: &Survey, seed: u64) -> CacheAdvice {
    let parts = |outcome: &Outcome| -> Vec<Counts> {
        let segments = (0..).zip(&outcome.segments);
        let second = segments.filter(|(number, _)| *number >= SEGMENTS / 2);
        second.map(|(_, counts)| *counts).collect()
    };
    let (of_best, of_current) = (parts(best), parts(current));
    let links = |counts: &Counts| as_f64(counts.links());
    let pairs = of_best.iter().zip(&of_current);
    let pairs: Vec<_> = pairs
        .map(|(best, current)| (links(best), links(current)))
        .collect();
    let lookups = of_best.iter().map(Counts::lookups).sum();
    let mut gain_links = bootstrap(&pairs, seed);
    if lookups < MIN_LOOKUPS {
        (gain_links.low, gain_links.high) = (None, None);
    }
    let certainty = certainty(best, current);
    let cache = best.combination.cache;
    let best = Judged::new(best, &of_best, survey);
    let current = Judged::new(current, &of_current, survey);
    let times = best.time().zip(current.time());
    let is_faster = times.is_some_and(|(best, current)| best.is_significantly_less(current));
    let is_long_enough = gain_links.low.is_some();
    CacheAdvice {
        cache,
        best,
        current,
        lookups,
        gain_links,
        gain_time: times.map(|(best, current)| 1.0 - ratio(best.median_ns, current.median_ns)),
        certainty,
        is_worth_it: is_long_enough && is_faster && certainty >= MIN_CERTAINTY,
    }
}

/// Returns the share of all pairs of timed runs, one of each table, in which `best` was faster than `current`.
fn certainty(best: &Outcome, current: &Outcome) -> f64 {
    let (best, current) = (runs(best), runs(current));
    let pairs = best.len() * current.len();
    let faster = best.iter().map(|best| {
        let slower = current.iter().filter(|current| best < current);
        slower.count()
    });
    quotient(faster.sum::<usize>() as u64, pairs as u64)
}

/// Returns the seconds of the runs of a table's lookups.
fn runs(outcome: &Outcome) -> Vec<f64> {
    let runs = outcome.timing.iter().flat_map(|timing| &timing.runs);
    runs.map(std::time::Duration::as_secs_f64).collect()
}

/// Returns the value of `-o` for these tables, in the syntax of [`Tables`](larder_cache::tables::Tables).
#[must_use]
pub fn mount_option(caches: &[CacheAdvice], shrinking: Option<&ShrinkingAdvice>) -> String {
    let mut option = "tables=larder".to_owned();
    for advice in caches.iter().filter(|advice| advice.is_worth_it) {
        let Judged { function, bits, .. } = advice.best;
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
    use larder_cache::tables::Tables;

    fn advice(cache: CacheKind, function: Finder, is_worth_it: bool) -> CacheAdvice {
        let table = Judged {
            function,
            bits: 14,
            links: 1.0,
            chance_links: 1.0,
            lookup_ns: None,
            mad_ns: None,
        };
        CacheAdvice {
            cache,
            best: table,
            current: table,
            lookups: 1,
            gain_links: bootstrap(&[], 1),
            gain_time: None,
            certainty: 1.0,
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
            certainty: 1.0,
            break_even_ns: Some(1e6),
            assumed_miss_ns: 1e5,
            is_worth_it: true,
        };
        for cache in CacheKind::ALL {
            let all = Functions::all().of(cache).into_iter();
            for function in all.filter(|one| *one != Finder::RedBlackTrees) {
                let caches = [advice(cache, function, true)];
                let option = mount_option(&caches, Some(&shrinking));
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
        assert_eq!(mount_option(&none, None), "tables=larder");
    }
}
