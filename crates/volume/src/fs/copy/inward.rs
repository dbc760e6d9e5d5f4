//! Copies a tree of the host into the image.
//!
//! Invariants:
//! 1. Each file of a tree is opened relative to the descriptor of its directory, by a single name, and
//!    no symbolic link is followed. Metadata, attributes and content are read from the descriptor. So
//!    another process that changes the tree cannot make the copy read other files.
//! 2. A new file has no name until its content and metadata are complete. It then gets its name, and
//!    replaces the file that had the name before. An existing directory is kept.
//! 3. The file that stores the image is not copied into the image.

use super::content::{BUFFER_BYTES, read_content};
use super::error::CopyError;
use super::inward_metadata::{self as metadata_of, set_times};
use super::observer::Observer;
use super::source::Source;
use super::trail::Trail;
use crate::fs::path::Pinned;
use crate::{DeviceNumber, Error, FileKind, Ino, Make, NewFile, Volume};
use rustix::fs::{CWD, Dir, FileType, major, minor, readlinkat};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Copies files of the host into an image.
#[derive(Debug)]
pub struct CopyIn<'a> {
    volume: &'a Volume,
    observer: &'a mut dyn Observer,
    is_stopped: bool,
    /// The copies of files with several hard links, by the device and inode number of the source. A
    /// copy is pinned so that it is not deleted if its name is replaced during the copy.
    linked: HashMap<(u64, u64), Pinned>,
    buffer: Vec<u8>,
    /// The path of the present file, for messages.
    path: Trail,
}

/// A directory that is being copied.
struct Level {
    listing: Dir,
    metadata: Metadata,
    copy: Pinned,
    /// The length of the path of the parent.
    parent_len: usize,
}

impl<'a> CopyIn<'a> {
    /// Returns a copy into `volume`, which must be open for writing.
    pub fn new(volume: &'a Volume, observer: &'a mut dyn Observer) -> Self {
        Self {
            volume,
            observer,
            is_stopped: false,
            linked: HashMap::new(),
            buffer: vec![0; BUFFER_BYTES],
            path: Trail::default(),
        }
    }

    /// Copies the file at `source` to `name` in the directory `parent` of the image. A directory is
    /// copied with its content. If `source` itself is a symbolic link, `follow` specifies whether the
    /// link is followed.
    pub fn copy(&mut self, source: &Path, follow: bool, parent: Ino, name: &[u8]) {
        self.path = Trail::new(source);
        let first = Source::open(self.volume, CWD, source.as_os_str(), follow);
        let first = first.and_then(|source| self.entry(source, parent, name));
        self.walk(first);
    }

    /// Copies the content and the metadata of the directory at `source` to the directory `directory`
    /// of the image.
    pub fn copy_into(&mut self, source: &Path, directory: Ino) {
        self.path = Trail::new(source);
        let first = Source::open(self.volume, CWD, source.as_os_str(), true);
        let first = first.and_then(|source| {
            let copy = Pinned::new(self.volume, directory).map_err(CopyError::copy)?;
            self.enter_existing(source, copy).map(Some)
        });
        self.walk(first);
    }

