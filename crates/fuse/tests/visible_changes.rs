//! Checks what stat(2) returns right after each operation through a mount. The same fields must change as on the
//! kernel's ext4, and no value may be an old one from the kernel's cache.

mod mounted;

use larder::Ino;
use larder_fuse::{MountOptions, WriteBack};
use larder_testkit::{Access, LoopMount, Requirement, skip};
use mounted::{Mounted, folder};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, IFlags, Mode, OFlags, RenameFlags, SeekFrom, Timespec,
    Timestamps, XattrFlags,
};
use rustix::time::ClockId;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

fn can_mount() -> bool {
    !skip(&[
        Requirement::Tool("mke2fs"),
        Requirement::LoopMount,
        Requirement::Fuse,
    ])
}

/// An operation below a directory with the files that [`prepare`] creates.
type Operation = fn(&Path);

/// The files that exist before every operation.
const NAMES: [&str; 7] = [
    ".",
    "file",
    "linked",
    "other",
    "symlink",
    "dir",
    "dir/inner",
];

fn prepare(directory: &Path) {
    fs::create_dir(directory).unwrap();
    fs::create_dir(directory.join("dir")).unwrap();
    for name in ["file", "other", "dir/inner"] {
        fs::write(directory.join(name), [b'x'; 8192]).unwrap();
    }
    fs::hard_link(directory.join("file"), directory.join("linked")).unwrap();
    symlink("file", directory.join("symlink")).unwrap();
}

fn writable(path: &Path) -> File {
    File::options().write(true).open(path).unwrap()
}

fn allocate(directory: &Path, flags: FallocateFlags, offset: u64, len: u64) {
    rustix::fs::fallocate(writable(&directory.join("file")), flags, offset, len).unwrap();
}

fn set_flags(path: &Path, flags: IFlags) {
    let file = File::open(path).unwrap();
    let before = rustix::fs::ioctl_getflags(&file).unwrap();
    rustix::fs::ioctl_setflags(&file, before | flags).unwrap();
}

fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

