//! Content in the kernel's cache that finds no space when it is written back: fsync(2) says so.

mod mounted;

use larder::{Ino, NewFile, OpenOptions};
use larder_fuse::MountOptions;
use larder_testkit::tool::Tool;
use larder_testkit::{Requirement, skip};
use mounted::Mounted;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

const CONTENT_BYTES: usize = 1 << 20;

#[test]
fn cached_content_that_finds_no_space_is_an_error_of_fsync() {
    if skip(&[
        Requirement::Root,
        Requirement::Fuse,
        Requirement::Tool("mke2fs"),
    ]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("mnt")).unwrap();
    let make = Tool::new("mke2fs").args(["-q", "-F", "-t", "ext4", "-b", "4096"]);
    let make = make.arg(folder.path().join("image")).arg("8M");
    make.run().unwrap();
    let mut volume = OpenOptions::default();
    volume.read_write = true;
    let options = MountOptions {
        read_write: true,
        writeback_cache: true,
        ..MountOptions::default()
    };
    let mounted = Mounted::open(folder.path(), &volume, &options);
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
    // Some blocks find space, the rest does not.
    mounted.volume.truncate(filler, at - 3 * 4096).unwrap();
    mounted.volume.sync().unwrap();
    let written = file.write_all_at(&vec![b'A'; CONTENT_BYTES], 0);
    let synced = file.sync_all();
    assert!(written.is_err() || synced.is_err(), "lost without an error");
}
