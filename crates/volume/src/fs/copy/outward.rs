//! Copies a tree of the image to the host.
//!
//! The image may be hostile. Invariants:
//! 1. Each file below the destination is created or opened relative to the descriptor of its
//!    directory, by a single name, and no symbolic link is followed.
//! 2. An existing file is replaced by a complete copy, and never written into. A device, a FIFO or a
//!    socket, which may belong to the host, is replaced only by a file of the same type.
//! 3. No directory of the image is entered twice, so a loop does not make the copy endless.
//! 4. The memory that is kept is: a batch of entries for each directory on the current path, the inode number of
//!    each directory that was entered, and a path of at most [`MAX_PATH_BYTES`] for each file with several hard links.

use super::content::{BUFFER_BYTES, write_content};
use super::descriptor;
use super::error::CopyError;
use super::observer::Observer;
use super::outward_metadata::{self as metadata_of, Handle};
use super::trail::Trail;
use super::unfinished::Unfinished;
use crate::fs::listing::{ReadDir, entered_twice};
use crate::fs::path::Pinned;
use crate::{Errno, FileKind, Ino, Metadata, Volume};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, fstat, linkat, makedev, mkdirat, mknodat,
    openat, openat2, statat, symlinkat,
};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum length of a path in a system call, in bytes.
const MAX_PATH_BYTES: usize = 4095;

/// Copies files of an image to a directory of the host.
#[derive(Debug)]
pub struct CopyOut<'a> {
    volume: &'a Arc<Volume>,
    root: BorrowedFd<'a>,
    observer: &'a mut dyn Observer,
    is_stopped: bool,
    /// The directories of the image that were entered.
    entered: HashSet<Ino>,
    /// For each copied file with several hard links, the path of a copy below `root`.
    linked: HashMap<Ino, PathBuf>,
    buffer: Vec<u8>,
    /// The path of the present file, for messages.
    source: Trail,
    /// The path of the copy of the present file, below `root`.
    target: Trail,
}

/// A directory that is being copied.
struct Level {
    listing: ReadDir,
    metadata: Metadata,
    copy: OwnedFd,
    /// The lengths of the paths `source` and `target` of the parent.
    parent_lens: (usize, usize),
}

