//! The tables that suit a trace: chosen on its first half, judged on the second.
//!
//! # Model
//! Every function and some sizes are replayed in the first half of the trace; none smaller than now, since a
//! trace need not have filled the memory as later work will. Of the tables whose
//! lookups take no longer than the fastest one's and the noise, the smallest is chosen. The second half,
//! which had no say, is then replayed in the chosen table and in the one that a mount has now:
//! what is gained there is what can be hoped for. Links are those of the second half's lookups alone, and
//! times are of the second half's last lookups before it had the most objects.
//!
//! The second half consists of parts; drawn from again and again, with each drawn as often as it comes,
//! they tell how much the gain depends on what just happened to be asked (bootstrap).
//!
//! The table that a mount has now is as large as the caches make it for the memory given. Names are spread
//! there by a function with a secret, from the names themselves, which a trace does not have: a mixer stands
//! for it, as good as chance, and so does one table for that of short names and that of long ones.
//!
//! A table is changed only where it is surely and noticeably better.

mod bootstrap;
mod report;
mod shrinking;

pub use bootstrap::Interval;
pub use shrinking::ShrinkingAdvice;

use crate::hash::{
    Combination, Error, Functions, Outcome, Prefix, Room, Row, SEGMENTS, Source, Survey, Surveys,
    Timing, Wanted, cache_name, replay, room_of, segment_end, survey, survey_from,
};
use crate::run_report::{as_f64, ratio};
use crate::trace::Losses;
use bootstrap::bootstrap;
use larder_cache::budget::{BudgetConfig, Division};
use larder_cache::hash::Function;
use larder_cache::inode::{InodeCache, RAW_INODE_WORDS};
use larder_cache::table::Counts;
use larder_cache::tables::TableSize;
use larder_cache::tape::CacheKind;
use serde::Serialize;

/// Sizes that are tried go to so many bits more than the table has now, or than as many buckets as objects.
const MORE_BITS: u32 = 1;

/// All buckets of a cache may take this part of the memory.
const BUCKETS_OF_MEMORY: u64 = 128;

/// Times that differ by less than this part of them are the same.
const NOISE: f64 = 0.03;

/// And if it is faster in this part of all pairs of runs.
const SURE: f64 = 0.95;

/// With fewer lookups in the second half there is too little to be sure.
const LEAST_LOOKUPS: u64 = 10_000;

/// Blocks of the mount: what `mke2fs` makes, where it is not told.
const BLOCK_BYTES: usize = 4096;

/// What a bucket takes, in bytes.
const BUCKET_BYTES: u64 = 4;

/// A table is changed for a gain of this part of the time of a lookup at least.
const LEAST_GAIN: f64 = 0.02;

/// What stands for our function of names: it mixes as well, and costs a multiplication as well.
const STANDS_FOR_SEEDED: Function = Function::Xxh3Avalanche;

/// What is recommended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Where the keys are from.
    pub source: String,
    /// What is missing of it.
    pub losses: Losses,
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
    /// Lookups of the second half.
    pub lookups: u64,
    /// How many links fewer a lookup of the second half walks than in today's table, as a share.
    pub gain_links: Interval,
    /// How much less time a lookup takes than in today's table, as a share; `None` if too little was asked
    /// to tell.
    pub gain_time: Option<f64>,
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
        let Some(best) = choose(&outcomes, of_half, *cache) else {
            continue;
        };
        let pair = [best, today(*cache, &division)];
        let judged = replay(source, wanted, &all, &pair, tick)?;
        caches.push(judge([&judged[0], &judged[1]], of_all, of_half, seed));
    }
    let names = today(CacheKind::Dentry, &division);
    let shrinking = shrinking::advise(source, names, &all, tick)?;
    Ok(Advice {
        source: source.title(),
        losses: source.losses(),
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
    let division = division(memory_bytes);
    let most = (memory_bytes / BUCKETS_OF_MEMORY / BUCKET_BYTES)
        .max(2)
        .ilog2();
    let most = most.min(TableSize::MOST_BITS);
    let of_cache = |(cache, survey): (&CacheKind, &Survey)| {
        let fitting = survey.fitting_bits();
        let cache = *cache;
        let least = today(cache, &division).bits.clamp(1, most);
        let sizes = least..=(least.max(fitting) + MORE_BITS).min(most);
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

/// How a mount divides the memory, with our tables.
fn division(memory_bytes: u64) -> Division {
    let config = BudgetConfig::new(memory_bytes, BLOCK_BYTES);
    Division::new(&config, InodeCache::<RAW_INODE_WORDS>::SLOT_BYTES)
}

/// What a mount has now: our function, or what stands for it.
fn today(cache: CacheKind, division: &Division) -> Combination {
    let (function, bits) = match cache {
        CacheKind::Page => (Function::Golden, division.frames.page_bits),
        CacheKind::Buffer => (Function::Golden, division.frames.buffer_bits),
        CacheKind::Dentry => (STANDS_FOR_SEEDED, division.short_names.bits),
        CacheKind::Inode => (Function::Golden, division.inodes.bits),
    };
    Combination {
        cache,
        function,
        bits,
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
    let parts = |outcome: &Outcome| -> Vec<Counts> {
        let segments = (0..).zip(&outcome.segments);
        let second = segments.filter(|(number, _)| *number >= SEGMENTS / 2);
        second.map(|(_, counts)| *counts).collect()
    };
    let (of_best, of_today) = (parts(best), parts(today));
    let links = |counts: &Counts| as_f64(counts.links());
    let pairs = of_best.iter().zip(&of_today);
    let pairs: Vec<_> = pairs
        .map(|(best, today)| (links(best), links(today)))
        .collect();
    let lookups = of_best.iter().map(Counts::lookups).sum();
    let mut gain_links = bootstrap(&pairs, seed);
    if lookups < LEAST_LOOKUPS {
        (gain_links.low, gain_links.high) = (None, None);
    }
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
    let time = |outcome: &Outcome| outcome.timing.as_ref().map(Timing::lookup_ns);
    let times = time(best).zip(time(today));
    let gain_time = times.map(|(best, today)| 1.0 - ratio(best, today));
    let certainty = certainty(best, today);
    let is_long_enough = gain_links.low.is_some();
    let is_better = gain_time.is_some_and(|gain| gain >= LEAST_GAIN) && certainty >= SURE;
    CacheAdvice {
        cache: best.combination.cache,
        best: judged(best, &of_best),
        today: judged(today, &of_today),
        ideal_links: all.since(half).ideal(best.combination.bits).lookup,
        lookups,
        gain_links,
        gain_time,
        certainty,
        is_worth_it: is_long_enough && is_better,
    }
}

/// In how many of all pairs of timed runs, each of the one with each of the other, `best` was faster
/// than `today`, as a share.
fn certainty(best: &Outcome, today: &Outcome) -> f64 {
    let (best, today) = (runs(best), runs(today));
    let pairs = best.len() * today.len();
    let faster = best.iter().map(|best| {
        let slower = today.iter().filter(|today| best < today);
        slower.count()
    });
    ratio(as_f64(faster.sum::<usize>() as u64), as_f64(pairs as u64))
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
            lookups: 1,
            gain_links: bootstrap(&[], 1),
            gain_time: None,
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
            certainty: 1.0,
            break_even_ns: Some(1e6),
            assumed_miss_ns: 1e5,
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
