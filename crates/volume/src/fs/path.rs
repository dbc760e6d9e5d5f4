//! The handle of an image, and the resolution of paths.
//!
//! Model: `filename_lookup` and `filename_parentat`. An operation on a file resolves the whole path.
//! An operation on a name resolves the path of the directory. If the path ends in `.`, `..` or a slash,
//! the error depends on the operation, as in the kernel.

use super::other_format::other_format;
use crate::file::Held;
use crate::lookup::MAX_NAME_BYTES;
use crate::{Errno, Error, Ino, NewFile, OpenOptions, Result, Volume};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The permission bits that new files do not get, as with most users' umask.
const UMASK: u16 = 0o022;

/// An open image, whose files are accessed by path.
///
/// A clone refers to the same image. The image stays open until all clones, and all
/// [`File`](super::File)s and iterators, are dropped. Call [`Fs::close`] after writing: a drop also
/// writes all changes, but can only log an error.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let image = dir.path().join("disk.img");
/// # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
/// use larder::OpenOptions;
///
/// let fs = OpenOptions::new().read_write(true).open(&image)?;
/// fs.create_dir_all("/etc/app")?;
/// fs.write("/etc/app/config", "key = value\n")?;
/// fs.rename("/etc/app/config", "/etc/app/config.old")?;
/// assert_eq!(fs.read_to_string("/etc/app/config.old")?, "key = value\n");
/// fs.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Fs {
    volume: Arc<Volume>,
    /// The owner and the umask of new files.
    new: NewFile,
}

/// Opens the image at `path` for reading. [`OpenOptions::open`] opens it with options.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let image = dir.path().join("disk.img");
/// # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
/// let fs = larder::open(&image)?;
/// for entry in fs.read_dir("/")? {
///     println!("{}", entry?.path().display());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The same as for [`Volume::open`].
pub fn open(path: impl AsRef<Path>) -> io::Result<Fs> {
    OpenOptions::new().open(path)
}

impl OpenOptions {
    /// Opens the image at `path` with these options.
    ///
    /// # Errors
    /// The same as for [`Volume::open`], and [`Error::OtherFormat`].
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<Fs> {
        let path = path.as_ref();
        match Volume::open(path, self) {
            Err(error @ Error::Ext4(larder_ext4::Error::NotExt)) if self.offset_bytes == 0 => {
                let error = other_format(path).map_or(error, Error::OtherFormat);
                Err(error.into())
            }
            opened => Ok(Fs::new(opened?)),
        }
    }
}

impl Fs {
    /// Returns the files of `volume`, which is a [`Volume`] or an `Arc<Volume>`.
    #[must_use]
    pub fn new(volume: impl Into<Arc<Volume>>) -> Self {
        Self {
            volume: volume.into(),
            new: NewFile {
                permissions: 0,
                umask: UMASK,
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
            },
        }
    }

    /// Sets the owner and the group of new files. Default: the effective user and group of the
    /// process.
    #[must_use]
    pub fn with_owner(mut self, uid: u32, gid: u32) -> Self {
        self.new = self.new.owner(uid, gid);
        self
    }

    /// Sets the permission bits that new files do not get. Default: 022.
    #[must_use]
    pub fn with_umask(mut self, umask: u16) -> Self {
        self.new = self.new.umask(umask);
        self
    }

    /// Returns the volume, for operations on inodes and for statistics.
    #[must_use]
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Makes all changes durable, like syncfs(2).
    ///
    /// # Errors
    /// The same as for [`Volume::sync`].
    pub fn sync_all(&self) -> io::Result<()> {
        Ok(self.volume.sync()?)
    }

    /// Writes all changes and marks the image as clean. After that, nothing can be written.
    ///
    /// # Errors
    /// The same as for [`Volume::close`].
    pub fn close(&self) -> io::Result<()> {
        Ok(self.volume.close()?)
    }

