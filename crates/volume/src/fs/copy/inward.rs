//! Copies a tree of the host into the image.
//!
//! Invariants:
//! 1. Each file of a tree is opened relative to the descriptor of its directory, by a single name, and
//!    no symbolic link is followed. Metadata, attributes and content are read from the descriptor. So
//!    another process that changes the tree cannot make the copy read other files.
//! 2. A new file has no name until its content and metadata are complete. It then gets its name, and
//!    replaces the file that had the name before. An existing directory is kept. Exception: in a copy into an image
//!    that is not used before it is complete ([`CopyIn::into_unused`]), new files have their names from the start.
//! 3. The file that stores the image is not copied into the image.
//!
//! Cost: about 40 bytes for each entry of each directory on the present path. The names of these entries are kept in
//! memory, because entries are copied in the order of their names.

use super::content::{BUFFER_BYTES, Holes, read_content};
use super::error::CopyError;
use super::inward_metadata::{self as metadata_of, Times, set_times};
use super::observer::Observer;
use super::rules::{KeepAll, Rules};
use super::source::Source;
use super::together::Together;
use super::trail::Trail;
use crate::fs::path::Pinned;
use crate::{DeviceNumber, Errno, Error, FileKind, Ino, Make, NewFile, Volume};
use rustix::fs::{CWD, Dir, FileType, major, minor, readlinkat};
use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Copies files of the host into an image.
#[derive(Debug)]
pub struct CopyIn<'a> {
    volume: &'a Volume,
    observer: &'a mut dyn Observer,
    rules: &'a dyn Rules,
    times: Times,
    holes: Holes,
    is_stopped: bool,
    /// The complete copies of files with several hard links, by the device and inode number of the source. A
    /// copy is pinned so that it is not deleted if its name is replaced during the copy.
    linked: HashMap<(u64, u64), Pinned>,
    buffer: Vec<u8>,
    /// The small files of a copy into an image that is not used before it is complete.
    together: Option<Together<'a>>,
    /// The path of the present file, for messages.
    path: Trail,
}

