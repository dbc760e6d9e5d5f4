//! Tests for bugs that the kernel's mbcache had.

use super::*;
use crate::mbcache::rewrite::{Order, Referenced, Rewrite};
use crate::research::mbcache::Lru;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Until 2016 the referenced bit had no effect in Linux: an entry with the bit was put back at the front of the list, where
/// entries are evicted, instead of at the end.
#[test]
fn touched_entry_is_evicted_after_untouched_ones() {
    each(|variant| {
        let cache = cache(variant, 64, 4);
        for value in 0..8 {
            assert_eq!(cache.insert(1, value, true), Inserted::New);
        }
        let held = cache.get(1, 2).unwrap();
        held.touch();
        drop(held);
        cache.scan_objects(7);
        let left = search(&*cache, 1);
        assert!(left.contains(&2), "{left:?}");
        assert!(dropped(&*cache) >= 6, "{left:?}");
        assert_eq!(left.len() as u64, 8 - dropped(&*cache));
        cache.check_invariants();
    });
}

#[test]
fn referenced_entry_is_evicted_in_the_second_scan() {
    for variant in [Variant::Referenced, Variant::Clock] {
        let cache = cache(variant, 64, 4);
        for value in 0..8 {
            cache.insert(1, value, true);
        }
        for value in [2, 5] {
            cache.get(1, value).unwrap().touch();
        }
        cache.scan_objects(8);
        assert_eq!(cache.stats().dropped_by_shrinker, 6, "{variant}");
        let mut left = search(&*cache, 1);
        left.sort_unstable();
        assert_eq!(left, [2, 5], "{variant}");
        cache.scan_objects(8);
        assert_eq!(cache.stats().dropped_by_shrinker, 8, "{variant}");
        assert_eq!(cache.stats().entries, 0, "{variant}");
    }
}

#[test]
fn lru_evicts_the_last_used_entry_last() {
    for variant in [Variant::Old, Variant::Lru, Variant::ListLru] {
        let left: [&[u64]; 5] = [&[3, 2, 1, 0], &[3, 2, 0], &[3, 0], &[0], &[]];
        for (scanned, left) in (0..).zip(left) {
            let cache = cache(variant, 64, 4);
            for value in 0..4 {
                cache.insert(1, value, true);
            }
            cache.get(1, 0).unwrap().touch();
            cache.scan_objects(scanned);
            assert_eq!(search(&*cache, 1), left, "{variant}");
        }
    }
}

/// Searches in Linux used to return entries with the maximum number of users, and so could be long or
/// endless.
#[test]
fn searches_skip_entry_while_it_is_not_reusable() {
    each(|variant| {
        let cache = cache(variant, 64, 0);
        for value in 0..6 {
            cache.insert(1, value, value % 2 == 0);
        }
        let mut found = search(&*cache, 1);
        found.sort_unstable();
        assert_eq!(found, [0, 2, 4]);
        for value in [0, 2, 4] {
            cache.get(1, value).unwrap().set_reusable(false);
        }
        assert!(cache.find_first(1).is_none());
        assert_eq!(cache.stats().entries, 6);
        cache.get(1, 3).unwrap().set_reusable(true);
        assert_eq!(search(&*cache, 1), [3]);
    });
}

/// In Linux, a file could start to share a block while the last user of the block freed it.
#[test]
fn deletion_of_held_entry_returns_a_hold() {
    each(|variant| {
        let cache = cache(variant, 64, 4);
        cache.insert(1, 10, true);
        let user = cache.find_first(1).unwrap();
        let Deletion::InUse(held) = cache.delete_or_get(1, 10) else {
            panic!("{variant} deleted a held entry");
        };
        assert_eq!((held.key(), held.value()), (1, 10));
        drop(user);
        held.wait_unused();
        drop(held);
        assert!(matches!(cache.delete_or_get(1, 10), Deletion::Absent));
        assert!(cache.find_first(1).is_none());
        assert!(cache.get(1, 10).is_none());
        assert_eq!((cache.stats().entries, dropped(&*cache)), (0, 0));
        cache.check_invariants();
    });
}