    /// Returns the attributes of a new file with `permissions`, before the umask is applied.
    pub(super) fn new_file(&self, permissions: u16) -> NewFile {
        self.new.permissions(permissions)
    }

    /// Resolves `path`, and pins the inode.
    #[inline]
    pub(super) fn pin(&self, path: &Path, last: Last) -> io::Result<Pinned> {
        let path = path_bytes(path)?;
        let is_directory = path.ends_with(b"/");
        let pinned = Pinned::resolve(&self.volume, || match last {
            Last::Keep if !is_directory => self.volume.resolve_no_follow(path),
            _ => self.volume.resolve(path),
        })?;
        if is_directory {
            pinned.check_directory(&self.volume)?;
        }
        Ok(pinned)
    }

    /// Resolves the directory of `path`, and pins it. If `path` does not end in a name, returns the
    /// error of [`Place::check_is_name`].
    pub(super) fn place<'p>(
        &self,
        path: &'p [u8],
        no_name: impl FnOnce(&[u8]) -> Errno,
    ) -> io::Result<Place<'p>> {
        let place = self.place_of_any(path)?;
        place.check_is_name(no_name)?;
        place.check_length()?;
        Ok(place)
    }

    /// Resolves the directory of `path`, and pins it. The last component of `path` can be `.`, `..`,
    /// or empty.
    pub(super) fn place_of_any<'p>(&self, path: &'p [u8]) -> io::Result<Place<'p>> {
        let (directory, name, has_slash) = split(path);
        let directory = Pinned::resolve(&self.volume, || self.volume.resolve(directory))?;
        directory.check_directory(&self.volume)?;
        Ok(Place {
            directory,
            name,
            has_slash,
        })
    }

    /// Returns the inode with the name, or `None` if the name does not exist.
    pub(super) fn present(&self, place: &Place<'_>) -> io::Result<Option<Ino>> {
        match self.volume.lookup(place.directory.ino(), place.name) {
            Ok(ino) => Ok(Some(ino)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a symbolic link at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// The link is followed.
    Follow,
    /// The link itself is the file. A link before a slash is followed.
    Keep,
}

/// An inode that is not deleted while this value exists. On a volume that is opened for reading, no
/// inode is deleted.
#[derive(Debug)]
pub(super) struct Pinned {
    ino: Ino,
    _held: Option<Held>,
}

impl Pinned {
    /// Pins `ino`, which must not be deleted before the call.
    #[inline]
    pub(super) fn new(volume: &Volume, ino: Ino) -> Result<Self> {
        let held = volume.is_read_write();
        let held = held.then(|| Held::new(&volume.writer, ino)).transpose()?;
        Ok(Self { ino, _held: held })
    }

    /// Pins the inode that `resolve` returns. If a deletion has begun meanwhile, calls `resolve` again: the inode may
    /// have been deleted before it was pinned, and its number may belong to another file.
    #[inline]
    pub(super) fn resolve(volume: &Volume, resolve: impl Fn() -> Result<Ino>) -> io::Result<Self> {
        if !volume.is_read_write() {
            let ino = resolve()?;
            return Ok(Self { ino, _held: None });
        }
        loop {
            let deletions = volume.inodes.deletions();
            let ino = resolve()?;
            let pinned = Self::new(volume, ino);
            if volume.inodes.deletions() == deletions || resolve()? == ino {
                return Ok(pinned?);
            }
        }
    }

    pub(super) fn ino(&self) -> Ino {
        self.ino
    }

    pub(super) fn check_directory(&self, volume: &Volume) -> io::Result<()> {
        if volume.inode(self.ino)?.is_directory() {
            return Ok(());
        }
        Err(Error::from(larder_ext4::Error::NotDirectory(self.ino)).into())
    }
}

/// A name in a directory. A file with this name need not exist.
#[derive(Debug)]
pub(super) struct Place<'p> {
    pub(super) directory: Pinned,
    pub(super) name: &'p [u8],
    /// Whether the path has a slash after the name.
    pub(super) has_slash: bool,
}

impl Place<'_> {
    /// If the path does not end in a name, returns the error that `no_name` returns for the last
    /// component, which is `.`, `..`, or empty (for the root).
    pub(super) fn check_is_name(&self, no_name: impl FnOnce(&[u8]) -> Errno) -> io::Result<()> {
        match self.name {
            b"" | b"." | b".." => Err(Error::Errno(no_name(self.name)).into()),
            _ => Ok(()),
        }
    }

    /// Returns an error if the name is too long.
    pub(super) fn check_length(&self) -> io::Result<()> {
        if self.name.len() > MAX_NAME_BYTES {
            return Err(Error::Errno(Errno::NAMETOOLONG).into());
        }
        Ok(())
    }
}

