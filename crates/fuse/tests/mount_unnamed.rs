//! Files that are created without a name (`O_TMPFILE`), compared with the kernel's mount.

mod mounted;

use larder_fuse::MountOptions;
use larder_testkit::e2fsprogs::check;
use larder_testkit::{Access, LoopMount, Requirement, skip};
use mounted::{Mounted, folder, wait_until};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

fn can_mount() -> bool {
    !skip(&[
        Requirement::Tool("mke2fs"),
        Requirement::LoopMount,
        Requirement::Fuse,
    ])
}

fn open(directory: &Path, flags: OFlags) -> rustix::io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | flags;
    let file: OwnedFd = rustix::fs::open(directory, flags, Mode::from_raw_mode(0o4751))?;
    Ok(file.into())
}

/// Gives `file` the name `path`, as open(2) recommends.
fn link(file: &File, path: &Path) -> rustix::io::Result<()> {
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, source, CWD, path, AtFlags::SYMLINK_FOLLOW)
}

fn seen(metadata: &fs::Metadata) -> String {
    let (uid, gid) = (metadata.uid(), metadata.gid());
    format!(
        "mode {:o}, {} links, {uid}:{gid}, {} bytes",
        metadata.mode(),
        metadata.nlink(),
        metadata.len()
    )
}

/// Uses files without names in `root`, and returns what can be observed.
fn observe(root: &Path) -> Vec<String> {
    let mut log = Vec::new();
    let directory = root.join("directory");
    fs::create_dir(&directory).unwrap();
    std::os::unix::fs::chown(&directory, Some(0), Some(7)).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o2777)).unwrap();

    let mut file = open(&directory, OFlags::empty()).unwrap();
    file.write_all(b"content").unwrap();
    log.push(seen(&file.metadata().unwrap()));
    log.push(format!(
        "{} names",
        fs::read_dir(&directory).unwrap().count()
    ));
    link(&file, &directory.join("linked")).unwrap();
    log.push(seen(&file.metadata().unwrap()));
    log.push(seen(&fs::metadata(directory.join("linked")).unwrap()));
    log.push(format!("{:?}", link(&file, &directory.join("linked"))));
    link(&file, &root.join("second")).unwrap();
    log.push(seen(&file.metadata().unwrap()));
    drop(file);
    log.push(format!("{:?}", fs::read(root.join("second")).unwrap()));

    // With `O_EXCL`, the file never gets a name.
    let mut exclusive = open(&directory, OFlags::EXCL).unwrap();
    exclusive.write_all(b"never").unwrap();
    log.push(format!("{:?}", link(&exclusive, &root.join("third"))));
    exclusive.rewind().unwrap();
    let mut content = String::new();
    exclusive.read_to_string(&mut content).unwrap();
    log.push(content);

    log.push(format!(
        "{:?}",
        open(&root.join("second"), OFlags::empty()).err()
    ));
    log.push(format!(
        "{:?}",
        open(&root.join("absent"), OFlags::empty()).err()
    ));
    log
}

#[test]
fn file_without_a_name_is_the_same_as_on_the_kernels_mount() {
    if !can_mount() {
        return;
    }
    let folder = folder("-t ext4", "32M");
    for direct_io in [false, true] {
        let options = MountOptions {
            direct_io,
            ..MountOptions::default()
        };
        let mounted = Mounted::for_writing(folder.path(), &options);
        let root = mounted.path.join(format!("direct-{direct_io}"));
        fs::create_dir(&root).unwrap();
        let on_larder = observe(&root);
        mounted.close().unwrap();
        let kernel = LoopMount::new(&folder.path().join("kernel"), Access::ReadWrite, &[]).unwrap();
        let root = kernel.path().join(format!("direct-{direct_io}"));
        fs::create_dir(&root).unwrap();
        assert_eq!(on_larder, observe(&root), "direct_io {direct_io}");
        drop(kernel);
        check(&folder.path().join("image")).unwrap();
    }
}

#[test]
fn file_without_a_name_is_deleted_when_it_is_closed() {
    if !can_mount() {
        return;
    }
    let folder = folder("-t ext4", "32M");
    let mounted = Mounted::for_writing(folder.path(), &MountOptions::default());
    let free = || mounted.volume.statfs().free_files;
    let before = free();
    let files: Vec<_> = (0..10)
        .map(|_| open(&mounted.path, OFlags::empty()).unwrap())
        .collect();
    assert_eq!(free(), before - 10);
    link(&files[3], &mounted.path.join("kept")).unwrap();
    drop(files);
    wait_until("the files without names are deleted", || {
        free() == before - 1
    });
    mounted.close().unwrap();
    check(&folder.path().join("image")).unwrap();
}
