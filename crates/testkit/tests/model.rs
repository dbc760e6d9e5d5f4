//! Compares the model with the kernel. The same operations are performed on a loop mount, and their errors are
//! compared. Then the image is read through a volume, and its objects are compared.

use larder::{Fallocate, FileKind, RenameFlags, XattrMode};
use larder_testkit::crash::{ImageFile, Layout, layout};
use larder_testkit::model::acl::{ACCESS, DEFAULT};
use larder_testkit::model::{Body, Clock, Model, NodeInodes, Outcome, SETTABLE_FLAGS, compare_all};
use larder_testkit::operation::{
    Generator, Mix, NewNode, NodePath, Operation, Owned, Slot, Target, UMASK, fill_content,
};
use larder_testkit::{Access, LoopMount, Requirement, Seed, skip};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, IFlags, Mode, OFlags, Timespec, Timestamps, XattrFlags,
};
use rustix::io::{Errno, Result};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::SystemTime;

const OPERATIONS: usize = 500;
const MIX: Mix = Mix {
    max_nodes: 120,
    max_bytes: 2 << 20,
    syncs_one_in: 0,
    shares_one_in: 0,
    reopens: true,
    far: true,
};

/// A mounted file system, and the open files on it.
struct Kernel {
    // Closed before the mount ends.
    open: BTreeMap<Slot, OwnedFd>,
    mount: LoopMount,
}

impl Kernel {
    fn path(&self, path: &NodePath) -> PathBuf {
        let names = path.0.iter().map(|name| OsString::from_vec(name.clone()));
        names.fold(self.mount.path(), |path, name| path.join(name))
    }

    /// Returns a path to the file, and whether the path is a symbolic link to follow.
    fn target(&self, target: &Target) -> (PathBuf, bool) {
        match target {
            Target::Path(path) => (self.path(path), false),
            Target::Open(slot) => {
                let fd = self.open.get(slot).map_or(-1, AsRawFd::as_raw_fd);
                (PathBuf::from(format!("/proc/self/fd/{fd}")), true)
            }
        }
    }

    fn opened(&self, target: &Target, flags: OFlags) -> Result<OwnedFd> {
        let (path, follow) = self.target(target);
        let no_follow = if follow {
            OFlags::empty()
        } else {
            OFlags::NOFOLLOW
        };
        rustix::fs::open(path, flags | no_follow | OFlags::NONBLOCK, Mode::empty())
    }

