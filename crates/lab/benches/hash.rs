//! Events replayed by the second, on one processor.
//!
//! Run it with `cargo bench -p larder-lab --bench hash`. Under the tests it runs small, to see that
//! it works; times mean something in the bench profile only.

use larder_cache::hash::Function;
use larder_cache::tape::CacheKind;
use larder_lab::hash::{Combination, KeyKind, Keys, Room, Source, Wanted, replay, survey};
use std::time::{Duration, Instant};

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let objects = if is_bench { 1_000_000 } else { 1000 };
    // One processor replays; another one decodes meanwhile.
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()
        .expect("a thread");
    for kind in [KeyKind::Pages, KeyKind::Names] {
        let cache: CacheKind = kind.cache();
        let source = Keys::new(kind, cache, objects, 1);
        let wanted = Wanted::default().and(cache, Room::AsTold);
        let began = Instant::now();
        let surveys = survey(&source, wanted).expect("keys made up can be read");
        let surveyed = began.elapsed();
        let table = |function| Combination {
            cache,
            function,
            bits: surveys[&cache].fitting_bits(),
        };
        let one = [Function::Golden].map(table);
        let nine = [Function::Golden; 9].map(table);
        let time = |tables: &[Combination]| {
            let began = Instant::now();
            let outcomes = replay(&source, wanted, &surveys, tables, &mut |_| {});
            let outcomes = outcomes.expect("memory for tables");
            let timed: Duration = outcomes
                .iter()
                .filter_map(|outcome| outcome.timing.as_ref())
                .map(|timing| timing.runs.iter().sum::<Duration>() * 6 / 5)
                .sum();
            (began.elapsed().saturating_sub(timed), outcomes)
        };
        let (first, outcomes) = time(&one);
        // What eight more tables take is their replaying alone.
        let (all, _) = time(&nine);
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let million = |events: u64, spent: Duration| events as f64 / spent.as_secs_f64() / 1e6;
        let events = source.events();
        println!(
            "{kind}, {objects} objects, million events/s: survey {:.1}, first table {:.1}, each \
             further one {:.1}; {:.1} million lookups/s alone",
            million(events, surveyed),
            million(events, first),
            million(events * 8, all.saturating_sub(first)),
            outcomes[0]
                .timing
                .as_ref()
                .map_or(0.0, |timing| timing.lookups_s() / 1e6),
        );
    }
}
