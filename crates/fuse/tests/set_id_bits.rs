//! Changes files through a mount, and compares the set-id bits and capabilities that they keep with those on the
//! kernel's ext4, for each caller, mode and kind of change.

mod mounted;

use larder::Ino;
use larder_fuse::{MountOptions, WriteBack};
use larder_testkit::{Access, LoopMount, Requirement, skip};
use mounted::{Mounted, folder};
use rustix::fs::{FallocateFlags, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const OWNER: u32 = 1000;
/// The file's group, of which its owner is not a member.
const GROUP: u32 = 2000;

const CAPABILITY: &str = "security.capability";

/// A caller that changes a file.
#[derive(Debug)]
struct Caller {
    name: &'static str,
    uid: u32,
    gid: u32,
    groups: &'static [u32],
}

const CALLERS: [Caller; 6] = [
    Caller {
        name: "root",
        uid: 0,
        gid: 0,
        groups: &[],
    },
    Caller {
        name: "the owner",
        uid: OWNER,
        gid: OWNER,
        groups: &[OWNER],
    },
    Caller {
        name: "the owner, in the group",
        uid: OWNER,
        gid: OWNER,
        groups: &[GROUP],
    },
    Caller {
        name: "a user with the group as primary group",
        uid: 1001,
        gid: GROUP,
        groups: &[],
    },
    Caller {
        name: "a user with the group as supplementary group",
        uid: 1002,
        gid: 1002,
        groups: &[5, GROUP, 70_000],
    },
    Caller {
        name: "another user",
        uid: 1003,
        gid: 1003,
        groups: &[5],
    },
];

const EMPTY_CHOWN: &str = "chown without user and group";

const MODES: [u32; 7] = [0o666, 0o2666, 0o2676, 0o4666, 0o6666, 0o6777, 0o2664];

/// A change of [`Files::file`].
type Change = fn(&Files) -> rustix::io::Result<()>;

/// The files for a change, opened by root.
struct Files {
    file: File,
    /// The same file, opened with `O_DIRECT`.
    direct: File,
    /// A file with content to copy.
    source: File,
}

fn allocate(files: &Files, flags: FallocateFlags, offset_bytes: u64) -> rustix::io::Result<()> {
    rustix::fs::fallocate(&files.file, flags, offset_bytes, 4096)
}

/// Returns an access list that a mode cannot express.
fn access_list() -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [
        (1_u16, 6_u16, u32::MAX),
        (2, 6, 4321),
        (4, 6, u32::MAX),
        (16, 6, u32::MAX),
        (32, 6, u32::MAX),
    ] {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

const CHANGES: &[(&str, Change)] = &[
    ("write", |f| {
        rustix::io::pwrite(&f.file, b"new", 0).map(drop)
    }),
    ("write past the end", |f| {
        rustix::io::pwrite(&f.file, b"new", 20_000).map(drop)
    }),
    ("direct write", |f| {
        let memory = [b'y'; 8192];
        let start = memory.as_ptr().align_offset(4096);
        rustix::io::pwrite(&f.direct, &memory[start..start + 4096], 0).map(drop)
    }),
    ("truncate", |f| rustix::fs::ftruncate(&f.file, 5)),
    ("extend", |f| rustix::fs::ftruncate(&f.file, 9000)),
    ("allocate", |f| allocate(f, FallocateFlags::empty(), 8192)),
    ("allocate past the end", |f| {
        allocate(f, FallocateFlags::KEEP_SIZE, 8192)
    }),
    ("punch", |f| {
        allocate(f, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0)
    }),
    ("zero", |f| allocate(f, FallocateFlags::ZERO_RANGE, 0)),
    ("copy", |f| {
        let (mut from, mut to) = (0, 0);
        rustix::fs::copy_file_range(&f.source, Some(&mut from), &f.file, Some(&mut to), 4096)
            .map(drop)
    }),
    ("chgrp to the owner's", |f| {
        rustix::fs::fchown(&f.file, None, Some(Gid::from_raw(OWNER)))
    }),
    ("chown to itself", |f| {
        rustix::fs::fchown(&f.file, Some(Uid::from_raw(OWNER)), None)
    }),
    (EMPTY_CHOWN, |f| rustix::fs::fchown(&f.file, None, None)),
    ("chmod", |f| {
        rustix::fs::fchmod(&f.file, Mode::from_raw_mode(0o2640))
    }),
    ("set an access list", |f| {
        let name = "system.posix_acl_access";
        rustix::fs::fsetxattr(&f.file, name, &access_list(), XattrFlags::empty())
    }),
];

fn can_mount() -> bool {
    !skip(&[
        Requirement::Tool("mke2fs"),
        Requirement::LoopMount,
        Requirement::Fuse,
    ])
}

/// Performs `change` as `caller`, on a new thread. On Linux, the system calls that set the user and the groups change
/// only the calling thread.
fn perform(caller: &Caller, files: &Files, change: Change) -> rustix::io::Result<()> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let groups: Vec<Gid> = caller.groups.iter().map(|id| Gid::from_raw(*id)).collect();
            let (uid, gid) = (Uid::from_raw(caller.uid), Gid::from_raw(caller.gid));
            rustix::thread::set_thread_groups(&groups).unwrap();
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            change(files)
        });
        thread.join().unwrap()
    })
}

