//! Tests that memory moves between the pages and the caches of shared attributes.

use larder_block::MemoryDevice;
use larder_cache::Caches;
use larder_cache::budget::BudgetConfig;
use larder_cache::mbcache::{Inserted, Variant};
use larder_cache::page::{Entry, PageKey};
use std::sync::Arc;

const BUDGET_BYTES: u64 = 8 << 20;

fn caches(variant: Variant) -> Caches {
    let config = BudgetConfig {
        shared_blocks: variant,
        shared_inodes: variant,
        ..BudgetConfig::new(BUDGET_BYTES, 4096)
    };
    Caches::new(&config, Arc::new(MemoryDevice::new(vec![0; 4096]))).unwrap()
}

/// Reads as many pages as fit, each once, and repeats this `times` times.
fn read_pages(caches: &Caches, times: u64) {
    for index in 0..times * BUDGET_BYTES / 4096 {
        if let Entry::New(page) = caches.pages.get_or_insert(PageKey { ino: 12, index }) {
            page.complete();
        }
    }
}

#[test]
fn memory_of_shared_attributes_moves_to_pages_and_back() {
    for variant in Variant::ALL {
        let caches = caches(variant);
        let at_first = caches.pages.stats().capacity;
        let limit = caches.attributes.blocks.stats().limit_entries;
        read_pages(&caches, 1);
        for round in 0..3 {
            for cache in [&caches.attributes.blocks, &caches.attributes.inodes] {
                for value in 0..limit {
                    let key = u32::try_from(value).unwrap();
                    assert_eq!(cache.insert(key, value, true), Inserted::New, "{variant}");
                }
            }
            let grown = caches.pages.stats().capacity;
            let chunks = limit * caches.attributes.blocks.stats().entry_bytes / 4096;
            assert!(
                at_first - grown >= 2 * chunks.saturating_sub(1),
                "{variant}: {grown} of {at_first} pages in round {round}"
            );
            read_pages(&caches, 8);
            let shrunk = caches.pages.stats().capacity;
            // So few entries remain that the part to scan is rounded down to 0.
            assert!(
                at_first - shrunk <= 4,
                "{variant}: {shrunk} of {at_first} pages in round {round}"
            );
            for cache in [&caches.attributes.blocks, &caches.attributes.inodes] {
                assert!(variant == Variant::Off || cache.stats().dropped_by_shrinker > 0);
                for value in 0..limit {
                    cache.delete_or_get(u32::try_from(value).unwrap(), value);
                }
            }
            caches.check_invariants();
        }
    }
}