impl<'a> CopyOut<'a> {
    /// Returns a copy to the directory `root`.
    pub fn new(
        volume: &'a Arc<Volume>,
        root: BorrowedFd<'a>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        Self {
            volume,
            root,
            observer,
            is_stopped: false,
            entered: HashSet::new(),
            linked: HashMap::new(),
            buffer: vec![0; BUFFER_BYTES],
            source: Trail::default(),
            target: Trail::default(),
        }
    }

    /// Copies the file `ino`, which must not be deleted during the call, to the name `name` in the
    /// root. A directory is copied with its content. Errors are reported with paths that begin with
    /// `source`.
    pub fn copy(&mut self, ino: Ino, name: &OsStr, source: &Path) {
        self.source = Trail::new(source);
        self.target = Trail::new(Path::new(name));
        let first = self
            .pinned(ino)
            .and_then(|pinned| self.entry(pinned, self.root, name));
        self.walk(first);
    }

    /// Copies the content and the metadata of the directory `ino` to the root itself, like
    /// [`CopyOut::copy`].
    pub fn copy_into(&mut self, ino: Ino, source: &Path) {
        self.source = Trail::new(source);
        self.target = Trail::default();
        let first = self.pinned(ino).and_then(|pinned| {
            let metadata = self.volume.metadata(ino).map_err(CopyError::image)?;
            let root = self.root.try_clone_to_owned().map_err(CopyError::copy)?;
            self.enter(pinned, metadata, root).map(Some)
        });
        self.walk(first);
    }

    fn pinned(&self, ino: Ino) -> Result<Pinned, CopyError> {
        Pinned::new(self.volume, ino).map_err(CopyError::image)
    }

    fn walk(&mut self, first: Result<Option<Level>, CopyError>) {
        let mut levels: Vec<_> = self.reported(first).flatten().into_iter().collect();
        while !self.is_stopped
            && let Some(level) = levels.last_mut()
        {
            let Some(entry) = level.listing.next() else {
                self.leave(level);
                self.shorten(level.parent_lens);
                levels.pop();
                continue;
            };
            let Some(entry) = self.reported(entry.map_err(CopyError::image)) else {
                continue;
            };
            let name = entry.file_name();
            let lens = (self.source.len(), self.target.len());
            self.source.push(name);
            self.target.push(name);
            let pinned = entry.pin().map_err(CopyError::image);
            let below = pinned.and_then(|pinned| self.entry(pinned, level.copy.as_fd(), name));
            match self.reported(below).flatten() {
                Some(below) => levels.push(Level {
                    parent_lens: lens,
                    ..below
                }),
                None => self.shorten(lens),
            }
        }
    }

    fn shorten(&mut self, (source, target): (usize, usize)) {
        self.source.truncate(source);
        self.target.truncate(target);
    }

    /// Copies one file. For a directory, creates only the directory and returns it; the caller copies
    /// its content.
    fn entry(
        &mut self,
        pinned: Pinned,
        parent: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Result<Option<Level>, CopyError> {
        let metadata = self.volume.metadata(pinned.ino());
        let metadata = metadata.map_err(CopyError::image)?;
        if metadata.is_dir() {
            let copy = made_directory(parent, name)?;
            return self.enter(pinned, metadata, copy).map(Some);
        }
        self.check_replaceable(parent, name, metadata.kind)?;
        let mut unfinished = Unfinished::new(parent);
        if metadata.links > 1 && self.link(metadata.ino, &unfinished) {
            return unfinished.rename_to(name).map(|()| None);
        }
        let not_kept = match metadata.kind {
            FileKind::Regular => self.regular(&metadata, &mut unfinished)?,
            kind => self.unopened(&metadata, file_type(kind), &unfinished)?,
        };
        unfinished.rename_to(name)?;
        if metadata.links > 1 && self.target.len() <= MAX_PATH_BYTES {
            let target = self.target.as_path().to_owned();
            self.linked.insert(metadata.ino, target);
        }
        self.report_all(not_kept);
        Ok(None)
    }

    fn enter(
        &mut self,
        pinned: Pinned,
        metadata: Metadata,
        copy: OwnedFd,
    ) -> Result<Level, CopyError> {
        if !self.entered.insert(metadata.ino) {
            let error = entered_twice(metadata.ino);
            return Err(CopyError::new("the image is damaged", error));
        }
        Ok(Level {
            listing: ReadDir::new(self.volume, pinned, PathBuf::new()),
            metadata,
            copy,
            parent_lens: (0, 0),
        })
    }

    /// Sets the metadata of a directory after its content was copied. The metadata cannot be set
    /// earlier, because the directory must be writable, and creating its entries changes its times.
    fn leave(&mut self, level: &Level) {
        let copy = Handle::Open(level.copy.as_fd());
        let not_kept = metadata_of::set(self.volume, &level.metadata, &copy);
        self.report_all(not_kept);
    }

    /// Creates a hard link to the copy of the file `ino`. Returns false if the file has not been
    /// copied before, or if the link cannot be created.
    fn link(&self, ino: Ino, copy: &Unfinished<'_>) -> bool {
        let Some(first) = self.linked.get(&ino) else {
            return false;
        };
        let directory = match first.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let stays_inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = openat2(self.root, directory, flags, Mode::empty(), stays_inside);
        let linked = opened.and_then(|directory| {
            let name = first.file_name().unwrap_or_default();
            linkat(&directory, name, copy.parent, &copy.name, AtFlags::empty())
        });
        linked.is_ok()
    }

    /// Creates a copy of a regular file. Returns the errors of setting its metadata.
    fn regular(
        &mut self,
        metadata: &Metadata,
        copy: &mut Unfinished<'_>,
    ) -> Result<Vec<CopyError>, CopyError> {
        let file = copy.create().map_err(CopyError::copy)?;
        write_content(
            self.volume,
            metadata.ino,
            metadata.size_bytes,
            file,
            &mut self.buffer,
            self.observer,
        )?;
        Ok(metadata_of::set(
            self.volume,
            metadata,
            &Handle::Open(file.as_fd()),
        ))
    }

    /// Creates a copy of a symbolic link or a special file. Returns the errors of setting its
    /// metadata.
    fn unopened(
        &self,
        metadata: &Metadata,
        kind: FileType,
        copy: &Unfinished<'_>,
    ) -> Result<Vec<CopyError>, CopyError> {
        if kind == FileType::Symlink {
            let target = self.volume.read_link(metadata.ino);
            let target = target.map_err(CopyError::image)?;
            symlinkat(OsStr::from_bytes(&target), copy.parent, &copy.name)
                .map_err(CopyError::copy)?;
        } else {
            let device = makedev(metadata.rdev_major, metadata.rdev_minor);
            let mode = Mode::RUSR | Mode::WUSR;
            mknodat(copy.parent, &copy.name, kind, mode, device).map_err(|errno| match errno {
                Errno::PERM => CopyError::new("only root can create device files", errno),
                errno => CopyError::copy(errno),
            })?;
        }
        let created = opened_as_created(copy, kind).map_err(CopyError::copy)?;
        let copy = Handle::Path(descriptor::path(&created));
        Ok(metadata_of::set(self.volume, metadata, &copy))
    }

    /// Returns an error if a file of type `kind` must not replace the file that has the name. This is
    /// checked before content is copied.
    fn check_replaceable(
        &self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        kind: FileKind,
    ) -> Result<(), CopyError> {
        let Ok(present) = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(());
        };
        match FileType::from_raw_mode(present.st_mode) {
            FileType::Directory => Err(CopyError::cannot_replace_directory()),
            FileType::RegularFile if self.volume.is_stored_in(present.st_dev, present.st_ino) => {
                Err(CopyError::is_image())
            }
            FileType::RegularFile | FileType::Symlink => Ok(()),
            present if present == file_type(kind) => Ok(()),
            _ => Err(CopyError::refused(
                Errno::EXIST,
                "cannot replace a device, a FIFO or a socket with a file of another type",
            )),
        }
    }

    /// Returns the value. Reports an error.
    fn reported<T>(&mut self, result: Result<T, CopyError>) -> Option<T> {
        result.map_err(|error| self.report(error)).ok()
    }

    fn report_all(&mut self, errors: Vec<CopyError>) {
        for error in errors {
            self.report(error);
        }
    }

    fn report(&mut self, error: CopyError) {
        if !self.is_stopped {
            let next = self.observer.failed(self.source.as_path(), error);
            self.is_stopped = next.is_break();
        }
    }
}