/// Returns an access list that lets user 1000 read, which changes the group's permissions in the mode.
fn access_list() -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [
        (1_u16, 6_u16, u32::MAX),
        (2, 7, 1000),
        (4, 4, u32::MAX),
        (16, 7, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

fn rename(directory: &Path, old: &str, new: &str, flags: RenameFlags) {
    let (old, new) = (directory.join(old), directory.join(new));
    rustix::fs::renameat_with(CWD, old, CWD, new, flags).unwrap();
}

const OPERATIONS: &[(&str, Operation)] = &[
    ("chattr", |d| {
        set_flags(&d.join("file"), IFlags::NOATIME);
    }),
    ("chattr of a directory", |d| {
        set_flags(&d.join("dir"), IFlags::NODUMP);
    }),
    ("chattr that changes nothing", |d| {
        set_flags(&d.join("file"), IFlags::empty());
    }),
    ("chmod", |d| {
        fs::set_permissions(d.join("file"), Permissions::from_mode(0o600)).unwrap();
    }),
    ("chown", |d| {
        chown(d.join("file"), Some(7), Some(8)).unwrap();
    }),
    ("utimensat", |d| {
        let time = |tv_sec| Timespec { tv_sec, tv_nsec: 5 };
        let times = Timestamps {
            last_access: time(1_000_000_000),
            last_modification: time(1_100_000_000),
        };
        rustix::fs::utimensat(CWD, d.join("file"), &times, AtFlags::empty()).unwrap();
    }),
    ("write over", |d| {
        writable(&d.join("file")).write_all_at(b"new", 100).unwrap();
    }),
    ("write past the end", |d| {
        writable(&d.join("file"))
            .write_all_at(b"new", 9000)
            .unwrap();
    }),
    ("write without a page cache", |d| {
        let flags = OFlags::WRONLY | OFlags::DIRECT;
        let file = rustix::fs::open(d.join("file"), flags, Mode::empty()).unwrap();
        let memory = [b'y'; 8192];
        let start = memory.as_ptr().align_offset(4096);
        rustix::io::pwrite(file, &memory[start..start + 4096], 0).unwrap();
    }),
    ("write to a set-user-id file", |d| {
        fs::set_permissions(d.join("file"), Permissions::from_mode(0o6777)).unwrap();
        writable(&d.join("file")).write_all_at(b"new", 0).unwrap();
    }),
    ("truncate", |d| {
        writable(&d.join("file")).set_len(5).unwrap();
    }),
    ("extend", |d| {
        writable(&d.join("file")).set_len(50_000).unwrap();
    }),
    ("truncate to the same size", |d| {
        writable(&d.join("file")).set_len(8192).unwrap();
    }),
    ("allocate", |d| {
        allocate(d, FallocateFlags::empty(), 8192, 4096);
    }),
    ("allocate past the end", |d| {
        allocate(d, FallocateFlags::KEEP_SIZE, 8192, 4096);
    }),
    ("allocate existing blocks", |d| {
        allocate(d, FallocateFlags::empty(), 0, 4096);
    }),
    ("punch", |d| {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        allocate(d, punch, 0, 4096);
    }),
    ("zero", |d| {
        allocate(d, FallocateFlags::ZERO_RANGE, 0, 4096);
    }),
    ("copy", |d| {
        let (from, to) = (
            File::open(d.join("file")).unwrap(),
            writable(&d.join("other")),
        );
        let mut to_bytes = 8000;
        rustix::fs::copy_file_range(from, None, to, Some(&mut to_bytes), 4096).unwrap();
    }),
    ("set an attribute", |d| {
        set_xattr(&d.join("file"), "user.name", b"value");
    }),
    ("set a large attribute", |d| {
        set_xattr(&d.join("file"), "user.name", &[b'v'; 2000]);
    }),
    ("set an attribute of a symbolic link", |d| {
        set_xattr(&d.join("symlink"), "trusted.name", b"value");
    }),
    ("remove an attribute", |d| {
        set_xattr(&d.join("dir"), "user.name", b"value");
        rustix::fs::removexattr(d.join("dir"), "user.name").unwrap();
    }),
    ("set an access list", |d| {
        set_xattr(&d.join("file"), "system.posix_acl_access", &access_list());
    }),
    ("set a default access list", |d| {
        set_xattr(&d.join("dir"), "system.posix_acl_default", &access_list());
    }),
    ("link", |d| {
        fs::hard_link(d.join("file"), d.join("dir/again")).unwrap();
    }),
    ("unlink of one of two", |d| {
        fs::remove_file(d.join("linked")).unwrap();
    }),
    ("unlink", |d| {
        fs::remove_file(d.join("other")).unwrap();
    }),
    ("rename", |d| {
        rename(d, "other", "moved", RenameFlags::empty());
    }),
    ("rename into a directory", |d| {
        rename(d, "file", "dir/moved", RenameFlags::empty());
    }),
    ("rename over", |d| {
        rename(d, "other", "linked", RenameFlags::empty());
    }),
    ("rename of a directory", |d| {
        fs::create_dir(d.join("dir/inside")).unwrap();
        rename(d, "dir/inside", "outside", RenameFlags::empty());
    }),
    ("exchange", |d| {
        rename(d, "file", "dir/inner", RenameFlags::EXCHANGE);
    }),
    ("exchange of a file and a directory", |d| {
        fs::create_dir(d.join("dir/inside")).unwrap();
        rename(d, "dir/inside", "other", RenameFlags::EXCHANGE);
    }),
    ("mkdir", |d| {
        fs::create_dir(d.join("dir/new")).unwrap();
    }),
    ("rmdir", |d| {
        fs::create_dir(d.join("dir/inside")).unwrap();
        fs::remove_dir(d.join("dir/inside")).unwrap();
    }),
    ("create", |d| {
        drop(File::create_new(d.join("dir/new")).unwrap());
    }),
    ("create over", |d| {
        drop(File::create(d.join("file")).unwrap());
    }),
    ("symlink", |d| {
        symlink("target", d.join("dir/new")).unwrap();
    }),
];

/// The result of stat(2), except for the access time, which a mount need not update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    mode: u32,
    links: u64,
    owner: (u32, u32),
    size_bytes: u64,
    blocks_512: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Seen {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            mode: metadata.mode() & 0o7777,
            links: metadata.nlink(),
            owner: (metadata.uid(), metadata.gid()),
            size_bytes: metadata.size(),
            blocks_512: metadata.blocks(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns the attributes in the volume, independent of the kernel's cache.
    fn kept(mounted: &Mounted, number: u64) -> Self {
        let ino = Ino(u32::try_from(number).unwrap());
        let metadata = mounted.volume.metadata(ino).unwrap();
        let time = |time: larder::Timestamp| (time.seconds, time.nanoseconds.into());
        Self {
            mode: metadata.permissions.into(),
            links: metadata.links.into(),
            owner: (metadata.uid, metadata.gid),
            size_bytes: metadata.size_bytes,
            blocks_512: metadata.blocks_512,
            modified: time(metadata.modified),
            changed: time(metadata.changed),
        }
    }

    /// Returns the fields that differ from `before`, except for the space in use: the file system
    /// decides when it allocates delayed blocks.
    fn differing_from(&self, before: &Self) -> Vec<&'static str> {
        [
            ("mode", self.mode != before.mode),
            ("links", self.links != before.links),
            ("owner", self.owner != before.owner),
            ("size", self.size_bytes != before.size_bytes),
            ("mtime", self.modified != before.modified),
            ("ctime", self.changed != before.changed),
        ]
        .into_iter()
        .filter_map(|(name, differs)| differs.then_some(name))
        .collect()
    }
}

/// Opens the file `name` of `directory`, so that it remains accessible after a rename.
fn held(directory: &Path, name: &str) -> File {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let file: OwnedFd = rustix::fs::open(directory.join(name), flags, Mode::empty()).unwrap();
    file.into()
}

fn coarse_clock() -> (i64, i64) {
    let now = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
    (now.tv_sec, now.tv_nsec)
}

/// Prepares `directory`, performs `operation`, and returns the changed fields of each file.
fn changes(
    directory: &Path,
    operation: Operation,
    check: impl Fn(&str, &fs::Metadata),
) -> Vec<(&'static str, Vec<&'static str>)> {
    prepare(directory);
    let files = NAMES.map(|name| (name, held(directory, name)));
    let before = NAMES.map(|name| directory.join(name).symlink_metadata().unwrap());
    let last = before.iter().map(|before| Seen::of(before).changed).max();
    // The kernel's timestamps advance with its clock ticks.
    while coarse_clock() <= last.unwrap() {
        std::thread::yield_now();
    }
    operation(directory);
    let changed = files.iter().zip(before).map(|((name, file), before)| {
        let now = file.metadata().unwrap();
        check(name, &now);
        (*name, Seen::of(&now).differing_from(&Seen::of(&before)))
    });
    changed.collect()
}

/// Compares a mount with `options` to the kernel's mount, for every operation.
fn compare_with_kernel(options: &MountOptions) {
    if !can_mount() {
        return;
    }
    let folder = folder("-t ext4 -b 4096", "32M");
    let mounted = Mounted::for_writing(folder.path(), options);
    let kernel = LoopMount::new(&folder.path().join("kernel"), Access::ReadWrite, &[]).unwrap();
    let mut wrong = String::new();
    for (number, (name, operation)) in OPERATIONS.iter().enumerate() {
        let directory = format!("directory-{number}");
        let stale = RefCell::new(Vec::new());
        let on_larder = changes(&mounted.path.join(&directory), *operation, |file, seen| {
            let (seen, kept) = (Seen::of(seen), Seen::kept(&mounted, seen.ino()));
            // With a writeback cache, the times and sizes in the kernel are newer than those in the
            // volume.
            if seen != kept && options.write_back != WriteBack::On {
                let text = format!("{name}: {file} shows\n{seen:?} but is\n{kept:?}\n");
                stale.borrow_mut().push(text);
            }
        });
        if options.write_back == WriteBack::On
            && ["chattr", "chattr that changes nothing"].contains(name)
        {
            // With a writeback cache, the kernel keeps its own times of files, whatever the reply
            // contains.
            continue;
        }
        let on_kernel = changes(&kernel.path().join(&directory), *operation, |_, _| ());
        wrong.extend(stale.into_inner());
        for (on_larder, on_kernel) in on_larder.iter().zip(&on_kernel).filter(|(a, b)| a != b) {
            writeln!(wrong, "{name}: Larder {on_larder:?}, kernel {on_kernel:?}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_operation_changes_what_is_visible_as_on_the_kernels_mount() {
    compare_with_kernel(&MountOptions {
        write_back: WriteBack::Off,
        ..MountOptions::default()
    });
}

#[test]
fn every_operation_changes_what_is_visible_with_direct_io() {
    compare_with_kernel(&MountOptions {
        direct_io: true,
        ..MountOptions::default()
    });
}

#[test]
fn every_operation_changes_what_is_visible_with_a_writeback_cache() {
    compare_with_kernel(&MountOptions {
        write_back: WriteBack::On,
        ..MountOptions::default()
    });
}

/// Returns what lseek(2) finds in a file after each change, while the file is open for writing.
fn found_after_writes(path: &Path) -> Vec<rustix::io::Result<u64>> {
    const MIB: u64 = 1 << 20;
    let file = File::create_new(path).unwrap();
    let mut found = Vec::new();
    let mut seek = |offsets: &[u64]| {
        for &offset in offsets {
            found.push(rustix::fs::seek(&file, SeekFrom::Data(offset)));
            found.push(rustix::fs::seek(&file, SeekFrom::Hole(offset)));
        }
    };
    for start in [16 * MIB - 1, 16 * MIB + 5000, 3 * MIB] {
        file.write_all_at(b"data", start).unwrap();
        seek(&[0, 100, start, start + 3, start + 4, start + 9000]);
    }
    file.set_len(4 * MIB).unwrap();
    seek(&[3 * MIB, 3 * MIB + 5000, 4 * MIB - 1, 4 * MIB]);
    fs::remove_file(path).unwrap();
    file.write_all_at(&vec![b'x'; 70_000], 40 * MIB).unwrap();
    seek(&[4 * MIB, 40 * MIB + 65_536, 41 * MIB]);
    found
}

#[test]
fn lseek_finds_content_that_the_kernel_has_not_sent() {
    if !can_mount() {
        return;
    }
    let folder = folder("-t ext4 -b 4096", "32M");
    let kernel = LoopMount::new(&folder.path().join("kernel"), Access::ReadWrite, &[]).unwrap();
    let expected = found_after_writes(&kernel.path().join("file"));
    for threads in [None, NonZeroUsize::new(1)] {
        let options = MountOptions {
            write_back: WriteBack::On,
            threads,
            ..MountOptions::default()
        };
        let mounted = Mounted::for_writing(folder.path(), &options);
        let found = found_after_writes(&mounted.path.join("file"));
        assert_eq!(found, expected, "threads: {threads:?}");
    }
}
