//! Measures the cost of sharing attributes with each variant of mbcache. The results are the
//! processor time of a thread for each operation in nanoseconds, and the number of operations per
//! second of all threads together, in millions.
//!
//! Run it with `cargo bench -p larder-cache --bench mbcache`. The tests run a small version to
//! check that it works. Times are meaningful in the bench profile only.

mod rate;

use larder_cache::mbcache::{Config, Deletion, MbCache, Variant, build};
use larder_cache::table::Growth;
use rate::{Random, rate};

/// The number of entries in the cache: half of the limit.
const ENTRIES: u32 = Config::LINUX_LIMIT_ENTRIES / 2;

/// No entry has this key or a larger one.
const ABSENT: u32 = 1 << 31;

/// An operation of `thread` with a random number.
type Operation = fn(&dyn MbCache, thread: u64, number: u32);

/// Looks up contents that are shared already: finds the entry, touches and releases it.
fn hit(cache: &dyn MbCache, _: u64, number: u32) {
    cache.find_first(number).expect("an entry").touch();
}

/// Looks up contents that no entry has.
fn miss(cache: &dyn MbCache, _: u64, number: u32) {
    assert!(cache.find_first(ABSENT | number).is_none());
}

/// Inserts and deletes the entry of a block that only this thread uses.
fn insert_and_delete(cache: &dyn MbCache, thread: u64, number: u32) {
    cache.insert(number, 1 << 32 | thread, true);
    let deleted = cache.delete_or_get(number, 1 << 32 | thread);
    assert!(matches!(deleted, Deletion::Absent));
}

/// Runs `operation` `operations` times in each thread, first with one thread and then with two. The
/// numbers passed to `operation` are below `values`.
fn measure(variant: Variant, name: &str, operation: Operation, values: u32, operations: u64) {
    let config = Config::new(variant, Config::LINUX_LIMIT_ENTRIES);
    let cache = build(variant, config, Growth::Prepaid, ()).expect("memory");
    for number in 0..ENTRIES {
        cache.insert(number, number.into(), true);
    }
    for threads in [1, 2] {
        let rate = rate(threads, operations, |thread| {
            let mut random = Random(0x1234_5678 + thread);
            for _ in 0..operations {
                let number = u32::try_from(random.below(values.into())).unwrap_or(0);
                operation(&*cache, thread, number);
            }
        });
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let nanoseconds = threads as f64 * 1e3 / rate;
        println!(
            "{variant:>10}, {name:>17}, {values:>5} values, {threads} threads: \
             {nanoseconds:>6.0} ns, {rate:>5.1} M/s"
        );
    }
}

fn main() {
    // Cargo passes the argument `--bench` to benchmarks, but not to tests. The names of the
    // variants to run may follow it.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let full = arguments.iter().any(|argument| argument == "--bench");
    let chosen: Vec<Variant> = arguments
        .iter()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let operations = if full { 10_000_000 } else { 2_000 };
    for variant in Variant::ALL {
        if !chosen.is_empty() && !chosen.contains(&variant) {
            continue;
        }
        for values in [10, ENTRIES] {
            let run = |name, operation| measure(variant, name, operation, values, operations);
            if variant != Variant::Off {
                run("hit", hit as Operation);
            }
            run("miss", miss);
            run("insert and delete", insert_and_delete);
        }
    }
}
