//! write(2) on a full image, on a larder mount and on the kernel's mount of the same image.

mod mounted;

use larder_fuse::MountOptions;
use larder_testkit::e2fsprogs::{check, make_image};
use larder_testkit::mount::{Access, LoopMount};
use larder_testkit::{Requirement, skip};
use mounted::Mounted;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions as OpenOptionsFile, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

fn can_mount() -> bool {
    let needed = [
        Requirement::Tool("mke2fs"),
        Requirement::Tool("e2fsck"),
        Requirement::Tool("losetup"),
        Requirement::Root,
        Requirement::Fuse,
    ];
    !skip(&needed)
}

/// Creates a directory with two copies of a small image: `image` for larder, and `kernel`.
fn folder() -> TempDir {
    let dir = tempfile::Builder::new()
        .prefix("larder-fuse-full-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir_in("/tmp")
        .unwrap();
    fs::create_dir(dir.path().join("mnt")).unwrap();
    let image = dir.path().join("image");
    make_image(&image, "-t ext4 -b 1024 -m 0", "16M").unwrap();
    fs::copy(&image, dir.path().join("kernel")).unwrap();
    dir
}

/// Runs `run` on a larder mount of `image`, and unmounts it.
fn on_larder<R>(dir: &Path, run: impl Fn(&Path) -> R) -> R {
    let mounted = Mounted::for_writing(dir, &MountOptions::default());
    let found = run(&mounted.path);
    mounted.close().unwrap();
    found
}

/// Runs `run` on the kernel's mount of `kernel`, and unmounts it.
fn on_kernel<R>(dir: &Path, run: impl Fn(&Path) -> R) -> R {
    let mounted = LoopMount::new(&dir.join("kernel"), Access::ReadWrite, &[]).unwrap();
    run(&mounted.path())
}

/// Uses all space. The last of it is used by files of one block.
fn fill(root: &Path) {
    let filler = File::create(root.join("filler")).unwrap();
    let mut at = 0;
    for len in [1 << 20, 4096, 1024] {
        while let Ok(written) = filler.write_at(&vec![b'f'; len], at) {
            at += written as u64;
        }
        filler.sync_all().unwrap();
    }
    let last = |number: u32| {
        let file = File::create(root.join(format!("last{number}")))?;
        file.write_all_at(&[b'l'; 1024], 0)?;
        file.sync_all()
    };
    let error = (0..).find_map(|number| last(number).err()).unwrap();
    assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
}

/// Frees the blocks of one of the last files.
fn free_one(root: &Path) {
    let file = File::create(root.join("last0")).unwrap();
    file.sync_all().unwrap();
}

fn check_image(image: &Path) {
    check(image).unwrap();
}

#[test]
fn short_write_on_a_full_image_has_the_kernels_length() {
    if !can_mount() {
        return;
    }
    for len in [200_000, 900_000] {
        let dir = folder();
        let write = |root: &Path| {
            let path = root.join("t");
            fs::write(&path, [b'A'; 8192]).unwrap();
            File::open(&path).unwrap().sync_all().unwrap();
            fill(root);
            free_one(root);
            let file = OpenOptionsFile::new().write(true).open(&path).unwrap();
            let written = rustix::io::pwrite(&file, &vec![b'B'; len], 1000);
            (written, fs::read(&path).unwrap())
        };
        let (written, content) = on_larder(dir.path(), write);
        assert_eq!(written, Ok(7192));
        assert!(content == [vec![b'A'; 1000], vec![b'B'; 7192]].concat());
        let expected = on_kernel(dir.path(), write);
        assert_eq!(expected.0, written);
        assert!(expected.1 == content);
        let read = |root: &Path| fs::read(root.join("t")).unwrap();
        assert!(on_larder(dir.path(), read) == content);
        check_image(&dir.path().join("image"));
    }
}

#[test]
fn direct_write_without_enough_space_extends_the_file_by_its_count() {
    if !can_mount() {
        return;
    }
    // Direct writes need a buffer that is aligned to a block.
    let buf = vec![b'D'; (4 << 20) + 4096];
    let buf = &buf[buf.as_ptr().align_offset(4096)..][..4 << 20];
    let dir = folder();
    let write = |root: &Path| {
        fill(root);
        let filler = OpenOptionsFile::new().write(true).open(root.join("filler"));
        let filler = filler.unwrap();
        [0, 100, 1500].map(|freed| {
            let size = filler.metadata().unwrap().len();
            filler.set_len(size - (freed << 10)).unwrap();
            filler.sync_all().unwrap();
            let path = root.join(format!("direct{freed}"));
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::DIRECT;
            let file = open(&path, flags, Mode::from(0o600)).unwrap();
            let written = rustix::io::pwrite(&file, buf, 0);
            if written.is_err() {
                assert_eq!(written, Err(Errno::NOSPC), "{freed} blocks freed");
            }
            let len = written.unwrap_or(0);
            let content = fs::read(&path).unwrap();
            assert_eq!(content.len(), len, "{freed} blocks freed");
            assert!(content.iter().all(|byte| *byte == b'D'));
            // Mapping blocks use the rest.
            assert!(len as u64 >= (freed << 10) / 10 * 9, "{len} of {freed} KiB");
            len
        })
    };
    let written = on_larder(dir.path(), write);
    on_larder(dir.path(), |root| {
        for (freed, len) in [0, 100, 1500].into_iter().zip(written) {
            let content = fs::read(root.join(format!("direct{freed}"))).unwrap();
            assert!(content == vec![b'D'; len], "{freed} blocks freed");
        }
    });
    check_image(&dir.path().join("image"));
}
