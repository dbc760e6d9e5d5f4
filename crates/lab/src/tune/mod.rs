//! The tables that suit a trace: chosen on its first half, judged on the rest.
//!
//! # Model
//! Every function and some sizes are replayed in the first half of the trace. Of the tables whose
//! lookups take no longer than the fastest one's and the noise, the smallest is chosen. The second half,
//! which had no say, is then replayed in the chosen table and in the one that a mount has now:
//! what is gained there is what can be hoped for.
//!
//! The second half consists of parts; drawn from again and again, with each drawn as often as it comes,
//! they tell how much the gain depends on what just happened to be asked (bootstrap).
//!
//! A table is changed only where it is surely and noticeably better.

mod bootstrap;
mod report;
mod shrinking;

pub use bootstrap::Interval;
pub use shrinking::ShrinkingAdvice;

use crate::hash::{
    Combination, Error, Functions, Outcome, Prefix, Room, Row, Source, Survey, Surveys, Timing,
    Wanted, cache_name, replay, room_of, survey,
};
use crate::run_report::{as_f64, ratio};
use bootstrap::bootstrap;
use larder_cache::hash::Function;
use larder_cache::table::Counts;
use larder_cache::tables::TableSize;
use larder_cache::tape::CacheKind;
use serde::Serialize;

/// Sizes that are tried: from so many bits fewer than those of as many buckets as objects.
const FEWER_BITS: u32 = 3;

/// To so many bits more.
const MORE_BITS: u32 = 1;

/// All buckets of a cache may take this part of the memory.
const BUCKETS_OF_MEMORY: u64 = 128;

/// Times that differ by less than this part of them are the same.
const NOISE: f64 = 0.03;

/// And if it is faster in this part of all pairs of runs.
const SURE: f64 = 0.95;

/// What a bucket takes, in bytes.
const BUCKET_BYTES: u64 = 4;

/// A table is changed for a gain of this part of the time of a lookup at least.
const LEAST_GAIN: f64 = 0.02;

/// What is recommended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Where the keys are from.
    pub source: String,
    /// For caches of this memory.
    pub memory_bytes: u64,
    /// What to write after `-o`: `tables=...`.
    pub mount_option: String,
    /// Cache by cache.
    pub caches: Vec<CacheAdvice>,
    /// How to shrink dentries, if the trace has any.
    pub shrinking: Option<ShrinkingAdvice>,
}

/// What is recommended for a cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheAdvice {
    /// The cache.
    pub cache: CacheKind,
    /// The table that was chosen.
    pub best: Judged,
    /// The table that a mount has now.
    pub today: Judged,
    /// Links of a lookup, in the second half, if chance spread the keys in the chosen table's size.
    pub ideal_links: f64,
    /// How many links fewer a lookup of the second half walks than in today's table, as a share.
    pub gain_links: Interval,
    /// How much less time a lookup takes than in today's table, as a share.
    pub gain_time: f64,
    /// In how many of all pairs of timed runs the chosen table was faster, as a share.
    pub certainty: f64,
    /// Whether to change today's table.
    pub is_worth_it: bool,
}

/// A table, on the second half.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// By what the keys are spread.
    pub function: Function,
    /// Over 2^`bits` buckets.
    pub bits: u32,
    /// Links of a lookup.
    pub links: f64,
    /// Nanoseconds of a lookup when there are the most objects; `None` if too little was asked to tell.
    pub lookup_ns: Option<f64>,
}