    fn walk(&mut self, first: Result<Option<Level>, CopyError>) {
        let mut levels: Vec<_> = self.reported(first).flatten().into_iter().collect();
        while !self.is_stopped
            && let Some(level) = levels.last_mut()
        {
            let Some(entry) = level.listing.next() else {
                // Creating its entries has changed the times of the directory.
                let set = set_times(self.volume, level.copy.ino(), &level.metadata);
                self.reported(set.map_err(CopyError::copy));
                self.path.truncate(level.parent_len);
                levels.pop();
                continue;
            };
            let Some(entry) = self.reported(entry.map_err(CopyError::source)) else {
                continue;
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let parent_len = self.path.len();
            self.path.push(OsStr::from_bytes(name));
            let below = self.entry_of(level, name);
            match self.reported(below).flatten() {
                Some(below) => levels.push(Level {
                    parent_len,
                    ..below
                }),
                None => self.path.truncate(parent_len),
            }
        }
    }

    fn entry_of(&mut self, level: &Level, name: &[u8]) -> Result<Option<Level>, CopyError> {
        let parent = level.listing.fd().map_err(CopyError::source)?;
        let source = Source::open(self.volume, parent, OsStr::from_bytes(name), false)?;
        self.entry(source, level.copy.ino(), name)
    }

    /// Copies one file. For a directory, creates only the directory and returns it; the caller copies
    /// its content.
    fn entry(
        &mut self,
        source: Source,
        parent: Ino,
        name: &[u8],
    ) -> Result<Option<Level>, CopyError> {
        let volume = self.volume;
        let present = match volume.lookup(parent, name) {
            Ok(ino) => {
                let kind = volume.metadata(ino).map_err(CopyError::copy)?.kind;
                Some((ino, kind == FileKind::Directory))
            }
            Err(Error::NotFound(_)) => None,
            Err(error) => return Err(CopyError::copy(error)),
        };
        if source.metadata.is_dir() {
            return match present {
                Some((ino, true)) => {
                    let copy = Pinned::new(volume, ino).map_err(CopyError::copy)?;
                    self.enter_existing(source, copy).map(Some)
                }
                Some((_, false)) => Err(CopyError::replaces_file()),
                None => self.directory(source, parent, name).map(Some),
            };
        }
        if present.is_some_and(|(_, is_directory)| is_directory) {
            return Err(CopyError::replaces_directory());
        }
        let identity = (source.metadata.dev(), source.metadata.ino());
        if let Some(first) = self.linked.get(&identity)
            && volume.link_replacing(first.ino(), parent, name).is_ok()
        {
            return Ok(None);
        }
        let copy = self.unnamed(&source, parent)?;
        self.keep(copy.ino(), &source)?;
        volume
            .link_replacing(copy.ino(), parent, name)
            .map_err(CopyError::copy)?;
        if source.metadata.nlink() > 1 {
            self.linked.insert(identity, copy);
        }
        Ok(None)
    }

    /// Creates a directory with the metadata of `source`. If the metadata cannot be set, removes the
    /// new directory.
    fn directory(&mut self, source: Source, parent: Ino, name: &[u8]) -> Result<Level, CopyError> {
        let volume = self.volume;
        let made = volume.make_dir(parent, name, &new(&source.metadata));
        let copy = Pinned::new(volume, made.map_err(CopyError::copy)?.ino);
        let copy = copy.map_err(CopyError::copy)?;
        if let Err(error) = self.keep(copy.ino(), &source) {
            self.report(error);
            let removed = volume.remove_dir(parent, name);
            removed.map_err(CopyError::copy)?;
            let reason = "the directory and its content were not copied";
            return Err(CopyError::refused(io::ErrorKind::Other, reason));
        }
        enter(source, copy)
    }

    /// Sets the metadata of a directory that exists. It is kept if its metadata cannot be set.
    fn enter_existing(&mut self, source: Source, copy: Pinned) -> Result<Level, CopyError> {
        let kept = self.keep(copy.ino(), &source);
        self.reported(kept);
        enter(source, copy)
    }

    /// Sets the metadata of `copy`. Reports all errors but the last, which is returned.
    fn keep(&mut self, copy: Ino, source: &Source) -> Result<(), CopyError> {
        let mut errors = metadata_of::set(self.volume, copy, source);
        let last = errors.pop();
        for error in errors {
            self.report(error);
        }
        last.map_or(Ok(()), Err)
    }

    /// Creates a copy of a file that is not a directory. The copy has no name yet.
    fn unnamed(&mut self, source: &Source, parent: Ino) -> Result<Pinned, CopyError> {
        let metadata = &source.metadata;
        let volume = self.volume;
        let make = |what| {
            let made = volume.make_unnamed(parent, what, &new(metadata))?;
            Pinned::new(volume, made.ino)
        };
        let node = |kind, has_device: bool| Make::Node {
            kind,
            device: has_device.then(|| DeviceNumber {
                major: major(metadata.rdev()),
                minor: minor(metadata.rdev()),
            }),
        };
        let created = match FileType::from_raw_mode(metadata.mode()) {
            FileType::Symlink => {
                let target = readlinkat(&source.file, "", Vec::new());
                let target = target.map_err(CopyError::source)?;
                let target = target.to_bytes();
                make(Make::Symlink { target })
            }
            FileType::CharacterDevice => make(node(FileKind::CharDevice, true)),
            FileType::BlockDevice => make(node(FileKind::BlockDevice, true)),
            FileType::Fifo => make(node(FileKind::Fifo, false)),
            FileType::Socket => make(node(FileKind::Socket, false)),
            _ => make(Make::FILE),
        };
        let copy = created.map_err(CopyError::copy)?;
        if metadata.is_file() {
            read_content(
                volume,
                &source.file,
                copy.ino(),
                &mut self.buffer,
                self.observer,
            )?;
        }
        Ok(copy)
    }

    /// Returns the value. Reports an error.
    fn reported<T>(&mut self, result: Result<T, CopyError>) -> Option<T> {
        result.map_err(|error| self.report(error)).ok()
    }

    fn report(&mut self, error: CopyError) {
        if !self.is_stopped {
            let next = self.observer.failed(self.path.as_path(), error);
            self.is_stopped = next.is_break();
        }
    }
}

fn enter(source: Source, copy: Pinned) -> Result<Level, CopyError> {
    Ok(Level {
        listing: Dir::new(source.file).map_err(CopyError::source)?,
        metadata: source.metadata,
        copy,
        parent_len: 0,
    })
}

/// Returns the attributes with which a copy is created. Only the owner has access to the copy until
/// its metadata is complete.
fn new(metadata: &Metadata) -> NewFile {
    NewFile::new()
        .permissions(if metadata.is_dir() { 0o700 } else { 0o600 })
        .owner(metadata.uid(), metadata.gid())
}
