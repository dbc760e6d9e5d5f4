//! The size of dirty metadata stays within its limit, however large the journal is.

use larder::{DataMode, Ino, NewFile, OpenOptions, Volume};
use larder_testkit::e2fsprogs::{check, make_image};
use larder_testkit::{Requirement, skip};

const CACHE_BYTES: u64 = 16 << 20;

/// The limit of a quarter of the caches, plus a quarter of that for commits while a checkpoint
/// runs.
const BOUND_BYTES: u64 = CACHE_BYTES / 4 * 5 / 4;

/// Creates a sparse image of an empty file system with a journal of 512 MiB.
fn image(directory: &std::path::Path) -> std::path::PathBuf {
    image_with(directory, "-J size=512")
}

fn image_with(directory: &std::path::Path, options: &str) -> std::path::PathBuf {
    let path = directory.join("image");
    let arguments = format!("-t ext4 {options} -E lazy_itable_init=1,lazy_journal_init=1");
    make_image(&path, &arguments, "2G").unwrap();
    path
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.cache_size_bytes = CACHE_BYTES;
    options.background = false;
    options
}

const NEW: NewFile = NewFile {
    permissions: 0o600,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// Creates `count` files, and calls `then` after each. Returns the maximum size of dirty metadata,
/// in bytes.
fn most_dirty_bytes(volume: &Volume, count: u32, then: impl Fn(Ino)) -> u64 {
    let mut most = 0;
    for number in 0..count {
        let name = format!("{number:05}{}", "n".repeat(60));
        let made = volume.create(Ino::ROOT, name.as_bytes(), &NEW).unwrap();
        then(made.ino);
        if number % 16 == 0 {
            let writing = volume.stats().writing.unwrap();
            most = most.max(writing.dirty_metadata_bytes);
        }
    }
    most
}

#[test]
fn dirty_metadata_with_a_large_journal_stays_within_its_bound() {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = image(directory.path());
    let volume = Volume::open(&path, &options()).unwrap();
    let most = most_dirty_bytes(&volume, 24_000, |_| {});
    println!("at most {most} bytes of metadata were dirty");
    assert!(
        most > CACHE_BYTES / 16,
        "{most} bytes are too few for this test"
    );
    assert!(most <= BOUND_BYTES, "{most} bytes were dirty");
    volume.close().unwrap();
    check(&path).unwrap();
}

#[test]
fn dirty_metadata_after_many_small_commits_stays_within_its_bound() {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let volume = Volume::open(image(directory.path()), &options()).unwrap();
    let most = most_dirty_bytes(&volume, 24_000, |ino| {
        if ino.0 % 16 == 0 {
            volume.sync_file(ino, false).unwrap();
        }
    });
    println!("at most {most} bytes of metadata were dirty");
    assert!(
        most > CACHE_BYTES / 16,
        "{most} bytes are too few for this test"
    );
    assert!(most <= BOUND_BYTES, "{most} bytes were dirty");
}

#[test]
fn content_of_large_clusters_is_journaled_with_a_small_cache() {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let clusters = "-b 4096 -O bigalloc -C 1M -J size=64";
    let path = image_with(directory.path(), clusters);
    let mut options = options();
    options.data = DataMode::Journal;
    let content = vec![0x5A; 3 << 20];
    {
        let volume = Volume::open(&path, &options).unwrap();
        let ino = volume.create(Ino::ROOT, b"file", &NEW).unwrap().ino;
        volume.write_all_at(ino, &content, 0).unwrap();
        volume.sync_file(ino, false).unwrap();
    }
    let volume = Volume::open(&path, &OpenOptions::default()).unwrap();
    let mut read = vec![0; content.len() + 1];
    let ino = volume.resolve(b"/file").unwrap();
    assert_eq!(volume.read_at(ino, &mut read, 0).unwrap(), content.len());
    assert!(
        read[..content.len()] == content,
        "the content differs from what was written"
    );
}

#[test]
fn commit_of_changed_blocks_is_counted_once() {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let volume = Volume::open(image(directory.path()), &options()).unwrap();
    let writing = || volume.stats().writing.unwrap();
    let before = writing();
    let ino = volume.create(Ino::ROOT, b"file", &NEW).unwrap().ino;
    volume.sync_file(ino, false).unwrap();
    let after = writing();
    assert_eq!(after.commits, before.commits + 1);
    assert!(after.committed_blocks > before.committed_blocks);
    assert!(after.commit_ns > before.commit_ns);
    volume.sync_file(ino, false).unwrap();
    let again = writing();
    assert_eq!(
        (again.commits, again.committed_blocks),
        (after.commits, after.committed_blocks)
    );
}
