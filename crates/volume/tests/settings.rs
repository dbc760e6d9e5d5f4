//! Attributes, access control lists, flags and the label, set through a volume. The results are
//! compared with those of the kernel, which makes the same changes on another image.

use larder::{
    ChangedBy, Clock, FileKind, Ino, Make, NewFile, OpenOptions, SetAttributes, SetTime, Timestamp,
    Volume, XattrMode,
};
use larder_block::{BlockDevice, MemoryDevice};
use larder_testkit::attribute_names::{Attributes, make_files, outcomes};
use larder_testkit::e2fsprogs::{check, debugfs, make_image};
use larder_testkit::{Access, LoopMount, Requirement, skip};
use rustix::fs::{XattrFlags, lgetxattr, lremovexattr, lsetxattr};
use rustix::io::Errno;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
const IMMUTABLE: u32 = 0x10;
const APPEND: u32 = 0x20;
const NOATIME: u32 = 0x80;
const TOPDIR: u32 = 0x2_0000;
const EXTENTS: u32 = 0x8_0000;

/// A clock that always returns the same time.
#[derive(Debug)]
struct FixedClock;

const NOW: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanoseconds: 123_456_789,
};

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn wait(&self, _: Duration) {}
}

/// An image in memory that is opened for writing, and its volume.
struct Fixture {
    volume: Volume,
    device: Arc<MemoryDevice>,
    folder: tempfile::TempDir,
}

fn needs() -> bool {
    skip(&[
        Requirement::LoopMount,
        Requirement::Tool("mke2fs"),
        Requirement::Tool("e2fsck"),
    ])
}

fn mke2fs(path: &Path, arguments: &str) {
    make_image(path, arguments, "20M").expect("mke2fs");
}

fn open(device: &Arc<MemoryDevice>) -> Volume {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    options.clock = Arc::new(FixedClock);
    options.cache_size_bytes = 16 << 20;
    let device: Arc<dyn BlockDevice> = Arc::clone(device) as _;
    Volume::open_device(device, &options).expect("opened")
}

impl Fixture {
    fn new(arguments: &str) -> Self {
        let folder = tempfile::TempDir::new().expect("temporary directory");
        mke2fs(&folder.path().join("larder"), arguments);
        Self::of(folder)
    }

    /// Opens a copy of the image `larder` in `folder`.
    fn of(folder: tempfile::TempDir) -> Self {
        let path = folder.path().join("larder");
        let device = Arc::new(MemoryDevice::new(std::fs::read(path).expect("image")));
        Self {
            volume: open(&device),
            device,
            folder,
        }
    }

    fn make(&self, name: &str, kind: FileKind, permissions: u16) -> Ino {
        let new = NewFile {
            permissions,
            umask: 0,
            uid: 5,
            gid: 6,
        };
        let (volume, name) = (&self.volume, name.as_bytes());
        let made = match kind {
            FileKind::Directory => volume.make_dir(Ino::ROOT, name, &new),
            FileKind::Symlink => volume.symlink(Ino::ROOT, name, b"target", &new),
            kind => volume.make(Ino::ROOT, name, Make::Node { kind, device: None }, &new),
        };
        made.expect("made").ino
    }

    fn ino(&self, name: &str) -> Ino {
        let found = self.volume.lookup(Ino::ROOT, name.as_bytes());
        found.expect("found")
    }

    /// Closes the volume, checks the image with e2fsck, and mounts it with the kernel.
    fn finish(&self) -> LoopMount {
        self.volume.close().expect("closed");
        let path = self.folder.path().join("larder");
        std::fs::write(&path, self.device.to_bytes()).expect("image");
        check(&path).unwrap_or_else(|error| panic!("{error}"));
        LoopMount::new(&path, Access::ReadOnly, &[]).expect("mount")
    }
}

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 65536];
    let len = lgetxattr(path, name, &mut value[..]).ok()?;
    value.truncate(len);
    Some(value)
}

fn errno<T: std::fmt::Debug>(done: larder::Result<T>) -> Errno {
    done.expect_err("refused").errno()
}

/// Returns an access control list in the format of setxattr(2).
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

const NO_ID: u32 = u32::MAX;