    fn perform(&mut self, number: u32, model: &Model, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Make { at, node, owned } => self.make(model, at, node, *owned),
            Operation::MakeUnnamed {
                parent,
                slot,
                owned,
            } => {
                let mode = Mode::from_raw_mode(owned.permissions.into());
                let flags = OFlags::TMPFILE | OFlags::RDWR;
                let fd = rustix::fs::open(self.path(parent), flags, mode)?;
                let gid = group(model, model.resolve(parent), *owned);
                rustix::fs::fchown(&fd, uid(owned.uid), gid)?;
                self.open.insert(*slot, fd);
                Ok(())
            }
            Operation::Open { at, slot } => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW;
                let fd = rustix::fs::open(self.path(at), flags, Mode::empty())?;
                self.open.insert(*slot, fd);
                Ok(())
            }
            Operation::Close { slot } => {
                self.open.remove(slot);
                Ok(())
            }
            Operation::Link { from, to } => {
                let (path, follow) = self.target(from);
                let flags = if follow {
                    AtFlags::SYMLINK_FOLLOW
                } else {
                    AtFlags::empty()
                };
                rustix::fs::linkat(CWD, path, CWD, self.path(to), flags)
            }
            Operation::Unlink { at } => rustix::fs::unlink(self.path(at)),
            Operation::RemoveDir { at } => rustix::fs::rmdir(self.path(at)),
            Operation::Rename { from, to, flags } => {
                let flags = rename_flags(*flags);
                rustix::fs::renameat_with(CWD, self.path(from), CWD, self.path(to), flags)
            }
            Operation::Sync => {
                let root = self.opened(&Target::Path(NodePath::default()), OFlags::RDONLY)?;
                rustix::fs::syncfs(root)
            }
            Operation::Reopen => {
                self.open.clear();
                Ok(())
            }
            Operation::Write {
                file,
                offset_bytes,
                len_bytes,
            } => {
                let fd = self.opened(file, OFlags::WRONLY)?;
                let mut bytes = vec![0; *len_bytes as usize];
                fill_content(number, *offset_bytes, &mut bytes);
                let written = rustix::io::pwrite(fd, &bytes, *offset_bytes)?;
                assert_eq!(written, bytes.len());
                Ok(())
            }
            _ => self.change(model, operation),
        }
    }

    fn make(&self, model: &Model, at: &NodePath, node: &NewNode, owned: Owned) -> Result<()> {
        let path = self.path(at);
        let mode = Mode::from_raw_mode(owned.permissions.into());
        let node_of = |kind, device| rustix::fs::mknodat(CWD, &path, kind, mode, device);
        match node {
            NewNode::File => node_of(FileType::RegularFile, 0)?,
            NewNode::Directory => rustix::fs::mkdir(&path, mode)?,
            NewNode::Symlink(target) => {
                rustix::fs::symlink(OsString::from_vec(target.clone()), &path)?;
            }
            NewNode::Device(kind, major, minor) => {
                node_of(file_type(*kind), rustix::fs::makedev(*major, *minor))?;
            }
            NewNode::Special(kind) => node_of(file_type(*kind), 0)?,
        }
        let parent = at.split().and_then(|(parent, _)| model.walk(parent));
        let gid = group(model, parent, owned);
        rustix::fs::chownat(CWD, &path, uid(owned.uid), gid, AtFlags::SYMLINK_NOFOLLOW)?;
        if matches!(node, NewNode::Directory) && owned.permissions & 0o2000 != 0 {
            // mkdir(2) ignores this bit.
            let mode = rustix::fs::stat(&path)?.st_mode | 0o2000;
            rustix::fs::chmod(&path, Mode::from_raw_mode(mode & 0o7777))?;
        }
        Ok(())
    }

    fn change(&self, model: &Model, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Truncate { file, size_bytes } => {
                let (path, _) = self.target(file);
                let fd = rustix::fs::open(path, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())?;
                rustix::fs::ftruncate(fd, *size_bytes)
            }
            Operation::Allocate {
                file,
                mode,
                offset_bytes,
                len_bytes,
            } => {
                let fd = self.opened(file, OFlags::RDWR)?;
                rustix::fs::fallocate(fd, allocate_flags(*mode), *offset_bytes, *len_bytes)
            }
            Operation::Copy {
                from,
                from_bytes,
                to,
                to_bytes,
                len_bytes,
            } => {
                let source = self.opened(from, OFlags::RDONLY)?;
                let target = self.opened(to, OFlags::WRONLY)?;
                let left = model.copied_bytes(from, *from_bytes, *len_bytes);
                let mut left = usize::try_from(left).unwrap();
                let (mut from_bytes, mut to_bytes) = (*from_bytes, *to_bytes);
                while left > 0 {
                    let copied = rustix::fs::copy_file_range(
                        &source,
                        Some(&mut from_bytes),
                        &target,
                        Some(&mut to_bytes),
                        left,
                    )?;
                    if copied == 0 {
                        break;
                    }
                    left -= copied;
                }
                Ok(())
            }
            Operation::SetXattr {
                file,
                name,
                value,
                mode,
            } => self.set_xattr(file, name, value, *mode),
            Operation::RemoveXattr { file, name } => {
                let (path, follow) = self.target(file);
                if follow {
                    rustix::fs::removexattr(path, name.as_slice())
                } else {
                    rustix::fs::lremovexattr(path, name.as_slice())
                }
            }
            Operation::SetAcl {
                file,
                is_default,
                acl,
            } => {
                let name = if *is_default { DEFAULT } else { ACCESS };
                self.set_xattr(file, name, &acl.encode(), XattrMode::Any)
            }
            _ => self.set(operation),
        }
    }

    fn set_xattr(&self, file: &Target, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let flags = match mode {
            XattrMode::Any => XattrFlags::empty(),
            XattrMode::Create => XattrFlags::CREATE,
            XattrMode::Replace => XattrFlags::REPLACE,
        };
        let (path, follow) = self.target(file);
        if follow {
            rustix::fs::setxattr(path, name, value, flags)
        } else {
            rustix::fs::lsetxattr(path, name, value, flags)
        }
    }

    fn set(&self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::SetPermissions { file, permissions } => {
                let mode = Mode::from_raw_mode((*permissions).into());
                rustix::fs::chmod(self.target(file).0, mode)
            }
            Operation::SetOwner {
                file,
                uid: owner,
                gid,
            } => {
                let (path, follow) = self.target(file);
                let gid = gid.map(rustix::fs::Gid::from_raw);
                let flags = follow_flags(follow);
                rustix::fs::chownat(CWD, path, owner.and_then(uid), gid, flags)
            }
            Operation::SetTimes {
                file,
                accessed,
                modified,
            } => {
                let time = |time: &larder::Timestamp| Timespec {
                    tv_sec: time.seconds,
                    tv_nsec: time.nanoseconds.into(),
                };
                let times = Timestamps {
                    last_access: time(accessed),
                    last_modification: time(modified),
                };
                let (path, follow) = self.target(file);
                rustix::fs::utimensat(CWD, path, &times, follow_flags(follow))
            }
            Operation::SetFlags { file, flags } => {
                let fd = self.opened(file, OFlags::RDONLY)?;
                let others = rustix::fs::ioctl_getflags(&fd)?.bits() & !SETTABLE_FLAGS;
                rustix::fs::ioctl_setflags(&fd, IFlags::from_bits_retain(others | flags))
            }
            Operation::SyncFile { file, data_only } => {
                let fd = self.opened(file, OFlags::RDONLY)?;
                if *data_only {
                    rustix::fs::fdatasync(fd)
                } else {
                    rustix::fs::fsync(fd)
                }
            }
            other => panic!("{other:?} is performed elsewhere"),
        }
    }
}

