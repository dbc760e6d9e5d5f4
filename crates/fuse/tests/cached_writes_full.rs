//! Tests that fsync(2) reports cached content that finds no space when the kernel writes it back.

mod mounted;

use larder::{Ino, NewFile};
use larder_fuse::MountOptions;
use larder_testkit::{Requirement, skip};
use mounted::{Mounted, folder};
use std::fs::File;
use std::os::unix::fs::FileExt;

const CONTENT_BYTES: usize = 1 << 20;

#[test]
fn cached_content_without_space_fails_fsync() {
    if skip(&[
        Requirement::Root,
        Requirement::Fuse,
        Requirement::Tool("mke2fs"),
    ]) {
        return;
    }
    let folder = folder("-t ext4 -b 4096", "8M");
    let options = MountOptions {
        writeback_cache: true,
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
    // There is space for some blocks only.
    mounted.volume.truncate(filler, at - 3 * 4096).unwrap();
    mounted.volume.sync().unwrap();
    let written = file.write_all_at(&vec![b'A'; CONTENT_BYTES], 0);
    let synced = file.sync_all();
    assert!(written.is_err() || synced.is_err(), "lost without an error");
}