/// A change of an access control list or of the mode of a file.
enum Step {
    Set(&'static str, Vec<u8>),
    Remove(&'static str),
    Mode(u16),
}

fn steps() -> Vec<Step> {
    let base = [(1, 6, NO_ID), (4, 5, NO_ID), (0x20, 1, NO_ID)];
    let named = [base[0], (2, 7, 99), base[1], (0x10, 3, NO_ID), base[2]];
    let masked = [base[0], base[1], (0x10, 4, NO_ID), base[2]];
    let mut steps = vec![Step::Remove(ACCESS), Step::Remove("user.absent")];
    for name in [ACCESS, DEFAULT] {
        steps.extend([
            Step::Set(name, list(&base)),
            Step::Set(name, list(&named)),
            Step::Mode(0o6417),
            Step::Set(name, list(&masked)),
            Step::Mode(0o1750),
            // Invalid lists.
            Step::Set(name, list(&base[..2])),
            Step::Set(name, list(&[base[1], base[0], base[2]])),
            Step::Set(name, b"nonsense".to_vec()),
            Step::Set(name, list(&named)),
            Step::Set(name, list(&[])),
            Step::Set(name, list(&named)),
            Step::Remove(name),
            Step::Remove(name),
            Step::Set(name, list(&named)),
            Step::Mode(0o640),
        ]);
    }
    steps
}

/// The result of a step: the errno, and the file's mode and both access control lists after the
/// step.
type After = (Option<Errno>, u32, [Option<Vec<u8>>; 2]);

fn by_kernel(path: &Path, step: &Step) -> After {
    let done = match step {
        Step::Set(name, value) => lsetxattr(path, *name, value, XattrFlags::empty()),
        Step::Remove(name) => lremovexattr(path, *name),
        Step::Mode(mode) => {
            let permissions = std::fs::Permissions::from_mode((*mode).into());
            std::fs::set_permissions(path, permissions).expect("chmod");
            Ok(())
        }
    };
    let mode = std::fs::metadata(path).expect("file").mode();
    let lists = [ACCESS, DEFAULT].map(|name| xattr(path, name));
    (done.err(), mode & 0o7777, lists)
}

fn by_larder(volume: &Volume, ino: Ino, step: &Step) -> After {
    let done = match step {
        Step::Set(name, value) => volume.set_xattr(ino, name.as_bytes(), value, XattrMode::Any),
        Step::Remove(name) => volume.remove_xattr(ino, name.as_bytes()),
        Step::Mode(mode) => {
            let set = SetAttributes {
                permissions: Some(*mode),
                ..SetAttributes::default()
            };
            volume.set_attributes(ino, &set).map(drop)
        }
    };
    let mode = volume.metadata(ino).expect("file").permissions;
    let lists = [ACCESS, DEFAULT].map(|name| volume.xattr(ino, name.as_bytes()).expect("list"));
    (done.err().map(|error| error.errno()), mode.into(), lists)
}

#[test]
fn acls_and_modes_equal_the_kernels_after_each_step() {
    if needs() {
        return;
    }
    for arguments in ["-t ext4 -b 4096", "-t ext3 -b 1024 -I 128"] {
        let fixture = Fixture::new(arguments);
        let kernel_image = fixture.folder.path().join("kernel");
        mke2fs(&kernel_image, arguments);
        let mount = LoopMount::new(&kernel_image, Access::ReadWrite, &[]).expect("mount");
        let file = fixture.make("file", FileKind::Regular, 0o644);
        std::fs::write(mount.path().join("file"), "").expect("file");
        let directory = fixture.make("directory", FileKind::Directory, 0o755);
        std::fs::create_dir(mount.path().join("directory")).expect("directory");
        for (name, ino) in [("file", file), ("directory", directory)] {
            let path = mount.path().join(name);
            // Set the same mode on both images, because the umask affected the initial mode of the
            // kernel's file.
            let same = Step::Mode(0o755);
            assert_eq!(
                by_larder(&fixture.volume, ino, &same),
                by_kernel(&path, &same)
            );
            for (number, step) in steps().iter().enumerate() {
                let (on_larder, on_kernel) = (
                    by_larder(&fixture.volume, ino, step),
                    by_kernel(&path, step),
                );
                assert_eq!(on_larder, on_kernel, "step {number} on {name}, {arguments}");
            }
        }
        let on_larder = fixture.finish();
        for name in ["file", "directory"] {
            let look = |root: PathBuf| {
                let path = root.join(name);
                let mode = std::fs::metadata(&path).expect("file").mode();
                (mode, xattr(&path, ACCESS), xattr(&path, DEFAULT))
            };
            assert_eq!(
                look(on_larder.path()),
                look(mount.path()),
                "{name}, {arguments}"
            );
        }
    }
}

#[test]
fn settings_are_stored_on_the_image() {
    if needs() {
        return;
    }
    let fixture = Fixture::new("-t ext4 -b 4096");
    let ino = fixture.make("file", FileKind::Regular, 0o6777);
    let volume = &fixture.volume;
    let time = |seconds| Timestamp {
        seconds,
        nanoseconds: 7,
    };
    let set = SetAttributes {
        uid: Some(70_000),
        gid: Some(80_000),
        atime: Some(SetTime::To(time(5_000_000_000))),
        mtime: Some(SetTime::To(time(-5))),
        size_bytes: Some(12_345),
        ..SetAttributes::default()
    };
    let metadata = volume.set_attributes(ino, &set).expect("set");
    assert_eq!(metadata.permissions, 0o777, "chown clears the set-id bits");
    assert_eq!(metadata.changed, NOW);
    let value = vec![9; 3000];
    volume
        .set_xattr(ino, b"user.large", &value, XattrMode::Create)
        .expect("set");
    volume
        .set_xattr(ino, b"security.capability", &[1; 20], XattrMode::Any)
        .expect("set");
    volume
        .remove_privileges(ino, ChangedBy::Other)
        .expect("cleared");
    assert_eq!(
        volume.xattr(ino, b"security.capability").expect("read"),
        None
    );
    volume.set_label(b"a label").expect("set");
    assert_eq!(volume.info().label, "a label");
    let mount = fixture.finish();
    let path = mount.path().join("file");
    let found = std::fs::metadata(&path).expect("file");
    assert_eq!(
        (found.uid(), found.gid(), found.len()),
        (70_000, 80_000, 12_345)
    );
    assert_eq!((found.atime(), found.atime_nsec()), (5_000_000_000, 7));
    assert_eq!((found.mtime(), found.mtime_nsec()), (-5, 7));
    assert_eq!(
        (found.ctime(), found.ctime_nsec()),
        (NOW.seconds, 123_456_789)
    );
    assert_eq!(xattr(&path, "user.large"), Some(value));
}

#[test]
fn immutable_file_refuses_changes_until_the_flag_is_cleared() {
    if needs() {
        return;
    }
    let fixture = Fixture::new("-t ext4 -b 4096");
    let volume = &fixture.volume;
    let ino = fixture.make("file", FileKind::Regular, 0o644);
    let flags = volume.metadata(ino).expect("file").flags;
    for name in ["user.a", "security.capability"] {
        volume
            .set_xattr(ino, name.as_bytes(), b"value", XattrMode::Any)
            .expect("set");
    }
    let mode = SetAttributes {
        permissions: Some(0),
        ..SetAttributes::default()
    };
    let to_now = SetAttributes {
        atime: Some(SetTime::Now),
        mtime: Some(SetTime::Now),
        ..SetAttributes::default()
    };
    let size = SetAttributes {
        size_bytes: Some(0),
        ..SetAttributes::default()
    };
    for flag in [IMMUTABLE, APPEND] {
        volume.set_flags(ino, flags | flag).expect("set");
        assert_eq!(errno(volume.set_attributes(ino, &mode)), Errno::PERM);
        assert_eq!(errno(volume.set_attributes(ino, &size)), Errno::PERM);
        let removed = volume.remove_privileges(ino, ChangedBy::Other);
        assert_eq!(removed.is_ok(), flag == APPEND);
        let touched = volume.set_attributes(ino, &to_now);
        assert_eq!(touched.is_ok(), flag == APPEND);
        let set = volume.set_xattr(ino, b"user.b", b"value", XattrMode::Any);
        assert_eq!(errno(set), Errno::PERM);
        assert_eq!(errno(volume.remove_xattr(ino, b"user.a")), Errno::PERM);
        let another = volume.set_flags(ino, flags | flag | NOATIME);
        assert_eq!(another.is_ok(), flag == APPEND);
        volume.set_flags(ino, flags).expect("cleared");
    }
    volume.set_attributes(ino, &mode).expect("set");
    fixture.finish();
}

#[test]
fn unsettable_flags_are_refused_and_storage_flags_are_kept() {
    if needs() {
        return;
    }
    let fixture = Fixture::new("-t ext4 -b 4096");
    let volume = &fixture.volume;
    let file = fixture.make("file", FileKind::Regular, 0o644);
    let directory = fixture.make("directory", FileKind::Directory, 0o755);
    volume.set_flags(file, EXTENTS | NOATIME).expect("set");
    let found = volume.metadata(file).expect("file").flags;
    assert_eq!(found, EXTENTS | NOATIME);
    assert_eq!(errno(volume.set_flags(file, NOATIME)), Errno::OPNOTSUPP);
    let topdir = volume.set_flags(file, EXTENTS | TOPDIR);
    assert_eq!(errno(topdir), Errno::OPNOTSUPP);
    volume.set_flags(directory, EXTENTS | TOPDIR).expect("set");
    for unknown in [0x1000, 0x20_0000, 0x1000_0000, 0x8000_0000] {
        let set = volume.set_flags(file, EXTENTS | unknown);
        assert_eq!(errno(set), Errno::OPNOTSUPP, "{unknown:#x}");
    }
    fixture.finish();
}

#[test]
fn attribute_invalid_for_the_file_type_is_refused() {
    if needs() {
        return;
    }
    let fixture = Fixture::new("-t ext4 -b 1024");
    let volume = &fixture.volume;
    let fifo = fixture.make("fifo", FileKind::Fifo, 0o644);
    let link = fixture.make("link", FileKind::Symlink, 0o777);
    let file = fixture.make("file", FileKind::Regular, 0o644);
    let set = |ino, name: &str, value: &[u8], mode| {
        volume
            .set_xattr(ino, name.as_bytes(), value, mode)
            .map_err(|error| error.errno())
    };
    assert_eq!(set(fifo, "user.a", b"", XattrMode::Any), Err(Errno::PERM));
    assert_eq!(set(link, "user.a", b"", XattrMode::Any), Err(Errno::PERM));
    assert_eq!(set(link, "trusted.a", b"v", XattrMode::Any), Ok(()));
    let entries = list(&[(1, 6, NO_ID), (4, 5, NO_ID), (0x20, 1, NO_ID)]);
    assert_eq!(
        set(link, ACCESS, &entries, XattrMode::Any),
        Err(Errno::OPNOTSUPP)
    );
    assert_eq!(
        set(file, "user.a", b"", XattrMode::Replace),
        Err(Errno::NODATA)
    );
    assert_eq!(set(file, "user.a", b"v", XattrMode::Create), Ok(()));
    assert_eq!(
        set(file, "user.a", b"v", XattrMode::Create),
        Err(Errno::EXIST)
    );
    assert_eq!(
        set(file, "user.b", &[1; 2000], XattrMode::Any),
        Err(Errno::NOSPC)
    );
    assert_eq!(
        set(file, "what.ever", b"v", XattrMode::Any),
        Err(Errno::OPNOTSUPP)
    );
    let mount = fixture.finish();
    assert_eq!(xattr(&mount.path().join("file"), "user.b"), None);
}

/// The attributes of the files in the root directory of a volume.
impl Attributes for Fixture {
    fn get(&self, file: &str, name: &str) -> Result<Vec<u8>, Errno> {
        let found = self.volume.xattr(self.ino(file), name.as_bytes());
        found.map_err(|error| error.errno())?.ok_or(Errno::NODATA)
    }

    fn set(&self, file: &str, name: &str, value: &[u8], flags: XattrFlags) -> Result<(), Errno> {
        let mode = match flags {
            XattrFlags::CREATE => XattrMode::Create,
            XattrFlags::REPLACE => XattrMode::Replace,
            _ => XattrMode::Any,
        };
        let (ino, name) = (self.ino(file), name.as_bytes());
        let set = self.volume.set_xattr(ino, name, value, mode);
        set.map_err(|error| error.errno())
    }

    fn remove(&self, file: &str, name: &str) -> Result<(), Errno> {
        let removed = self.volume.remove_xattr(self.ino(file), name.as_bytes());
        removed.map_err(|error| error.errno())
    }
}

#[test]
fn names_of_attributes_are_accepted_or_refused_as_by_the_kernel() {
    if needs() {
        return;
    }
    let folder = tempfile::TempDir::new().expect("temporary directory");
    let path = folder.path().join("larder");
    mke2fs(&path, "-t ext4 -b 1024");
    let mount = LoopMount::new(&path, Access::ReadWrite, &[]).expect("mount");
    make_files(&mount.path()).expect("files");
    drop(mount);
    let fixture = Fixture::of(folder);
    let mount = LoopMount::new(&path, Access::ReadWrite, &[]).expect("mount");
    let kernel = mount.path();
    for (on_larder, on_kernel) in outcomes(&fixture).iter().zip(&outcomes(&kernel.as_path())) {
        assert_eq!(on_larder, on_kernel);
    }
}

#[test]
fn mmp_is_held_until_the_volume_is_closed() {
    if needs() || skip(&[Requirement::Tool("debugfs")]) {
        return;
    }
    let fixture = Fixture::new("-t ext4 -b 1024 -O mmp");
    let path = fixture.folder.path().join("larder");
    let protection = || {
        std::fs::write(&path, fixture.device.to_bytes()).expect("image");
        debugfs(&path, "dump_mmp").expect("debugfs")
    };
    let node = rustix::system::uname();
    let node = format!("node_name: {}", node.nodename().to_string_lossy());
    let held = protection();
    assert!(held.contains(&node), "{held}");
    assert!(!held.contains("sequence: ff4d4d50"), "{held}");
    fixture.make("file", FileKind::Regular, 0o644);
    fixture.volume.close().expect("closed");
    let released = protection();
    assert!(released.contains("sequence: ff4d4d50"), "{released}");
    fixture.finish();
}