fn follow_flags(follow: bool) -> AtFlags {
    if follow {
        AtFlags::empty()
    } else {
        AtFlags::SYMLINK_NOFOLLOW
    }
}

#[allow(clippy::unnecessary_wraps, reason = "chown takes an option")]
fn uid(uid: u32) -> Option<rustix::fs::Uid> {
    Some(rustix::fs::Uid::from_raw(uid))
}

/// Returns the group to set on a new file, unless it inherits one from its directory.
fn group(
    model: &Model,
    parent: Option<larder_testkit::model::NodeId>,
    owned: Owned,
) -> Option<rustix::fs::Gid> {
    let inherits = parent
        .and_then(|parent| model.node(parent))
        .is_some_and(|parent| parent.permissions & 0o2000 != 0);
    (!inherits).then(|| rustix::fs::Gid::from_raw(owned.gid))
}

fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Fifo => FileType::Fifo,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharacterDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
        other => panic!("{other:?} is created elsewhere"),
    }
}

fn rename_flags(flags: RenameFlags) -> rustix::fs::RenameFlags {
    rustix::fs::RenameFlags::from_bits_retain(flags.bits())
}

fn allocate_flags(mode: Fallocate) -> FallocateFlags {
    let kept = |keep_size| {
        if keep_size {
            FallocateFlags::KEEP_SIZE
        } else {
            FallocateFlags::empty()
        }
    };
    match mode {
        Fallocate::Allocate { keep_size } => kept(keep_size),
        Fallocate::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        Fallocate::ZeroRange { keep_size } => FallocateFlags::ZERO_RANGE | kept(keep_size),
        Fallocate::Collapse => FallocateFlags::COLLAPSE_RANGE,
        Fallocate::Insert => FallocateFlags::INSERT_RANGE,
    }
}

fn now() -> larder::Timestamp {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    larder::Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap(),
        nanoseconds: since.subsec_nanos(),
    }
}

/// Returns whether the operation reaches the file system. Some operations open the file first. Of the opened
/// files, the file system serves only regular files and directories.
fn is_opened(model: &Model, operation: &Operation) -> bool {
    let (Operation::Write { file, .. }
    | Operation::Truncate { file, .. }
    | Operation::SyncFile { file, .. }
    | Operation::SetFlags { file, .. }) = operation
    else {
        return true;
    };
    model
        .find(file)
        .and_then(|id| model.node(id))
        .is_some_and(|node| matches!(node.body, Body::File(_) | Body::Directory { .. }))
}