/// The state of a file after a change: the result, the mode, and whether it has a capability.
type Outcome = (Result<(), Errno>, String, bool);

fn outcome(directory: &Path, caller: &Caller, mode: u32, change: Change) -> Outcome {
    let path = directory.join("file");
    let _ = fs::remove_file(&path);
    fs::write(&path, [b'x'; 8192]).unwrap();
    std::os::unix::fs::chown(&path, Some(OWNER), Some(GROUP)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    // Version 2, permitted: CAP_NET_RAW.
    let capability = [
        1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    rustix::fs::setxattr(&path, CAPABILITY, &capability, XattrFlags::empty()).unwrap();
    let writable = || {
        let mut options = File::options();
        options.read(true).write(true);
        options
    };
    let direct = OFlags::RDWR | OFlags::DIRECT;
    let files = Files {
        file: writable().open(&path).unwrap(),
        direct: File::from(rustix::fs::open(&path, direct, Mode::empty()).unwrap()),
        source: File::open(directory.join("source")).unwrap(),
    };
    let done = perform(caller, &files, change);
    let mode = fs::metadata(&path).unwrap().mode() & 0o7777;
    let has_capability = rustix::fs::getxattr(&path, CAPABILITY, &mut [0; 64]).is_ok();
    (done, format!("{mode:o}"), has_capability)
}

/// Compares a mount with `options` to the kernel's mount, for every caller, mode and change.
fn compare_with_kernel(options: &MountOptions) {
    if !can_mount() {
        return;
    }
    let folder = folder("-t ext4 -b 4096", "32M");
    let options = MountOptions {
        allow_other: true,
        ..options.clone()
    };
    let mounted = Mounted::for_writing(folder.path(), &options);
    let kernel = LoopMount::new(&folder.path().join("kernel"), Access::ReadWrite, &[]).unwrap();
    for root in [&mounted.path, &kernel.path()] {
        fs::write(root.join("source"), [b'z'; 8192]).unwrap();
    }
    let mut wrong = String::new();
    for caller in &CALLERS {
        for mode in MODES {
            for (name, change) in CHANGES {
                // In the protocol, this request is equal to the one that the kernel sends before a
                // write.
                if *name == EMPTY_CHOWN && caller.uid != OWNER {
                    continue;
                }
                let on_larder = outcome(&mounted.path, caller, mode, *change);
                let number = fs::metadata(mounted.path.join("file")).unwrap().ino();
                let ino = Ino(u32::try_from(number).unwrap());
                let kept = mounted.volume.metadata(ino).unwrap().permissions;
                assert_eq!(
                    on_larder.1,
                    format!("{kept:o}"),
                    "visible mode and mode on the image"
                );
                let on_kernel = outcome(&kernel.path(), caller, mode, *change);
                if on_larder != on_kernel {
                    let case = format!("{name} by {} to mode {mode:o}", caller.name);
                    writeln!(wrong, "{case}: Larder {on_larder:?}, kernel {on_kernel:?}").unwrap();
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn set_id_bits_and_capabilities_are_cleared_as_on_the_kernels_mount() {
    compare_with_kernel(&MountOptions {
        write_back: WriteBack::Off,
        ..MountOptions::default()
    });
}

#[test]
fn set_id_bits_and_capabilities_are_cleared_with_direct_io() {
    compare_with_kernel(&MountOptions {
        direct_io: true,
        ..MountOptions::default()
    });
}

#[test]
fn set_id_bits_and_capabilities_are_cleared_with_a_writeback_cache() {
    compare_with_kernel(&MountOptions {
        write_back: WriteBack::On,
        ..MountOptions::default()
    });
}
