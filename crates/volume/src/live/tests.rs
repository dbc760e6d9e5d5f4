//! Tests which inodes stay in the table, and the frames that are given up for holds.

use super::table::MAX_IDLE;
use crate::{Ino, NewFile, OpenOptions, SetAttributes, Volume};
use larder_block::MemoryDevice;
use larder_testkit::e2fsprogs::new_image;
use larder_testkit::requirement::{Requirement, skip};
use std::sync::Arc;

const FILES: usize = 2 * MAX_IDLE;

const NEW: NewFile = NewFile {
    permissions: 0o644,
    umask: 0,
    uid: 0,
    gid: 0,
};

#[test]
fn number_of_clean_inodes_with_holds_in_the_table_is_limited() {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let bytes = new_image("-t ext4 -N 10000", "32M").unwrap();
    let options = OpenOptions {
        read_write: true,
        background: false,
        ..OpenOptions::default()
    };
    let volume = Volume::open_device(Arc::new(MemoryDevice::new(bytes)), &options).unwrap();
    let count = || volume.inodes.live.as_ref().unwrap().count();
    let mut inodes = Vec::new();
    for number in 0..FILES {
        let name = number.to_string();
        inodes.push(volume.create(Ino::ROOT, name.as_bytes(), &NEW).unwrap().ino);
    }
    assert_eq!(count(), (0, 0));
    let frames = || volume.inodes.caches.pages.frames().capacity();
    let frames_before = frames();
    for &ino in &inodes {
        volume.hold(ino).unwrap();
    }
    let given_up = u32::try_from(FILES * 64 / 4096).unwrap();
    assert_eq!(
        frames(),
        frames_before - given_up,
        "holds take frames from the page cache"
    );
    assert_eq!(count(), (0, FILES), "a hold adds no inode to the table");
    for &ino in &inodes {
        volume
            .set_attributes(
                ino,
                &SetAttributes {
                    uid: Some(1),
                    ..SetAttributes::default()
                },
            )
            .unwrap();
    }
    assert_eq!(count(), (MAX_IDLE, FILES), "idle inodes kept for fsync");
    // A dirty inode stays, and is removed when it is clean.
    for &ino in &inodes {
        volume.write_at(ino, b"dirty", 0).unwrap();
    }
    assert_eq!(count(), (FILES, FILES));
    volume.sync().unwrap();
    assert_eq!(count(), (MAX_IDLE, FILES));
    // An inode without names stays until it is deleted.
    for number in 0..FILES {
        volume
            .unlink(Ino::ROOT, number.to_string().as_bytes())
            .unwrap();
    }
    assert_eq!(count(), (FILES, FILES));
    let frames_before = frames();
    for &ino in &inodes {
        volume.release(ino, 1).unwrap();
    }
    assert_eq!(count(), (0, 0));
    assert_eq!(frames(), frames_before + given_up);
    volume.close().unwrap();
}
