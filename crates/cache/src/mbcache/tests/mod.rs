//! Tests that run with all variants.

mod give_back;
mod lessons;
mod long_chains;
mod model;
mod sizes;

use super::*;
use crate::table::{Charge, Growth};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// A source of memory for a limited number of chunks.
#[derive(Debug)]
struct Chunks(AtomicU32);

impl Charge for Chunks {
    fn charge(&self) -> bool {
        let left = self
            .0
            .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        left.is_ok()
    }

    fn uncharge(&self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Creates a cache with 2^`bits` buckets, which grows and shrinks by a few entries at a time.
fn cache(variant: Variant, limit_entries: u32, bits: u32) -> Box<dyn MbCache> {
    let config = Config {
        limit_entries,
        bits,
    };
    let growth = Growth::Charged {
        chunk: 4,
        charge: Arc::new(Chunks(AtomicU32::new(u32::MAX))),
    };
    build(variant, config, growth, ()).unwrap()
}

/// Runs `test` with each variant. Prints the name of the variant first, so that a failure shows it.
fn each(test: impl Fn(Variant)) {
    for &variant in Variant::CACHES {
        eprintln!("{variant}");
        test(variant);
    }
}

/// Returns the values that a search for `key` finds.
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

/// Returns the number of entries that were evicted, not deleted.
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
        error.contains("'LRU'") && error.contains("list-lru"),
        "{error}"
    );
}
