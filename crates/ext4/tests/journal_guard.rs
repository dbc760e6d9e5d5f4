//! Metadata in places where it cannot be is rejected, and reported as damage of the image rather than
//! a bug.

mod image;

use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::{
    Error, FileBlock, FileTypeByte, Filesystem, FsBlock, GroupNo, Ino, MappingKind, WriteOptions,
};
use larder_testkit::{Requirement, skip};
use std::sync::Arc;

/// Opens an image for writing that `damage` changed. `damage` gets an unused block of the journal.
fn damaged(damage: impl FnOnce(&mut [u8], &Filesystem, FsBlock)) -> Option<Filesystem> {
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return None;
    }
    let arguments = "-t ext3 -b 1024";
    let made = image::Image::make(arguments, "12M").expect("mke2fs");
    let mut bytes = made.bytes();
    let (fs, _) = made.open();
    let journal = fs.inode(fs.superblock().journal_ino).unwrap();
    let MappingKind::Written(block) = fs.map(&journal, FileBlock(500), 1).unwrap().kind else {
        panic!("the journal has a hole");
    };
    damage(&mut bytes, &fs, block);
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    let mut fs = image::open(&device);
    fs.enable_writing(device, WriteOptions::default()).unwrap();
    Some(fs)
}

fn offset(block: FsBlock) -> usize {
    usize::try_from(block.0).unwrap() * 1024
}

/// Asserts that `error` reports the damage `what`, and that other changes succeed.
fn assert_damage(fs: &Filesystem, error: &Error, what: &str) {
    assert!(matches!(error, Error::Corrupt(_)), "{error}");
    assert!(error.to_string().contains(what), "{error}");
    assert!(fs.is_writable());
    let mut handle = fs.start(2).unwrap();
    fs.update_superblock(&mut handle, |superblock| superblock.set_label(b"kept"))
        .unwrap();
    fs.commit(handle.stop()).unwrap();
    fs.close().unwrap();
}

#[test]
fn directory_in_the_journal_is_damage() {
    let fs = damaged(|bytes, fs, in_journal| {
        let root = fs.inode(Ino::ROOT).unwrap();
        let MappingKind::Written(block) = fs.map(&root, FileBlock(0), 1).unwrap().kind else {
            panic!("the root directory is empty");
        };
        bytes.copy_within(offset(block)..offset(block) + 1024, offset(in_journal));
        // The first block pointer of inode 2.
        let at = offset(fs.group(GroupNo(0)).unwrap().inode_table) + 256 + 40;
        bytes[at..at + 4].copy_from_slice(&u32::try_from(in_journal.0).unwrap().to_le_bytes());
    });
    let Some(fs) = fs else { return };
    let mut handle = fs.start(20).unwrap();
    let mut root = fs.inode(Ino::ROOT).unwrap();
    let target = (Ino(11), FileTypeByte(2));
    let error = fs
        .add_entry(&mut handle, &mut root, b"second", target)
        .unwrap_err();
    drop(handle);
    assert_damage(&fs, &error, "overlaps the journal");
}

#[test]
fn block_outside_of_the_file_system_is_damage() {
    let Some(fs) = damaged(|_, _, _| ()) else {
        return;
    };
    let outside = FsBlock(fs.superblock().blocks_count);
    let mut handle = fs.start(2).unwrap();
    let error = handle.create(outside, Ino::ROOT, |_| Ok(())).unwrap_err();
    drop(handle);
    assert_damage(&fs, &error, "outside the file system");
}
