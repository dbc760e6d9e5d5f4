//! The directory and its files: access, contents of the list, and what opening costs.

use crate::support::{
    Fixture, MIB, Object, UNLIMITED_BYTES, cache_files, lock, object, write_to_locked,
};
use larder_remote::disk_cache::{CacheDir, Error, UNIT_BYTES};
use larder_testkit::{Requirement, report_skipped, skip};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn directory_and_files_are_private() {
    let fixture = Fixture::new();
    let above = fixture.path().join("above");
    let cache = CacheDir::open(&above.join("cache"), MIB).unwrap();
    let _object = object("1", 2).open(&cache);
    assert_eq!(mode(&above), 0o700);
    assert_eq!(mode(&above.join("cache")), 0o700);
    for file in fs::read_dir(above.join("cache")).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

#[test]
fn directory_that_others_can_write_to_is_refused() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path()).unwrap();
    for (mode, is_refused) in [(0o722, true), (0o770, true), (0o1777, true), (0o755, false)] {
        fs::set_permissions(fixture.path(), Permissions::from_mode(mode)).unwrap();
        match CacheDir::open(&fixture.path(), MIB) {
            Err(Error::WritableByOthers { mode: found, .. }) => {
                assert!(is_refused && u32::from(found) == mode, "{mode:o}");
            }
            other => assert!(!is_refused && other.is_ok(), "{mode:o}: {other:?}"),
        }
    }
}

#[test]
fn directory_of_another_user_is_refused() {
    if skip(&[Requirement::Root]) {
        return;
    }
    let fixture = Fixture::new();
    fs::create_dir(fixture.path()).unwrap();
    std::os::unix::fs::chown(fixture.path(), Some(1234), None).unwrap();
    let error = CacheDir::open(&fixture.path(), MIB).unwrap_err();
    assert!(
        matches!(error, Error::OtherOwner { uid: 1234, .. }),
        "{error}"
    );
}

#[test]
fn directory_that_is_a_symbolic_link_is_refused() {
    let fixture = Fixture::new();
    let target = tempfile::tempdir().unwrap();
    symlink(target.path(), fixture.path()).unwrap();
    for path in [fixture.path(), fixture.path().join("")] {
        let error = CacheDir::open(&path, MIB).unwrap_err();
        assert!(matches!(error, Error::Directory { .. }), "{error}");
    }
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
}

