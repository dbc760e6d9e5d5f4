//! Cache files with any content: a read returns the right bytes or nothing.

use crate::support::{Fixture, Object, UNLIMITED_BYTES, object};
use larder_remote::disk_cache::{Error, UNIT_BYTES};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};

const OBJECT: Object = Object {
    version: "1",
    size_bytes: 3 * UNIT_BYTES as u64 + 1000,
};

/// Where the map and the units of [`OBJECT`] start.
const MAP_OFFSET_BYTES: u64 = 4096;
const DATA_OFFSET_BYTES: u64 = 8192;

/// Returns a cache with all units of [`OBJECT`].
fn filled() -> Fixture {
    let fixture = Fixture::new();
    let cached = OBJECT.open(&fixture.cache(UNLIMITED_BYTES));
    (0..4).for_each(|unit| OBJECT.write(&cached, unit));
    fixture
}

fn flip(file: &File, offset_bytes: u64, bit: u32) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset_bytes).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << bit], offset_bytes)
        .unwrap();
}

fn open_file(fixture: &Fixture) -> File {
    let mut options = File::options();
    options.read(true).write(true).open(fixture.file()).unwrap()
}

#[test]
fn flipped_bit_makes_its_unit_absent_until_it_is_stored_again() {
    let fixture = filled();
    let file = open_file(&fixture);
    let cached = OBJECT.open(&fixture.cache(UNLIMITED_BYTES));
    let unit_2 = DATA_OFFSET_BYTES + 2 * UNIT_BYTES as u64;
    let places = (0..16)
        .map(|byte| MAP_OFFSET_BYTES + 2 * 16 + byte)
        .chain([0, 1, 511, 512, 40_000, 65_535].map(|byte| unit_2 + byte));
    let mut damaged = 0;
    for offset_bytes in places {
        for bit in [0, 7] {
            flip(&file, offset_bytes, bit);
            assert!(!OBJECT.read(&cached, 2), "byte {offset_bytes}");
            assert!(!cached.contains_unit(2) && cached.present_units() == 3);
            damaged += 1;
            assert_eq!(cached.damaged_units(), damaged);
            assert!(!OBJECT.read(&cached, 2));
            assert_eq!(cached.damaged_units(), damaged, "counted twice");
            OBJECT.write(&cached, 2);
            assert!((0..4).all(|unit| OBJECT.read(&cached, unit)));
        }
    }
}

/// Opens the object, whose file has other content, and checks that the object is empty and usable.
fn check_replaced(fixture: &Fixture) {
    let cache = fixture.cache(UNLIMITED_BYTES);
    let cached = OBJECT.open(&cache);
    assert_eq!(cached.present_units(), 0);
    (0..4).for_each(|unit| OBJECT.write(&cached, unit));
    assert!((0..4).all(|unit| OBJECT.read(&cached, unit)));
    assert!(
        cache
            .list()
            .unwrap()
            .iter()
            .all(|found| found.label.is_some())
    );
}

#[test]
fn file_with_a_damaged_header_is_replaced() {
    for offset_bytes in [0, 8, 16, 24, 60, 100, 511] {
        let fixture = filled();
        flip(&open_file(&fixture), offset_bytes, 3);
        check_replaced(&fixture);
    }
}

#[test]
fn file_of_another_size_is_replaced() {
    let size_bytes = DATA_OFFSET_BYTES + OBJECT.size_bytes;
    for other_bytes in [0, 1, 511, 512, 4096, size_bytes - 1, size_bytes + 1] {
        let fixture = filled();
        open_file(&fixture).set_len(other_bytes).unwrap();
        check_replaced(&fixture);
    }
}

#[test]
fn file_under_the_name_of_another_object_is_replaced() {
    let fixture = filled();
    let own = fixture.file();
    let bytes = fs::read(&own).unwrap();
    fs::remove_file(&own).unwrap();
    let other = Object {
        version: "2",
        ..OBJECT
    };
    drop(other.open(&fixture.cache(UNLIMITED_BYTES)));
    fs::write(fixture.file(), bytes).unwrap();
    assert_eq!(
        other.open(&fixture.cache(UNLIMITED_BYTES)).present_units(),
        0
    );
}

#[test]
fn symbolic_link_and_fifo_are_replaced_without_following_them() {
    let fixture = filled();
    let target = tempfile::NamedTempFile::new().unwrap();
    fs::write(target.path(), "precious").unwrap();
    let file = fixture.file();
    fs::remove_file(&file).unwrap();
    symlink(target.path(), &file).unwrap();
    check_replaced(&fixture);
    assert_eq!(fs::read(target.path()).unwrap(), b"precious");

    fs::remove_file(&file).unwrap();
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    check_replaced(&fixture);
}

#[test]
fn directory_in_place_of_a_file_is_an_error() {
    let fixture = filled();
    let file = fixture.file();
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let cache = fixture.cache(UNLIMITED_BYTES);
    let error = cache
        .object(&OBJECT.identity(), OBJECT.size_bytes, "")
        .unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error}");
    assert!(cache.list().unwrap().is_empty());
}

#[test]
fn file_truncated_in_use_has_absent_units() {
    let fixture = filled();
    let cached = OBJECT.open(&fixture.cache(UNLIMITED_BYTES));
    let unit_2 = DATA_OFFSET_BYTES + 2 * UNIT_BYTES as u64;
    open_file(&fixture).set_len(unit_2 + 1).unwrap();
    assert!([true, true, false, false] == [0, 1, 2, 3].map(|unit| OBJECT.read(&cached, unit)));
    open_file(&fixture).set_len(10).unwrap();
    assert!((0..4).all(|unit| !OBJECT.read(&cached, unit)));
    assert_eq!(cached.present_units(), 0);
    (0..4).for_each(|unit| OBJECT.write(&cached, unit));
    assert!((0..4).all(|unit| OBJECT.read(&cached, unit)));
}

/// The list shows files that never were cache files, too.
#[test]
fn arbitrary_file_with_the_name_of_a_cache_file_is_listed_and_removed() {
    let fixture = Fixture::new();
    let cache = fixture.cache(UNLIMITED_BYTES);
    fs::write(fixture.path().join("ab".repeat(32)), [0xff; 600]).unwrap();
    let found = cache.list().unwrap();
    assert_eq!((found.len(), found[0].size_bytes), (1, None));
    assert_eq!(cache.clear().unwrap().files, 1);
    drop(object("1", 1).open(&cache));
}
