//! The limit of the size, and which files are evicted.

use crate::support::{
    Fixture, MIB, Object, UNLIMITED_BYTES, cache_files, lock, object, write_to_locked,
};
use larder_remote::disk_cache::Error;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

const LIMIT_BYTES: u64 = 4 * MIB;

/// The number of writes after which an object without room requests it again.
const RETRY_UNITS: u64 = 256;

/// Stores all units of `object`, and checks the limit after each.
fn fill(fixture: &Fixture, object: &Object) {
    let cached = object.open(&fixture.cache(LIMIT_BYTES));
    for unit in 0..object.units() {
        object.write(&cached, unit);
        assert!(fixture.stored_bytes() <= LIMIT_BYTES, "unit {unit}");
    }
}

/// Sets the time of the last use of all files to the past.
fn age(fixture: &Fixture, seconds: u64) {
    let past = SystemTime::now() - Duration::from_secs(seconds);
    for file in cache_files(&fixture.path()) {
        File::open(file).unwrap().set_modified(past).unwrap();
    }
}

fn is_cached(fixture: &Fixture, object: &Object) -> bool {
    let label = format!("https://host/disk.img {}", object.version);
    let found = fixture.cache(LIMIT_BYTES).list().unwrap();
    found
        .iter()
        .any(|found| found.label.as_ref() == Some(&label))
}

#[test]
fn least_recently_used_object_is_evicted_first() {
    let fixture = Fixture::new();
    let [a, b, c] = ["a", "b", "c"].map(|version| object(version, 24));
    fill(&fixture, &a);
    age(&fixture, 2000);
    fill(&fixture, &b);
    assert!(is_cached(&fixture, &a));
    fill(&fixture, &c);
    assert!(!is_cached(&fixture, &a) && is_cached(&fixture, &b) && is_cached(&fixture, &c));
}

#[test]
fn opened_object_is_used_more_recently() {
    let fixture = Fixture::new();
    let [a, b, c] = ["a", "b", "c"].map(|version| object(version, 24));
    fill(&fixture, &a);
    fill(&fixture, &b);
    age(&fixture, 1000);
    let cached = a.open(&fixture.cache(LIMIT_BYTES));
    assert!(a.read(&cached, 3));
    drop(cached);
    fill(&fixture, &c);
    assert!(is_cached(&fixture, &a) && !is_cached(&fixture, &b));
}

#[test]
fn closed_object_is_used_more_recently() {
    let fixture = Fixture::new();
    let [a, b, c] = ["a", "b", "c"].map(|version| object(version, 24));
    fill(&fixture, &a);
    fill(&fixture, &b);
    let cached = a.open(&fixture.cache(LIMIT_BYTES));
    age(&fixture, 1000);
    drop(cached);
    fill(&fixture, &c);
    assert!(is_cached(&fixture, &a) && !is_cached(&fixture, &b));
}

#[test]
fn object_in_use_is_not_evicted() {
    let fixture = Fixture::new();
    let [a, b, c] = ["a", "b", "c"].map(|version| object(version, 24));
    fill(&fixture, &a);
    let in_use = a.open(&fixture.cache(LIMIT_BYTES));
    age(&fixture, 2000);
    fill(&fixture, &b);
    fill(&fixture, &c);
    assert!(is_cached(&fixture, &a) && !is_cached(&fixture, &b));
    assert!((0..24).all(|unit| a.read(&in_use, unit)));
    let removed = fixture.cache(LIMIT_BYTES).clear().unwrap();
    assert_eq!(removed.files, 1);
    assert_eq!(removed.left_bytes, fixture.stored_bytes());
    assert!((0..24).all(|unit| a.read(&in_use, unit)));
}

#[test]
fn object_larger_than_the_limit_keeps_what_was_read_first() {
    let fixture = Fixture::new();
    let large = object("large", 200);
    fill(&fixture, &large);
    let cached = large.open(&fixture.cache(LIMIT_BYTES));
    let present = cached.present_units();
    assert!(present > 50, "{present} units");
    for unit in 0..200 {
        assert_eq!(large.read(&cached, unit), unit < present);
    }
}

