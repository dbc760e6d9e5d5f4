//! Operations that create, change and remove names.
//!
//! Model: `do_mkdirat`, `do_unlinkat`, `do_rmdir`, `do_renameat2`, `do_linkat` and `do_symlinkat`.
//! Each of them has its own rules for a path that ends in `.`, `..` or a slash.

use super::listing::{DirEntry, ReadDir, entered_twice};
use super::path::{Fs, Last, Pinned, Place, path_bytes};
use crate::{Errno, Error, FileKind, Ino, RenameFlags};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The permissions of a new directory, before the umask is applied.
const DIRECTORY_PERMISSIONS: u16 = 0o777;

/// The permissions that mkdir(2) sets: all but the set-id bits.
const PERMISSIONS_OF_MKDIR: u16 = 0o1777;

impl Fs {
    /// Creates the directory `path`, whose parent must exist.
    ///
    /// # Errors
    /// The same as for [`std::fs::create_dir`].
    pub fn create_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.create_dir_with(path, DIRECTORY_PERMISSIONS)
    }

    /// Creates the directory `path` like [`Fs::create_dir`], with `permissions`, from which the umask is removed. As for
    /// mkdir(2), the set-id bits of `permissions` are ignored, and the set-group-id bit of the parent is inherited.
    ///
    /// # Errors
    /// The same as for [`std::fs::create_dir`].
    pub fn create_dir_with(&self, path: impl AsRef<Path>, permissions: u16) -> io::Result<()> {
        let path = path_bytes(path.as_ref())?;
        let place = self.place(path, |_| Errno::EXIST)?;
        let new = self.new_file(permissions & PERMISSIONS_OF_MKDIR);
        let directory = place.directory.ino();
        self.volume().make_dir(directory, place.name, &new)?;
        Ok(())
    }

    /// Creates the directory `path` and each parent that is missing.
    ///
    /// # Errors
    /// The same as for [`std::fs::create_dir_all`].
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut missing = Vec::new();
        for path in path.as_ref().ancestors() {
            if path.as_os_str().is_empty() {
                break;
            }
            match self.create_dir(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => missing.push(path),
                created => {
                    self.ok_if_directory(path, created)?;
                    break;
                }
            }
        }
        for path in missing.into_iter().rev() {
            self.ok_if_directory(path, self.create_dir(path))?;
        }
        Ok(())
    }

    /// Returns success if `path` is a directory, otherwise `created`.
    pub(super) fn ok_if_directory(&self, path: &Path, created: io::Result<()>) -> io::Result<()> {
        match created {
            Err(_) if self.metadata(path).is_ok_and(|found| found.is_dir()) => Ok(()),
            created => created,
        }
    }

    /// Removes the name `path` of a file that is not a directory. A symbolic link is not followed.
    ///
    /// # Errors
    /// The same as for [`std::fs::remove_file`].
    pub fn remove_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path_bytes(path.as_ref())?;
        let place = self.place(path, |_| Errno::ISDIR)?;
        if place.has_slash {
            self.check_directory_at(&place)?;
            return Err(Error::Errno(Errno::ISDIR).into());
        }
        self.volume().unlink(place.directory.ino(), place.name)?;
        Ok(())
    }

    /// Removes the empty directory `path`.
    ///
    /// # Errors
    /// The same as for [`std::fs::remove_dir`].
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path_bytes(path.as_ref())?;
        let place = self.place(path, not_removable)?;
        self.volume()
            .remove_dir(place.directory.ino(), place.name)?;
        Ok(())
    }

    /// Removes the directory `path` with everything in it. A symbolic link is removed, and not
    /// followed.
    ///
    /// # Errors
    /// The same as for [`std::fs::remove_dir_all`]. The first error ends the removal.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let volume = self.volume();
        let place = self.place(path_bytes(path.as_ref())?, not_removable)?;
        let parent = place.directory.ino();
        let pinned = Pinned::resolve(volume, || volume.lookup(parent, place.name))?;
        if volume.metadata(pinned.ino())?.is_symlink() && !place.has_slash {
            volume.unlink(parent, place.name)?;
            return Ok(());
        }
        pinned.check_directory(volume)?;
        let mut entered = HashSet::from([pinned.ino()]);
        let mut levels = vec![Level {
            parent,
            name: OsString::from_vec(place.name.to_vec()),
            listing: ReadDir::new(volume, pinned, PathBuf::new()),
        }];
        while let Some(level) = levels.last_mut() {
            let Some(entry) = level.listing.next() else {
                unless_missing(volume.remove_dir(level.parent, level.name.as_bytes()))?;
                levels.pop();
                continue;
            };
            let entry = entry?;
            let (parent, name) = (level.listing.ino(), entry.file_name());
            let listing = match listing_of(&entry) {
                Ok(Some(listing)) => listing,
                Ok(None) => {
                    unless_missing(volume.unlink(parent, name.as_bytes()))?;
                    continue;
                }
                // Another thread has removed the directory first.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if !entered.insert(listing.ino()) {
                return Err(entered_twice(listing.ino()));
            }
            levels.push(Level {
                parent,
                name: name.to_owned(),
                listing,
            });
        }
        Ok(())
    }

    /// Renames the file `from` to `to`. A file that has the new name is replaced.
    ///
    /// # Errors
    /// The same as for [`std::fs::rename`].
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from, to) = (path_bytes(from.as_ref())?, path_bytes(to.as_ref())?);
        let (from, to) = (self.place_of_any(from)?, self.place_of_any(to)?);
        from.check_is_name(|_| Errno::BUSY)?;
        to.check_is_name(|_| Errno::BUSY)?;
        from.check_length()?;
        if self.present(&from)?.is_none() {
            return Err(Error::Errno(Errno::NOENT).into());
        }
        to.check_length()?;
        if from.has_slash || to.has_slash {
            self.check_directory_at(&from)?;
        }
        self.volume().rename(
            from.directory.ino(),
            from.name,
            to.directory.ino(),
            to.name,
            RenameFlags::empty(),
        )?;
        Ok(())
    }

    /// Adds the name `link` to the file `original`, which must not be a directory. If `original` is
    /// a symbolic link, adds the name to the link itself.
    ///
    /// # Errors
    /// The same as for [`std::fs::hard_link`].
    pub fn hard_link(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
        let original = self.pin(original.as_ref(), Last::Keep)?;
        let place = self.new_name(link.as_ref())?;
        let directory = place.directory.ino();
        self.volume().link(original.ino(), directory, place.name)?;
        Ok(())
    }

    /// Creates the symbolic link `link` with the target `original`, which need not exist.
    ///
    /// # Errors
    /// The same as for [`std::os::unix::fs::symlink`].
    pub fn symlink(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
        let target = path_bytes(original.as_ref())?;
        let place = self.new_name(link.as_ref())?;
        let directory = place.directory.ino();
        let new = self.new_file(0o777);
        self.volume().symlink(directory, place.name, target, &new)?;
        Ok(())
    }

    /// Returns the target of the symbolic link `path`.
    ///
    /// # Errors
    /// The same as for [`std::fs::read_link`].
    pub fn read_link(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let pinned = self.pin(path.as_ref(), Last::Keep)?;
        let target = self.volume().read_link(pinned.ino())?;
        Ok(PathBuf::from(OsString::from_vec(target)))
    }

    /// Returns the place for the name of a new file that is not a directory. Returns an error if the name
    /// exists.
    fn new_name<'p>(&self, path: &'p Path) -> io::Result<Place<'p>> {
        let place = self.place(path_bytes(path)?, |_| Errno::EXIST)?;
        if self.present(&place)?.is_some() {
            return Err(Error::Errno(Errno::EXIST).into());
        }
        if place.has_slash {
            return Err(Error::Errno(Errno::NOENT).into());
        }
        Ok(place)
    }

    /// Returns an error if the name does not exist, or is not that of a directory.
    fn check_directory_at(&self, place: &Place<'_>) -> io::Result<()> {
        let volume = self.volume();
        let lookup = || volume.lookup(place.directory.ino(), place.name);
        Pinned::resolve(volume, lookup)?.check_directory(volume)
    }
}

/// Returns the listing of a directory, or `None` for another file.
fn listing_of(entry: &DirEntry) -> io::Result<Option<ReadDir>> {
    let is_directory = entry.kind()? == FileKind::Directory;
    is_directory.then(|| ReadDir::enter(entry)).transpose()
}

/// A directory that is being emptied.
struct Level {
    parent: Ino,
    name: OsString,
    listing: ReadDir,
}

/// Returns the error of removing a directory whose path does not end in a name.
fn not_removable(last: &[u8]) -> Errno {
    match last {
        b"." => Errno::INVAL,
        b".." => Errno::NOTEMPTY,
        _ => Errno::BUSY,
    }
}

/// Ignores the error if another thread has removed the name first.
fn unless_missing(removed: Result<Ino, Error>) -> Result<(), Error> {
    match removed {
        Ok(_) | Err(Error::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
