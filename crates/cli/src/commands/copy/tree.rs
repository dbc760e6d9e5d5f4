//! Copies a file, or a directory with its content, out of an image. A directory is copied depth first,
//! with a list of levels instead of recursion.

use super::attributes;
use super::content::{self, failure, written};
use crate::failure::CHECK_IT;
use indicatif::ProgressBar;
use larder::{FileKind, Ino, Metadata, Volume};
use larder_console::{Failure, Result, name};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, linkat, makedev, mkdirat, mknodat, openat,
    openat2, renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// The number of entries of a directory that are read at once.
const BATCH: usize = 1024;

/// A copy in progress.
#[derive(Debug)]
pub(super) struct TreeCopy<'a> {
    volume: &'a Volume,
    progress: &'a ProgressBar,
    /// The directory on the host that receives the copy.
    root: BorrowedFd<'a>,
    /// The directories of the image that were entered. No directory is entered twice.
    entered: HashSet<Ino>,
    /// For each copied file with several hard links, the path of a copy to which links are created, relative to
    /// `root`.
    linked: HashMap<Ino, Vec<u8>>,
    /// The buffer for file content.
    buffer: Vec<u8>,
    has_failed: bool,
}

/// A directory that is being copied.
struct Level {
    metadata: Metadata,
    copy: OwnedFd,
    /// The path in the image, for messages.
    source: Vec<u8>,
    /// The path of the copy, relative to the root.
    target: Vec<u8>,
    batch: VecDeque<(Vec<u8>, Ino)>,
    next_cookie: u64,
    is_listed: bool,
}

/// The result of setting the metadata of a copied file. An error does not make the copy invalid.
type Kept = Result<()>;

/// Returns whether `name` can only refer to an entry of the directory in which it is looked up. Names such
/// as `..` or `a/b` can refer to files outside the directory.
pub(super) fn is_plain_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

impl<'a> TreeCopy<'a> {
    pub(super) fn new(volume: &'a Volume, root: BorrowedFd<'a>, progress: &'a ProgressBar) -> Self {
        Self {
            volume,
            progress,
            root,
            entered: HashSet::new(),
            linked: HashMap::new(),
            buffer: vec![0; content::BUFFER_BYTES],
            has_failed: false,
        }
    }

    /// Returns true if at least one file could not be copied. The reason was already reported.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Copies the file `ino`, whose path in the image is `source`, to the name `name` in the root.
    pub(super) fn copy(&mut self, ino: Ino, name: &OsStr, source: &[u8]) {
        let first = self.entry(ino, self.root, name, source, name.as_bytes());
        self.walk(first, source);
    }

    /// Copies the content of the directory `ino` into the root itself.
    pub(super) fn copy_into(&mut self, ino: Ino, source: &[u8]) {
        let root = self.root.try_clone_to_owned();
        let first = root.map_err(failure).and_then(|root| {
            let metadata = self.metadata(ino)?;
            self.enter(metadata, root, source, b"").map(Some)
        });
        self.walk(first, source);
    }

    fn walk(&mut self, first: Result<Option<Level>>, source: &[u8]) {
        let mut levels = Vec::new();
        match first {
            Ok(level) => levels.extend(level),
            Err(failure) => self.report(source, &failure),
        }
        while let Some(level) = levels.last_mut() {
            let Some((name, ino)) = self.next_entry(level) else {
                self.leave(level);
                levels.pop();
                continue;
            };
            let source = joined(&level.source, &name);
            let target = joined(&level.target, &name);
            let name = OsStr::from_bytes(&name);
            match self.entry(ino, level.copy.as_fd(), name, &source, &target) {
                Ok(below) => levels.extend(below),
                Err(failure) => self.report(&source, &failure),
            }
        }
    }

    /// Returns the next entry of a directory. Entries that cannot be copied are reported and skipped.
    fn next_entry(&mut self, level: &mut Level) -> Option<(Vec<u8>, Ino)> {
        loop {
            if level.batch.is_empty() && !level.is_listed {
                self.list(level);
            }
            let (name, ino) = level.batch.pop_front()?;
            if matches!(name.as_slice(), b"." | b"..") {
                continue;
            }
            if is_plain_name(&name) {
                return Some((name, ino));
            }
            let failure = Failure::new("the name is not a valid file name");
            self.report(&joined(&level.source, &name), &failure);
        }
    }