#[test]
fn object_stores_again_when_there_is_room_again() {
    let fixture = Fixture::new();
    let [a, b] = ["a", "b"].map(|version| object(version, 60));
    let cache = fixture.cache(LIMIT_BYTES);
    let in_use = a.open(&cache);
    (0..60).for_each(|unit| a.write(&in_use, unit));
    let cached = b.open(&cache);
    b.write(&cached, 0);
    assert!(cached.is_out_of_room() && cached.present_units() == 0);
    drop(in_use);
    for _ in 1..RETRY_UNITS {
        b.write(&cached, 1);
        assert!(cached.is_out_of_room() && cached.present_units() == 0);
    }
    b.write(&cached, 2);
    assert!(!cached.is_out_of_room() && b.read(&cached, 2));
    assert!(!is_cached(&fixture, &a));
}

#[test]
fn limit_below_a_unit_stores_nothing() {
    let fixture = Fixture::new();
    let object = object("1", 1);
    for max_bytes in [0, 1, 50_000] {
        let cached = object.open(&fixture.cache(max_bytes));
        object.write(&cached, 0);
        assert!(!object.read(&cached, 0), "{max_bytes}");
    }
}

#[test]
fn prune_removes_until_the_given_size() {
    let fixture = Fixture::new();
    let cache = fixture.cache(UNLIMITED_BYTES);
    for version in ["a", "b", "c"] {
        let object = object(version, 17);
        let cached = object.open(&cache);
        (0..16).for_each(|unit| object.write(&cached, unit));
        drop(cached);
        age(&fixture, 1000);
    }
    let before = fixture.stored_bytes();
    assert_eq!(cache.prune(before).unwrap().files, 0);
    let removed = cache.prune(before - 1).unwrap();
    assert_eq!(
        (removed.files, removed.left_bytes),
        (1, fixture.stored_bytes())
    );
    assert_eq!(removed.bytes + removed.left_bytes, before);
    assert_eq!(cache.prune(MIB / 2).unwrap().files, 2);
    assert_eq!(fixture.stored_bytes(), 0);
}

/// A reader that stores what it fetched must not wait for another process.
#[test]
fn write_does_not_wait_for_a_process_that_evicts() {
    let fixture = Fixture::new();
    let [a, b] = ["a", "b"].map(|version| object(version, 60));
    fill(&fixture, &a);
    let cached = b.open(&fixture.cache(LIMIT_BYTES));
    let lock = lock(&fixture);
    b.write(&cached, 0);
    assert!(cached.is_out_of_room() && !b.read(&cached, 0));
    drop(lock);
    for _ in 0..RETRY_UNITS {
        b.write(&cached, 0);
    }
    assert!(b.read(&cached, 0));
}

#[test]
fn unit_of_a_pack_waits_for_a_process_that_evicts() {
    let fixture = Fixture::new();
    let [a, b] = ["a", "b"].map(|version| object(version, 60));
    fill(&fixture, &a);
    let cached = b.open(&fixture.cache(LIMIT_BYTES));
    cached.confirm().unwrap();
    let lock = lock(&fixture);
    // A unit of the image is not stored. This does not apply to the next units of packs.
    b.write(&cached, 0);
    assert!(cached.is_out_of_room());
    write_to_locked(&lock, || cached.write_pack_unit(1, &b.content(1)));
    assert!(b.read(&cached, 1) && !is_cached(&fixture, &a));
}

#[test]
fn file_removed_in_use_stores_nothing_and_is_reported_once() {
    let fixture = Fixture::new();
    let object = object("1", 4);
    let cache = fixture.cache(UNLIMITED_BYTES);
    object.write(&object.open(&cache), 0);
    let cached = object.open(&cache);
    fs::remove_dir_all(fixture.path()).unwrap();
    let error = cached.write_unit(1, &object.content(1)).unwrap_err();
    assert!(matches!(error, Error::Unlinked { .. }), "{error}");
    object.write(&cached, 1);
    assert!(object.read(&cached, 0) && !object.read(&cached, 1));
}
