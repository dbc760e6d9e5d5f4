//! Options for opening a file, and the open itself.

use super::file::{Access, File};
use super::path::{Fs, Last, Pinned, path_bytes};
use crate::{Errno, Error, FileKind, Ino, OpenFile, SetAttributes};
use std::borrow::Cow;
use std::io;
use std::path::Path;

/// The maximum number of symbolic links at the end of a path that are followed to create a file.
const MAX_LINKS: u32 = 40;

/// Options of [`Fs::open_with`]. They have the same meaning as those of [`std::fs::OpenOptions`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let image = dir.path().join("disk.img");
/// # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
/// use larder::{FileOptions, OpenOptions};
/// use std::io::Write;
///
/// let fs = OpenOptions::new().read_write(true).open(&image)?;
/// let mut log = fs.open_with("/log", FileOptions::new().append(true).create(true))?;
/// log.write_all(b"line\n")?;
/// # fs.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the options are independent")]
pub struct FileOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u16,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
        }
    }
}

impl FileOptions {
    /// Returns options of which none is set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the file can be read.
    #[must_use]
    pub fn read(self, read: bool) -> Self {
        Self { read, ..self }
    }

    /// Sets whether the file can be written.
    #[must_use]
    pub fn write(self, write: bool) -> Self {
        Self { write, ..self }
    }

    /// Sets whether each write is at the end of the file. Such writes do not overwrite each other,
    /// even through different [`File`]s.
    #[must_use]
    pub fn append(self, append: bool) -> Self {
        Self { append, ..self }
    }

    /// Sets whether a file that exists becomes empty. Requires write access.
    #[must_use]
    pub fn truncate(self, truncate: bool) -> Self {
        Self { truncate, ..self }
    }

    /// Sets whether a file that does not exist is created. Requires write access.
    #[must_use]
    pub fn create(self, create: bool) -> Self {
        Self { create, ..self }
    }

    /// Sets whether the file must be created: the open fails if the name exists. Requires write
    /// access. `create` and `truncate` then have no effect.
    #[must_use]
    pub fn create_new(self, create_new: bool) -> Self {
        Self { create_new, ..self }
    }

    /// Sets the permission bits of a new file, from which the umask is removed. Default: 0666.
    #[must_use]
    pub fn mode(self, mode: u16) -> Self {
        Self { mode, ..self }
    }

    /// Returns the access, or an error if the options contradict each other.
    fn access(self) -> io::Result<Access> {
        let access = Access {
            read: self.read,
            write: self.write || self.append,
            append: self.append,
        };
        let changes = self.truncate || self.create || self.create_new;
        let truncates_appended = self.append && self.truncate && !self.create_new;
        let is_valid = access.write || (access.read && !changes);
        if is_valid && !truncates_appended {
            Ok(access)
        } else {
            Err(Error::Errno(Errno::INVAL).into())
        }
    }
}

impl Fs {
    /// Opens the regular file at `path` with `options`.
    ///
    /// # Errors
    /// The same as for [`std::fs::OpenOptions::open`], and `IsADirectory` for any access to a
    /// directory. As on Linux, an immutable file cannot be opened for writing, and an append-only file
    /// only with [`append`](FileOptions::append).
    pub fn open_with(&self, path: impl AsRef<Path>, options: FileOptions) -> io::Result<File> {
        let access = options.access()?;
        let path = path.as_ref();
        let open = if options.create || options.create_new {
            self.open_or_create(path_bytes(path)?, options, access)?
        } else {
            let pinned = self.pin(path, Last::Follow)?;
            self.open_inode(pinned.ino(), access)?
        };
        let file = File::new(self.volume(), open, access);
        if options.truncate && !options.create_new {
            let empty = SetAttributes {
                size_bytes: Some(0),
                ..SetAttributes::default()
            };
            self.volume().set_attributes(file.ino(), &empty)?;
        }
        Ok(file)
    }

    fn open_inode(&self, ino: Ino, access: Access) -> io::Result<OpenFile> {
        let open = self.volume().open_file(ino)?;
        if access.write {
            if !self.volume().is_read_write() {
                return Err(Error::from(larder_ext4::Error::ReadOnly(None)).into());
            }
            self.volume().check_open_for_writing(ino, access.append)?;
        }
        Ok(open)
    }

    /// Opens the file at `path` with `access`. Creates the file if it does not exist.
    fn open_or_create(
        &self,
        path: &[u8],
        options: FileOptions,
        access: Access,
    ) -> io::Result<OpenFile> {
        let volume = self.volume();
        let mut path = Cow::Borrowed(path);
        let mut links = 0;
        loop {
            let is_new = options.create_new;
            let place = self.place(&path, |_| if is_new { Errno::EXIST } else { Errno::ISDIR })?;
            if place.has_slash {
                return Err(Error::Errno(Errno::ISDIR).into());
            }
            let directory = place.directory.ino();
            let Some(ino) = self.present(&place)? else {
                let new = self.new_file(options.mode);
                match volume.create(directory, place.name, &new) {
                    // Another thread created a file with this name.
                    Err(error) if error.errno() == Errno::EXIST && !options.create_new => continue,
                    created => {
                        let ino = created?.ino;
                        let open = self.open_inode(ino, access);
                        if self.present(&place)? == Some(ino) {
                            return open;
                        }
                        // Another thread removed the new file before it was opened.
                        continue;
                    }
                }
            };
            if options.create_new {
                return Err(Error::Errno(Errno::EXIST).into());
            }
            let pinned = Pinned::new(volume, ino);
            if self.present(&place)? != Some(ino) {
                continue;
            }
            let pinned = pinned?;
            if volume.metadata(ino)?.kind != FileKind::Symlink {
                return self.open_inode(pinned.ino(), access);
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(Error::Errno(Errno::LOOP).into());
            }
            // The target of a link is relative to the directory of the link.
            let target = volume.read_link(ino)?;
            let mut next = Vec::new();
            if !target.starts_with(b"/") {
                let name_at = path.len() - place.name.len();
                next.extend_from_slice(&path[..name_at]);
            }
            next.extend_from_slice(&target);
            drop(place);
            path = Cow::Owned(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradicting_options_are_invalid() {
        let new = FileOptions::new;
        for options in [
            new(),
            new().read(true).create(true),
            new().read(true).truncate(true),
            new().append(true).truncate(true),
        ] {
            let error = options.access().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{options:?}");
        }
        for options in [
            new().read(true),
            new().write(true).truncate(true).create(true),
            new().append(true).create_new(true).truncate(true),
        ] {
            assert!(options.access().is_ok(), "{options:?}");
        }
    }
}
