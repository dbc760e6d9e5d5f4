//! The directories of a new image: finds, creates and removes files by the paths of an archive.
//!
//! Symbolic links in a path are followed inside the image, as chroot(2) does: the root directory is that of the image, and
//! is its own parent. So a path leads to no file of the host. A link at the end of a path is not followed.
//!
//! Creating or removing a file changes the times of its directory. [`Tree::finish`] sets them again.

use super::owners::Owners;
use crate::commands::tar_attributes;
use crate::failure::without_inode;
use larder::fs::copy::Rules;
use larder::{Errno, Error, FileTimes, Ino, Metadata, NewFile, SetAttributes, SetTime, Volume};
use larder_console::{Failure, Result, name};
use std::collections::{BTreeMap, btree_map};
use std::ops::ControlFlow;

/// The directory for files that e2fsck recovers. If it is missing, e2fsck reports an error.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// The tree of a new image.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    pub volume: &'a Volume,
    pub owners: &'a Owners<'a>,
    /// The times that the changed directories get at the end.
    times: BTreeMap<Ino, FileTimes>,
    /// The directory that was used last, and its path.
    last: Option<(Vec<u8>, Ino)>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(volume: &'a Volume, owners: &'a Owners<'a>) -> Self {
        Self {
            volume,
            owners,
            times: BTreeMap::new(),
            last: None,
        }
    }

    /// Returns the directory with the path `names`, and creates it, and the directories before it, if they are missing.
    ///
    /// # Errors
    /// If a file on the path is neither a directory nor a symbolic link to one.
    pub(super) fn directory(&mut self, names: &[&[u8]]) -> Result<Ino> {
        let path = names.join(&b'/');
        if let Some((last, ino)) = &self.last
            && *last == path
        {
            return Ok(*ino);
        }
        let mut ino = Ino::ROOT;
        for (at, name) in names.iter().enumerate() {
            ino = match self.lookup(ino, name)? {
                Some(file) if file.is_dir() => file.ino,
                Some(_) => {
                    let names = names.get(..=at).unwrap_or_default();
                    self.find_directory(names)?.ok_or_else(|| {
                        let path = name::escaped(&names.join(&b'/'));
                        Failure::new(format!("{path} is not a directory in the image"))
                    })?
                }
                None => self.missing_directory(ino, name)?,
            };
        }
        self.keep_times(ino)?;
        self.last = Some((path, ino));
        Ok(ino)
    }

    /// Returns the file with the path `names`; `None` if it does not exist.
    pub(super) fn find(&self, names: &[&[u8]]) -> Result<Option<Metadata>> {
        self.found(self.volume.resolve_no_follow(&names.join(&b'/')))
    }

    /// Returns the directory with the path `names`, which can be a symbolic link to it; `None` if it does not exist.
    pub(super) fn find_directory(&self, names: &[&[u8]]) -> Result<Option<Ino>> {
        let found = self.found(self.volume.resolve(&names.join(&b'/')))?;
        Ok(found.filter(Metadata::is_dir).map(|file| file.ino))
    }

    /// Returns the file `name` in the directory `parent`; `None` if it does not exist.
    pub(super) fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Option<Metadata>> {
        self.found(self.volume.lookup(parent, name))
    }

    fn found(&self, found: larder::Result<Ino>) -> Result<Option<Metadata>> {
        match found.and_then(|ino| self.volume.metadata(ino)) {
            Ok(file) => Ok(Some(file)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) if error.errno() == Errno::NOTDIR => Ok(None),
            Err(error) => Err(of_volume(&error)),
        }
    }

    /// Creates a directory that has no entry in the archive.
    fn missing_directory(&mut self, parent: Ino, name: &[u8]) -> Result<Ino> {
        self.keep_times(parent)?;
        let (uid, gid) = self.owners.owner(0, 0);
        let new = NewFile::new().permissions(0o755).owner(uid, gid);
        let made = self.volume.make_dir(parent, name, &new);
        let ino = made.map_err(|error| of_volume(&error))?.ino;
        self.remove_lists(ino)?;
        // The group and the set-group-ID bit may have been inherited.
        let attributes = SetAttributes {
            gid: Some(gid),
            permissions: Some(0o755),
            ..SetAttributes::default()
        };
        self.set_attributes(ino, &attributes)?;
        Ok(ino)
    }

    /// Removes the access control lists that a file had before, or has inherited.
    pub(super) fn remove_lists(&self, ino: Ino) -> Result<()> {
        let mut names = self.volume.xattrs(ino).map_err(|error| of_volume(&error))?;
        names.retain(|name| tar_attributes::list_key(name).is_some());
        for name in names {
            let removed = self.volume.remove_xattr(ino, &name);
            removed.map_err(|error| of_volume(&error))?;
        }
        Ok(())
    }

    pub(super) fn set_attributes(&self, ino: Ino, attributes: &SetAttributes) -> Result<()> {
        let set = self.volume.set_attributes(ino, attributes);
        set.map(drop).map_err(|error| of_volume(&error))
    }

    /// Gives the directory `ino` these times in [`Tree::finish`].
    pub(super) fn set_times(&mut self, ino: Ino, times: FileTimes) {
        self.times.insert(ino, times);
    }

    /// Records the present times of the directory `ino`, which will change, for [`Tree::finish`]. If times are already
    /// recorded for it, does nothing.
    fn keep_times(&mut self, ino: Ino) -> Result<()> {
        if let btree_map::Entry::Vacant(entry) = self.times.entry(ino) {
            let present = self.volume.metadata(ino);
            let present = present.map_err(|error| of_volume(&error))?;
            entry.insert(FileTimes {
                accessed: present.accessed,
                modified: present.modified,
            });
        }
        Ok(())
    }

    /// Removes `file`, which has the name `name` in `parent`, and everything in it.
    ///
    /// # Errors
    /// If it is the directory of e2fsck.
    pub(super) fn remove(&mut self, parent: Ino, name: &[u8], file: &Metadata) -> Result<()> {
        if parent == Ino::ROOT && name == LOST_AND_FOUND {
            return Err(Failure::new("e2fsck needs the directory lost+found"));
        }
        self.keep_times(parent)?;
        // The path in `last` may lead through this file, which can be a symbolic link.
        self.last = None;
        if !file.is_dir() {
            let removed = self.volume.unlink(parent, name);
            return removed.map(drop).map_err(|error| of_volume(&error));
        }
        let mut levels = vec![(parent, name.to_vec(), file.ino, self.names(file.ino)?)];
        while let Some((parent, name, ino, names)) = levels.last_mut() {
            let (parent, ino) = (*parent, *ino);
            let Some(below) = names.pop() else {
                let removed = self.volume.remove_dir(parent, name);
                removed.map_err(|error| of_volume(&error))?;
                self.times.remove(&ino);
                levels.pop();
                continue;
            };
            match self.lookup(ino, &below)? {
                Some(file) if file.is_dir() => {
                    let names = self.names(file.ino)?;
                    levels.push((ino, below, file.ino, names));
                }
                _ => {
                    let removed = self.volume.unlink(ino, &below);
                    removed.map_err(|error| of_volume(&error))?;
                }
            }
        }
        Ok(())
    }

    /// Removes everything in the directory `ino`, except the directory of e2fsck.
    pub(super) fn empty(&mut self, ino: Ino) -> Result<()> {
        for name in self.names(ino)? {
            if ino == Ino::ROOT && name == LOST_AND_FOUND {
                continue;
            }
            if let Some(file) = self.lookup(ino, &name)? {
                self.remove(ino, &name, &file)?;
            }
        }
        Ok(())
    }

    /// Returns the names in the directory `ino`.
    fn names(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        let listed = self.volume.read_dir(ino, 0, &mut |entry| {
            if !matches!(entry.name, b"." | b"..") {
                names.push(entry.name.to_vec());
            }
            ControlFlow::Continue(())
        });
        listed.map_err(|error| of_volume(&error))?;
        Ok(names)
    }

    /// Sets the times of all changed directories.
    pub(super) fn finish(&mut self) -> Result<()> {
        for (ino, times) in std::mem::take(&mut self.times) {
            let attributes = SetAttributes {
                atime: Some(SetTime::To(times.accessed)),
                mtime: Some(SetTime::To(times.modified)),
                ..SetAttributes::default()
            };
            self.set_attributes(ino, &attributes)?;
        }
        self.last = None;
        Ok(())
    }
}

