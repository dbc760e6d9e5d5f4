//! Tests that chains stay short even if the keys of all entries share a bucket.

use super::*;
use crate::table::{Hash64, HashFunction};

/// The number of entries with forged keys. Most of them have to be evicted.
const FORGED: u32 = 2000;

/// Creates a cache with Linux's limit of entries, and with the number of buckets that a mount uses.
fn cache_of(variant: Variant) -> (Box<dyn MbCache>, Config) {
    let config = Config::new(variant, Config::LINUX_LIMIT_ENTRIES);
    let cache = build(variant, config, Growth::Prepaid, ()).unwrap();
    (cache, config)
}

/// Returns the maximum length of a chain, as stated in item 6 of the documentation of [`crate::mbcache`].
fn longest(variant: Variant) -> u32 {
    match variant {
        Variant::Old | Variant::Clock => 64,
        _ => 128,
    }
}

#[test]
fn chain_of_one_key_stays_short_and_keeps_the_newest() {
    each(|variant| {
        let (cache, _) = cache_of(variant);
        for value in 0..FORGED {
            assert_eq!(cache.insert(7, value.into(), true), Inserted::New);
        }
        let newest = FORGED - longest(variant)..FORGED;
        let newest: Vec<u64> = newest.rev().map(u64::from).collect();
        assert_eq!(search(&*cache, 7), newest);
        let stats = cache.stats();
        assert_eq!(stats.entries, longest(variant).into());
        assert_eq!(stats.dropped_by_limit, u64::from(FORGED) - stats.entries);
        cache.check_invariants();
    });
}

#[test]
fn chain_of_colliding_keys_stays_short() {
    each(|variant| {
        let (cache, config) = cache_of(variant);
        let collide = |key: &u32| Hash64.bucket(*key, config.bits) == 0;
        let forged = (0..).filter(collide).take(FORGED as usize);
        for key in forged {
            assert_eq!(cache.insert(key, 10, true), Inserted::New);
        }
        assert_eq!(cache.stats().entries, longest(variant).into(), "{variant}");
        cache.check_invariants();
    });
}

#[test]
fn chain_full_of_held_entries_has_no_room_until_one_is_released() {
    each(|variant| {
        let (cache, _) = cache_of(variant);
        let mut held = Vec::new();
        for value in 0..longest(variant) {
            cache.insert(7, value.into(), true);
            held.extend(cache.find_first(7));
        }
        assert_eq!(cache.insert(7, 1000, true), Inserted::NoRoom);
        // An entry with another key is in another chain. The variant `old` also has chains of values, but
        // they are short here.
        assert_eq!(cache.insert(8, 1000, true), Inserted::New);
        let released = held.swap_remove(5).value();
        assert_eq!(cache.insert(7, 2000, true), Inserted::New);
        assert!(cache.get(7, released).is_none());
        assert_eq!(cache.stats().dropped_by_limit, 1);
        drop(held);
        cache.check_invariants();
    });
}