#[test]
fn wait_for_the_lock_is_limited() {
    let fixture = Fixture::new();
    fixture.cache(MIB).list().unwrap();
    let lock = File::open(fixture.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let cache = CacheDir::open_with_timeout(&fixture.path(), MIB, Duration::ZERO).unwrap();
    let error = cache.list().unwrap_err();
    assert!(error.to_string().ends_with("cache/lock"), "{error}");
    drop(lock);
    cache.list().unwrap();
}

#[test]
fn units_of_packs_are_not_stored_after_a_check_has_begun() {
    let fixture = Fixture::new();
    let cache = fixture.cache(UNLIMITED_BYTES);
    let object = object("1", 4);
    let (packed, checked) = (object.open(&cache), object.open(&cache));
    packed.confirm().unwrap();
    packed.write_pack_unit(0, &object.content(0)).unwrap();
    assert!(object.read(&packed, 0) && !packed.is_checked());
    checked.begin_check().unwrap();
    assert!(packed.is_checked() && packed.content().is_none());
    packed.write_pack_unit(1, &object.content(1)).unwrap();
    assert!(!packed.contains_unit(1));
    object.write(&checked, 1);
    checked.set_content([7; 32]).unwrap();
    // The bytes of another unit: a forged pack.
    packed.write_pack_unit(1, &object.content(2)).unwrap();
    assert!(object.read(&checked, 1));
}

#[test]
fn interrupted_check_does_not_prevent_that_units_of_packs_are_stored() {
    let fixture = Fixture::new();
    let cache = fixture.cache(UNLIMITED_BYTES);
    let object = object("1", 4);
    let (packed, checked) = (object.open(&cache), object.open(&cache));
    checked.begin_check().unwrap();
    assert!(packed.is_checked());
    drop(checked);
    // The search for other users has failed, and has not ended this use.
    assert!(cache.list().unwrap()[0].is_in_use);
    assert!(!packed.is_checked());
    packed.write_pack_unit(1, &object.content(1)).unwrap();
    assert!(object.read(&packed, 1));
    // The file is still locked.
    assert!(cache.list().unwrap()[0].is_in_use);
    // A check that has ended remains recorded.
    packed.set_content([7; 32]).unwrap();
    assert!(packed.is_checked());
}

#[test]
fn unit_of_a_pack_is_stored_when_the_lock_is_free_again() {
    let fixture = Fixture::new();
    let object = object("1", 4);
    let cached = object.open(&fixture.cache(UNLIMITED_BYTES));
    cached.confirm().unwrap();
    let lock = lock(&fixture);
    write_to_locked(&lock, || cached.write_pack_unit(1, &object.content(1)));
    assert!(object.read(&cached, 1));
}

#[test]
fn unit_of_a_pack_that_is_not_stored_because_of_the_lock_is_reported() {
    let fixture = Fixture::new();
    let object = object("1", 4);
    let cache =
        CacheDir::open_with_timeout(&fixture.path(), UNLIMITED_BYTES, Duration::ZERO).unwrap();
    let cached = object.open(&cache);
    cached.confirm().unwrap();
    let _lock = lock(&fixture);
    let error = cached.write_pack_unit(1, &object.content(1)).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    // Units of the image are still stored, and the error is not repeated.
    object.write(&cached, 2);
    assert!(object.read(&cached, 2));
    cached.write_pack_unit(3, &object.content(3)).unwrap();
    assert!(!cached.contains_unit(3));
}

#[test]
fn room_is_what_objects_in_use_leave() {
    let fixture = Fixture::new();
    let cache = fixture.cache(10 * MIB);
    let (first, second) = (object("1", 100), object("2", 100));
    let cached = first.open(&cache);
    for unit in 0..50 {
        first.write(&cached, unit);
    }
    let other = second.open(&cache);
    // The last sixteenth of the limit is not used. A unit can take 68 KiB.
    let room = other.room_units();
    assert!((85..95).contains(&room), "{room}");
    drop(cached);
    assert!(other.room_units() > 135, "{}", other.room_units());
}

#[test]
fn names_in_the_directory_contain_no_part_of_the_identity() {
    let fixture = Fixture::new();
    let _object = object("secret-version", 1).open(&fixture.cache(MIB));
    let name = fixture.file().file_name().unwrap().to_owned();
    let name = name.into_string().unwrap();
    assert!(name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

#[test]
fn stored_units_are_read_back_by_another_open_object() {
    let fixture = Fixture::new();
    let object = object("1", 300);
    let cached = object.open(&fixture.cache(UNLIMITED_BYTES));
    for unit in [0, 7, 255, 256, 299] {
        assert!(!cached.contains_unit(unit));
        object.write(&cached, unit);
    }
    drop(cached);
    let cached = object.open(&fixture.cache(UNLIMITED_BYTES));
    for unit in 0..300 {
        let is_present = [0, 7, 255, 256, 299].contains(&unit);
        assert_eq!(cached.contains_unit(unit), is_present);
        assert_eq!(object.read(&cached, unit), is_present);
    }
    assert!(!cached.contains_unit(300) && !cached.contains_unit(u64::MAX));
    assert_eq!((cached.present_units(), cached.damaged_units()), (5, 0));
    assert!(!cached.is_complete());
    (0..300).for_each(|unit| object.write(&cached, unit));
    assert!(cached.is_complete() && cached.present_units() == 300);
}

#[test]
fn objects_of_different_identity_or_size_share_nothing() {
    let fixture = Fixture::new();
    let cache = fixture.cache(UNLIMITED_BYTES);
    let first = object("1", 1);
    first.write(&first.open(&cache), 0);
    let mut other_credentials = first.identity();
    other_credentials.credentials = "key";
    let others = [
        cache.object(&object("2", 1).identity(), 1000, ""),
        cache.object(&other_credentials, 1000, ""),
        cache.object(&first.identity(), 1001, ""),
    ];
    for other in others {
        assert_eq!(other.unwrap().present_units(), 0);
    }
    assert_eq!(cache_files(&fixture.path()).len(), 4);
    assert!(first.read(&first.open(&cache), 0));
}

#[test]
fn empty_object_is_complete() {
    let fixture = Fixture::new();
    let object = Object {
        version: "1",
        size_bytes: 0,
    };
    let cached = object.open(&fixture.cache(MIB));
    assert!(cached.is_complete() && cached.present_units() == 0);
}

#[test]
fn object_that_is_too_large_for_a_file_is_refused() {
    let fixture = Fixture::new();
    for size_bytes in [u64::MAX, u64::MAX / 2] {
        let object = fixture
            .cache(MIB)
            .object(&object("1", 1).identity(), size_bytes, "");
        assert!(matches!(object.unwrap_err(), Error::File { .. }));
    }
}

/// Returns the number of bytes that this thread has read by system calls.
fn bytes_read() -> Option<u64> {
    let counters = fs::read_to_string("/proc/thread-self/io").ok()?;
    let count = counters
        .lines()
        .find_map(|line| line.strip_prefix("rchar: "))?;
    count.parse().ok()
}

/// An object of 100 GiB must open within 100 ms. The time is proportional to the bytes that are read, so the test
/// counts these.
#[test]
fn opening_100_gib_reads_only_the_header() {
    let fixture = Fixture::new();
    let object = object("1", 100 << (30 - UNIT_BYTES.ilog2()));
    let cached = object.open(&fixture.cache(UNLIMITED_BYTES));
    for unit in (0..object.units()).step_by(20_000) {
        object.write(&cached, unit);
    }
    drop(cached);
    let Some(before) = bytes_read() else {
        return report_skipped("the kernel does not count what a thread reads");
    };
    let overhead = bytes_read().unwrap() - before;
    let cached = object.open(&fixture.cache(UNLIMITED_BYTES));
    let read = bytes_read().unwrap() - before - 2 * overhead;
    assert!(read < 1024, "{read} bytes");
    assert!(object.read(&cached, 20_000) && !object.read(&cached, 20_001));
    assert_eq!(cached.present_units(), object.units().div_ceil(20_000));
}

#[test]
fn list_shows_labels_sizes_and_use() {
    let fixture = Fixture::new();
    let cache = fixture.cache(UNLIMITED_BYTES);
    let open = object("1", 4).open(&cache);
    object("1", 4).write(&open, 0);
    let found = cache.list().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].label.as_deref(), Some("https://host/disk.img 1"));
    assert_eq!(found[0].size_bytes, Some(object("1", 4).size_bytes));
    assert_eq!(found[0].stored_bytes, fixture.stored_bytes());
    assert!(found[0].stored_bytes >= UNIT_BYTES as u64 && found[0].is_in_use);
    drop(open);
    assert!(!cache.list().unwrap()[0].is_in_use);
    File::options()
        .write(true)
        .open(fixture.file())
        .unwrap()
        .set_len(100)
        .unwrap();
    let found = cache.list().unwrap();
    assert_eq!((&found[0].label, found[0].size_bytes), (&None, None));
}

#[test]
fn files_of_earlier_versions_are_removed() {
    let fixture = Fixture::new();
    let cache = fixture.cache(UNLIMITED_BYTES);
    let names = [
        "0123456789abcdef".repeat(4) + ".version",
        "notes.version".to_owned(),
    ];
    for name in &names {
        fs::write(fixture.path().join(name), "x").unwrap();
    }
    assert!(cache.list().unwrap().is_empty());
    let exist = names.map(|name| fixture.path().join(name).exists());
    assert_eq!(exist, [false, true]);
}

/// A user can choose a directory that contains other files.
#[test]
fn clear_removes_only_cache_files() {
    let fixture = Fixture::new();
    let cache = fixture.cache(UNLIMITED_BYTES);
    let name = "0123456789abcdef".repeat(4);
    let kept = ["notes.txt", &"A".repeat(64), &name[1..]];
    for name in kept {
        fs::write(fixture.path().join(name), "x").unwrap();
    }
    fs::create_dir(fixture.path().join(&name)).unwrap();
    drop(object("1", 1).open(&cache));
    assert_eq!(cache.list().unwrap().len(), 1);
    assert_eq!(cache.clear().unwrap().files, 1);
    assert!(cache.list().unwrap().is_empty());
    assert!(kept.iter().all(|name| fixture.path().join(name).exists()));
    assert!(fixture.path().join(&name).is_dir());
}