/// Returns the directory `name` in `parent`, and creates it if it does not exist.
fn made_directory(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, CopyError> {
    match mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(CopyError::copy(errno)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOTDIR | Errno::LOOP => CopyError::cannot_replace_file(),
        Errno::MFILE => {
            let what = "the tree has more levels than the limit on open files";
            CopyError::new(what, errno)
        }
        errno => CopyError::copy(errno),
    })
}

/// Opens a symbolic link or a special file that was just created, without access to its content.
/// Another process may have replaced the file: fails if the present one has another type.
fn opened_as_created(copy: &Unfinished<'_>, kind: FileType) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(copy.parent, &copy.name, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) == kind {
        Ok(file)
    } else {
        Err(Errno::STALE)
    }
}

fn file_type(kind: FileKind) -> FileType {
    FileType::from_raw_mode((kind as u32) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::symlink;

    #[test]
    fn directory_is_not_made_through_a_symbolic_link() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), dir.path().join("link")).unwrap();
        let parent = File::open(dir.path()).unwrap();
        assert!(made_directory(parent.as_fd(), OsStr::new("link")).is_err());
        assert!(made_directory(parent.as_fd(), OsStr::new("new")).is_ok());
        assert!(made_directory(parent.as_fd(), OsStr::new("new")).is_ok());
    }

    #[test]
    fn replacement_of_created_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let parent = File::open(dir.path()).unwrap();
        let copy = Unfinished::new(parent.as_fd());
        let outside = dir.path().join("outside");
        std::fs::write(&outside, "").unwrap();
        symlink(&outside, dir.path().join(&copy.name)).unwrap();
        for kind in [FileType::Fifo, FileType::Socket, FileType::RegularFile] {
            assert_eq!(opened_as_created(&copy, kind).unwrap_err(), Errno::STALE);
        }
        assert!(opened_as_created(&copy, FileType::Symlink).is_ok());
    }
}
