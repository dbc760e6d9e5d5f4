//! The paths of files that follow from metadata in memory.

use larder::{Ino, KnownNames, MemoryOnly, NewFile, OpenOptions, RenameFlags, Volume};
use larder_testkit::e2fsprogs::make_image;
use larder_testkit::{Requirement, skip};
use std::ops::ControlFlow;

const NEW: NewFile = NewFile {
    permissions: 0o755,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// Returns a new volume that is open for writing, or `None` if this test is skipped.
fn volume(directory: &std::path::Path) -> Option<Volume> {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return None;
    }
    let image = directory.join("image");
    make_image(&image, "-t ext4", "16M").unwrap();
    let mut options = OpenOptions::default();
    options.read_write = true;
    Some(Volume::open(&image, &options).unwrap())
}

/// Returns the path of a file, without what earlier queries have found.
fn path(volume: &Volume, ino: Ino) -> Option<String> {
    path_with(volume, ino, None, &mut KnownNames::default())
}

fn path_with(
    volume: &Volume,
    ino: Ino,
    directory: Option<Ino>,
    known: &mut KnownNames,
) -> Option<String> {
    let paths = volume.known_paths(&[ino], |_| directory, known);
    let [path] = paths.try_into().unwrap();
    path.map(|path| String::from_utf8(path).unwrap())
}

#[test]
fn path_follows_from_dentries() {
    let folder = tempfile::tempdir().unwrap();
    let Some(volume) = volume(folder.path()) else {
        return;
    };
    let mut at = Ino::ROOT;
    let mut expected = String::new();
    let long = "n".repeat(200);
    for name in ["a", "b", &long, "d"] {
        at = volume.make_dir(at, name.as_bytes(), &NEW).unwrap().ino;
        expected = format!("{expected}/{name}");
    }
    let file = volume.create(at, b"file", &NEW).unwrap().ino;
    assert_eq!(path(&volume, file), Some(format!("{expected}/file")));
    assert_eq!(path(&volume, at), Some(expected));
    assert_eq!(path(&volume, Ino::ROOT).as_deref(), Some("/"));
    assert_eq!(path(&volume, Ino(9999)), None);
}

#[test]
fn search_counts_no_lookups() {
    let folder = tempfile::tempdir().unwrap();
    let Some(volume) = volume(folder.path()) else {
        return;
    };
    let file = volume.create(Ino::ROOT, b"file", &NEW).unwrap().ino;
    let before = volume.counts().dentry.lookups;
    assert_eq!(path(&volume, file).as_deref(), Some("/file"));
    assert_eq!(volume.counts().dentry.lookups, before);
}

#[test]
fn renamed_file_has_its_new_path_and_removed_file_its_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let Some(volume) = volume(folder.path()) else {
        return;
    };
    let dir = volume.make_dir(Ino::ROOT, b"dir", &NEW).unwrap().ino;
    let file = volume.create(Ino::ROOT, b"old", &NEW).unwrap().ino;
    let mut known = KnownNames::default();
    let mut path = || path_with(&volume, file, None, &mut known);
    assert_eq!(path().as_deref(), Some("/old"));
    let flags = RenameFlags::default();
    volume
        .rename(Ino::ROOT, b"old", dir, b"new", flags)
        .unwrap();
    // The next search begins a short time after the previous one.
    while path().as_deref() != Some("/dir/new") {
        std::thread::yield_now();
    }
    volume.unlink(dir, b"new").unwrap();
    assert_eq!(path().as_deref(), Some("/dir/new"));
}

#[test]
fn file_that_was_listed_is_found_in_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    let Some(writable) = volume(folder.path()) else {
        return;
    };
    let dir = writable.make_dir(Ino::ROOT, b"dir", &NEW).unwrap().ino;
    let file = writable.create(dir, b"file", &NEW).unwrap().ino;
    writable.close().unwrap();
    drop(writable);
    let volume = Volume::open(folder.path().join("image"), &OpenOptions::default()).unwrap();
    volume.lookup(Ino::ROOT, b"dir").unwrap();
    assert_eq!(path(&volume, file), None);
    let with_directory = || path_with(&volume, file, Some(dir), &mut KnownNames::default());
    // The directory is not in memory yet.
    assert_eq!(with_directory(), None);
    let reads = volume.counts().device.reads;
    assert_eq!(with_directory(), None);
    assert_eq!(volume.counts().device.reads, reads, "a query reads nothing");
    list(&volume, dir);
    let lookups = || volume.counts().caches().map(|(_, cache)| cache.lookups);
    let before = lookups();
    assert_eq!(with_directory().as_deref(), Some("/dir/file"));
    assert_eq!(lookups(), before, "a query is not a lookup");
    list(&volume, dir);
    assert!(
        lookups()[1] > before[1],
        "later lookups of this thread are counted"
    );
}

fn list(volume: &Volume, dir: Ino) {
    volume
        .read_dir(dir, 0, &mut |_| ControlFlow::Continue(()))
        .unwrap();
}

#[test]
fn search_ends_at_the_first_block_that_is_not_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let Some(writable) = volume(folder.path()) else {
        return;
    };
    let dir = writable.make_dir(Ino::ROOT, b"dir", &NEW).unwrap().ino;
    for number in 0..100 {
        let name = format!("{number:0200}");
        writable.create(dir, name.as_bytes(), &NEW).unwrap();
    }
    writable.close().unwrap();
    drop(writable);
    for is_writable in [false, true] {
        let mut options = OpenOptions::default();
        options.read_write = is_writable;
        let volume = Volume::open(folder.path().join("image"), &options).unwrap();
        volume.lookup(Ino::ROOT, b"dir").unwrap();
        let lookups = volume.counts().buffer.lookups;
        let memory_only = MemoryOnly::begin();
        let listed = volume.read_dir(dir, 0, &mut |_| ControlFlow::Continue(()));
        assert!(MemoryOnly::has_missed(), "{listed:?}");
        drop(memory_only);
        // The directory has more than 20 blocks.
        let lookups = volume.counts().buffer.lookups - lookups;
        assert!(lookups < 5, "{lookups}");
    }
}
