//! Copies a tree of the image to the host.
//!
//! The image may be hostile. Invariants:
//! 1. Each file below the destination is created or opened relative to the descriptor of its
//!    directory, by a single name, and no symbolic link is followed.
//! 2. An existing file is removed before it is replaced, and never written into.
//! 3. No directory of the image is entered twice.

use super::listing::{DirEntry, ReadDir, entered_twice};
use super::path::{Fs, Last, Pinned, at};
use crate::{Errno, FileKind, Ino, Metadata, Timestamp, Volume};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags,
    chmodat, chownat, linkat, lsetxattr, makedev, mkdirat, mknodat, openat, openat2, setxattr,
    symlinkat, unlinkat, utimensat,
};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The size of the buffer for one read and one write, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// The set-id bits of a mode.
const SET_ID: u16 = 0o6000;

impl Fs {
    /// Copies the file or the tree at `from` in the image to `to` on the host, with owners,
    /// permissions, times, extended attributes, hard links, holes and special files.
    ///
    /// If `from` is a directory, its entries are copied into the directory `to`, which is created if
    /// it does not exist. In existing directories, files with the same names are replaced, and other
    /// files are kept. If `from` is another file, it is copied to the name `to`. Symbolic links are
    /// copied, and not followed, neither in the image nor below `to`.
    ///
    /// Owners and attributes that the process may not set are not copied. A file whose owner is not
    /// copied gets no set-id bits. Only root can copy device files.
    ///
    /// # Errors
    /// The first error of reading or writing, with the path. What was copied before it remains.
    pub fn copy_out(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let source = self.pin(from, Last::Keep)?;
        let metadata = self.volume().metadata(source.ino())?;
        let mut copy = CopyOut {
            volume: self.volume(),
            entered: HashSet::new(),
            linked: HashMap::new(),
            buffer: vec![0; BUFFER_BYTES],
        };
        if metadata.is_dir() {
            match std::fs::create_dir(to) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(at(to, error));
                }
                _ => {}
            }
            let root = open_directory(CWD, to.as_os_str(), OFlags::empty());
            let root = root.map_err(|error| at(to, error))?;
            let listing = ReadDir::new(self.volume(), source, from.to_owned());
            return copy.run(Level {
                listing,
                metadata,
                copy: root,
                path: PathBuf::new(),
            });
        }
        let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
            return Err(Errno::ISDIR.into());
        };
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        let parent = open_directory(CWD, parent.as_os_str(), OFlags::empty());
        let parent = parent.map_err(|error| at(to, error))?;
        let target = Target {
            directory: parent.as_fd(),
            name,
        };
        copy.file(&metadata, &target)
            .map_err(|error| at(from, error))
    }
}

/// A copy in progress.
struct CopyOut<'v> {
    volume: &'v Arc<Volume>,
    /// The directories that have been entered.
    entered: HashSet<Ino>,
    /// The copies of files with several hard links: their paths below the destination.
    linked: HashMap<Ino, PathBuf>,
    buffer: Vec<u8>,
}

/// A directory that is being copied.
struct Level {
    listing: ReadDir,
    metadata: Metadata,
    copy: OwnedFd,
    /// The path of the copy below the destination.
    path: PathBuf,
}

/// A name in a directory of the host.
struct Target<'d> {
    directory: BorrowedFd<'d>,
    name: &'d OsStr,
}

impl Target<'_> {
    /// Returns a path to the target that contains no link which the image can determine.
    fn path(&self) -> PathBuf {
        descriptor_path(self.directory).join(self.name)
    }
}

