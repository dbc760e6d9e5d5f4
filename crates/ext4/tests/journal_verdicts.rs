//! Comparison of Larder with the kernel for every kind of damage to a journal: both must give the
//! same verdict, and the same tree if the mount succeeds.

mod dirty;
mod image;
mod journal_bytes;

use dirty::Dirty;
use journal_bytes::{Case, FAST_COMMIT_CASES, JournalBytes, LOG_CASES, SUPERBLOCK_CASES};
use larder_block::{BlockDevice, MemoryDevice};
use larder_cache::buffer::BufferCache;
use larder_ext4::journal::recover;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{FileBlock, Filesystem, Ino, MappingKind, Result, WriteOptions};
use larder_testkit::e2fsprogs::check;
use larder_testkit::{Access, LoopMount, Requirement, skip};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// Mode, size, links (unless it is a directory), and content.
type Tree = BTreeMap<String, (u32, u64, u64, Vec<u8>)>;

/// The file that damaged fast commits affect.
const DAMAGED_FILE: &str = "/fast0";

fn add_to_tree(at: &Path, name: &str, tree: &mut Tree) {
    let Ok(stat) = fs::symlink_metadata(at) else {
        tree.insert(name.to_owned(), (0, 0, 0, Vec::new()));
        return;
    };
    let (links, content) = if stat.is_file() {
        (stat.nlink(), fs::read(at).unwrap_or_default())
    } else {
        // The kernel's replay of fast commits does not count subdirectories.
        (0, Vec::new())
    };
    let size_bytes = if stat.is_dir() { 0 } else { stat.size() };
    tree.insert(name.to_owned(), (stat.mode(), size_bytes, links, content));
    if stat.is_dir() {
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            let name = format!("{name}/{}", entry.file_name().to_string_lossy());
            add_to_tree(&entry.path(), &name, tree);
        }
    }
}

/// Returns the tree on `image`, and what e2fsck finds wrong, if anything.
fn tree_and_health(image: &Path) -> (Tree, Option<String>) {
    let mount = LoopMount::new(image, Access::ReadOnly, &[]).expect("mount after recovery");
    let mut tree = Tree::new();
    add_to_tree(&mount.path(), "", &mut tree);
    drop(mount);
    let damage = check(image).err().map(|error| error.to_string());
    (tree, damage)
}

fn read_only(bytes: &[u8]) -> Result<Filesystem> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes.to_vec()));
    let recovery = recover(Superblock::read(&*device)?, device)?;
    let block_bytes = usize::try_from(recovery.superblock.block_size_bytes()).expect("small");
    let buffers = Arc::new(BufferCache::small(recovery.device, block_bytes));
    Ok(Filesystem::new(
        recovery.superblock,
        buffers,
        recovery.overlay,
    ))
}

/// Opens the image for writing, which recovers it, and closes it. Returns its bytes.
fn read_write(bytes: &[u8]) -> Result<Vec<u8>> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes.to_vec()));
    let mut fs = image::open(&device);
    fs.enable_writing(Arc::clone(&device), WriteOptions::default())?;
    fs.close()?;
    let mut bytes = vec![0; bytes.len()];
    device.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Compares one damaged image. Returns the differences, if any.
fn compare(dir: &Path, damaged: &[u8], refused: &mut u32) -> Option<String> {
    let image = dir.join("damaged");
    fs::write(&image, damaged).expect("image");
    let kernel = LoopMount::new(&image, Access::ReadWrite, &[]).map(drop);
    let (ro, rw) = (read_only(damaged), read_write(damaged));
    if ro.is_ok() != kernel.is_ok() || rw.is_ok() != kernel.is_ok() {
        let rw = rw.map(drop);
        return Some(format!(
            "Larder's verdict when reading {ro:?}, when writing {rw:?}, the kernel's {kernel:?}"
        ));
    }
    let Ok(ours) = rw else {
        *refused += 1;
        return None;
    };
    let (mut theirs, kernels_damage) = tree_and_health(&image);
    fs::write(&image, ours).expect("image");
    let (mut ours, damage) = tree_and_health(&image);
    if kernels_damage.is_some() {
        // The damage need not be the same on both sides.
        ours.remove(DAMAGED_FILE);
        theirs.remove(DAMAGED_FILE);
    }
    if ours != theirs {
        let names = |tree: &Tree, other: &Tree| -> Vec<String> {
            let differs = |(name, node): &(&String, &_)| other.get(*name) != Some(*node);
            let names = tree.iter().filter(differs);
            names.map(|(name, _)| name.clone()).collect()
        };
        return Some(format!(
            "the trees differ: {:?} only from Larder, {:?} only from the kernel",
            names(&ours, &theirs),
            names(&theirs, &ours)
        ));
    }
    let only_ours = damage.filter(|_| kernels_damage.is_none());
    only_ours.map(|found| format!("e2fsck finds damage after Larder's recovery only: {found}"))
}