/// Chooses tables for the caches in `source`, in a mount whose caches have `memory_bytes`. Chance is
/// drawn from `seed`. Calls `tick` as [`replay`] does.
///
/// # Errors
/// As [`replay`]; and if the trace has no lookups.
pub fn tune(
    source: &dyn Source,
    memory_bytes: u64,
    seed: u64,
    tick: &mut dyn FnMut(u64),
) -> Result<Advice, Error> {
    let half = Prefix::new(source, source.events() / 2);
    let wanted = wanted(source, memory_bytes);
    let fitted = survey(&half, wanted)?;
    if fitted.is_empty() {
        return Err(Error::Empty);
    }
    let tried = candidates(&fitted, memory_bytes);
    let outcomes = replay(&half, wanted, &fitted, &tried, tick)?;
    let all = survey(source, wanted)?;
    let mut caches = Vec::new();
    for (cache, of_half) in &fitted {
        let of_all = &all[cache];
        let Some(best) = choose(&outcomes, of_half, *cache) else {
            continue;
        };
        let pair = [best, today(*cache, of_half)];
        let judged = replay(source, wanted, &all, &pair, tick)?;
        caches.push(judge([&judged[0], &judged[1]], of_all, of_half, seed));
    }
    let shrinking = shrinking::advise(source, &all, tick)?;
    Ok(Advice {
        source: source.title(),
        memory_bytes,
        mount_option: mount_option(&caches, shrinking.as_ref()),
        caches,
        shrinking,
    })
}

/// All caches: with the objects that the trace tells of, or with those that have room in an equal part
/// of the memory.
fn wanted(source: &dyn Source, memory_bytes: u64) -> Wanted {
    let each = memory_bytes / CacheKind::ALL.len() as u64;
    let room = |cache| {
        if source.tells_changes() {
            Room::AsTold
        } else {
            Room::Objects(room_of(cache, each))
        }
    };
    let caches = CacheKind::ALL.into_iter();
    caches.fold(Wanted::default(), |wanted, cache| {
        wanted.and(cache, room(cache))
    })
}

/// The tables that are tried.
fn candidates(surveys: &Surveys, memory_bytes: u64) -> Vec<Combination> {
    let most = (memory_bytes / BUCKETS_OF_MEMORY / BUCKET_BYTES)
        .max(2)
        .ilog2();
    let most = most.min(TableSize::MOST_BITS);
    let of_cache = |(cache, survey): (&CacheKind, &Survey)| {
        let fitting = survey.fitting_bits();
        let least = fitting.saturating_sub(FEWER_BITS).clamp(1, most);
        let sizes = least..=(fitting + MORE_BITS).clamp(1, most);
        let cache = *cache;
        let functions = Functions::all().of(cache).into_iter();
        functions.flat_map(move |function| {
            sizes.clone().map(move |bits| Combination {
                cache,
                function,
                bits,
            })
        })
    };
    surveys.iter().flat_map(of_cache).collect()
}

/// What a mount has now: our function, and about as many buckets as objects.
fn today(cache: CacheKind, survey: &Survey) -> Combination {
    Combination {
        cache,
        function: Function::Golden,
        bits: survey.fitting_bits().clamp(1, TableSize::MOST_BITS),
    }
}

/// Of the tables that are as fast as the fastest one, the smallest with the fewest links.
fn choose(outcomes: &[Outcome], survey: &Survey, cache: CacheKind) -> Option<Combination> {
    let of_cache = outcomes.iter().filter(|one| one.combination.cache == cache);
    let rows: Vec<(Combination, Row)> = of_cache
        .map(|one| (one.combination, Row::new(one, survey)))
        .collect();
    let time = |row: &Row| row.lookup_ns.unwrap_or(row.links.lookup);
    let fastest = rows
        .iter()
        .map(|(_, row)| time(row))
        .min_by(f64::total_cmp)?;
    let as_fast = rows
        .iter()
        .filter(|(_, row)| time(row) <= fastest * (1.0 + NOISE));
    let best = as_fast.min_by(|(_, a), (_, b)| {
        let links = a.links.lookup.total_cmp(&b.links.lookup);
        a.bits.cmp(&b.bits).then(links)
    });
    best.map(|(combination, _)| *combination)
}