    fn list(&mut self, level: &mut Level) {
        let Level {
            batch, next_cookie, ..
        } = level;
        let ino = level.metadata.ino;
        let from = *next_cookie;
        let listed = self.volume.read_dir(ino, from, &mut |entry| {
            batch.push_back((entry.name.to_vec(), entry.ino));
            *next_cookie = entry.next_cookie;
            if batch.len() < BATCH {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        // If a damaged directory returns the same position again, its listing would never end. The listing
        // is then treated as complete.
        level.is_listed = level.batch.len() < BATCH || level.next_cookie == from;
        if let Err(error) = listed {
            level.is_listed = true;
            self.report(&level.source, &failure(error));
        }
    }

    /// Copies one file. For a directory, creates only the directory and returns it; the caller copies its
    /// content.
    fn entry(
        &mut self,
        ino: Ino,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        source: &[u8],
        target: &[u8],
    ) -> Result<Option<Level>> {
        let metadata = self.metadata(ino)?;
        if metadata.kind == FileKind::Directory {
            let copy = made_directory(parent, name)?;
            return self.enter(metadata, copy, source, target).map(Some);
        }
        check_replaceable(parent, name)?;
        let unfinished = Unfinished::new(parent);
        if metadata.links > 1 && self.link(ino, parent, &unfinished.name) {
            unfinished.rename_to(name)?;
            return Ok(None);
        }
        let kept = match metadata.kind {
            FileKind::Regular => self.regular(&metadata, &unfinished)?,
            FileKind::Symlink => self.symlink(&metadata, &unfinished)?,
            _ => self.special(&metadata, &unfinished)?,
        };
        unfinished.rename_to(name)?;
        if metadata.links > 1 {
            self.linked.insert(ino, target.to_vec());
        }
        kept.map(|()| None)
    }

    fn enter(
        &mut self,
        metadata: Metadata,
        copy: OwnedFd,
        source: &[u8],
        target: &[u8],
    ) -> Result<Level> {
        if !self.entered.insert(metadata.ino) {
            return Err(Failure::with_hint(
                format!(
                    "directory inode {} has two names: the image is damaged",
                    metadata.ino
                ),
                CHECK_IT,
            ));
        }
        Ok(Level {
            metadata,
            copy,
            source: source.to_vec(),
            target: target.to_vec(),
            batch: VecDeque::new(),
            next_cookie: 0,
            is_listed: false,
        })
    }

    /// Sets the metadata of a directory after its content was copied. The metadata cannot be set earlier,
    /// because the directory must be writable, and creating its entries changes its times.
    fn leave(&mut self, level: &Level) {
        if let Err(error) = attributes::set_open(self.volume, &level.metadata, &level.copy) {
            self.report(&level.source, &error);
        }
    }

    /// Creates a hard link to the copy of the file `ino`. Returns false if the file has not been copied
    /// before, or if the link cannot be created.
    fn link(&self, ino: Ino, parent: BorrowedFd<'_>, name: &OsStr) -> bool {
        let Some(first) = self.linked.get(&ino) else {
            return false;
        };
        let (directory, first_name) = match first.iter().rposition(|&byte| byte == b'/') {
            Some(at) => (&first[..at], &first[at + 1..]),
            None => (&b"."[..], &first[..]),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let stays_inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = openat2(
            self.root,
            OsStr::from_bytes(directory),
            flags,
            Mode::empty(),
            stays_inside,
        );
        let linked = opened.and_then(|directory| {
            let first_name = OsStr::from_bytes(first_name);
            linkat(&directory, first_name, parent, name, AtFlags::empty())
        });
        linked.is_ok()
    }

    fn regular(&mut self, metadata: &Metadata, copy: &Unfinished<'_>) -> Result<Kept> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = openat(copy.parent, &copy.name, flags | OFlags::CLOEXEC, mode);
        let file = File::from(file.map_err(written)?);
        content::copy(
            self.volume,
            metadata.ino,
            metadata.size_bytes,
            &file,
            &mut self.buffer,
            self.progress,
        )?;
        Ok(attributes::set_open(self.volume, metadata, &file))
    }

    fn symlink(&self, metadata: &Metadata, copy: &Unfinished<'_>) -> Result<Kept> {
        let target = self.volume.read_link(metadata.ino).map_err(failure)?;
        symlinkat(OsStr::from_bytes(&target), copy.parent, &copy.name).map_err(written)?;
        Ok(self.keep(metadata, copy))
    }

    fn special(&self, metadata: &Metadata, copy: &Unfinished<'_>) -> Result<Kept> {
        let kind = match metadata.kind {
            FileKind::CharDevice => FileType::CharacterDevice,
            FileKind::BlockDevice => FileType::BlockDevice,
            FileKind::Fifo => FileType::Fifo,
            _ => FileType::Socket,
        };
        let device = makedev(metadata.rdev_major, metadata.rdev_minor);
        let mode = Mode::RUSR | Mode::WUSR;
        let node = mknodat(copy.parent, &copy.name, kind, mode, device);
        node.map_err(|errno| match errno {
            Errno::PERM => Failure::with_hint("only root can create device files", "copy as root"),
            errno => written(errno),
        })?;
        Ok(self.keep(metadata, copy))
    }

    fn keep(&self, metadata: &Metadata, copy: &Unfinished<'_>) -> Kept {
        attributes::set_unopened(self.volume, metadata, copy.parent, &copy.name)
    }

    fn metadata(&self, ino: Ino) -> Result<Metadata> {
        self.volume.metadata(ino).map_err(failure)
    }

    fn report(&mut self, source: &[u8], failure: &Failure) {
        self.has_failed = true;
        let source = name::escaped(source);
        self.progress
            .suspend(|| larder_console::print_error(&format!("{source}: {failure}")));
    }
}

/// Returns the directory `name` in `parent`, and creates it if it does not exist.
fn made_directory(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    match mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(written(errno)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOTDIR | Errno::LOOP => {
            Failure::new("cannot create the directory: another file has its name")
        }
        Errno::MFILE => Failure::new("the tree has more levels than the limit on open files"),
        errno => written(errno),
    })
}

/// A file that has a temporary name until it is complete. Dropping this value removes the file, unless it
/// was renamed.
struct Unfinished<'d> {
    parent: BorrowedFd<'d>,
    name: OsString,
}

impl<'d> Unfinished<'d> {
    /// Chooses a temporary name that no file in `parent` has.
    fn new(parent: BorrowedFd<'d>) -> Self {
        let process = std::process::id();
        let mut number = 0_u32;
        loop {
            let name = OsString::from(format!(".larder-{process}-{number}"));
            if statat(parent, &name, AtFlags::SYMLINK_NOFOLLOW).is_err() {
                return Self { parent, name };
            }
            number += 1;
        }
    }

    /// Renames the file to its final name, and replaces an existing file of that name.
    fn rename_to(self, name: &OsStr) -> Result<()> {
        renameat(self.parent, &self.name, self.parent, name).map_err(|errno| match errno {
            Errno::ISDIR => replaces_directory(),
            errno => written(errno),
        })
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // After a rename, the temporary name usually does not exist. But if both names were links to the
        // same file, rename(2) has no effect, and the temporary name must still be removed.
        let _ = unlinkat(self.parent, &self.name, AtFlags::empty());
    }
}

/// Fails if `name` is a directory, which a file cannot replace. This is checked before content is copied.
fn check_replaceable(parent: BorrowedFd<'_>, name: &OsStr) -> Result<()> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(present) if FileType::from_raw_mode(present.st_mode).is_dir() => {
            Err(replaces_directory())
        }
        _ => Ok(()),
    }
}

