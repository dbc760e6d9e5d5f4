//! Tests that a search for shared attributes and the eviction of entries allocate no memory. A
//! search holds locks, and eviction runs when memory is short.

use allocation_counter::measure;
use larder_cache::mbcache::{Config, Deletion, MbCache, Variant, build};
use larder_cache::table::{Charge, Growth};
use std::sync::Arc;

/// A source of memory that never runs out.
struct Plenty;

impl Charge for Plenty {
    fn charge(&self) -> bool {
        true
    }

    fn uncharge(&self) {}
}

/// Creates a cache with so few entries that no worker starts.
fn cache(variant: Variant) -> Box<dyn MbCache> {
    let config = Config {
        limit_entries: 4000,
        bits: 6,
    };
    let growth = Growth::Charged {
        chunk: 64,
        charge: Arc::new(Plenty),
    };
    let cache = build(variant, config, growth, ()).unwrap();
    for value in 0..2000_u32 {
        cache.insert(value % 100, value.into(), true);
    }
    // The per-thread state is created at the first use.
    drop(cache.find_first(0));
    cache
}

fn allocations(work: impl FnOnce()) -> u64 {
    measure(work).count_total
}

#[test]
fn lookups_allocate_nothing() {
    for variant in Variant::ALL {
        let cache = cache(variant);
        let look = || {
            for key in 0..200 {
                let mut found = cache.find_first(key);
                while let Some(held) = found {
                    held.touch();
                    held.set_reusable(held.value() % 3 > 0);
                    found = cache.find_next(held);
                }
                drop(cache.get(key, key.into()));
                assert!(matches!(
                    cache.delete_or_get(key, key.into()),
                    Deletion::Absent
                ));
            }
        };
        assert_eq!(allocations(look), 0, "{variant}");
    }
}

#[test]
fn deletion_of_held_entry_allocates_only_the_list_of_waiters() {
    for &variant in Variant::CACHES {
        let cache = cache(variant);
        let delete_held = || {
            let user = cache.find_first(0).unwrap();
            let Deletion::InUse(held) = cache.delete_or_get(0, user.value()) else {
                panic!("{variant} deleted a held entry");
            };
            drop(user);
            held.wait_unused();
        };
        assert!(allocations(delete_held) <= 1, "{variant}");
        assert_eq!(allocations(delete_held), 0, "{variant}: the list exists");
    }
}

#[test]
fn shrinking_allocates_nothing() {
    for variant in Variant::ALL {
        let cache = cache(variant);
        let mut frames = 0;
        let shrink = || {
            for _ in 0..100 {
                frames += cache.scan_objects(cache.count_objects() / 2);
            }
        };
        assert_eq!(allocations(shrink), 0, "{variant}");
        assert!(frames > 0 || variant == Variant::Off, "{variant}");
    }
}