impl CopyOut<'_> {
    fn run(&mut self, first: Level) -> io::Result<()> {
        let root = first.copy.try_clone()?;
        self.entered.insert(first.listing.ino());
        let mut levels = vec![first];
        while let Some(level) = levels.last_mut() {
            let Some(entry) = level.listing.next() else {
                let path = descriptor_path(level.copy.as_fd());
                self.keep(&level.metadata, &path, AtFlags::empty())
                    .map_err(|error| at(&level.path, error))?;
                levels.pop();
                continue;
            };
            let entry = entry.map_err(|error| at(&level.path, error))?;
            let below = self.entry(&entry, level, root.as_fd());
            levels.extend(below.map_err(|error| at(&entry.path(), error))?);
        }
        Ok(())
    }

    /// Copies one entry. For a directory, creates only the directory and returns it.
    fn entry(
        &mut self,
        entry: &DirEntry,
        level: &Level,
        root: BorrowedFd<'_>,
    ) -> io::Result<Option<Level>> {
        let pinned = entry.pin()?;
        let metadata = self.volume.metadata(pinned.ino())?;
        let target = Target {
            directory: level.copy.as_fd(),
            name: entry.file_name(),
        };
        let path = level.path.join(target.name);
        if metadata.is_dir() {
            return self.directory(entry, pinned, metadata, &target, path);
        }
        if metadata.links > 1 && self.link(metadata.ino, root, &target) {
            return Ok(None);
        }
        self.file(&metadata, &target)?;
        if metadata.links > 1 {
            self.linked.insert(metadata.ino, path);
        }
        Ok(None)
    }

    fn directory(
        &mut self,
        entry: &DirEntry,
        pinned: Pinned,
        metadata: Metadata,
        target: &Target<'_>,
        path: PathBuf,
    ) -> io::Result<Option<Level>> {
        if !self.entered.insert(metadata.ino) {
            return Err(entered_twice(metadata.ino));
        }
        match mkdirat(target.directory, target.name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let copy = open_directory(target.directory, target.name, OFlags::NOFOLLOW)?;
        Ok(Some(Level {
            listing: ReadDir::new(self.volume, pinned, entry.path()),
            metadata,
            copy,
            path,
        }))
    }

    /// Creates a hard link to the copy of the file `ino`. Returns false if the file has not been
    /// copied before, or if the link cannot be created.
    fn link(&self, ino: Ino, root: BorrowedFd<'_>, target: &Target<'_>) -> bool {
        let Some(first) = self.linked.get(&ino) else {
            return false;
        };
        let directory = match first.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let stays_inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = openat2(root, directory, flags, Mode::empty(), stays_inside);
        let name = first.file_name().unwrap_or_default();
        let linked = opened.and_then(|directory| {
            remove(target)?;
            let empty = AtFlags::empty();
            linkat(&directory, name, target.directory, target.name, empty)
        });
        linked.is_ok()
    }

    /// Copies a file that is not a directory, with its metadata.
    fn file(&mut self, metadata: &Metadata, target: &Target<'_>) -> io::Result<()> {
        remove(target)?;
        let (directory, name) = (target.directory, target.name);
        let mode = Mode::RUSR | Mode::WUSR;
        let kind = match metadata.kind {
            FileKind::Regular => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                let file = openat(directory, name, flags | OFlags::CLOEXEC, mode)?;
                self.content(metadata, &File::from(file))?;
                None
            }
            FileKind::Symlink => {
                let link = self.volume.read_link(metadata.ino)?;
                symlinkat(OsStr::from_bytes(&link), directory, name)?;
                None
            }
            FileKind::CharDevice => Some(FileType::CharacterDevice),
            FileKind::BlockDevice => Some(FileType::BlockDevice),
            FileKind::Fifo => Some(FileType::Fifo),
            FileKind::Socket => Some(FileType::Socket),
            FileKind::Directory => return Err(Errno::ISDIR.into()),
        };
        if let Some(kind) = kind {
            let device = makedev(metadata.rdev_major, metadata.rdev_minor);
            mknodat(directory, name, kind, mode, device)?;
        }
        self.keep(metadata, &target.path(), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Writes the data of a regular file to `output`, which is empty. A hole stays a hole.
    fn content(&mut self, metadata: &Metadata, output: &File) -> io::Result<()> {
        let (ino, size_bytes) = (metadata.ino, metadata.size_bytes);
        output.set_len(size_bytes)?;
        let mut at_bytes = 0;
        while at_bytes < size_bytes {
            let start_bytes = match self.volume.seek_data(ino, at_bytes) {
                Ok(start_bytes) => start_bytes,
                Err(error) if error.errno() == Errno::NXIO => break,
                Err(error) => return Err(error.into()),
            };
            let end_bytes = self.volume.seek_hole(ino, start_bytes)?;
            at_bytes = start_bytes;
            while at_bytes < end_bytes {
                let left = usize::try_from(end_bytes - at_bytes).unwrap_or(usize::MAX);
                let wanted = left.min(self.buffer.len());
                let buffer = self.buffer.get_mut(..wanted).unwrap_or_default();
                let len = self.volume.read_at(ino, buffer, at_bytes)?;
                if len == 0 {
                    // The last run of data ends at a block boundary, but the file may end inside
                    // that block.
                    return Ok(());
                }
                output.write_all_at(buffer.get(..len).unwrap_or_default(), at_bytes)?;
                at_bytes += len as u64;
            }
        }
        Ok(())
    }

    /// Sets the metadata of the copy at `path`. `flags` specify whether a symbolic link at the end
    /// of `path` is followed. The owner is set first, because this clears set-id bits and
    /// capabilities. The permissions are set after the attributes, because an access control list
    /// changes them.
    fn keep(&self, metadata: &Metadata, path: &Path, flags: AtFlags) -> io::Result<()> {
        let (uid, gid) = (owner(metadata), group(metadata));
        let has_owner = match chownat(CWD, path, uid, gid, flags) {
            Ok(()) => true,
            // `EINVAL` means that this user namespace does not map the owner.
            Err(Errno::PERM | Errno::INVAL) => false,
            Err(errno) => return Err(errno.into()),
        };
        for name in self.volume.xattrs(metadata.ino)? {
            let Some(value) = self.volume.xattr(metadata.ino, &name)? else {
                continue;
            };
            let name = OsStr::from_bytes(&name);
            let set = if flags.contains(AtFlags::SYMLINK_NOFOLLOW) {
                lsetxattr(path, name, &value, XattrFlags::empty())
            } else {
                setxattr(path, name, &value, XattrFlags::empty())
            };
            match set {
                // The process may not set the attribute, or the destination does not support it.
                Ok(()) | Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::INVAL) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        if !metadata.is_symlink() {
            let removed = if has_owner { 0 } else { SET_ID };
            let mode = Mode::from_raw_mode((metadata.permissions & !removed).into());
            chmodat(CWD, path, mode, AtFlags::empty())?;
        }
        let times = Timestamps {
            last_access: time(metadata.accessed),
            last_modification: time(metadata.modified),
        };
        Ok(utimensat(CWD, path, &times, flags)?)
    }
}

/// Removes the file that has the name of the target, if there is one. Fails for a directory.
fn remove(target: &Target<'_>) -> Result<(), Errno> {
    match unlinkat(target.directory, target.name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn open_directory(parent: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// Returns a path that leads to the file of an open descriptor.
fn descriptor_path(descriptor: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(OsString::from(format!(
        "/proc/self/fd/{}",
        descriptor.as_raw_fd()
    )))
}

fn owner(metadata: &Metadata) -> Option<Uid> {
    // In chown(2), an ID of all ones means "unchanged".
    (metadata.uid != u32::MAX).then(|| Uid::from_raw(metadata.uid))
}

fn group(metadata: &Metadata) -> Option<Gid> {
    (metadata.gid != u32::MAX).then(|| Gid::from_raw(metadata.gid))
}

fn time(timestamp: Timestamp) -> Timespec {
    Timespec {
        tv_sec: timestamp.seconds,
        tv_nsec: timestamp.nanoseconds.into(),
    }
}
