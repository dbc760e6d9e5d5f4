//! Tests that memory that shared attributes give back is no longer resident. The test has a process
//! of its own, because other tests would change the measurement.

use larder_cache::mbcache::{Config, Inserted, Variant, build};
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

/// Returns the resident memory of this process, on a machine with pages of 4 KiB.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn memory_that_is_given_back_is_not_resident() {
    const ENTRIES: u32 = 1 << 19;
    /// Memory for code that runs for the first time, counters, and wait queues.
    const SLACK_BYTES: u64 = 1 << 20;
    for variant in Variant::ALL {
        let growth = Growth::Charged {
            chunk: 128,
            charge: Arc::new(Plenty),
        };
        let config = Config {
            limit_entries: ENTRIES,
            bits: 16,
        };
        let cache = build(variant, config, growth, ()).unwrap();
        let entry_bytes = cache.stats().entry_bytes;
        if entry_bytes == 0 {
            continue;
        }
        // The buckets remain resident.
        for key in 0..1 << 16 {
            cache.find_first(key);
        }
        let before = resident_bytes();
        for value in 0..ENTRIES / 2 {
            assert_eq!(cache.insert(value, value.into(), true), Inserted::New);
        }
        let full = resident_bytes() - before;
        let expected = u64::from(ENTRIES / 2) * entry_bytes;
        assert!(
            full >= expected,
            "{variant}: {full} bytes of {expected} are resident"
        );
        let frames = cache.scan_objects(cache.count_objects());
        assert_eq!(cache.stats().entries, 0, "{variant}");
        assert_eq!(frames, u64::from(ENTRIES / 2 / 128 - 1), "{variant}");
        let left = resident_bytes().saturating_sub(before);
        assert!(
            left < SLACK_BYTES,
            "{variant}: {left} bytes of {full} are still resident"
        );
        cache.check_invariants();
    }
}
