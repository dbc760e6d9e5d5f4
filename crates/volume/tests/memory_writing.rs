//! Resident memory of a volume that is open for writing, with a large journal and many inodes in
//! use. This is the only test in its process, because the kernel counts memory by process.
//!
//! `LARDER_INODES` sets the number of inodes. docs/performance.md has the figures for a million
//! inodes.

use larder::{Ino, NewFile, OpenOptions, Volume};
use larder_testkit::e2fsprogs::{check, make_image};
use larder_testkit::memory::peak_resident_bytes;
use larder_testkit::{Requirement, skip};

const CACHE_BYTES: u64 = 32 << 20;

/// The memory in addition to the caches and to dirty metadata (a quarter of the caches): the data
/// of the memory allocator, the maps of free space, and threads.
const SPARE_BYTES: u64 = 24 << 20;

/// The memory of an inode that is held and not otherwise in use: a slot in a hash table, which may
/// be half empty. While the table grows, there is a second table of twice the size.
const INODE_BYTES: u64 = 64;

const FILES_IN_DIRECTORY: u32 = 1000;

const NEW: NewFile = NewFile {
    permissions: 0o700,
    umask: 0,
    uid: 0,
    gid: 0,
};

#[test]
fn memory_with_a_journal_of_1_gib_and_inodes_in_use_stays_within_budget() {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let inodes: u32 = std::env::var("LARDER_INODES").map_or(60_000, |count| {
        count.parse().expect("LARDER_INODES must be a number")
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    let arguments = "-t ext4 -J size=1024 -N 1200000 -E lazy_itable_init=1,lazy_journal_init=1";
    make_image(&path, arguments, "8G").unwrap();
    let before = peak_resident_bytes();
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.cache_size_bytes = CACHE_BYTES;
    let volume = Volume::open(&path, &options).unwrap();
    let mut parent = Ino::ROOT;
    for number in 0..inodes {
        if number % FILES_IN_DIRECTORY == 0 {
            let name = format!("{number}");
            parent = volume
                .make_dir(Ino::ROOT, name.as_bytes(), &NEW)
                .unwrap()
                .ino;
        }
        let name = format!("{number:07}{}", "n".repeat(40));
        let made = volume.create(parent, name.as_bytes(), &NEW).unwrap();
        volume.hold(made.ino).unwrap();
    }
    let growth = peak_resident_bytes() - before;
    println!(
        "{inodes} inodes in use, caches of {CACHE_BYTES} bytes: resident memory grew by {growth} bytes at most"
    );
    // The page cache shrinks to make space for held inodes, by at most a quarter of the caches.
    let inodes_bytes = (u64::from(inodes) * INODE_BYTES).saturating_sub(CACHE_BYTES / 4);
    let bound = CACHE_BYTES / 4 * 5 + inodes_bytes + SPARE_BYTES;
    assert!(
        growth < bound,
        "memory grew by {growth} bytes; the limit is {bound}"
    );
    volume.close().unwrap();
    check(&path).unwrap();
}