/// The hint for an image that is full.
const NO_SPACE: &str = "give a larger --size, or --size auto for one that fits the content";

/// Returns the failure for an error of the new image.
pub(super) fn of_volume(error: &Error) -> Failure {
    let message = without_inode(error);
    match error {
        Error::Ext4(larder_ext4::Error::NoSpace | larder_ext4::Error::NoInodes) => full(message),
        _ => Failure::new(message),
    }
}

/// Returns the failure of an operation for which the new image has no space.
pub(super) fn full(message: impl Into<String>) -> Failure {
    Failure::with_hint(message, NO_SPACE)
}

/// Returns whether an operation has failed because the new image is full.
pub(super) fn is_full(failure: &Failure) -> bool {
    matches!(failure, Failure::Message { hint: Some(hint), .. } if hint == NO_SPACE)
}

/// Splits a path of an archive into its names.
///
/// # Errors
/// If a name is `..`, which can lead out of the image.
pub(super) fn names(path: &[u8]) -> Result<Vec<&[u8]>> {
    let names = path.split(|&byte| byte == b'/');
    let names: Vec<_> = names.filter(|name| !matches!(*name, b"" | b".")).collect();
    if names.contains(&&b".."[..]) {
        return Err(Failure::new("the path contains '..'"));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_split_without_empty_names() {
        let split = |path: &str| names(path.as_bytes()).map(|names| names.join(&b'/')).ok();
        assert_eq!(split("./a//b/./c/"), Some(b"a/b/c".to_vec()));
        assert_eq!(split("/etc/passwd"), Some(b"etc/passwd".to_vec()));
        assert_eq!(split("/"), Some(Vec::new()));
        for path in ["..", "../x", "a/../b", "a/.."] {
            assert_eq!(split(path), None, "{path}");
        }
        assert_eq!(split("..a/b.."), Some(b"..a/b..".to_vec()));
    }
}