fn replaces_directory() -> Failure {
    Failure::new("cannot replace a directory with a file")
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = directory.to_vec();
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;

    fn opened(path: &std::path::Path) -> OwnedFd {
        openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    #[test]
    fn names_that_lead_elsewhere_are_not_plain() {
        for name in ["", ".", "..", "a/b", "/", "a\0b"] {
            assert!(!is_plain_name(name.as_bytes()), "{name:?}");
        }
        for name in ["a", "...", ".a", "a b", "\u{ff}"] {
            assert!(is_plain_name(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn directory_is_not_made_through_a_symbolic_link() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).unwrap();
        let parent = opened(dir.path());
        assert!(made_directory(parent.as_fd(), OsStr::new("link")).is_err());
        assert!(made_directory(parent.as_fd(), OsStr::new("new")).is_ok());
        assert!(made_directory(parent.as_fd(), OsStr::new("new")).is_ok());
    }

    #[test]
    fn symbolic_link_is_replaced_and_its_target_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(outside.path(), &link).unwrap();
        let parent = opened(dir.path());
        let unfinished = Unfinished::new(parent.as_fd());
        std::fs::write(dir.path().join(&unfinished.name), "whole").unwrap();
        unfinished.rename_to(OsStr::new("link")).unwrap();
        assert!(link.symlink_metadata().unwrap().is_file());
        assert_eq!(std::fs::read(&link).unwrap(), b"whole");
        assert_eq!(std::fs::read(outside.path()).unwrap(), b"");
    }

    #[test]
    fn unfinished_file_has_unique_name_and_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let parent = opened(dir.path());
        let first = Unfinished::new(parent.as_fd());
        std::fs::write(dir.path().join(&first.name), "").unwrap();
        let second = Unfinished::new(parent.as_fd());
        assert_ne!(first.name, second.name);
        drop((first, second));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn paths_are_joined_with_one_slash() {
        assert_eq!(joined(b"/", b"etc"), b"/etc");
        assert_eq!(joined(b"/etc", b"x"), b"/etc/x");
        assert_eq!(joined(b"", b"x"), b"x");
    }
}
