//! The tables that are compared, the current table of a mount, and the selection of one table.

use crate::hash::{
    BUCKET_BYTES, Combination, Functions, Outcome, Row, Survey, Surveys, own_function,
};
use larder_cache::budget::{BudgetConfig, Division};
use larder_cache::inode::{InodeCache, RAW_INODE_WORDS};
use larder_cache::tables::{Finder, TableSize, Tables};
use larder_cache::tape::CacheKind;

/// Number of bits by which the largest compared table exceeds the larger of two tables: the current table,
/// and the smallest table with at least as many buckets as objects. [`BUCKETS_OF_MEMORY`] limits the result.
const EXTRA_BITS: u32 = 1;

/// Divisor of the memory: the buckets of a table may take at most 1/128 of the memory.
const BUCKETS_OF_MEMORY: u64 = 128;

/// Assumed block size of the mounted image: the default of `mke2fs`.
const BLOCK_BYTES: usize = 4096;

/// Returns the tables that are compared.
pub(super) fn candidates(surveys: &Surveys, memory_bytes: u64, tables: Tables) -> Vec<Combination> {
    let division = division(memory_bytes, tables);
    let max_bits = (memory_bytes / BUCKETS_OF_MEMORY / BUCKET_BYTES)
        .max(2)
        .ilog2();
    let max_bits = max_bits.min(TableSize::MAX_BITS);
    let of_cache = |(cache, survey): (&CacheKind, &Survey)| {
        let fitting = survey.fitting_bits();
        let cache = *cache;
        let current = current_table(cache, &division, tables);
        let min_bits = current.bits.clamp(1, max_bits);
        let sizes = min_bits..=(min_bits.max(fitting) + EXTRA_BITS).min(max_bits);
        // `Finder::Larder` already includes Larder's own function, so that function is not listed again.
        // Trees are never recommended, because their lookups take locks.
        let own = Finder::from(own_function(cache));
        let functions = Functions::all().of(cache).into_iter();
        let functions = functions.filter(move |one| *one != own && *one != Finder::RedBlackTrees);
        let others = functions.flat_map(move |function| {
            sizes.clone().map(move |bits| Combination {
                cache,
                function,
                bits,
            })
        });
        let others = others.filter(move |other| *other != current);
        std::iter::once(current).chain(others)
    };
    surveys.iter().flat_map(of_cache).collect()
}

/// Returns how a mount with `tables` divides the memory among its caches.
pub(super) fn division(memory_bytes: u64, tables: Tables) -> Division {
    let config = BudgetConfig {
        tables,
        ..BudgetConfig::new(memory_bytes, BLOCK_BYTES)
    };
    Division::new(&config, InodeCache::<RAW_INODE_WORDS>::SLOT_BYTES)
}

/// Returns the table of a mount with `tables`. For names, returns the table of short names.
pub(super) fn current_table(cache: CacheKind, division: &Division, tables: Tables) -> Combination {
    let bits = match cache {
        CacheKind::Page => division.frames.page_bits,
        CacheKind::Buffer => division.frames.buffer_bits,
        CacheKind::Dentry => division.short_names.bits,
        CacheKind::Inode => division.inodes.bits,
    };
    let table = tables.table(cache);
    Combination {
        cache,
        function: table.map_or(Finder::RedBlackTrees, |table| table.function.into()),
        bits,
    }
}

/// Selects one of the tables that are not significantly slower than the fastest one. Selects the current
/// table if it is among them. Otherwise selects the smallest; of several tables of this size, the one with
/// Larder's own function, or else the one with the fewest links.
pub(super) fn select(
    outcomes: &[Outcome],
    survey: &Survey,
    current: Combination,
) -> Option<Combination> {
    let of_cache = outcomes
        .iter()
        .filter(|one| one.combination.cache == current.cache);
    let rows: Vec<(Combination, Row)> = of_cache
        .map(|one| (one.combination, Row::new(one, survey)))
        .collect();
    let times = rows.iter().filter_map(|(_, row)| row.time());
    let fastest = times.min_by(|a, b| a.median_ns.total_cmp(&b.median_ns));
    let is_tied_with_fastest = |row: &Row| {
        let times = fastest.zip(row.time());
        times.is_none_or(|(fastest, time)| !fastest.is_significantly_less(time))
    };
    let tied = rows.iter().filter(|(_, row)| is_tied_with_fastest(row));
    let selected = tied.min_by(|(a, of_a), (b, of_b)| {
        let preference =
            |one: &Combination| (*one != current, one.bits, one.function != Finder::Larder);
        let links = of_a.links.lookup.total_cmp(&of_b.links.lookup);
        preference(a).cmp(&preference(b)).then(links)
    });
    selected.map(|(combination, _)| *combination)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Timing;
    use larder_cache::hash::Function;
    use larder_cache::table::Counts;
    use larder_testkit::{Random, Seed};
    use std::time::Duration;

    /// Returns the outcome of a table in which a lookup took `ns` nanoseconds, with a deviation of at most 2%
    /// in each run.
    fn outcome(function: Finder, bits: u32, ns: u32, random: &mut Random) -> Outcome {
        let mut run = || {
            let permille = 980 + u32::try_from(random.below(41)).unwrap();
            Duration::from_nanos(u64::from(ns * permille))
        };
        let timing = Timing {
            lookups: 1000,
            hits: 1000,
            runs: (0..7).map(|_| run()).collect(),
        };
        Outcome {
            combination: Combination {
                cache: CacheKind::Page,
                function,
                bits,
            },
            counts: Counts::default(),
            objects: 1,
            histogram: larder_cache::table::Histogram::default(),
            timing: Some(timing),
            segments: Vec::new(),
        }
    }

    #[test]
    fn choice_is_the_current_or_simplest_table_regardless_of_noise() {
        let seed = Seed::from_environment(0x7e_0001);
        let mut random = Random::new(seed);
        let golden = Finder::from(Function::Golden);
        let current = |bits| Combination {
            cache: CacheKind::Page,
            function: Finder::Larder,
            bits,
        };
        for _ in 0..200 {
            // The current table is as fast as any other, or much slower than all others.
            let tables = [
                (golden, 12, 10),
                (Finder::Larder, 12, 10),
                (golden, 13, 10),
                (Finder::Larder, 13, 10),
                (Finder::Larder, 10, 20),
            ];
            let tables =
                tables.map(|(function, bits, ns)| outcome(function, bits, ns, &mut random));
            let chosen = |current| select(&tables, &Survey::default(), current).unwrap();
            assert_eq!(chosen(current(13)), current(13), "seed {seed}");
            assert_eq!(chosen(current(10)), current(12), "seed {seed}");
        }
    }
}
