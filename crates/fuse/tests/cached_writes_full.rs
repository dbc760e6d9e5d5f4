//! Tests of a full image on a mount on which the kernel collects writes.

mod mounted;

use larder::{Ino, NewFile};
use larder_fuse::{MountOptions, WriteBack};
use larder_testkit::e2fsprogs::check;
use larder_testkit::{Requirement, skip};
use mounted::{Mounted, folder};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
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
            // A file without extents cannot be allocated, so it is written.
            Err(Errno::OPNOTSUPP) => {
                let ino = inode_of(&filler);
                let part = vec![1; 1 << 20];
                while let Ok(len) = mounted.volume.write_at(ino, &part, at) {
                    at += len as u64;
                }
                return;
            }
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
    // There is space for some blocks only.
    mounted.volume.truncate(filler, at - 3 * 4096).unwrap();
    mounted.volume.sync().unwrap();
    let written = file.write_all_at(&vec![b'A'; CONTENT_BYTES], 0);
    let synced = file.sync_all();
    assert!(written.is_err() || synced.is_err(), "lost without an error");
}

fn inode_of(file: &File) -> Ino {
    Ino(u32::try_from(file.metadata().unwrap().ino()).unwrap())
}

/// Returns the size of `file` on the server, without what the kernel has collected.
fn sent_bytes(mounted: &Mounted, file: &File) -> u64 {
    mounted.volume.metadata(inode_of(file)).unwrap().size_bytes
}

#[test]
fn accepted_content_is_written_although_the_rest_of_the_image_is_full() {
    if !can_mount() {
        return;
    }
    for (mke2fs, size) in [
        ("-t ext4 -b 4096", "512M"),
        ("-t ext4 -b 1024 -O inline_data", "512M"),
        ("-t ext2 -b 4096", "256M"),
        ("-t ext4 -O bigalloc -C 65536", "4G"),
    ] {
        let folder = folder(mke2fs, size);
        let mounted = Mounted::for_writing(folder.path(), &MountOptions::default());
        let create = |name: &str| File::create_new(mounted.path.join(name)).unwrap();
        // With inline_data, its content is in the inode at first.
        let small = create("small");
        small.write_all_at(b"small", 0).unwrap();
        small.sync_all().unwrap();
        small.write_all_at(&[b's'; 2000], 5).unwrap();
        let large = create("large");
        let content: Vec<u8> = (0..251).cycle().take(CONTENT_BYTES / 4).collect();
        large.write_all_at(&content, 0).unwrap();
        // Each page needs blocks of its own.
        let sparse = create("sparse");
        for page in 0..100 {
            sparse.write_all_at(b"s", page << 20).unwrap();
        }
        let files = [&small, &large, &sparse];
        let sent = files.map(|file| sent_bytes(&mounted, file));
        assert_eq!(sent, [5, 0, 0], "{mke2fs}: the kernel does not collect");
        allocate_the_rest(&mounted);
        for file in files {
            file.sync_all().expect(mke2fs);
        }
        assert!(fs::read(mounted.path.join("large")).unwrap() == content);
        drop((small, large, sparse));
        mounted.close().unwrap();
        check(&folder.path().join("image")).unwrap();
    }
}

#[test]
fn full_image_is_reported_by_close_at_the_latest() {
    if !can_mount() {
        return;
    }
    let folder = folder("-t ext4 -b 4096", "512M");
    let mounted = Mounted::for_writing(folder.path(), &MountOptions::default());
    let first = File::create(mounted.path.join("first")).unwrap();
    first.write_all_at(b"first", 0).unwrap();
    assert_eq!(
        sent_bytes(&mounted, &first),
        0,
        "the kernel does not collect"
    );
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
    drop(first);
    mounted.close().unwrap();
    check(&folder.path().join("image")).unwrap();
}
