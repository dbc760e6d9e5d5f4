//! Tests of a mount that this process serves, through the kernel.

mod mounted;

use larder::{OpenOptions, PolicyName, Volume};
use larder_fuse::{Error, MountOptions, Server};
use larder_testkit::e2fsprogs::{debugfs, debugfs_write, make_image_of};
use larder_testkit::{Requirement, skip, tool};
use mounted::Mounted;
use rustix::fs::{IFlags, XattrFlags, ioctl_getflags};
use rustix::io::Errno;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use tempfile::TempDir;

/// A user without privileges.
const OTHER_USER: u32 = 65534;

fn can_mount() -> bool {
    let needed = [
        Requirement::Tool("mke2fs"),
        Requirement::Tool("debugfs"),
        Requirement::Root,
        Requirement::Fuse,
    ];
    !skip(&needed)
}

/// Creates a directory that all users can access, with `tree`, `image` and `mnt`.
fn folder() -> TempDir {
    let dir = tempfile::Builder::new()
        .prefix("larder-fuse-test-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir_in("/tmp")
        .unwrap();
    for name in ["tree", "mnt"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    dir
}

fn make_image(dir: &Path) -> PathBuf {
    let (tree, image) = (dir.join("tree"), dir.join("image"));
    make_image_of(&tree, &image, "-t ext4 -b 4096 -I 256", "32M").unwrap();
    image
}

fn mount(folder: &Path, options: &MountOptions) -> Mounted {
    Mounted::open(folder, &OpenOptions::default(), options)
}

fn as_other_user(args: &[&std::ffi::OsStr]) -> Output {
    let id = OTHER_USER.to_string();
    Command::new(tool::find("setpriv").unwrap())
        .args(["--reuid", &id, "--regid", &id, "--clear-groups"])
        .args(args)
        .env("LC_ALL", "C")
        .output()
        .unwrap()
}

/// Lists, examines and reads all files, and looks up a missing one. Returns the number of files.
fn visit(directory: &Path) -> u64 {
    let mut files = 0;
    assert!(!directory.join("absent").exists());
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        files += 1;
        if metadata.is_dir() {
            files += visit(&path);
        } else if metadata.is_symlink() {
            fs::read_link(&path).unwrap();
        } else {
            assert_eq!(fs::read(&path).unwrap().len() as u64, metadata.len());
        }
    }
    files
}

#[test]
fn mount_is_removed_if_its_server_cannot_start() {
    if !can_mount() {
        return;
    }
    let dir = folder();
    let image = make_image(dir.path());
    let volume = Arc::new(Volume::open(image, &OpenOptions::default()).unwrap());
    let mountpoint = dir.path().join("mnt");
    let server = Server::mount(volume, &mountpoint, &MountOptions::default()).unwrap();
    let error = server
        .serve::<()>(|| Err(Errno::IO.into()), || None)
        .unwrap_err();
    assert!(matches!(error, Error::NotReady(_)), "{error}");
    assert!(matches!(
        larder_fuse::find_mount(&mountpoint),
        Err(Error::NotMounted(_))
    ));
}

#[test]
fn second_visit_is_answered_from_the_kernels_caches() {
    if !can_mount() {
        return;
    }
    let dir = folder();
    let tree = dir.path().join("tree");
    for number in 0..50 {
        let directory = tree.join(format!("dir-{number}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("file"), vec![1; 5000]).unwrap();
        symlink("file", directory.join("link")).unwrap();
    }
    make_image(dir.path());
    let mounted = mount(dir.path(), &MountOptions::default());
    assert_eq!(visit(&mounted.path), 151);
    let first = mounted.volume.stats();
    assert_eq!(visit(&mounted.path), 151);
    let second = mounted.volume.stats();
    assert!(first.page.lookups > 0 && first.inode.lookups > 0);
    for (name, before, after) in [
        ("page", first.page, second.page),
        ("buffer", first.buffer, second.buffer),
        ("dentry", first.dentry, second.dentry),
        ("inode", first.inode, second.inode),
    ] {
        assert_eq!(before.lookups, after.lookups, "lookups in the {name} cache");
    }
}

#[test]
fn directory_of_many_names_is_listed_completely() {
    if !can_mount() {
        return;
    }
    let dir = folder();
    let tree = dir.path().join("tree");
    for number in 0..1500 {
        File::create(tree.join(format!("a-rather-long-name-of-file-{number}"))).unwrap();
    }
    make_image(dir.path());
    let mounted = mount(dir.path(), &MountOptions::default());
    for _ in 0..2 {
        // The entries and lost+found.
        assert_eq!(fs::read_dir(&mounted.path).unwrap().count(), 1501);
    }
}

/// Returns 8 MiB in which adjacent ranges differ.
fn content() -> Vec<u8> {
    (0..8_u32 << 20)
        .map(|at| ((at >> 10) ^ at).to_le_bytes()[0])
        .collect()
}

#[test]
fn many_readers_at_once_get_the_right_bytes() {
    if !can_mount() {
        return;
    }
    let dir = folder();
    let content = content();
    fs::write(dir.path().join("tree/file"), &content).unwrap();
    make_image(dir.path());
    let mounted = mount(dir.path(), &MountOptions::default());
    let path = mounted.path.join("file");
    std::thread::scope(|scope| {
        for reader in 0..8_usize {
            let (path, content) = (&path, &content);
            scope.spawn(move || {
                let file = File::open(path).unwrap();
                let mut piece = vec![0; 70_001];
                for step in 0..100_usize {
                    let at = (reader * 1_048_573 + step * 77_777) % (content.len() - piece.len());
                    file.read_exact_at(&mut piece, at as u64).unwrap();
                    assert!(
                        piece == content[at..at + piece.len()],
                        "reader {reader} at {at}"
                    );
                }
            });
        }
    });
}

/// Reads one file with several readers in turn, each with its own open file.
fn read_in_turns(path: &Path, readers: usize, content: &[u8]) {
    let mut piece = vec![0; 16 << 10];
    let share = content.len() / readers;
    let files: Vec<File> = (0..readers).map(|_| File::open(path).unwrap()).collect();
    for at in (0..share).step_by(piece.len()) {
        for (reader, file) in files.iter().enumerate() {
            let at = reader * share + at;
            file.read_exact_at(&mut piece, at as u64).unwrap();
            assert!(
                piece == content[at..at + piece.len()],
                "wrong bytes at {at}"
            );
        }
    }
}

#[test]
fn every_readahead_policy_serves_a_mount_and_applies_with_direct_io() {
    if !can_mount() {
        return;
    }
    let dir = folder();
    let content = content();
    fs::write(dir.path().join("tree/file"), &content).unwrap();
    make_image(dir.path());
    for &policy in PolicyName::ALL {
        let mut volume = OpenOptions::default();
        volume.readahead = policy;
        volume.readahead_max_bytes = 128 << 10;
        for direct_io in [false, true] {
            let options = MountOptions {
                direct_io,
                ..MountOptions::default()
            };
            let mounted = Mounted::open(dir.path(), &volume, &options);
            let path = mounted.path.join("file");
            read_in_turns(&path, 8, &content);
            let first = mounted.volume.stats();
            assert_eq!(fs::read(&path).unwrap(), content);
            let second = mounted.volume.stats();
            let what = format!("{policy}, direct_io {direct_io}: {:?}", first.readahead);
            // The content stays cached, by larder or by the kernel.
            assert_eq!(first.device.reads, second.device.reads, "{what}");
            let reaches_larder = second.page.lookups > first.page.lookups;
            assert_eq!(reaches_larder, direct_io, "{what}");
            if direct_io {
                // 8 MiB take 64 windows of 128 KiB; the first windows of the 8 readers may be smaller. The windows of
                // `adaptive` may be larger.
                let windows = first.readahead.windows;
                let reads_ahead = policy != PolicyName::Off;
                let least = if policy == PolicyName::Adaptive {
                    8
                } else {
                    64
                };
                assert_eq!((least..=100).contains(&windows), reads_ahead, "{what}");
                assert_eq!(first.page.objects, 2048, "{what}");
            }
        }
    }
}

#[test]
fn direct_io_reads_at_any_offset_and_past_the_end() {
    if !can_mount() {
        return;
    }
    let dir = folder();
    let content = &content()[..300_001];
    fs::write(dir.path().join("tree/file"), content).unwrap();
    File::create(dir.path().join("tree/empty")).unwrap();
    make_image(dir.path());
    let options = MountOptions {
        direct_io: true,
        ..MountOptions::default()
    };
    let mounted = mount(dir.path(), &options);
    let file = File::open(mounted.path.join("file")).unwrap();
    for (at, len) in [(0, 1), (4095, 2), (1, 299_999), (299_999, 10), (300_001, 5)] {
        let mut piece = vec![0; len];
        let read = file.read_at(&mut piece, at as u64).unwrap();
        let end = content.len().min(at + len);
        assert_eq!(&piece[..read], &content[at..end], "{len} at {at}");
    }
    assert!(fs::read(mounted.path.join("empty")).unwrap().is_empty());
    // Copies inside the kernel, from file to file.
    let copied = dir.path().join("copied");
    fs::copy(mounted.path.join("file"), &copied).unwrap();
    assert_eq!(fs::read(copied).unwrap(), content);
}

#[test]
fn attributes_and_flags_are_visible() {
    if !can_mount() {
        return;
    }
    let dir = folder();
    let file = dir.path().join("tree/file");
    fs::write(&file, "x").unwrap();
    for (name, value) in [
        ("user.tag", &b"value"[..]),
        ("trusted.secret", b"s"),
        ("user.empty", b""),
    ] {
        if let Err(errno) = rustix::fs::setxattr(&file, name, value, XattrFlags::empty()) {
            larder_testkit::report_skipped(format_args!(
                "the test directory does not support extended attributes: {errno}"
            ));
            return;
        }
    }
    let image = make_image(dir.path());
    // FS_IMMUTABLE_FL and FS_EXTENT_FL.
    debugfs_write(&image, &["set_inode_field file flags 0x80010"]).unwrap();
    let options = MountOptions {
        allow_other: true,
        ..MountOptions::default()
    };
    let mounted = mount(dir.path(), &options);
    let file = mounted.path.join("file");
    let mut buf = [0; 64];
    assert_eq!(rustix::fs::getxattr(&file, "user.tag", &mut buf), Ok(5));
    assert_eq!(&buf[..5], b"value");
    assert_eq!(
        rustix::fs::getxattr(&file, "user.tag", &mut [0; 4]),
        Err(Errno::RANGE)
    );
    assert_eq!(rustix::fs::getxattr_query(&file, "user.tag"), Ok(5));
    assert_eq!(rustix::fs::getxattr(&file, "user.empty", &mut buf), Ok(0));
    assert_eq!(
        rustix::fs::getxattr(&file, "user.none", &mut buf),
        Err(Errno::NODATA)
    );
    let len = rustix::fs::listxattr(&file, &mut buf).unwrap();
    let names: Vec<&[u8]> = buf[..len].split(|&byte| byte == 0).collect();
    assert!(names.contains(&&b"trusted.secret"[..]) && names.contains(&&b"user.tag"[..]));
    let flags = ioctl_getflags(File::open(&file).unwrap()).unwrap();
    assert!(flags.contains(IFlags::IMMUTABLE), "{flags:?}");
    if let Some(getfattr) = tool::find("getfattr") {
        let seen = as_other_user(&[
            getfattr.as_ref(),
            "-m".as_ref(),
            "-".as_ref(),
            file.as_ref(),
        ]);
        let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
        assert!(
            seen.contains("user.tag") && !seen.contains("trusted.secret"),
            "{seen}"
        );
    }
}

#[test]
fn access_lists_are_enforced() {
    if !can_mount() || skip(&[Requirement::Tool("setpriv")]) {
        return;
    }
    let dir = folder();
    let tree = dir.path().join("tree");
    for name in ["open", "closed"] {
        fs::write(tree.join(name), "content").unwrap();
        fs::set_permissions(tree.join(name), Permissions::from_mode(0o640)).unwrap();
        chown(tree.join(name), Some(0), Some(0)).unwrap();
    }
    // Version 2; then tag, permissions and id of owner, user 65534, group, mask, others.
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [
        (1_u16, 6_u16, u32::MAX),
        (2, 4, OTHER_USER),
        (4, 4, u32::MAX),
        (16, 4, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let set = rustix::fs::setxattr(
        tree.join("open"),
        "system.posix_acl_access",
        &list,
        XattrFlags::empty(),
    );
    if let Err(errno) = set {
        larder_testkit::report_skipped(format_args!(
            "the test directory does not support access control lists: {errno}"
        ));
        return;
    }
    make_image(dir.path());
    let options = MountOptions {
        allow_other: true,
        ..MountOptions::default()
    };
    let mounted = mount(dir.path(), &options);
    let read = |name: &str| as_other_user(&["cat".as_ref(), mounted.path.join(name).as_ref()]);
    assert_eq!(read("open").stdout, b"content");
    assert!(!read("closed").status.success());
}

#[test]
fn other_users_are_denied_unless_allowed() {
    if !can_mount() || skip(&[Requirement::Tool("setpriv")]) {
        return;
    }
    let dir = folder();
    fs::write(dir.path().join("tree/file"), "content").unwrap();
    make_image(dir.path());
    for (allow_other, allow_root, allowed) in [
        (false, false, false),
        (false, true, false),
        (true, false, true),
    ] {
        let options = MountOptions {
            allow_other,
            allow_root,
            ..MountOptions::default()
        };
        let mounted = mount(dir.path(), &options);
        // Other users get no access through the kernel's cache of the owner's content.
        assert_eq!(fs::read(mounted.path.join("file")).unwrap(), b"content");
        let read = as_other_user(&["cat".as_ref(), mounted.path.join("file").as_ref()]);
        assert_eq!(read.status.success(), allowed, "{allow_other} {allow_root}");
    }
}

#[test]
fn damaged_inode_is_listed_and_only_it_fails() {
    if !can_mount() {
        return;
    }
    let dir = folder();
    let tree = dir.path().join("tree");
    for name in ["before", "damaged", "whole"] {
        fs::write(tree.join(name), name).unwrap();
    }
    let image = make_image(dir.path());
    // "Inode 13 is part of block group 0\n\tlocated at block 38, offset 0x0c00"
    let place = debugfs(&image, "imap damaged").unwrap();
    let block: u64 = place
        .split("block ")
        .last()
        .unwrap()
        .split(',')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let offset = place.trim().rsplit("0x").next().unwrap();
    let offset = u64::from_str_radix(offset, 16).unwrap();
    let file = File::options().write(true).open(&image).unwrap();
    file.write_all_at(&[0xff; 4], block * 4096 + offset + 4)
        .unwrap();
    let mounted = mount(dir.path(), &MountOptions::default());
    for _ in 0..2 {
        let mut names: Vec<_> = fs::read_dir(&mounted.path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["before", "damaged", "lost+found", "whole"]);
        let error = fs::metadata(mounted.path.join("damaged")).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::UCLEAN), "{error}");
        assert_eq!(fs::read(mounted.path.join("whole")).unwrap(), b"whole");
    }
}

#[test]
fn root_is_inode_2_and_statvfs_reports_space() {
    if !can_mount() {
        return;
    }
    let dir = folder();
    make_image(dir.path());
    let mounted = mount(dir.path(), &MountOptions::default());
    assert_eq!(fs::metadata(&mounted.path).unwrap().ino(), 2);
    let stat = rustix::fs::statvfs(&mounted.path).unwrap();
    assert_eq!((stat.f_bsize, stat.f_namemax), (4096, 255));
    assert!(stat.f_blocks > 0 && stat.f_bfree <= stat.f_blocks && stat.f_files > 0);
}

#[test]
fn dropping_the_server_unmounts() {
    if !can_mount() {
        return;
    }
    let dir = folder();
    make_image(dir.path());
    let volume = Arc::new(Volume::open(dir.path().join("image"), &OpenOptions::default()).unwrap());
    let server = Server::mount(volume, &dir.path().join("mnt"), &MountOptions::default()).unwrap();
    let path = server.mountpoint().to_owned();
    assert!(larder_fuse::find_mount(&path).is_ok());
    drop(server);
    assert!(larder_fuse::find_mount(&path).is_err());
}
