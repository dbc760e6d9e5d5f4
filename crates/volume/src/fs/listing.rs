//! Iterators over directories.
//!
//! A listing reads a number of entries at a time, and holds its directory, so that a directory that
//! is removed is still listed without error. An image can be hostile: a listing returns an error
//! instead of an invalid name, such as `../x`, which would lead out of the directory.

use super::path::{Fs, Last, Pinned};
use crate::{Error, FileKind, Ino, Metadata, Volume};
use larder_ext4::Place;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum number of entries that are read at a time.
const BATCH: usize = 256;

/// An iterator over the entries of a directory without `.` and `..`, in the order in which the
/// directory returns them. Returned by [`Fs::read_dir`].
#[derive(Debug)]
pub struct ReadDir {
    directory: Arc<Directory>,
    batch: VecDeque<io::Result<DirEntry>>,
    next_cookie: u64,
    is_complete: bool,
}

/// A directory that is listed.
#[derive(Debug)]
struct Directory {
    // Dropped before `volume`.
    pinned: Pinned,
    volume: Arc<Volume>,
    /// The directory in which this one was found.
    parent: Option<Arc<Directory>>,
    /// The path below `parent`. One name for each level takes less memory than one path.
    path: PathBuf,
}

impl Directory {
    fn path(&self) -> PathBuf {
        let parents = std::iter::successors(Some(self), |directory| directory.parent.as_deref());
        let names: Vec<_> = parents.map(|directory| &directory.path).collect();
        names.into_iter().rev().collect()
    }
}

impl Drop for Directory {
    /// Drops the parents in a loop: an image determines the number of levels, and recursion would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut directory) = next.and_then(Arc::into_inner) {
            next = directory.parent.take();
        }
    }
}

/// An entry of a directory, like [`std::fs::DirEntry`].
#[derive(Clone, Debug)]
pub struct DirEntry {
    directory: Arc<Directory>,
    name: OsString,
    ino: Ino,
    kind: Option<FileKind>,
}

impl Fs {
    /// Returns an iterator over the entries of the directory at `path`.
    ///
    /// # Errors
    /// The same as for [`std::fs::read_dir`]. An item is an error if a part of the directory cannot
    /// be read, or if a name is invalid. The iteration can continue after an error.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> io::Result<ReadDir> {
        let path = path.as_ref();
        let pinned = self.pin(path, Last::Follow)?;
        pinned.check_directory(self.volume())?;
        Ok(ReadDir::new(self.volume(), pinned, path.to_owned()))
    }
}

impl ReadDir {
    /// Lists the directory `pinned`. The paths of the entries begin with `path`.
    pub(super) fn new(volume: &Arc<Volume>, pinned: Pinned, path: PathBuf) -> Self {
        Self::of(Directory {
            pinned,
            volume: Arc::clone(volume),
            parent: None,
            path,
        })
    }

    fn of(directory: Directory) -> Self {
        Self {
            directory: Arc::new(directory),
            batch: VecDeque::new(),
            next_cookie: 0,
            is_complete: false,
        }
    }

    /// Lists the directory to which `entry` refers.
    pub(super) fn enter(entry: &DirEntry) -> io::Result<Self> {
        let pinned = entry.pin()?;
        let volume = &entry.directory.volume;
        pinned.check_directory(volume)?;
        Ok(Self::of(Directory {
            pinned,
            volume: Arc::clone(volume),
            parent: Some(Arc::clone(&entry.directory)),
            path: PathBuf::from(&entry.name),
        }))
    }

    /// Returns the inode number of the directory.
    pub(super) fn ino(&self) -> Ino {
        self.directory.pinned.ino()
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.path()
    }

    /// Reads all entries, and sorts them by name. Errors precede the entries.
    pub(super) fn sort(&mut self) {
        while !self.is_complete {
            self.fill();
        }
        let entries = self.batch.make_contiguous();
        entries.sort_unstable_by(|a, b| name_of(a).cmp(&name_of(b)));
    }

    /// Returns the entries that were read and are not returned yet.
    pub(super) fn unreturned(&self) -> impl Iterator<Item = &DirEntry> {
        self.batch.iter().filter_map(|entry| entry.as_ref().ok())
    }

    /// Reads the next entries.
    fn fill(&mut self) {
        let from = self.next_cookie;
        let mut count = 0;
        let Self {
            directory,
            batch,
            next_cookie,
            ..
        } = self;
        let ino = directory.pinned.ino();
        let listed = directory.volume.read_dir(ino, from, &mut |entry| {
            count += 1;
            *next_cookie = entry.next_cookie;
            if is_plain(entry.name) {
                batch.push_back(Ok(DirEntry {
                    directory: Arc::clone(directory),
                    name: OsString::from_vec(entry.name.to_vec()),
                    ino: entry.ino,
                    kind: entry.kind,
                }));
            } else if !matches!(entry.name, b"." | b"..") {
                let what = "directory contains an invalid name";
                batch.push_back(Err(damage(ino, what)));
            }
            if count < BATCH {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        // A damaged directory may return the same position again.
        self.is_complete = count < BATCH || self.next_cookie == from || listed.is_err();
        self.batch
            .extend(listed.err().map(|error| Err(error.into())));
    }
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.batch.is_empty() && !self.is_complete {
            self.fill();
        }
        self.batch.pop_front()
    }
}

impl DirEntry {
    /// Returns the path of the directory, as it was given to [`Fs::read_dir`], joined with the name.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Returns the name.
    #[must_use]
    pub fn file_name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the inode number.
    #[must_use]
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Returns the type of the file. A symbolic link is not followed. Reads the inode only if the
    /// directory does not record types.
    ///
    /// # Errors
    /// The same as for [`DirEntry::metadata`].
    pub fn kind(&self) -> io::Result<FileKind> {
        match self.kind {
            Some(kind) => Ok(kind),
            None => Ok(self.metadata()?.kind),
        }
    }

    /// Returns the attributes of the file. A symbolic link is not followed.
    ///
    /// # Errors
    /// `NotFound` if the name was removed, or an error of the image.
    pub fn metadata(&self) -> io::Result<Metadata> {
        let pinned = self.pin()?;
        Ok(self.directory.volume.metadata(pinned.ino())?)
    }

    /// Pins the inode to which the name refers at present.
    pub(super) fn pin(&self) -> io::Result<Pinned> {
        let volume = &self.directory.volume;
        if !volume.is_read_write() {
            return Ok(Pinned::new(volume, self.ino)?);
        }
        let directory = self.directory.pinned.ino();
        Pinned::resolve(volume, || volume.lookup(directory, self.name.as_bytes()))
    }
}

/// Returns the name of an entry. The name of an error is less than every other name.
fn name_of(entry: &io::Result<DirEntry>) -> Option<&OsStr> {
    entry.as_ref().ok().map(DirEntry::file_name)
}

/// Returns the error for a directory that has two names, which only damage causes.
pub(super) fn entered_twice(ino: Ino) -> io::Error {
    damage(ino, "directory has two names")
}

pub(super) fn damage(ino: Ino, what: &'static str) -> io::Error {
    Error::from(Place::Inode(ino).corrupt(what)).into()
}

/// Returns whether `name` can only refer to an entry of the directory in which it is looked up.
fn is_plain(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_not_plain() {
        for name in ["", ".", "..", "a/b", "/", "a\0b"] {
            assert!(!is_plain(name.as_bytes()), "{name:?}");
        }
        for name in ["a", "...", ".a", "a b"] {
            assert!(is_plain(name.as_bytes()), "{name:?}");
        }
    }
}
