//! Concurrent operations on a cache of each variant, under a model checker that tries many interleavings.
//! [`crate::shuttle_tests`] describes how to run the tests.

use super::*;
use crate::mbcache::rewrite::{Order, Referenced, Rewrite};
use crate::research::mbcache::Lru;
use crate::sync::{AcqRel, AtomicU32};
use crate::table::{Charge, Growth};
use std::sync::Arc;

/// The number of random interleavings of each test and variant. The same number is tried with random thread
/// priorities.
const SCHEDULES: usize = 500;

/// The key of all entries.
const KEY: u32 = 1;

/// A probe that reports two processors on any machine.
#[derive(Clone, Debug, Default)]
struct TwoProcessors(Arc<()>);

impl Probe for TwoProcessors {
    fn processors(&self) -> usize {
        2
    }
}

fn check(model: impl Fn(Variant) + Copy + Send + Sync + 'static) {
    for &variant in Variant::CACHES {
        eprintln!("{variant}");
        try_schedules(move || model(variant));
    }
}

fn try_schedules(model: impl Fn() + Copy + Send + Sync + 'static) {
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

/// A memory source that never runs out.
struct Plenty;

impl Charge for Plenty {
    fn charge(&self) -> bool {
        true
    }

    fn uncharge(&self) {}
}

/// Creates a cache with one chain, which contains a reusable entry for each of `values`. The cache grows
/// and shrinks by one entry at a time.
fn cache(variant: Variant, limit_entries: u32, values: &[u64]) -> Arc<dyn MbCache> {
    let config = Config {
        limit_entries,
        bits: 0,
    };
    let growth = Growth::Charged {
        chunk: 1,
        charge: Arc::new(Plenty),
    };
    let cache = build(variant, config, growth, TwoProcessors::default()).unwrap();
    let cache = Arc::<dyn MbCache>::from(cache);
    for value in values {
        assert_eq!(cache.insert(KEY, *value, true), Inserted::New);
    }
    cache
}

type Operation = fn(&dyn MbCache);

/// Runs all operations concurrently. Then checks the invariants of the cache, and deletes all entries.
fn race<const N: usize>(cache: &Arc<dyn MbCache>, operations: [Operation; N]) {
    let threads = operations.map(|operation| {
        let theirs = Arc::clone(cache);
        shuttle::thread::spawn(move || operation(&*theirs))
    });
    for thread in threads {
        thread.join().unwrap();
    }
    cache.check_invariants();
    for value in [10, 20, 30, 40] {
        assert!(matches!(cache.delete_or_get(KEY, value), Deletion::Absent));
    }
    assert_eq!(cache.stats().entries, 0);
    cache.check_invariants();
}

fn create(cache: &dyn MbCache) {
    assert_ne!(cache.insert(KEY, 10, true), Inserted::NoRoom);
    assert_ne!(cache.insert(KEY, 30, true), Inserted::NoRoom);
}

fn find(cache: &dyn MbCache) {
    let mut seen = Vec::new();
    let mut found = cache.find_first(KEY);
    while let Some(held) = found {
        let value = held.value();
        assert_eq!(held.key(), KEY);
        assert!([10, 20, 30].contains(&value) && !seen.contains(&value));
        seen.push(value);
        held.touch();
        let deleted = cache.delete_or_get(KEY, value);
        assert!(matches!(deleted, Deletion::InUse(_)), "deleted while held");
        drop(deleted);
        found = cache.find_next(held);
    }
}

fn get(cache: &dyn MbCache) {
    if let Some(held) = cache.get(KEY, 10) {
        assert_eq!((held.key(), held.value()), (KEY, 10));
    }
}

fn delete(cache: &dyn MbCache) {
    delete_value(cache, 10);
}

fn delete_value(cache: &dyn MbCache, value: u64) {
    while let Deletion::InUse(held) = cache.delete_or_get(KEY, value) {
        held.wait_unused();
    }
}

fn shrink(cache: &dyn MbCache) {
    cache.scan_objects(3);
}

#[test]
fn shuttle_mbcache_stays_consistent_in_every_pairing() {
    const OPERATIONS: [Operation; 5] = [create, find, get, delete, shrink];
    for first in 0..OPERATIONS.len() {
        for second in first..OPERATIONS.len() {
            check(move |variant| {
                race(
                    &cache(variant, 8, &[10, 20]),
                    [OPERATIONS[first], OPERATIONS[second]],
                );
            });
        }
    }
}

#[test]
fn shuttle_mbcache_deleted_entry_is_not_found() {
    check(|variant| {
        let delete_and_look: Operation = |cache| {
            delete(cache);
            assert!(cache.get(KEY, 10).is_none() && cache.find_first(KEY).is_none());
        };
        race(&cache(variant, 8, &[10]), [find, delete_and_look]);
    });
}

/// Makes the entry not reusable, as if its contents had the maximum number of users.
fn mark_full(cache: &dyn MbCache) {
    let held = cache.get(KEY, 10).expect("the entry is not dropped");
    held.set_reusable(false);
    drop(held);
    assert!(cache.find_first(KEY).is_none());
    assert!(cache.get(KEY, 10).is_some());
}

/// In Linux, the flags for "referenced" and "reusable" once shared a word that was not changed atomically.
#[test]
fn shuttle_mbcache_concurrent_changes_of_two_flags_are_both_kept() {
    check(|variant| {
        let touch: Operation = |cache| cache.find_first(KEY).iter().for_each(Held::touch);
        race(&cache(variant, 8, &[10]), [touch, mark_full]);
    });
}

#[test]
fn shuttle_mbcache_search_returns_each_entry_once_while_others_change() {
    fn renew(cache: &dyn MbCache, value: u64) {
        while let Deletion::InUse(held) = cache.delete_or_get(KEY, value) {
            held.wait_unused();
        }
        assert_eq!(cache.insert(KEY, value, true), Inserted::New);
    }
    fn renew_both(cache: &dyn MbCache) {
        renew(cache, 20);
        renew(cache, 30);
    }
    fn search(cache: &dyn MbCache) {
        let mut seen = Vec::new();
        let mut found = cache.find_first(KEY);
        while let Some(held) = found {
            assert!(!seen.contains(&held.value()), "{seen:?}");
            seen.push(held.value());
            found = cache.find_next(held);
        }
        assert!(seen.contains(&10), "10 was never removed: {seen:?}");
    }
    check(|variant| race(&cache(variant, 8, &[10, 20, 30]), [renew_both, search]));
    // The neighbours 30 and 20 in the chain are each removed and reinserted. 20, which is after 30, can be back at the
    // front before 30 is removed.
    let renew_after: Operation = |cache| renew(cache, 20);
    let renew_before: Operation = |cache| renew(cache, 30);
    check(move |variant| {
        let cache = cache(variant, 8, &[10, 20, 30, 40]);
        race(&cache, [search, renew_before, renew_after]);
    });
}

#[test]
fn shuttle_mbcache_moving_entry_is_found_by_lookups() {
    check(|variant| {
        let cache = cache(variant, 8, &[20, 10]);
        // The other entry moves to the free slot, so that memory is given back.
        assert!(matches!(cache.delete_or_get(KEY, 20), Deletion::Absent));
        let give_back: Operation = |cache| {
            cache.scan_objects(0);
        };
        race(&cache, [give_back, mark_full]);
    });
}

#[test]
fn shuttle_mbcache_returns_memory_while_it_grows_and_is_searched() {
    check(|variant| race(&cache(variant, 8, &[10, 20]), [shrink, create, find]));
    check(|variant| race(&cache(variant, 8, &[10, 20]), [shrink, create, shrink]));
}

#[test]
fn shuttle_mbcache_waiter_is_woken_by_the_last_holder() {
    check(|variant| {
        let cache = cache(variant, 8, &[10]);
        let user = cache.find_first(KEY).unwrap();
        let theirs = Arc::clone(&cache);
        let thread = shuttle::thread::spawn(move || delete(&*theirs));
        get_shared(&*cache);
        drop(user);
        thread.join().unwrap();
        assert_eq!(cache.stats().entries, 0);
    });
}

/// Two threads hold an entry, and each waits until no other thread holds it.
#[test]
fn shuttle_mbcache_two_waiters_for_one_entry_both_return() {
    let wait: Operation = |cache| cache.find_first(KEY).iter().for_each(Held::wait_unused);
    check(move |variant| race(&cache(variant, 8, &[10]), [wait, wait, find]));
}

fn get_shared(cache: &dyn MbCache) {
    if let Some(held) = cache.find_first(KEY) {
        assert_eq!(held.value(), 10);
    }
}

#[test]
fn shuttle_mbcache_waiter_is_woken_among_waiters_for_other_entries() {
    check(|variant| {
        let cache = cache(variant, 8, &[10, 20]);
        let [first, second] = [10, 20].map(|value| cache.get(KEY, value).unwrap());
        let [one, other] = [10, 20].map(|value| {
            let theirs = Arc::clone(&cache);
            shuttle::thread::spawn(move || delete_value(&*theirs, value))
        });
        drop(second);
        other.join().unwrap();
        drop(first);
        one.join().unwrap();
        assert_eq!(cache.stats().entries, 0);
    });
}

#[test]
fn shuttle_mbcache_old_holds_exclusively_by_value() {
    const EXCLUSIVE: u32 = 100;
    try_schedules(|| {
        let cache = cache(Variant::Old, 8, &[10]);
        let holders = Arc::new(AtomicU32::new(0));
        let threads = [true, true, false].map(|by_value| {
            let (cache, holders) = (Arc::clone(&cache), Arc::clone(&holders));
            shuttle::thread::spawn(move || {
                let (held, count) = if by_value {
                    (cache.get(KEY, 10), EXCLUSIVE)
                } else {
                    (cache.find_first(KEY), 1)
                };
                let others = holders.fetch_add(count, AcqRel);
                assert!(
                    others == 0 || others + count < EXCLUSIVE,
                    "{others} and {count}"
                );
                holders.fetch_sub(count, AcqRel);
                assert!(held.is_some());
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
        cache.check_invariants();
    });
}

/// The worker evicts entries during insertions, and ends before the cache is dropped.
#[test]
fn shuttle_mbcache_worker_ends_with_its_cache() {
    fn model(order: impl Order<TwoProcessors>) {
        let config = Config {
            limit_entries: 1,
            bits: 0,
        };
        let probe = TwoProcessors::default();
        let cache = Rewrite::new(order, config, Growth::Prepaid, probe.clone()).unwrap();
        let cache = Arc::new(cache);
        let theirs = Arc::clone(&cache);
        let insert = |cache: &dyn MbCache, values: [u64; 2]| {
            for value in values {
                cache.insert(KEY, value, true);
            }
        };
        let thread = shuttle::thread::spawn(move || insert(&*theirs, [10, 20]));
        insert(&*cache, [30, 40]);
        thread.join().unwrap();
        assert!(cache.has_worker());
        cache.check_invariants();
        drop(cache);
        assert_eq!(Arc::strong_count(&probe.0), 1);
    }
    try_schedules(|| model(Lru::one()));
    try_schedules(|| model(Lru::for_each_of(2)));
    try_schedules(|| model(Referenced::new()));
}

/// The oldest entry of a full chain is evicted while other threads use it.
#[test]
fn shuttle_mbcache_full_chain_stays_consistent() {
    /// The largest number of entries in a chain of a small cache.
    const CHAIN_MAX: u64 = 64;
    const OPERATIONS: [Operation; 4] = [insert_new, get, delete, shrink];
    fn insert_new(cache: &dyn MbCache) {
        cache.insert(KEY, 1, true);
    }
    for operation in OPERATIONS {
        check(move |variant| {
            let config = Config {
                limit_entries: 64,
                bits: 6,
            };
            let probe = TwoProcessors::default();
            let cache = build(variant, config, Growth::Prepaid, probe).unwrap();
            let cache = Arc::<dyn MbCache>::from(cache);
            for value in 10..10 + CHAIN_MAX {
                assert_eq!(cache.insert(KEY, value, true), Inserted::New);
            }
            let theirs = Arc::clone(&cache);
            let thread = shuttle::thread::spawn(move || operation(&*theirs));
            cache.insert(KEY, 2, true);
            thread.join().unwrap();
            cache.check_invariants();
            assert!(cache.stats().entries <= CHAIN_MAX);
        });
    }
}