/// Compares all cases and returns the differences.
fn compare_all(arguments: &str, image: &Dirty, cases: &[Case]) -> Vec<String> {
    let original = JournalBytes::read(image);
    let (mut refused, mut wrong) = (0, Vec::new());
    for (name, damage) in cases {
        let mut damaged = original.clone();
        damage(&mut damaged);
        if let Some(difference) = compare(image.dir(), &damaged.image, &mut refused) {
            wrong.push(format!("{arguments}: {name}: {difference}"));
        }
    }
    println!("{arguments}: {refused} of {} refused", cases.len());
    assert!(refused > 0, "{arguments}: nothing was refused");
    wrong
}

fn needs() -> bool {
    skip(&[
        Requirement::LoopMount,
        Requirement::Tool("mke2fs"),
        Requirement::Tool("debugfs"),
        Requirement::Tool("e2fsck"),
    ])
}

/// Makes transactions that replace and revoke blocks of earlier ones.
fn work(root: &Path, sync: &dyn Fn()) {
    for round in 0..3 {
        let dir = root.join(format!("dir{round}"));
        fs::create_dir(&dir).expect("directory");
        for number in 0..20 {
            fs::write(dir.join(number.to_string()), "x".repeat(3000)).expect("file");
        }
        sync();
    }
    fs::remove_dir_all(root.join("dir1")).expect("removal");
    sync();
    fs::write(root.join("last"), "last").expect("file");
    sync();
}

#[test]
fn damaged_superblock_and_log_get_the_kernels_verdict() {
    if needs() {
        return;
    }
    let mut wrong = Vec::new();
    for arguments in [
        "-t ext4 -b 1024 -J size=1",
        "-t ext4 -b 1024 -J size=1 -O ^metadata_csum,^64bit",
    ] {
        let image = Dirty::make(arguments, "8M", "", work);
        wrong.extend(compare_all(arguments, &image, SUPERBLOCK_CASES));
        wrong.extend(compare_all(arguments, &image, LOG_CASES));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the arguments of mke2fs, and an image with three fast commits, each of a new file.
fn with_fast_commits() -> (&'static str, Dirty) {
    let arguments = "-t ext4 -b 1024 -O fast_commit";
    let image = Dirty::make(arguments, "16M", "", |root, sync| {
        work(root, sync);
        for number in 0..3 {
            let path = root.join(format!("fast{number}"));
            fs::write(&path, "fast".repeat(1000)).expect("file");
            let synced = File::open(&path).and_then(|file| file.sync_all());
            synced.expect("fsync");
        }
    });
    (arguments, image)
}

#[test]
fn damaged_fast_commit_gets_the_kernels_verdict() {
    if needs() {
        return;
    }
    let (arguments, image) = with_fast_commits();
    let wrong = compare_all(arguments, &image, FAST_COMMIT_CASES);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The kernel adds a name with a slash, and then cannot list the directory.
#[test]
fn name_with_a_slash_in_a_fast_commit_is_ignored() {
    if needs() {
        return;
    }
    let (_, image) = with_fast_commits();
    let mut damaged = JournalBytes::read(&image);
    journal_bytes::put_slash(&mut damaged);
    fs::write(image.path(), read_write(&damaged.image).expect("recovery")).expect("image");
    let (tree, _) = tree_and_health(image.path());
    let is_there = |name| tree.contains_key(name);
    assert!(!is_there("/fast0") && is_there("/fast1") && is_there("/fast2"));
}

/// What a read of each of the first blocks of `/sparse` finds: data, a hole, or `None` for an error.
fn blocks_of_sparse_file(fs: &Filesystem) -> [Option<bool>; 7] {
    let root = fs.inode(Ino::ROOT).expect("root");
    let (ino, _) = fs.lookup(&root, b"sparse").expect("lookup").expect("file");
    let inode = fs.inode(ino).expect("inode");
    [0, 1, 2, 3, 4, 5, 6].map(|block| {
        let mapping = fs.map(&inode, FileBlock(block), 1).ok()?;
        Some(mapping.kind != MappingKind::Hole)
    })
}

#[test]
fn each_range_outside_the_file_system_in_a_fast_commit_fails_to_read() {
    if needs() {
        return;
    }
    let arguments = "-t ext4 -b 1024 -O fast_commit";
    let image = Dirty::make(arguments, "16M", "", |root, sync| {
        work(root, sync);
        let file = File::create(root.join("sparse")).expect("file");
        for block in [0, 2, 4, 6] {
            file.write_all_at(&[1; 1024], block * 1024).expect("write");
        }
        file.sync_all().expect("fsync");
    });
    let mut damaged = JournalBytes::read(&image);
    journal_bytes::move_ranges_outside(&mut damaged, &[0, 2, 6]);
    let (data, hole, failure) = (Some(true), Some(false), None);
    let expected = [failure, hole, failure, hole, data, hole, failure];
    let overlaid = read_only(&damaged.image).expect("recovery");
    assert_eq!(blocks_of_sparse_file(&overlaid), expected, "read-only");
    let replayed = read_only(&read_write(&damaged.image).expect("replay")).expect("clean");
    assert_eq!(blocks_of_sparse_file(&replayed), expected, "replayed");
}
