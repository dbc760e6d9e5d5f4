//! The journal refuses what no handle may give it: writing stops, and what is committed stays.

mod image;

use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::{Error, FileBlock, FsBlock, Ino, MappingKind, WriteOptions};
use larder_testkit::{Requirement, skip};
use std::sync::Arc;

/// Commits one change, then one of `block`, and expects that writing stops because of `what`, and
/// that the first change is found again.
fn refused(block: impl Fn(&larder_ext4::Filesystem) -> FsBlock, what: &str) {
    if skip(&["mke2fs", "debugfs"].map(Requirement::Tool)) {
        return;
    }
    let made = image::Image::make("-t ext4 -b 1024", "12M").expect("mke2fs");
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(made.bytes()));
    let mut fs = image::open(&device);
    fs.enable_writing(Arc::clone(&device), WriteOptions::default())
        .unwrap();
    let mut handle = fs.start(2).unwrap();
    fs.update_superblock(&mut handle, |superblock| superblock.set_label(b"kept"))
        .unwrap();
    fs.commit(handle.stop()).unwrap();

    let mut handle = fs.start(2).unwrap();
    handle
        .create(block(&fs), Ino::ROOT, |bytes| {
            bytes.fill(0xaa);
            Ok(())
        })
        .unwrap();
    let error = fs.commit(handle.stop()).unwrap_err();
    assert!(matches!(error, Error::Invariant(_)), "{error}");
    assert!(error.to_string().contains(what), "{error}");
    assert!(!fs.is_writable());
    assert!(matches!(fs.start(1), Err(Error::ReadOnly(Some(_)))));
    assert!(fs.close().is_err());
    drop(fs);

    let mut again = image::open(&device);
    again
        .enable_writing(Arc::clone(&device), WriteOptions::default())
        .unwrap();
    let mut label = [0; 16];
    device.read_at(&mut label, 1024 + 120).unwrap();
    again.close().unwrap();
    device.read_at(&mut label, 1024 + 120).unwrap();
    assert_eq!(&label[..4], b"kept");
}

#[test]
fn metadata_outside_of_the_file_system_is_refused() {
    refused(
        |fs| FsBlock(fs.superblock().blocks_count),
        "outside of the file system",
    );
}

#[test]
fn metadata_over_the_journal_is_refused() {
    let in_journal = |fs: &larder_ext4::Filesystem| {
        let journal = fs.inode(fs.superblock().journal_ino).unwrap();
        match fs.map(&journal, FileBlock(5), 1).unwrap().kind {
            MappingKind::Written(block) => block,
            kind => panic!("{kind:?}"),
        }
    };
    refused(in_journal, "over the journal");
}