/// Performs `operations` with the kernel on a new file system of the layout, and compares it with the
/// model.
fn kernel_follows_the_model(layout: &Layout, operations: &[Operation], seed: Seed) {
    let mut model = Model::new(layout.rules);
    let device = larder_instruments::OverlayDevice::new(layout.base().unwrap());
    let image = ImageFile::new(&device).unwrap();
    let mut kernel = Kernel {
        mount: LoopMount::new(image.path(), Access::ReadWrite, &[]).unwrap(),
        open: BTreeMap::new(),
    };
    let mut clock = Clock::default();
    // Linux sets the times of a file before it checks the range to move.
    let mut touched = Vec::new();
    for (number, operation) in (0..).zip(operations) {
        let begun = now();
        let before = model.clone();
        let predicted = model.apply(number, operation);
        if predicted != Outcome::Skipped && is_opened(&before, operation) {
            let result = kernel.perform(number, &before, operation);
            if let (Operation::Allocate { file, .. }, Err(_)) = (operation, result) {
                touched.extend(before.find(file).map(|id| format!("{id} (")));
            }
            match (predicted, result) {
                (_, Err(Errno::NOSPC)) => model = before,
                // The model predicts `NOTDIR` for a path through a symbolic link. The kernel follows the link to a
                // missing target, and can return another error.
                (Outcome::Done { .. }, Ok(())) | (Outcome::Fails(Errno::NOTDIR), Err(_)) => {}
                (Outcome::Fails(expected), Err(errno)) if errno == expected => {}
                (predicted, result) => panic!(
                    "{}, seed {seed}, operation {number} {operation:?}: the kernel returns \
                     {result:?}, the model {predicted:?}",
                    layout.name
                ),
            }
        }
        clock.0.push((begun, now()));
    }
    drop(kernel);
    let last = u32::try_from(operations.len()).unwrap();
    model.apply(last, &Operation::Reopen);
    let volume = larder::Volume::open(image.path(), &larder::OpenOptions::default()).unwrap();
    let inodes = NodeInodes::found(&model, &volume);
    let mut differences = compare_all(&model, &volume, &inodes, &clock);
    differences.retain(|difference| {
        let excused = touched.iter().any(|id| difference.starts_with(id));
        !(excused && difference.contains("time of change"))
    });
    if !differences.is_empty() {
        for (number, operation) in operations.iter().enumerate() {
            println!("{number} {:?} {operation:?}", clock.0[number]);
        }
        panic!("{}, seed {seed}: {differences:#?}", layout.name);
    }
}

#[test]
fn kernel_behaves_as_the_model_predicts() {
    if skip(&[Requirement::Tool("mke2fs"), Requirement::LoopMount]) {
        return;
    }
    rustix::process::umask(Mode::from_raw_mode(UMASK.into()));
    for (number, name) in (0..).zip(["ext4", "ext3-1k", "inline-data", "bigalloc", "ext2-1k"]) {
        for seed in Seed::parts_from_environment(0x5000 + number).take(4) {
            let layout = layout(name).unwrap();
            let model = Model::new(layout.rules);
            let operations = Generator::new(seed, MIX).sequence(&model, OPERATIONS);
            kernel_follows_the_model(layout, &operations, seed);
        }
    }
}

/// A copy that extends its own source copies only what the file held before.
#[test]
fn kernel_copy_within_a_file_excludes_appended_bytes() {
    if skip(&[Requirement::Tool("mke2fs"), Requirement::LoopMount]) {
        return;
    }
    let layout = layout("ext3-1k").unwrap();
    let device = larder_instruments::OverlayDevice::new(layout.base().unwrap());
    let image = ImageFile::new(&device).unwrap();
    let mount = LoopMount::new(image.path(), Access::ReadWrite, &[]).unwrap();
    let path = mount.path().join("a");
    std::fs::write(&path, [b'a'; 1630]).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&path);
    let file = file.unwrap();
    let (mut from_bytes, mut to_bytes) = (1343, 61_876);
    let (source, target) = (Some(&mut from_bytes), Some(&mut to_bytes));
    let copied = rustix::fs::copy_file_range(&file, source, &file, target, 1148);
    assert_eq!(copied, Ok(1630 - 1343));

    let at = NodePath::default().join(b"a");
    let file = Target::Path(at.clone());
    let operations = [
        Operation::Make {
            at,
            node: NewNode::File,
            owned: Owned {
                permissions: 0o644,
                uid: 0,
                gid: 0,
            },
        },
        Operation::Write {
            file: file.clone(),
            offset_bytes: 0,
            len_bytes: 1630,
        },
        Operation::Copy {
            from: file.clone(),
            from_bytes: 1343,
            to: file,
            to_bytes: 61_876,
            len_bytes: 1148,
        },
    ];
    kernel_follows_the_model(layout, &operations, Seed(0));
}
