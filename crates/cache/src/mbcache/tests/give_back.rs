//! Tests that a cache gives memory back when it is shrunk, and that held entries stay in the cache.

use super::*;

const CHUNK: u32 = 16;

/// Creates a cache that may grow by `chunks` chunks. Also returns the counter of the chunks that are left.
fn cache_of(variant: Variant, chunks: u32) -> (Box<dyn MbCache>, Arc<Chunks>) {
    let chunks = Arc::new(Chunks(AtomicU32::new(chunks)));
    let config = Config {
        limit_entries: 256,
        // With 4 buckets, one chain may contain all entries, so that all may have the same key.
        bits: 2,
    };
    let growth = Growth::Charged {
        chunk: CHUNK,
        charge: chunks.clone(),
    };
    (build(variant, config, growth, ()).unwrap(), chunks)
}

#[test]
fn memory_of_dropped_entries_is_returned_and_touched_entries_stay() {
    each(|variant| {
        let (cache, chunks) = cache_of(variant, 100);
        // A touched entry is at the end of a list in `old`, `lru` and `list-lru`. In the other variants,
        // the scan spares each of the 20 touched entries once, so 20 more entries have to be scanned.
        let scanned = match variant {
            Variant::Referenced | Variant::Clock => 160,
            _ => 140,
        };
        for round in 0..3 {
            for value in 0..160 {
                assert_eq!(cache.insert(1, value, value % 2 == 0), Inserted::New);
            }
            assert_eq!(chunks.0.load(SeqCst), 100 - 9, "{variant}, round {round}");
            // The entries that were inserted last are in the last slots, which are given back.
            for value in 140..160 {
                cache.get(1, value).unwrap().touch();
            }
            let frames = cache.scan_objects(scanned);
            let stats = cache.stats();
            assert_eq!(stats.dropped_by_shrinker, (round + 1) * 140, "{variant}");
            // 20 entries take two chunks. The first of them is never given back.
            assert_eq!(frames, 8, "{variant}");
            assert_eq!(chunks.0.load(SeqCst), 100 - 1, "{variant}");
            cache.check_invariants();
            let mut found = search(&*cache, 1);
            found.sort_unstable();
            let reusable: Vec<u64> = (140..160).step_by(2).collect();
            assert_eq!(found, reusable, "{variant}");
            for value in 140..160 {
                let deleted = cache.delete_or_get(1, value);
                assert!(matches!(deleted, Deletion::Absent), "{variant}");
            }
            assert_eq!(cache.stats().entries, 0, "{variant}");
        }
    });
}

#[test]
fn held_entry_keeps_its_chunk_until_released() {
    each(|variant| {
        let (cache, chunks) = cache_of(variant, 100);
        for value in 0..160 {
            cache.insert(1, value, true);
        }
        // The first result of a search is the entry that was inserted last.
        let last = cache.find_first(1).unwrap();
        assert_eq!(cache.scan_objects(1000), 0, "{variant}");
        assert_eq!((last.key(), last.value()), (1, 159));
        assert_eq!(search(&*cache, 1), [159], "{variant}");
        cache.check_invariants();
        drop(last);
        assert_eq!(cache.scan_objects(1), 9, "{variant}");
        assert_eq!(chunks.0.load(SeqCst), 100, "{variant}");
        cache.check_invariants();
    });
}

#[test]
fn memory_after_a_held_entry_is_returned_at_once() {
    each(|variant| {
        let (cache, chunks) = cache_of(variant, 100);
        for value in 0..160 {
            // Entry 70 is in the fifth of ten chunks.
            let key = if value == 70 { 2 } else { 1 };
            cache.insert(key, value, true);
        }
        let held = cache.find_first(2).unwrap();
        assert_eq!(cache.scan_objects(1000), 5, "{variant}");
        assert_eq!(search(&*cache, 2), [70], "{variant}");
        cache.check_invariants();
        drop(held);
        assert_eq!(cache.scan_objects(1), 4, "{variant}");
        assert_eq!(chunks.0.load(SeqCst), 100, "{variant}");
    });
}

#[test]
fn moved_entries_keep_key_value_and_flags() {
    let moved = |variant| {
        let (cache, _) = cache_of(variant, 100);
        for value in 0..160 {
            cache.insert(1, value, true);
        }
        // Deletions free lower slots, to which the other entries can move.
        for value in 0..120 {
            assert!(matches!(cache.delete_or_get(1, value), Deletion::Absent));
        }
        let referenced = cache.get(1, 150).unwrap();
        referenced.touch();
        referenced.set_reusable(false);
        drop(referenced);
        assert_eq!(cache.scan_objects(0), 7, "{variant}");
        cache.check_invariants();
        cache
    };
    each(|variant| {
        let mut found = search(&*moved(variant), 1);
        found.sort_unstable();
        let expected: Vec<u64> = (120..160).filter(|&value| value != 150).collect();
        assert_eq!(found, expected, "{variant}");
        let cache = moved(variant);
        cache.scan_objects(39);
        assert!(cache.get(1, 150).is_some(), "{variant}");
    });
}

#[test]
fn cache_without_more_memory_reuses_its_slots() {
    each(|variant| {
        let (cache, _) = cache_of(variant, 0);
        for value in 0..100 {
            assert_eq!(cache.insert(1, value, true), Inserted::New, "{variant}");
        }
        let stats = cache.stats();
        assert_eq!(stats.entries, u64::from(CHUNK), "{variant}");
        assert_eq!(stats.dropped_by_shrinker, 100 - stats.entries, "{variant}");
        assert_eq!(stats.dropped_by_limit, 0, "{variant}");
        let offer_again = |value| cache.insert(1, value, true);
        assert_eq!(offer_again(99), Inserted::Existing, "{variant}");
        assert_eq!(dropped(&*cache), stats.dropped_by_shrinker, "{variant}");
        cache.check_invariants();
    });
}
