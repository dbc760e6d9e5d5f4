//! What all variants have in common.

mod lessons;
mod model;

use super::*;

/// The variants that keep entries.
const CACHES: [Variant; 3] = [Variant::Lru, Variant::ListLru, Variant::Referenced];

/// A cache with 2^`bits` buckets.
fn cache(variant: Variant, limit_entries: u32, bits: u32) -> Box<dyn MbCache> {
    let config = Config {
        limit_entries,
        bits,
    };
    build(variant, config, Growth::Prepaid, ()).unwrap()
}

/// Runs `test` with each variant, and says which one failed.
fn each(test: impl Fn(Variant)) {
    for variant in CACHES {
        eprintln!("{variant}");
        test(variant);
    }
}

/// What a search for `key` finds.
fn search(cache: &dyn MbCache, key: u32) -> Vec<u64> {
    let mut values = Vec::new();
    let mut found = cache.find_first(key);
    while let Some(held) = found {
        assert_eq!(held.key(), key);
        values.push(held.value());
        found = cache.find_next(held);
    }
    values
}

/// Entries that went without being deleted.
fn dropped(cache: &dyn MbCache) -> u64 {
    let stats = cache.stats();
    stats.dropped_by_limit + stats.dropped_by_shrinker
}

#[test]
fn variants_are_found_by_their_names() {
    for variant in Variant::ALL {
        assert_eq!(variant.as_str().parse(), Ok(variant));
    }
    let error = "LRU".parse::<Variant>().unwrap_err().to_string();
    assert!(
        error.contains("`LRU`") && error.contains("list-lru"),
        "{error}"
    );
}
