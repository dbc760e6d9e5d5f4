//! Tests of a full image on a mount on which the kernel collects writes.

mod mounted;

use larder::{Ino, NewFile, OpenOptions, Volume};
use larder_fuse::{MountOptions, WriteBack};
use larder_testkit::e2fsprogs::check;
use larder_testkit::{Requirement, skip};
use mounted::{Mounted, folder};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

const CONTENT_BYTES: usize = 1 << 20;

fn can_mount() -> bool {
    !skip(&[
        Requirement::Root,
        Requirement::Fuse,
        Requirement::Tool("mke2fs"),
        Requirement::Tool("e2fsck"),
    ])
}

/// Allocates all space that an ordinary request can use.
fn allocate_the_rest(mounted: &Mounted) {
    let filler = File::create(mounted.path.join("filler")).unwrap();
    let (mut at, mut len) = (0, 64 << 20);
    while len >= 4096 {
        match fallocate(&filler, FallocateFlags::empty(), at, len) {
            Ok(()) => at += len,
            Err(errno) => {
                assert_eq!(errno, Errno::NOSPC);
                len /= 2;
            }
        }
    }
}

#[test]
fn cached_content_without_space_fails_fsync() {
    if !can_mount() {
        return;
    }
    let folder = folder("-t ext4 -b 4096", "8M");
    let options = MountOptions {
        write_back: WriteBack::On,
        ..MountOptions::default()
    };
    let mounted = Mounted::for_writing(folder.path(), &options);
    let file = File::create(mounted.path.join("sparse")).unwrap();
    file.set_len(CONTENT_BYTES as u64).unwrap();
    file.sync_all().unwrap();
    let new = NewFile {
        permissions: 0o600,
        umask: 0,
        uid: 0,
        gid: 0,
    };
    let filler = mounted.volume.create(Ino::ROOT, b"fill", &new).unwrap().ino;
    let mut at = 0;
    while let Ok(len) = mounted.volume.write_at(filler, &vec![1; 65536], at) {
        at += len as u64;
    }
    // There is space for only a few blocks.
    mounted.volume.truncate(filler, at - 3 * 4096).unwrap();
    mounted.volume.sync().unwrap();
    let written = file.write_all_at(&vec![b'A'; CONTENT_BYTES], 0);
    let synced = file.sync_all();
    assert!(written.is_err() || synced.is_err(), "lost without an error");
}

/// Only the kernel decides when it sends the content. The amount of space that is set aside is therefore
/// checked on the volume.
#[test]
fn accepted_content_is_written_although_the_rest_of_the_image_is_full() {
    if !can_mount() {
        return;
    }
    let folder = folder("-t ext4 -b 4096", "512M");
    let mut options = OpenOptions::default();
    options.read_write = true;
    let volume = Volume::open(folder.path().join("image"), &options).unwrap();
    let available_bytes = volume.available_bytes();
    volume.close().unwrap();
    drop(volume);
    let mounted = Mounted::for_writing(folder.path(), &MountOptions::default());
    assert!(mounted.collects_writes);
    let set_aside_bytes = available_bytes - mounted.volume.available_bytes();
    let expected = 8 << 20..=available_bytes / 8;
    assert!(expected.contains(&set_aside_bytes), "{set_aside_bytes}");
    let path = mounted.path.join("accepted");
    let content: Vec<u8> = (0..251).cycle().take(CONTENT_BYTES).collect();
    let file = File::create(&path).unwrap();
    file.write_all_at(&content, 0).unwrap();
    allocate_the_rest(&mounted);
    file.sync_all().unwrap();
    assert!(fs::read(&path).unwrap() == content);
    drop(file);
    mounted.close().unwrap();
    check(&folder.path().join("image")).unwrap();
}

#[test]
fn full_image_is_reported_by_close_at_the_latest() {
    if !can_mount() {
        return;
    }
    let folder = folder("-t ext4 -b 4096", "512M");
    let mounted = Mounted::for_writing(folder.path(), &MountOptions::default());
    assert!(mounted.collects_writes);
    allocate_the_rest(&mounted);
    let path = mounted.path.join("too-large");
    // dd reports an error of close(2). It writes more than is set aside.
    let dd = Command::new("dd")
        .args(["if=/dev/zero", "bs=1M", "count=256"])
        .arg(format!("of={}", path.display()))
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&dd.stderr);
    assert!(!dd.status.success(), "lost without an error: {message}");
    assert!(message.contains("No space left on device"), "{message}");
    mounted.close().unwrap();
    check(&folder.path().join("image")).unwrap();
}