/// A directory that is being copied.
struct Level {
    listing: Dir,
    /// The names that are left, in reverse order of their bytes.
    names: Vec<CString>,
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
            rules: &KeepAll,
            times: Times::All,
            holes: Holes::OfSource,
            is_stopped: false,
            linked: HashMap::new(),
            buffer: vec![0; BUFFER_BYTES],
            together: None,
            path: Trail::default(),
        }
    }

    /// Lets new files have their names before their content is complete. The content of small files can then be written
    /// together, which is much faster. Suitable only for images that are discarded if the copy fails.
    ///
    /// Each block of zeros is then a hole, whether or not it is a hole of the source. So copies of the same content are the
    /// same, on all file systems of the host.
    ///
    /// # Errors
    /// `EROFS`, or an error if a thread cannot be started.
    pub fn into_unused(mut self) -> crate::Result<Self> {
        self.together = Together::new(self.volume)?;
        self.holes = Holes::Zeros;
        Ok(self)
    }

    /// Sets the rules by which the copy differs from its source.
    #[must_use]
    pub fn rules(mut self, rules: &'a dyn Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the access time of each copy to its modification time. Reading a file can change its access time, so two
    /// copies of one tree could otherwise differ.
    #[must_use]
    pub fn without_access_times(mut self) -> Self {
        self.times = Times::Modification;
        self
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
            let Some(name) = level.names.pop() else {
                // Creating its entries has changed the times of the directory.
                let set = set_times(self.volume, level.copy.ino(), &level.metadata, self.times);
                self.reported(set.map_err(CopyError::copy));
                self.path.truncate(level.parent_len);
                levels.pop();
                continue;
            };
            let name = name.to_bytes();
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
        let finished = self.finish_together();
        self.reported(finished);
    }

    /// Returns when the content of all files is in the image.
    fn finish_together(&mut self) -> Result<(), CopyError> {
        match &mut self.together {
            Some(together) => together.finish().map_err(CopyError::copy),
            None => Ok(()),
        }
    }

    fn entry_of(&mut self, level: &Level, name: &[u8]) -> Result<Option<Level>, CopyError> {
        let parent = level.listing.fd().map_err(CopyError::source)?;
        let volume = self.volume;
        let open = || Source::open(volume, parent, OsStr::from_bytes(name), false);
        match self.entry(open()?, level.copy.ino(), name) {
            // While content waits to be written, space is reserved for the worst case. Writing it releases the surplus. Then
            // try again.
            Err(error) if error.is_no_space() && self.together.is_some() => {
                self.finish_together()?;
                self.entry(open()?, level.copy.ino(), name)
            }
            copied => copied,
        }
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
        if self.together.is_some() && self.named(&source, parent, name)? {
            return Ok(None);
        }
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
                Some((_, false)) => Err(CopyError::cannot_replace_file()),
                None => self.directory(source, parent, name).map(Some),
            };
        }
        match present {
            Some((_, true)) => return Err(CopyError::cannot_replace_directory()),
            // The content of the file that is replaced may not be in the image yet.
            Some((_, false)) => self.finish_together()?,
            None => {}
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
        let made = volume.make_dir(parent, name, &self.new_file(&source.metadata));
        let copy = Pinned::new(volume, made.map_err(CopyError::copy)?.ino);
        let copy = copy.map_err(CopyError::copy)?;
        if let Err(error) = self.keep(copy.ino(), &source) {
            self.report(error);
            let removed = volume.remove_dir(parent, name);
            removed.map_err(CopyError::copy)?;
            let reason = "the directory and its content were not copied";
            return Err(CopyError::refused(Errno::IO, reason));
        }
        self.enter(source, copy)
    }

    /// Sets the metadata of a directory that exists. It is kept if its metadata cannot be set.
    fn enter_existing(&mut self, source: Source, copy: Pinned) -> Result<Level, CopyError> {
        let kept = self.keep(copy.ino(), &source);
        self.reported(kept);
        self.enter(source, copy)
    }

    /// Lists the directory `source`, in the order of the names. Reports the errors of single entries.
    fn enter(&mut self, source: Source, copy: Pinned) -> Result<Level, CopyError> {
        let mut listing = Dir::new(source.file).map_err(CopyError::source)?;
        let mut names = Vec::new();
        for entry in &mut listing {
            let Some(entry) = self.reported(entry.map_err(CopyError::source)) else {
                continue;
            };
            let name = entry.file_name();
            let bytes = name.to_bytes();
            if !matches!(bytes, b"." | b"..") && !self.rules.excludes(bytes) {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Level {
            listing,
            names,
            metadata: source.metadata,
            copy,
            parent_len: 0,
        })
    }

    /// Sets the metadata of `copy`. Reports all errors but the last, which is returned.
    fn keep(&mut self, copy: Ino, source: &Source) -> Result<(), CopyError> {
        let errors = metadata_of::set(self.volume, copy, source, self.rules, self.times);
        self.report_all_but_last(errors)
    }

    fn report_all_but_last(&mut self, mut errors: Vec<CopyError>) -> Result<(), CopyError> {
        let last = errors.pop();
        for error in errors {
            self.report(error);
        }
        last.map_or(Ok(()), Err)
    }

    /// Copies a file that is not a directory. The copy has its name and its metadata from the start. Returns false, and
    /// copies nothing, if `source` is a directory, or if another file has the name.
    ///
    /// If a file has several hard links, the first one that is found is copied like a file with one link. It is not
    /// known whether the source contains the others.
    fn named(&mut self, source: &Source, parent: Ino, name: &[u8]) -> Result<bool, CopyError> {
        let (volume, metadata) = (self.volume, &source.metadata);
        if metadata.is_dir() {
            return Ok(false);
        }
        let identity = (metadata.dev(), metadata.ino());
        if let Some(first) = self.linked.get(&identity) {
            match volume.link(first.ino(), parent, name) {
                Ok(_) => return Ok(true),
                Err(error) if error.errno() == Errno::EXIST => return Ok(false),
                // The copy has too many links, so create another copy.
                Err(error) if error.errno() == Errno::MLINK => {}
                Err(error) => return Err(CopyError::copy(error)),
            }
        }
        let new = self
            .new_file(metadata)
            .permissions(metadata_of::permissions_of(metadata));
        let times = metadata_of::times_of(metadata, self.times);
        let make = |what: Make<'_>| volume.make_exactly(parent, name, what, &new, times);
        let copy = match with_make(source, make)? {
            Ok(new) => new.ino,
            Err(error) if error.errno() == Errno::EXIST => return Ok(false),
            Err(error) => return Err(CopyError::copy(error)),
        };
        self.complete(source, copy, parent, name)?;
        if metadata.nlink() > 1 {
            let copy = Pinned::new(volume, copy).map_err(CopyError::copy)?;
            self.linked.insert(identity, copy);
        }
        Ok(true)
    }

    /// Copies the content and the attributes to the new file `copy`, which has the name `name` in `parent`.
    fn complete(
        &mut self,
        source: &Source,
        copy: Ino,
        parent: Ino,
        name: &[u8],
    ) -> Result<(), CopyError> {
        let read = match &mut self.together {
            Some(together) if source.metadata.is_file() => together.add(copy, source)?,
            _ => Some(0),
        };
        if let Some(len_bytes) = read {
            self.observer.copied(len_bytes);
            let errors = metadata_of::set_new(self.volume, copy, source, self.rules);
            return self.report_all_but_last(errors);
        }
        let read = self.read_content(source, copy);
        let done = read.and_then(|()| self.keep(copy, source));
        if done.is_err() {
            // If there was no space, the caller tries again, and needs the space of the incomplete copy.
            let removed = self.volume.unlink(parent, name);
            removed.map_err(CopyError::copy)?;
        }
        done
    }

    /// Creates a copy of a file that is not a directory. The copy has no name yet.
    fn unnamed(&mut self, source: &Source, parent: Ino) -> Result<Pinned, CopyError> {
        let metadata = &source.metadata;
        let volume = self.volume;
        let new = self.new_file(metadata);
        let created = with_make(source, |what| {
            let made = volume.make_unnamed(parent, what, &new)?;
            Pinned::new(volume, made.ino)
        })?;
        let copy = created.map_err(CopyError::copy)?;
        if metadata.is_file() {
            self.read_content(source, copy.ino())?;
        }
        Ok(copy)
    }

    fn read_content(&mut self, source: &Source, copy: Ino) -> Result<(), CopyError> {
        read_content(
            self.volume,
            &source.file,
            copy,
            self.holes,
            &mut self.buffer,
            self.observer,
        )
    }

    /// Returns the attributes with which a copy is created. Only the owner has access to the copy until
    /// its metadata is complete.
    fn new_file(&self, metadata: &Metadata) -> NewFile {
        let (uid, gid) = self.rules.owner(metadata.uid(), metadata.gid());
        NewFile::new()
            .permissions(if metadata.is_dir() { 0o700 } else { 0o600 })
            .owner(uid, gid)
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

/// Calls `make` with the [`Make`] that creates a copy of `source`. `source` must not be a directory.
fn with_make<R>(source: &Source, make: impl FnOnce(Make<'_>) -> R) -> Result<R, CopyError> {
    let metadata = &source.metadata;
    let node = |kind, has_device: bool| Make::Node {
        kind,
        device: has_device.then(|| DeviceNumber {
            major: major(metadata.rdev()),
            minor: minor(metadata.rdev()),
        }),
    };
    Ok(match FileType::from_raw_mode(metadata.mode()) {
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
    })
}
