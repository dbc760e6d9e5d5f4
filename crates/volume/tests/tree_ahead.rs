//! The readahead of directory trees: a walk returns the same entries as without readahead, and directories are read
//! before the walk lists them.

use larder::{FileKind, Ino, NewFile, OpenOptions, TreeReadaheadStats, Volume};
use larder_block::{BlockDevice, MemoryDevice};
use larder_testkit::e2fsprogs::new_image;
use larder_testkit::{Requirement, skip};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const NEW: NewFile = NewFile {
    permissions: 0o755,
    umask: 0o022,
    uid: 0,
    gid: 0,
};

const BLOCK_BYTES: usize = 4096;
const DIRECTORIES: usize = 60;
const FILES: usize = 5;

/// The number of directories that are read ahead after the first step of a walk.
const FIRST_WINDOW: u64 = 16;

/// Returns an image with [`DIRECTORIES`] directories, each with [`FILES`] files and a directory, or `None` without
/// mke2fs.
fn image() -> Option<Arc<MemoryDevice>> {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return None;
    }
    let bytes = new_image("-t ext4 -b 4096", "32M").expect("image");
    let device = Arc::new(MemoryDevice::new(bytes));
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    let shared: Arc<dyn BlockDevice> = device.clone();
    let volume = Volume::open_device(shared, &options).unwrap();
    for number in 0..DIRECTORIES {
        let name = format!("directory-{number:02}");
        let made = volume.make_dir(Ino::ROOT, name.as_bytes(), &NEW).unwrap();
        for file in 0..FILES {
            let name = format!("file-{file}");
            volume.create(made.ino, name.as_bytes(), &NEW).unwrap();
        }
        volume.make_dir(made.ino, b"below", &NEW).unwrap();
    }
    volume.close().unwrap();
    Some(device)
}

fn open(device: Arc<MemoryDevice>, tree_readahead: bool) -> Volume {
    let mut options = OpenOptions::default();
    options.tree_readahead = tree_readahead;
    Volume::open_device(device, &options).unwrap()
}

/// Returns the entries of `dir` without `.` and `..`.
fn list(volume: &Volume, dir: Ino) -> Vec<(Vec<u8>, Ino, Option<FileKind>)> {
    let mut entries = Vec::new();
    let listed = volume.read_dir(dir, 0, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            entries.push((entry.name.to_vec(), entry.ino, entry.kind));
        }
        ControlFlow::Continue(())
    });
    listed.unwrap();
    entries
}

fn directories(entries: &[(Vec<u8>, Ino, Option<FileKind>)]) -> Vec<Ino> {
    let directories = entries
        .iter()
        .filter(|(name, _, kind)| *kind == Some(FileKind::Directory) && name != b"lost+found");
    directories.map(|&(_, ino, _)| ino).collect()
}

fn stats(volume: &Volume) -> TreeReadaheadStats {
    volume.counts().tree_readahead.unwrap()
}

/// Waits until the thread has counted what `is_done` requires.
#[track_caller]
fn wait(volume: &Volume, is_done: impl Fn(TreeReadaheadStats) -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !is_done(stats(volume)) {
        assert!(Instant::now() < end, "{:?}", stats(volume));
        thread::yield_now();
    }
}

#[test]
fn directories_of_a_walk_are_read_before_they_are_listed() {
    let Some(device) = image() else { return };
    let volume = open(device, true);
    let dirs = directories(&list(&volume, Ino::ROOT));
    assert_eq!(dirs.len(), DIRECTORIES);
    list(&volume, dirs[0]);
    wait(&volume, |stats| stats.directories_ahead >= FIRST_WINDOW);
    assert_eq!(stats(&volume).directories_used, 0);
    // The first directory that was read ahead is below the directory that was listed.
    let below = directories(&list(&volume, dirs[0]))[0];
    list(&volume, below);
    for &dir in &dirs[1..16] {
        list(&volume, dir);
    }
    wait(&volume, |stats| stats.directories_used >= FIRST_WINDOW);
}

#[test]
fn single_listings_read_no_directory_ahead() {
    let Some(device) = image() else { return };
    let volume = open(device, true);
    let dirs = directories(&list(&volume, Ino::ROOT));
    for _ in 0..50 {
        list(&volume, Ino::ROOT);
    }
    list(&volume, dirs[0]);
    // The thread handles listings in order. If this one has an effect, all listings of the root have
    // been handled.
    wait(&volume, |stats| stats.directories_ahead > 0);
    let stats = stats(&volume);
    assert_eq!(
        (stats.directories_ahead, stats.directories_used),
        (FIRST_WINDOW, 0)
    );
}

#[test]
fn dropped_volume_leaves_no_reader_of_the_device() {
    let Some(device) = image() else { return };
    for _ in 0..20 {
        let volume = open(Arc::clone(&device), true);
        let dirs = directories(&list(&volume, Ino::ROOT));
        for &dir in &dirs {
            list(&volume, dir);
        }
        drop(volume);
        assert_eq!(Arc::strong_count(&device), 1);
    }
}

/// Overwrites the first block of `dir`, which begins with the entry for `.`, and its copies in the journal.
fn damage(device: &MemoryDevice, dir: Ino) {
    let start = [&dir.0.to_le_bytes()[..], &[12, 0, 1, 2], b".\0\0\0"].concat();
    for (number, block) in device.to_bytes().chunks(BLOCK_BYTES).enumerate() {
        if block.starts_with(&start) {
            let offset = (number * BLOCK_BYTES) as u64;
            device.write_at(&[0xff; BLOCK_BYTES], offset).unwrap();
        }
    }
}

#[test]
fn damaged_directories_are_read_ahead_without_an_error() {
    let Some(device) = image() else { return };
    let volume = open(Arc::clone(&device), false);
    let dirs = directories(&list(&volume, Ino::ROOT));
    drop(volume);
    for &dir in &dirs[2..] {
        damage(&device, dir);
    }
    let volume = open(device, true);
    list(&volume, Ino::ROOT);
    list(&volume, dirs[0]);
    wait(&volume, |stats| stats.directories_ahead >= FIRST_WINDOW);
    assert_eq!(list(&volume, dirs[1]).len(), FILES + 1);
    let damaged = volume.read_dir(dirs[2], 0, &mut |_| ControlFlow::Continue(()));
    assert!(damaged.is_err());
}

#[test]
fn walk_finds_the_same_with_and_without_readahead() {
    let Some(device) = image() else { return };
    let walk = |volume: &Volume| {
        let mut found = Vec::new();
        let mut pending = vec![Ino::ROOT];
        while let Some(dir) = pending.pop() {
            let start = pending.len();
            for (name, ino, kind) in list(volume, dir) {
                let metadata = volume.metadata(ino).unwrap();
                assert_eq!(volume.lookup(dir, &name).unwrap(), ino);
                found.push((dir, name, ino, metadata.size_bytes));
                if kind == Some(FileKind::Directory) {
                    pending.push(ino);
                }
            }
            pending[start..].reverse();
        }
        found
    };
    let expected = walk(&open(Arc::clone(&device), false));
    assert!(expected.len() > DIRECTORIES * (FILES + 2));
    for _ in 0..10 {
        let volume = open(Arc::clone(&device), true);
        assert!(walk(&volume) == expected);
    }
}

#[test]
fn volume_that_is_open_for_writing_reads_no_trees_ahead() {
    let Some(device) = image() else { return };
    let mut options = OpenOptions::default();
    options.tree_readahead = true;
    options.read_write = true;
    let volume = Volume::open_device(device, &options).unwrap();
    assert_eq!(volume.counts().tree_readahead, None);
}
