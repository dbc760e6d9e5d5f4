//! Replays the tables of a recorded volume, Larder's own and trees, and compares the links with the
//! recording and with chance.

use super::replay::{make_image, record};
use larder::CacheKind;
use larder::tables::Finder;
use larder_cache::table::Counts;
use larder_lab::hash::{Capacity, Combination, TraceFile, Wanted, replay, survey};
use larder_lab::trace::Tolerance;
use larder_testkit::{Requirement, Seed, skip};

/// Enough memory to avoid evictions.
const MEMORY: u64 = 64 << 20;

/// The maximum share by which the links of Larder's own functions may exceed the links by chance.
const OVER_CHANCE: f64 = 0.02;

/// Records a volume with these `tables`. For each cache, passes to `check` the figures of the volume, the
/// counts of a replay with `finder` in a table of the same size, and the mean links of a lookup by chance.
fn record_and_replay(
    tables: &str,
    finder: Finder,
    check: impl Fn(CacheKind, &larder::CacheStats, Counts, f64),
) {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let seed = Seed::from_environment(6);
    let stats = record(&make_image(dir.path()), &path, tables, MEMORY, seed);
    let trace = TraceFile::open(&path, Tolerance::Whole).unwrap();
    let caches = CacheKind::ALL.into_iter();
    let wanted = caches.fold(Wanted::default(), |wanted, cache| {
        wanted.with(cache, Capacity::AsRecorded)
    });
    let surveys = survey(&trace, wanted).unwrap();
    println!("seed {seed}");
    for (cache, of) in stats.caches() {
        // Long names have a separate table with an eighth of the buckets, which is not used here.
        let bits = of.buckets.max(1).ilog2();
        let table = Combination {
            cache,
            function: finder,
            bits,
        };
        let outcomes = replay(&trace, wanted, &surveys, &[table], &mut |_| {}).unwrap();
        let chance = surveys[&cache].chance(bits).lookup;
        check(cache, of, outcomes[0].counts, chance);
    }
}

fn per_lookup(counts: Counts) -> f64 {
    let figure = |count| f64::from(u32::try_from(count).unwrap());
    figure(counts.links()) / figure(counts.lookups())
}

#[test]
fn own_functions_exceed_chance_by_at_most_2_percent_in_volume_and_replay() {
    record_and_replay(
        "larder+iget=all",
        Finder::Larder,
        |cache, of, replayed, chance| {
            let recorded = of.searches();
            let over = |counts| per_lookup(counts) / chance - 1.0;
            let (in_volume, in_replay) = (over(recorded), over(replayed));
            println!(
                "{cache:?}: {} objects, {in_volume:+.4}, {in_replay:+.4} to chance",
                of.objects
            );
            assert!(in_volume <= OVER_CHANCE && in_replay <= OVER_CHANCE);
            // The hash of names has a secret key, so another function represents it.
            if cache != CacheKind::Dentry {
                assert_eq!(replayed, recorded, "{cache:?}");
            }
        },
    );
}

#[test]
fn replay_of_trees_compares_as_many_pages_as_the_volume() {
    record_and_replay(
        "larder+page=rbtree+iget=all",
        Finder::RedBlackTrees,
        |cache, of, replayed, _| {
            if cache == CacheKind::Page {
                assert_eq!(of.finder, Finder::RedBlackTrees);
                assert_eq!(replayed, of.searches());
                assert!(per_lookup(replayed) > 1.0, "{replayed:?}");
            }
        },
    );
}
