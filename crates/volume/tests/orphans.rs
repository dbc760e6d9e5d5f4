//! Files without names after a crash, deleted by Larder, by e2fsck and by the kernel.

use larder::{Ino, NewFile, OpenOptions, Volume};
use larder_block::{BlockDevice, MemoryDevice};
use larder_testkit::e2fsprogs::{check, e2fsck, free_space, make_image};
use larder_testkit::mount::{Access, LoopMount};
use larder_testkit::requirement::{Requirement, skip};
use std::path::Path;
use std::sync::Arc;

const TOOLS: [Requirement; 3] = [
    Requirement::Tool("mke2fs"),
    Requirement::Tool("e2fsck"),
    Requirement::Tool("dumpe2fs"),
];

/// Layouts with an orphan list, with an orphan file, and with an orphan file that is too small for
/// all orphans.
const LAYOUTS: [&str; 3] = [
    "-t ext4 -b 1024 -N 2000 -O ^orphan_file",
    "-t ext4 -b 1024 -N 2000 -O orphan_file",
    "-t ext4 -b 1024 -N 2000 -O orphan_file -E orphan_file_size=2",
];

/// The number of orphans, which exceeds the slots in two blocks of an orphan file.
const ORPHANS: usize = 600;

fn open(bytes: Vec<u8>) -> (Volume, Arc<MemoryDevice>) {
    let device = Arc::new(MemoryDevice::new(bytes));
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    let shared: Arc<dyn BlockDevice> = device.clone();
    let volume = Volume::open_device(shared, &options).expect("writable volume");
    (volume, device)
}

fn free_inodes(path: &Path) -> u64 {
    free_space(path).expect("dumpe2fs").inodes
}

fn assert_clean(path: &Path, what: &str) {
    check(path).unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// Returns the image in the state after a crash, with files that were held when they lost their
/// names.
fn with_orphans(bytes: Vec<u8>) -> Vec<u8> {
    let new = NewFile {
        permissions: 0o644,
        umask: 0,
        uid: 0,
        gid: 0,
    };
    let (volume, device) = open(bytes);
    for number in 0..ORPHANS {
        let name = format!("orphan-{number}");
        let made = volume.create(Ino::ROOT, name.as_bytes(), &new);
        let ino = made.expect("file").ino;
        if number % 10 == 0 {
            volume.write_at(ino, &vec![1; 20_000], 0).expect("written");
        }
        volume.hold(ino).expect("held");
    }
    volume.sync().expect("durable");
    for number in 0..ORPHANS {
        let name = format!("orphan-{number}");
        let ino = volume.unlink(Ino::ROOT, name.as_bytes()).expect("unlinked");
        // This removes orphans from the start, the middle and the end of a list.
        if number % 7 == 0 {
            volume.release(ino, 1).expect("deleted");
        }
    }
    volume.sync().expect("durable");
    device.to_bytes()
}

#[test]
fn orphans_left_by_larder_are_deleted_by_larder_e2fsck_and_the_kernel() {
    if skip(&TOOLS) {
        return;
    }
    for layout in LAYOUTS {
        let what = format!("{layout:?}");
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        make_image(file.path(), layout, "32M").expect("image");
        let free = free_inodes(file.path());
        let crashed = with_orphans(std::fs::read(file.path()).expect("image"));

        let (volume, device) = open(crashed.clone());
        volume.close().expect("closed");
        std::fs::write(file.path(), device.to_bytes()).expect("image");
        assert_clean(file.path(), &what);
        assert_eq!(free_inodes(file.path()), free, "{what}");

        std::fs::write(file.path(), &crashed).expect("image");
        let output = e2fsck("-fy").accept(1).arg(file.path()).run();
        let output = output.expect("e2fsck replays the journal");
        assert!(output.contains("rphaned inode"), "{what}: {output}");
        assert_clean(file.path(), &what);
        assert_eq!(free_inodes(file.path()), free, "{what}");

        if skip(&[Requirement::Root, Requirement::LoopMount]) {
            continue;
        }
        std::fs::write(file.path(), &crashed).expect("image");
        drop(LoopMount::new(file.path(), Access::ReadWrite, &[]).expect("mounted"));
        assert_clean(file.path(), &what);
        assert_eq!(free_inodes(file.path()), free, "{what}");
    }
}

#[test]
fn orphans_left_by_the_kernel_are_deleted_by_larder() {
    if skip(&TOOLS) || skip(&[Requirement::Root, Requirement::LoopMount]) {
        return;
    }
    for layout in LAYOUTS {
        let what = format!("{layout:?}");
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        make_image(file.path(), layout, "32M").expect("image");
        let free = free_inodes(file.path());
        let mount = LoopMount::new(file.path(), Access::ReadWrite, &[]).expect("mounted");
        let held: Vec<_> = (0..ORPHANS)
            .map(|number| {
                let path = mount.path().join(format!("orphan-{number}"));
                std::fs::write(&path, [1; 3000]).expect("file");
                let held = std::fs::File::open(&path).expect("file");
                std::fs::remove_file(&path).expect("removed");
                held
            })
            .collect();
        mount.sync().expect("durable");
        let crashed = std::fs::read(file.path()).expect("image");
        drop(held);
        drop(mount);
        let (volume, device) = open(crashed);
        assert_eq!(volume.statfs().free_files, free, "{what}");
        volume.close().expect("closed");
        std::fs::write(file.path(), device.to_bytes()).expect("image");
        assert_clean(file.path(), &what);
        assert_eq!(free_inodes(file.path()), free, "{what}");
    }
}