#[test]
fn waiter_returns_when_the_last_other_holder_releases() {
    each(|variant| {
        let cache = cache(variant, 64, 4);
        cache.insert(1, 10, true);
        let users = [cache.find_first(1).unwrap(), cache.find_first(1).unwrap()];
        let Deletion::InUse(held) = cache.delete_or_get(1, 10) else {
            panic!("{variant} deleted a held entry");
        };
        let has_released = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                held.wait_unused();
                assert!(has_released.load(SeqCst), "{variant}");
            });
            let [first, last] = users;
            drop(first);
            has_released.store(true, SeqCst);
            drop(last);
        });
    });
}

/// A probe whose reference count shows whether the cache still exists.
#[derive(Clone, Debug)]
struct Presence(Arc<()>);

impl Probe for Presence {}

/// Until 2026, Linux could free a cache while its worker ran.
#[test]
fn worker_does_not_outlive_its_cache() {
    fn check(order: impl Order<Presence>) {
        let variant = order.variant();
        let presence = Presence(Arc::default());
        let Presence(count) = &presence;
        let config = Config {
            limit_entries: 256,
            bits: 4,
        };
        let growth = Growth::Prepaid;
        let cache = Rewrite::new(order, config, growth, presence.clone()).unwrap();
        for value in 0..2000_u32 {
            cache.insert(value, value.into(), true);
        }
        assert!(cache.has_worker(), "{variant}");
        drop(cache);
        assert_eq!(Arc::strong_count(count), 1, "{variant}");
    }
    check(Lru::one());
    check(Lru::for_each_of(().processors()));
    check(Referenced::new());
}

#[test]
fn entry_beyond_the_limit_evicts_another() {
    each(|variant| {
        let cache = cache(variant, 128, 4);
        for value in 0..2000_u32 {
            assert_eq!(cache.insert(value % 16, value.into(), true), Inserted::New);
            // When the cache has reached its limit, a worker evicts entries. When the number of entries is
            // twice the limit, each insertion also evicts entries.
            assert!(cache.stats().entries <= 256, "{variant}");
        }
        cache.check_invariants();
        let stats = cache.stats();
        assert_eq!(stats.inserted, 2000);
        // `stats` reads the two counts one after the other, and the worker may evict an entry between the
        // two reads.
        assert!(stats.entries + stats.dropped_by_limit >= 2000, "{variant}");
        assert!(stats.entries >= 64, "{variant}");
    });
}

#[test]
fn existing_entry_inserted_at_the_limit_evicts_none() {
    each(|variant| {
        let cache = cache(variant, 64, 4);
        for value in 0..64_u32 {
            assert_eq!(cache.insert(value, value.into(), true), Inserted::New);
        }
        for value in 0..64_u32 {
            assert_eq!(cache.insert(value, value.into(), true), Inserted::Existing);
        }
        assert_eq!((cache.stats().entries, dropped(&*cache)), (64, 0));
    });
}

#[test]
fn held_entries_survive_any_insertion() {
    each(|variant| {
        let cache = cache(variant, 16, 2);
        for key in 0..8 {
            cache.insert(key, 10, true);
        }
        let held: Vec<_> = (0..8).map(|key| cache.find_first(key).unwrap()).collect();
        for value in 20..200 {
            assert_eq!(cache.insert(9, value, true), Inserted::New);
        }
        cache.scan_objects(1000);
        for (key, held) in (0..).zip(&held) {
            assert_eq!((held.key(), held.value()), (key, 10));
            assert_eq!(search(&*cache, key), [10]);
        }
        drop(held);
        cache.scan_objects(1000);
        cache.scan_objects(1000);
        assert_eq!(cache.stats().entries, 0);
        cache.check_invariants();
    });
}

#[test]
fn cache_with_every_entry_held_has_no_room() {
    each(|variant| {
        let cache = cache(variant, 4, 2);
        let mut held = Vec::new();
        for key in 0..200 {
            match cache.insert(key, 10, true) {
                Inserted::New => held.extend(cache.find_first(key)),
                Inserted::NoRoom => break,
                Inserted::Existing => panic!("{key} is in the cache twice"),
            }
        }
        assert!((4..200).contains(&held.len()), "{variant}");
        assert_eq!(held.len() as u64, cache.stats().entries);
        held.pop();
        assert_eq!(cache.insert(1000, 10, true), Inserted::New);
        drop(held);
        cache.check_invariants();
    });
}