/// Returns the bytes of `path`, or an error if it is empty or contains a NUL byte.
#[inline]
pub(super) fn path_bytes(path: &Path) -> io::Result<&[u8]> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(Error::not_found(bytes).into());
    }
    if bytes.contains(&0) {
        return Err(Error::NulByte.into());
    }
    Ok(bytes)
}

/// Returns `source` with the path to which it applies.
pub(super) fn at(path: &Path, source: io::Error) -> io::Error {
    let (path, what) = (path.to_owned(), String::new());
    io::Error::new(source.kind(), Error::At { path, what, source })
}

/// Splits a path before its last name. Returns the path of the directory, the name, and whether the
/// name is followed by a slash. The name of the root is empty.
fn split(path: &[u8]) -> (&[u8], &[u8], bool) {
    let is_slash = |byte: &u8| *byte == b'/';
    let end = path.iter().rposition(|byte| !is_slash(byte));
    let end = end.map_or(0, |last| last + 1);
    let (path, slashes) = path.split_at(end);
    let start = path.iter().rposition(is_slash).map_or(0, |at| at + 1);
    let (directory, name) = path.split_at(start);
    (directory, name, !slashes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_block::MemoryDevice;
    use larder_testkit::e2fsprogs::new_image;
    use larder_testkit::requirement::{Requirement, skip};
    use std::cell::Cell;

    #[test]
    fn reused_inode_number_is_not_pinned() {
        if skip(&[Requirement::Tool("mke2fs")]) {
            return;
        }
        let device = Arc::new(MemoryDevice::new(new_image("-t ext4", "16M").unwrap()));
        let options = OpenOptions::new().read_write(true);
        let fs = Fs::new(Volume::open_device(device, &options).unwrap());
        let volume = fs.volume();
        fs.write("/file", "").unwrap();
        let calls = Cell::new(0);
        let pinned = Pinned::resolve(volume, || {
            let ino = volume.resolve(b"/file")?;
            calls.set(calls.get() + 1);
            fs.remove_file("/file").unwrap();
            fs.write("/other", "").unwrap();
            assert_eq!(volume.resolve(b"/other")?, ino);
            Ok(ino)
        });
        assert_eq!(pinned.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(calls.get(), 1);
        // Without a deletion, one call is enough.
        Pinned::resolve(volume, || {
            calls.set(calls.get() + 1);
            fs.write("/third", "").unwrap();
            volume.resolve(b"/other")
        })
        .unwrap();
        assert_eq!(calls.get(), 2);
    }

    #[test]
    fn path_is_split_before_its_last_name() {
        for (path, directory, name, has_slash) in [
            ("/etc/passwd", "/etc/", "passwd", false),
            ("etc//new//", "etc//", "new", true),
            ("new", "", "new", false),
            ("/", "", "", true),
            ("/etc/..", "/etc/", "..", false),
        ] {
            let expected = (directory.as_bytes(), name.as_bytes(), has_slash);
            assert_eq!(split(path.as_bytes()), expected, "{path}");
        }
    }
}
