//! Random operations on an [`Fs`], compared with the same operations of `std::fs` on a kernel mount of
//! the same image: the results, the kinds of errors, and all files at the end. Then e2fsck checks the
//! image.

use larder::{Errno, FileKind, FileOptions, Fs, OpenOptions, SetTime, Timestamp, XattrMode};
use larder_testkit::{
    Access, Comparison, DirectorySource, Fields, LoopMount, Requirement, VolumeSource, compare,
    e2fsprogs, proptest_config, skip,
};
use proptest::prelude::*;
use rustix::fs::{AtFlags, Mode, XattrFlags};
use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::fs::{self, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{
    DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// The paths on which operations work. The last ones are unusual.
const PATHS: &[&str] = &[
    "a",
    "b",
    "c",
    "a/b",
    "a/c",
    "b/a",
    "b/c",
    "c/a",
    "c/b",
    "a/b/c",
    "a/c/b",
    "b/a/c",
    "c/a/b",
    "a/b/c/a",
    "d",
    "d/a",
    "a/",
    "b/",
    "c/a/",
    "./a",
    "a/.",
    "b/..",
    "a/../b",
    "../a",
    "a//b",
    ".",
    "..",
    "a/b/../c/",
    LONG,
];

/// A name of 256 bytes, which is too long by one byte.
const LONG: &str = "LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL\
    LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL\
    LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL\
    LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL";

/// The targets of symbolic links. They are relative: on the kernel's mount, an absolute target would
/// lead to the files of the host.
const TARGETS: &[&str] = &[
    "a", "b", "../a", "../b/c", "c", "a/b/", "missing", ".", "d/a",
];

const MODES: &[u16] = &[0o644, 0o600, 0o4755, 0o2755, 0o1777, 0];

/// The names of extended attributes.
const NAMES: &[&str] = &[
    "user.a",
    "user.b",
    "trusted.c",
    "security.d",
    "gnu.e",
    "system.f",
    "unknown.g",
];

const XATTR_MODES: [XattrMode; 4] = [
    XattrMode::Any,
    XattrMode::Any,
    XattrMode::Create,
    XattrMode::Replace,
];

/// The number of open files.
const FILES: usize = 3;

/// An operation, as random bytes: the kind, and numbers that select its arguments.
type Operation = [u8; 6];

/// The attributes that are compared.
#[derive(Debug)]
#[expect(dead_code, reason = "the fields are printed")]
struct Facts {
    kind: FileKind,
    permissions: u16,
    links: u64,
    owner: (u32, u32),
    /// The size of a file that is not a directory.
    size_bytes: Option<u64>,
    modified_seconds: Option<i64>,
}

/// One of the two implementations.
trait Side {
    type File: Read + Write + Seek + FileExt;

    fn open(&self, path: &str, options: u8) -> io::Result<Self::File>;
    fn set_len(&self, file: &Self::File, size_bytes: u64) -> io::Result<()>;
    fn sync(&self, file: &Self::File) -> io::Result<()>;
    fn file_facts(&self, file: &Self::File) -> io::Result<Facts>;
    fn facts(&self, path: &str, follow: bool) -> io::Result<Facts>;
    fn exists(&self, path: &str) -> io::Result<bool>;
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    fn read_to_string(&self, path: &str) -> io::Result<String>;
    fn write(&self, path: &str, content: &[u8]) -> io::Result<()>;
    fn copy(&self, from: &str, to: &str) -> io::Result<u64>;
    fn entries(&self, path: &str) -> io::Result<Vec<(OsString, FileKind)>>;
    fn walk(&self, path: &str) -> io::Result<Vec<PathBuf>>;
    fn create_dir(&self, path: &str) -> io::Result<()>;
    fn create_dir_all(&self, path: &str) -> io::Result<()>;
    fn remove_file(&self, path: &str) -> io::Result<()>;
    fn remove_dir(&self, path: &str) -> io::Result<()>;
    fn remove_dir_all(&self, path: &str) -> io::Result<()>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn hard_link(&self, original: &str, link: &str) -> io::Result<()>;
    fn symlink(&self, original: &str, link: &str) -> io::Result<()>;
    fn read_link(&self, path: &str) -> io::Result<PathBuf>;
    fn set_permissions(&self, path: &str, permissions: u16) -> io::Result<()>;
    fn chown(&self, path: &str, id: u32, follow: bool) -> io::Result<()>;
    fn set_modified(&self, path: &str, seconds: u64, follow: bool) -> io::Result<()>;
    fn xattr(&self, path: &str, name: &str, follow: bool) -> io::Result<Option<Vec<u8>>>;
    fn xattrs(&self, path: &str, follow: bool) -> io::Result<Vec<OsString>>;
    fn set_xattr(
        &self,
        path: &str,
        name: &str,
        value: &[u8],
        mode: XattrMode,
        follow: bool,
    ) -> io::Result<()>;
    fn remove_xattr(&self, path: &str, name: &str, follow: bool) -> io::Result<()>;
}

/// `std::fs` on a mount.
struct Kernel(PathBuf);

impl Kernel {
    fn path(&self, path: &str) -> PathBuf {
        // A path that begins with a slash begins at the root of the image.
        self.0.join(path.trim_start_matches('/'))
    }
}

fn kind(file_type: fs::FileType) -> FileKind {
    match file_type {
        kind if kind.is_dir() => FileKind::Directory,
        kind if kind.is_symlink() => FileKind::Symlink,
        kind if kind.is_fifo() => FileKind::Fifo,
        _ => FileKind::Regular,
    }
}

fn facts(metadata: &fs::Metadata) -> Facts {
    let is_dir = metadata.is_dir();
    Facts {
        kind: kind(metadata.file_type()),
        permissions: u16::try_from(metadata.mode() & 0o7777).unwrap(),
        links: metadata.nlink(),
        owner: (metadata.uid(), metadata.gid()),
        size_bytes: (!is_dir).then_some(metadata.len()),
        modified_seconds: Some(metadata.mtime()).filter(|seconds| *seconds < PAST),
    }
}

/// Times before this second were set by an operation. Later times are those of the clock, which differ
/// between the sides.
const PAST: i64 = 1_000_000;

impl Side for Kernel {
    type File = fs::File;

    fn open(&self, path: &str, options: u8) -> io::Result<fs::File> {
        let bit = |bit: u8| options & 1 << bit != 0;
        fs::OpenOptions::new()
            .read(bit(0))
            .write(bit(1))
            .append(bit(2))
            .truncate(bit(3))
            .create(bit(4))
            .create_new(bit(5))
            .mode(0o640)
            .open(self.path(path))
    }

    fn set_len(&self, file: &fs::File, size_bytes: u64) -> io::Result<()> {
        file.set_len(size_bytes)
    }

    fn sync(&self, file: &fs::File) -> io::Result<()> {
        file.sync_all()
    }

    fn file_facts(&self, file: &fs::File) -> io::Result<Facts> {
        Ok(facts(&file.metadata()?))
    }

    fn facts(&self, path: &str, follow: bool) -> io::Result<Facts> {
        let path = self.path(path);
        Ok(facts(&if follow {
            fs::metadata(path)?
        } else {
            fs::symlink_metadata(path)?
        }))
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        fs::exists(self.path(path))
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path(path))
    }

    fn read_to_string(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.path(path))
    }

    fn write(&self, path: &str, content: &[u8]) -> io::Result<()> {
        fs::write(self.path(path), content)
    }

    fn copy(&self, from: &str, to: &str) -> io::Result<u64> {
        let (from, to) = (self.path(from), self.path(to));
        let ino = |path: &Path| fs::metadata(path).map(|metadata| metadata.ino()).ok();
        if fs::metadata(&from).is_ok_and(|from| from.is_file()) && ino(&from) == ino(&to) {
            // The standard library empties the file.
            return Err(io::ErrorKind::InvalidInput.into());
        }
        fs::copy(from, to)
    }

    fn entries(&self, path: &str) -> io::Result<Vec<(OsString, FileKind)>> {
        fs::read_dir(self.path(path))?
            .map(|entry| {
                let entry = entry?;
                assert_ne!(entry.ino(), 0);
                Ok((entry.file_name(), kind(entry.file_type()?)))
            })
            .collect()
    }

    fn walk(&self, path: &str) -> io::Result<Vec<PathBuf>> {
        let root = self.path(path);
        let mut found = Vec::new();
        let mut left = vec![root.clone()];
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                found.push(entry.path().strip_prefix(&root).unwrap().to_owned());
                if entry.file_type()?.is_dir() {
                    left.push(entry.path());
                }
            }
        }
        Ok(found)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.path(path))
    }

    fn create_dir_all(&self, path: &str) -> io::Result<()> {
        fs::create_dir_all(self.path(path))
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.path(path))
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.path(path))
    }

    fn remove_dir_all(&self, path: &str) -> io::Result<()> {
        fs::remove_dir_all(self.path(path))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn hard_link(&self, original: &str, link: &str) -> io::Result<()> {
        fs::hard_link(self.path(original), self.path(link))
    }

    fn symlink(&self, original: &str, link: &str) -> io::Result<()> {
        std::os::unix::fs::symlink(original, self.path(link))
    }

    fn read_link(&self, path: &str) -> io::Result<PathBuf> {
        fs::read_link(self.path(path))
    }

    fn set_permissions(&self, path: &str, permissions: u16) -> io::Result<()> {
        fs::set_permissions(self.path(path), Permissions::from_mode(permissions.into()))
    }

    fn chown(&self, path: &str, id: u32, follow: bool) -> io::Result<()> {
        let (path, uid, gid) = (self.path(path), Some(id), Some(id + 1));
        if follow {
            std::os::unix::fs::chown(path, uid, gid)
        } else {
            std::os::unix::fs::lchown(path, uid, gid)
        }
    }

    fn set_modified(&self, path: &str, seconds: u64, follow: bool) -> io::Result<()> {
        let time = rustix::fs::Timespec {
            tv_sec: seconds.try_into().unwrap(),
            tv_nsec: 0,
        };
        let times = rustix::fs::Timestamps {
            last_access: time,
            last_modification: time,
        };
        let flags = if follow {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        Ok(rustix::fs::utimensat(
            rustix::fs::CWD,
            self.path(path),
            &times,
            flags,
        )?)
    }

    fn xattr(&self, path: &str, name: &str, follow: bool) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; 4096];
        let path = self.path(path);
        let got = if follow {
            rustix::fs::getxattr(path, name, value.as_mut_slice())
        } else {
            rustix::fs::lgetxattr(path, name, value.as_mut_slice())
        };
        match got {
            Ok(len) => Ok(Some(value[..len].to_vec())),
            Err(Errno::NODATA) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn xattrs(&self, path: &str, follow: bool) -> io::Result<Vec<OsString>> {
        let mut names = vec![0; 4096];
        let path = self.path(path);
        let len = if follow {
            rustix::fs::listxattr(path, names.as_mut_slice())?
        } else {
            rustix::fs::llistxattr(path, names.as_mut_slice())?
        };
        let names = names[..len].split(|&byte| byte == 0);
        Ok(names
            .filter(|name| !name.is_empty())
            .map(|name| OsStr::from_bytes(name).to_owned())
            .collect())
    }

    fn set_xattr(
        &self,
        path: &str,
        name: &str,
        value: &[u8],
        mode: XattrMode,
        follow: bool,
    ) -> io::Result<()> {
        let path = self.path(path);
        let flags = match mode {
            XattrMode::Any => XattrFlags::empty(),
            XattrMode::Create => XattrFlags::CREATE,
            XattrMode::Replace => XattrFlags::REPLACE,
        };
        let set = if follow {
            rustix::fs::setxattr(path, name, value, flags)
        } else {
            rustix::fs::lsetxattr(path, name, value, flags)
        };
        Ok(set?)
    }

    fn remove_xattr(&self, path: &str, name: &str, follow: bool) -> io::Result<()> {
        let path = self.path(path);
        let removed = if follow {
            rustix::fs::removexattr(path, name)
        } else {
            rustix::fs::lremovexattr(path, name)
        };
        Ok(removed?)
    }
}

fn image_facts(metadata: &larder::Metadata) -> Facts {
    Facts {
        kind: metadata.kind,
        permissions: metadata.permissions,
        links: metadata.links.into(),
        owner: (metadata.uid, metadata.gid),
        size_bytes: (!metadata.is_dir()).then_some(metadata.size_bytes),
        modified_seconds: Some(metadata.modified.seconds).filter(|seconds| *seconds < PAST),
    }
}

impl Side for Fs {
    type File = larder::File;

    fn open(&self, path: &str, options: u8) -> io::Result<larder::File> {
        let bit = |bit: u8| options & 1 << bit != 0;
        let options = FileOptions::new()
            .read(bit(0))
            .write(bit(1))
            .append(bit(2))
            .truncate(bit(3))
            .create(bit(4))
            .create_new(bit(5))
            .mode(0o640);
        self.open_with(path, options)
    }

    fn set_len(&self, file: &larder::File, size_bytes: u64) -> io::Result<()> {
        file.set_len(size_bytes)
    }

    fn sync(&self, file: &larder::File) -> io::Result<()> {
        file.sync_all()
    }

    fn file_facts(&self, file: &larder::File) -> io::Result<Facts> {
        Ok(image_facts(&file.metadata()?))
    }

    fn facts(&self, path: &str, follow: bool) -> io::Result<Facts> {
        Ok(image_facts(&if follow {
            self.metadata(path)?
        } else {
            self.symlink_metadata(path)?
        }))
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        Fs::exists(self, path)
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        Fs::read(self, path)
    }

    fn read_to_string(&self, path: &str) -> io::Result<String> {
        Fs::read_to_string(self, path)
    }

    fn write(&self, path: &str, content: &[u8]) -> io::Result<()> {
        Fs::write(self, path, content)
    }

    fn copy(&self, from: &str, to: &str) -> io::Result<u64> {
        Fs::copy(self, from, to)
    }

    fn entries(&self, path: &str) -> io::Result<Vec<(OsString, FileKind)>> {
        self.read_dir(path)?
            .map(|entry| {
                let entry = entry?;
                assert_eq!(entry.metadata()?.kind, entry.kind()?);
                Ok((entry.file_name().to_owned(), entry.kind()?))
            })
            .collect()
    }

    fn walk(&self, path: &str) -> io::Result<Vec<PathBuf>> {
        Fs::walk(self, path)?
            .map(|entry| Ok(entry?.path().strip_prefix(path).unwrap().to_owned()))
            .collect()
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        Fs::create_dir(self, path)
    }

    fn create_dir_all(&self, path: &str) -> io::Result<()> {
        Fs::create_dir_all(self, path)
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        Fs::remove_file(self, path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        Fs::remove_dir(self, path)
    }

    fn remove_dir_all(&self, path: &str) -> io::Result<()> {
        Fs::remove_dir_all(self, path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Fs::rename(self, from, to)
    }

    fn hard_link(&self, original: &str, link: &str) -> io::Result<()> {
        Fs::hard_link(self, original, link)
    }

    fn symlink(&self, original: &str, link: &str) -> io::Result<()> {
        Fs::symlink(self, original, link)
    }

    fn read_link(&self, path: &str) -> io::Result<PathBuf> {
        Fs::read_link(self, path)
    }

    fn set_permissions(&self, path: &str, permissions: u16) -> io::Result<()> {
        Fs::set_permissions(self, path, permissions)
    }

    fn chown(&self, path: &str, id: u32, follow: bool) -> io::Result<()> {
        if follow {
            Fs::chown(self, path, Some(id), Some(id + 1))
        } else {
            self.lchown(path, Some(id), Some(id + 1))
        }
    }

    fn set_modified(&self, path: &str, seconds: u64, follow: bool) -> io::Result<()> {
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        let stamp = Timestamp::from(time);
        let (accessed, modified) = (Some(SetTime::from(stamp)), Some(time.into()));
        if follow {
            self.set_times(path, accessed, modified)
        } else {
            self.set_times_nofollow(path, accessed, modified)
        }
    }

    fn xattr(&self, path: &str, name: &str, follow: bool) -> io::Result<Option<Vec<u8>>> {
        let value = if follow {
            Fs::xattr(self, path, name)?
        } else {
            self.xattr_nofollow(path, name)?
        };
        let names = Side::xattrs(self, path, follow)?;
        let is_listed = names.iter().any(|listed| listed == name);
        assert_eq!(is_listed, value.is_some());
        Ok(value)
    }

    fn xattrs(&self, path: &str, follow: bool) -> io::Result<Vec<OsString>> {
        if follow {
            Fs::xattrs(self, path)
        } else {
            self.xattrs_nofollow(path)
        }
    }

    fn set_xattr(
        &self,
        path: &str,
        name: &str,
        value: &[u8],
        mode: XattrMode,
        follow: bool,
    ) -> io::Result<()> {
        match (mode, follow) {
            (XattrMode::Any, true) => Fs::set_xattr(self, path, name, value),
            (XattrMode::Any, false) => self.set_xattr_nofollow(path, name, value),
            (mode, true) => self.set_xattr_with(path, name, value, mode),
            (mode, false) => self.set_xattr_with_nofollow(path, name, value, mode),
        }
    }

    fn remove_xattr(&self, path: &str, name: &str, follow: bool) -> io::Result<()> {
        if follow {
            Fs::remove_xattr(self, path, name)
        } else {
            self.remove_xattr_nofollow(path, name)
        }
    }
}

/// Returns a result in the form in which both sides are compared.
fn shown<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("error {:?}", error.kind()),
    }
}

/// Returns a result like [`shown`], but with the errno of an error instead of its kind.
fn shown_with_errno<T: Debug>(result: io::Result<T>) -> String {
    let Err(error) = &result else {
        return shown(result);
    };
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let errno = inner.map(larder::Error::errno);
    format!("error {:?}", errno.or_else(|| Errno::from_io_error(error)))
}

fn sorted<T: Ord>(result: io::Result<Vec<T>>) -> io::Result<Vec<T>> {
    let mut items = result?;
    items.sort_unstable();
    Ok(items)
}

fn chosen<T: Copy>(items: &[T], number: u8) -> T {
    items[usize::from(number) % items.len()]
}

/// The open files of a side.
type Files<S> = [Option<<S as Side>::File>; FILES];

/// Performs an operation and returns its result.
fn perform<S: Side>(side: &S, files: &mut Files<S>, operation: Operation) -> String {
    let [what, one, two, number, amount, follow] = operation;
    let (path, other) = (chosen(PATHS, one), chosen(PATHS, two));
    let content = vec![number; usize::from(amount) * 37];
    let slot = usize::from(number) % FILES;
    let at = u64::from(amount) * 19;
    let name = chosen(NAMES, number);
    let follow = follow % 2 == 0;
    match what % 40 {
        0..=2 => shown(side.create_dir(path)),
        3 => shown(side.create_dir_all(path)),
        4..=6 => shown(side.write(path, &content)),
        7 => shown(side.read(path)),
        8 => shown(side.read_to_string(path)),
        9 => shown(side.facts(path, true)),
        10 => shown(side.facts(path, false)),
        11 => shown(side.exists(path)),
        12 => shown(side.entries(path).map(|mut entries| {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            entries
        })),
        13 => shown(sorted(side.walk(path))),
        14 => shown(side.remove_file(path)),
        15 => shown(side.remove_dir(path)),
        // The standard library empties a directory whose path does not end in a name before it fails.
        16 if !path.contains('.') && !path.ends_with('/') => shown(side.remove_dir_all(path)),
        17 | 18 => shown(side.rename(path, other)),
        19 | 20 => shown(side.hard_link(path, other)),
        21 | 22 => shown(side.symlink(chosen(TARGETS, two), path)),
        23 => shown(side.read_link(path)),
        24 => shown(side.set_permissions(path, chosen(MODES, number))),
        25 => shown(side.chown(path, amount.into(), number % 2 == 0)),
        26 => shown(side.copy(path, other)),
        27 => shown(side.set_modified(path, amount.into(), follow)),
        28 if two % 2 == 0 => shown_with_errno(sorted(side.xattrs(path, follow))),
        28 => shown_with_errno(side.xattr(path, name, follow)),
        29 => {
            let value = &content[..content.len().min(900)];
            let mode = chosen(&XATTR_MODES, two);
            shown_with_errno(side.set_xattr(path, name, value, mode, follow))
        }
        30 => shown_with_errno(side.remove_xattr(path, name, follow)),
        31 | 32 => {
            let opened = side.open(path, amount);
            let is_directory = (opened.as_ref())
                .is_ok_and(|file| side.file_facts(file).unwrap().kind == FileKind::Directory);
            if is_directory {
                // Only the kernel opens directories as files.
                return shown::<()>(Err(io::ErrorKind::IsADirectory.into()));
            }
            match opened {
                Ok(file) => {
                    files[slot] = Some(file);
                    "opened".to_owned()
                }
                Err(error) => shown::<()>(Err(error)),
            }
        }
        used => match &mut files[slot] {
            Some(file) => use_file(side, file, used, at, &content),
            None => String::new(),
        },
    }
}

/// Performs an operation on an open file.
fn use_file<S: Side>(side: &S, file: &mut S::File, what: u8, at: u64, content: &[u8]) -> String {
    let mut buf = vec![0; content.len()];
    match what {
        33 => shown(file.write_all(content)),
        34 => {
            let read = file.read(&mut buf);
            shown(read.map(|len| (len, buf)))
        }
        35 => {
            let read = file.read_at(&mut buf, at);
            shown(read.map(|len| (len, buf)))
        }
        36 => shown(file.write_all_at(content, at)),
        37 => shown(side.set_len(file, at)),
        38 => {
            let back = -i64::try_from(at).unwrap();
            let seek = match content.len() % 3 {
                0 => SeekFrom::Start(at),
                1 => SeekFrom::End(back),
                _ => SeekFrom::Current(back / 2),
            };
            shown(file.seek(seek))
        }
        _ => {
            let synced = side.sync(file);
            shown(synced.and_then(|()| side.file_facts(file)))
        }
    }
}

/// Performs the operations on both sides of an image that mke2fs makes with `arguments`.
fn compare_sides(arguments: &str, operations: &[Operation]) -> Result<(), TestCaseError> {
    let failed = |error: &dyn std::fmt::Display| TestCaseError::fail(error.to_string());
    let dir = tempfile::tempdir().map_err(|error| failed(&error))?;
    let [ours, theirs] = ["larder.img", "kernel.img"].map(|name| dir.path().join(name));
    e2fsprogs::make_image(&ours, arguments, "16M").map_err(|error| failed(&error))?;
    fs::copy(&ours, &theirs).map_err(|error| failed(&error))?;
    let mount = LoopMount::new(&theirs, Access::ReadWrite, &[]).map_err(|error| failed(&error))?;
    let kernel = Kernel(mount.path());
    let options = OpenOptions::new()
        .read_write(true)
        .cache_size_bytes(4 << 20);
    let image = options.open(&ours).map_err(|error| failed(&error))?;
    let (mut kernel_files, mut image_files) = (<Files<Kernel>>::default(), <Files<Fs>>::default());
    for (number, &operation) in operations.iter().enumerate() {
        let expected = perform(&kernel, &mut kernel_files, operation);
        let result = perform(&image, &mut image_files, operation);
        let [what, one, two, ..] = operation;
        let (path, other) = (chosen(PATHS, one), chosen(PATHS, two));
        prop_assert_eq!(
            result,
            expected,
            "operation {}: kind {}, {:?} {:?}: {:?}",
            number,
            what % 40,
            path,
            other,
            operation
        );
    }
    let comparison = Comparison {
        fields: Fields::ATTRIBUTES,
        closed: &[],
    };
    let directory = DirectorySource::new("kernel", &mount.path());
    let report = compare(&directory, &VolumeSource::new(image.volume()), &comparison);
    prop_assert_eq!(report.difference_count, 0, "{}", report);
    drop((kernel_files, image_files));
    image.close().map_err(|error| failed(&error))?;
    drop(image);
    e2fsprogs::check(&ours).map_err(|error| failed(&error))
}

fn cannot_mount() -> bool {
    // New files of the kernel have the umask of the process.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    skip(&[
        Requirement::Tool("mke2fs"),
        Requirement::Tool("e2fsck"),
        Requirement::LoopMount,
    ])
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(any::<Operation>(), 1..160)
}

proptest! {
    #![proptest_config(proptest_config!(0x4000, cases: 32))]

    #[test]
    fn ext4_equals_std_fs_on_a_mount(operations in operations()) {
        if !cannot_mount() {
            compare_sides("-t ext4 -b 4096 -N 2048", &operations)?;
        }
    }

    #[test]
    fn ext2_equals_std_fs_on_a_mount(operations in operations()) {
        if !cannot_mount() {
            compare_sides("-t ext2 -b 1024 -I 128", &operations)?;
        }
    }

    #[test]
    fn inline_data_equals_std_fs_on_a_mount(operations in operations()) {
        if !cannot_mount() {
            compare_sides("-t ext4 -b 4096 -N 2048 -O inline_data", &operations)?;
        }
    }
}