/// What the second half says of the chosen table, beside today's.
fn judge([best, today]: [&Outcome; 2], all: &Survey, half: &Survey, seed: u64) -> CacheAdvice {
    let parts = |outcome: &Outcome| outcome.segments[outcome.segments.len() / 2..].to_vec();
    let (of_best, of_today) = (parts(best), parts(today));
    let links = |counts: &Counts| as_f64(counts.links());
    let pairs = of_best.iter().zip(&of_today);
    let pairs: Vec<_> = pairs
        .map(|(best, today)| (links(best), links(today)))
        .collect();
    let gain_links = bootstrap(&pairs, seed);
    let judged = |outcome: &Outcome, parts: &[Counts]| {
        let sum = parts
            .iter()
            .copied()
            .fold(Counts::default(), |sum, part| sum + part);
        Judged {
            function: outcome.combination.function,
            bits: outcome.combination.bits,
            links: ratio(links(&sum), as_f64(sum.lookups())),
            lookup_ns: outcome.timing.as_ref().map(Timing::lookup_ns),
        }
    };
    let (runs_of_best, runs_of_today) = (runs(best), runs(today));
    let fastest = |runs: &[f64]| runs.iter().copied().fold(f64::INFINITY, f64::min);
    let gain_time = 1.0 - ratio(fastest(&runs_of_best), fastest(&runs_of_today));
    // Every run of the one with every run of the other.
    let pairs = runs_of_best.iter().flat_map(|best| {
        let others = runs_of_today.iter();
        others.map(move |today| best < today)
    });
    let (faster, count) = pairs.fold((0_u64, 0_u64), |(faster, count), is_faster| {
        (faster + u64::from(is_faster), count + 1)
    });
    let certainty = ratio(as_f64(faster), as_f64(count));
    CacheAdvice {
        cache: best.combination.cache,
        best: judged(best, &of_best),
        today: judged(today, &of_today),
        ideal_links: all.since(half).ideal(best.combination.bits).lookup,
        gain_links,
        gain_time,
        certainty,
        is_worth_it: gain_time >= LEAST_GAIN && certainty >= SURE,
    }
}

/// Seconds of the runs of a table's lookups.
fn runs(outcome: &Outcome) -> Vec<f64> {
    let runs = outcome.timing.iter().flat_map(|timing| &timing.runs);
    runs.map(std::time::Duration::as_secs_f64).collect()
}

/// What to write after `-o` for these tables: the form of [`Tables`](larder_cache::tables::Tables).
fn mount_option(caches: &[CacheAdvice], shrinking: Option<&ShrinkingAdvice>) -> String {
    let mut option = "tables=larder".to_owned();
    for advice in caches.iter().filter(|advice| advice.is_worth_it) {
        let Judged { function, bits, .. } = advice.best;
        let cache = cache_name(advice.cache);
        option.extend(["+", cache, "=", function.as_str(), "/", &bits.to_string()]);
    }
    if shrinking.is_some_and(|advice| advice.is_worth_it) {
        option.push_str("+shrink=eager");
    }
    option
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_cache::tables::Tables;

    fn advice(cache: CacheKind, function: Function, is_worth_it: bool) -> CacheAdvice {
        let table = Judged {
            function,
            bits: 14,
            links: 1.0,
            lookup_ns: None,
        };
        CacheAdvice {
            cache,
            best: table,
            today: table,
            ideal_links: 1.0,
            gain_links: bootstrap(&[], 1),
            gain_time: 0.0,
            certainty: 1.0,
            is_worth_it,
        }
    }

    #[test]
    fn mount_option_is_what_a_mount_reads_and_leaves_what_is_not_worth_a_change() {
        let shrinking = ShrinkingAdvice {
            lookups: 1,
            misses_normal: 0,
            misses_eager: 0,
            saved_ns: 1.0,
            break_even_ns: 1e6,
            is_worth_it: true,
        };
        for cache in CacheKind::ALL {
            for function in Functions::all().of(cache) {
                let caches = [advice(cache, function, true)];
                let option = mount_option(&caches, Some(&shrinking));
                let tables = option.strip_prefix("tables=").unwrap();
                let tables: Tables = tables.parse().unwrap();
                let told = tables.to_string();
                assert!(
                    told.contains(function.as_str()) && told.contains("/14"),
                    "{told}"
                );
                assert!(told.contains("shrink=eager"), "{told}");
            }
        }
        let none = [advice(CacheKind::Inode, Function::InodeMult, false)];
        assert_eq!(mount_option(&none, None), "tables=larder");
    }
}
