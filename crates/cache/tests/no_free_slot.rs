//! Tests that a cache that has no free slot for a new value does not keep the old value.
//!
//! The arena cannot grow, and a lookup finds every entry again between two steps of the clock hand,
//! so that no slot becomes free. Readers that are as fast as the hand have the same effect.

use larder_cache::dentry::{Dentry, DentryCache};
use larder_cache::inode::InodeCache;
use larder_cache::table::ArenaConfig;
use larder_cache::table::Charge;
use larder_cache::tables::InodeLookups;
use std::sync::{Arc, OnceLock};

const SLOTS: u32 = 4;

const CONFIG: ArenaConfig = ArenaConfig {
    slots: 2 * SLOTS,
    bits: 3,
    chunk: SLOTS,
    bucket_bytes: 4,
};

type FindAll = Box<dyn Fn() + Send + Sync>;

/// A source of memory that looks up all entries, and then refuses memory.
#[derive(Default)]
struct Refusing(OnceLock<FindAll>);

impl Charge for Refusing {
    fn charge(&self) -> bool {
        if let Some(find_all) = self.0.get() {
            find_all();
        }
        false
    }

    fn uncharge(&self) {}
}

fn find_all_by(charge: &Refusing, find_all: impl Fn() + Send + Sync + 'static) {
    assert!(charge.0.set(Box::new(find_all)).is_ok());
}

fn dentry(ino: u32) -> Dentry {
    Dentry::Positive { ino, file_type: 1 }
}

/// Returns names of `bytes` bytes. Names up to 39 bytes and longer ones have separate tables.
fn names(bytes: usize) -> Vec<Vec<u8>> {
    let letters = b'a'..;
    let names = letters.map(|letter| vec![letter; bytes]);
    names.take(SLOTS as usize).collect()
}

fn assert_no_dentry_is_stale(bytes: usize, new: Dentry) {
    let charge = Arc::new(Refusing::default());
    let half = || (CONFIG, Arc::clone(&charge) as Arc<dyn Charge>);
    let cache = Arc::new(DentryCache::new(half(), half(), None, [1, 2]).unwrap());
    for name in names(bytes) {
        cache.insert(2, &name, dentry(12));
    }
    let found = Arc::clone(&cache);
    find_all_by(&charge, move || {
        for name in names(bytes) {
            let _ = found.get(2, &name);
        }
    });
    let name = &names(bytes)[1];
    cache.insert(2, name, new);
    assert_eq!(cache.get(2, name), None, "the old value is removed");
    assert_eq!(cache.stats().objects, u64::from(SLOTS) - 1);
    // Now a slot is free.
    cache.insert(2, name, new);
    assert_eq!(cache.get(2, name), Some(new));
    cache.check_invariants();
}

#[test]
fn dentry_without_a_free_slot_is_dropped() {
    for bytes in [8, 100] {
        for new in [Dentry::Negative, dentry(13)] {
            assert_no_dentry_is_stale(bytes, new);
        }
    }
}

#[test]
fn inode_without_a_free_slot_is_dropped() {
    let charge = Arc::new(Refusing::default());
    let cache =
        Arc::new(InodeCache::<2>::new(CONFIG, charge.clone(), None, InodeLookups::All).unwrap());
    for ino in 0..SLOTS {
        cache.insert(ino, &[1, 1]);
    }
    let found = Arc::clone(&cache);
    find_all_by(&charge, move || {
        for ino in 0..SLOTS {
            let _ = found.get(ino);
        }
    });
    cache.insert(1, &[2, 2]);
    assert_eq!(cache.get(1), None, "the old value is removed");
    assert_eq!(cache.stats().objects, u64::from(SLOTS) - 1);
    cache.check_invariants();
}
