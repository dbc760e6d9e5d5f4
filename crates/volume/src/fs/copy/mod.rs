//! Copies of trees between an image and the host.
//!
//! [`Fs::copy_in`] and [`Fs::copy_out`] stop at the first error. A program that shows its progress, or
//! that continues after errors, uses [`CopyIn`] and [`CopyOut`] with an [`Observer`].
//!
//! A file appears completely or not at all: it has no name until its content and metadata are
//! complete. It then replaces the file that had its name. On the host, the copy of a special file, and
//! of any file on a file system without `O_TMPFILE`, has a temporary name until then.
//!
//! Metadata of symbolic links and of special files of the host is accessed through `/proc/self/fd`.

mod content;
mod descriptor;
mod error;
mod inward;
mod inward_metadata;
mod observer;
mod outward;
mod outward_metadata;
mod rules;
mod source;
mod together;
mod trail;
mod unfinished;

pub use content::{
    BUFFER_BYTES, data_run, has_zero_block, nonzero_bytes, write_content, write_except_zeros,
};
pub use error::CopyError;
pub use inward::CopyIn;
pub use observer::Observer;
pub use outward::CopyOut;
pub use rules::{Rules, attribute_value};

use super::path::{Fs, Last, at, path_bytes};
use crate::Errno;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs::DirBuilder;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Stops a copy at its first error.
#[derive(Debug, Default)]
struct FirstError(Option<io::Error>);

impl Observer for FirstError {
    fn copied(&mut self, _len_bytes: u64) {}

    fn failed(&mut self, path: &Path, error: CopyError) -> ControlFlow<()> {
        self.0 = Some(error.at(path));
        ControlFlow::Break(())
    }
}

impl FirstError {
    fn result(self) -> io::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

impl Fs {
    /// Copies the file or the tree at `from` on the host to `to` in the image, with owners,
    /// permissions, times, extended attributes, hard links, holes and special files.
    ///
    /// If `from` is a directory, its entries are copied into the directory `to`, which is created if
    /// it does not exist, and gets the metadata of `from`, as with `cp -a from/. to`. In existing
    /// directories, files with the same names are replaced, and other files are kept. If `from` is
    /// another file, it is copied to the name `to`. Symbolic links are copied, and not followed.
    ///
    /// Attributes that the process may not read, or that ext4 does not support, are not copied. A
    /// file whose other attributes do not fit is not copied.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let image = dir.path().join("disk.img");
    /// # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
    /// # let tree = dir.path().join("tree");
    /// # std::fs::create_dir(&tree)?;
    /// # std::fs::write(tree.join("file"), "content")?;
    /// # let out = dir.path().join("out");
    /// let fs = larder::OpenOptions::new().read_write(true).open(&image)?;
    /// fs.copy_in(&tree, "/tree")?;
    /// fs.copy_out("/tree", &out)?;
    /// assert_eq!(std::fs::read_to_string(out.join("file"))?, "content");
    /// fs.close()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first error of reading or writing, with the path of the source. Files that were
    /// copied before the error are kept. It is also an error if the source is the file in which the image is stored, or
    /// contains it.
    pub fn copy_in(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let metadata = std::fs::symlink_metadata(from).map_err(|error| at(from, error))?;
        let mut first_error = FirstError::default();
        let mut copy = CopyIn::new(self.volume(), &mut first_error);
        if metadata.is_dir() {
            self.ok_if_directory(to, self.create_dir(to))?;
            let directory = self.pin(to, Last::Follow)?;
            copy.copy_into(from, directory.ino());
        } else {
            check_no_slash(to)?;
            let place = self.place(path_bytes(to)?, |_| Errno::ISDIR)?;
            copy.copy(from, false, place.directory.ino(), place.name);
        }
        first_error.result()
    }

    /// Copies the file or the tree at `from` in the image to `to` on the host, with owners,
    /// permissions, times, extended attributes, hard links, holes and special files.
    ///
    /// If `from` is a directory, its entries are copied into the directory `to`, which is created if
    /// it does not exist, and gets the metadata of `from`, as with `cp -a from/. to`. In existing
    /// directories, files with the same names are replaced, and other files are kept. If `from` is
    /// another file, it is copied to the name `to`. Symbolic links are copied, and not followed,
    /// neither in the image nor below `to`. A device, a FIFO or a socket is replaced only by a file
    /// of the same type.
    ///
    /// Owners and attributes that the process may not set are not copied. A file whose owner is not
    /// copied gets no set-id bits. Only root can copy device files.
    ///
    /// # Errors
    /// The first error of reading or writing, with the path of the source. Files that were
    /// copied before the error are kept. If the error is that an attribute could not be set, the file has all other metadata.
    pub fn copy_out(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let source = self.pin(from, Last::Keep)?;
        let mut first_error = FirstError::default();
        if self.volume().metadata(source.ino())?.is_dir() {
            // Other users have no access before the copy has its permissions.
            match DirBuilder::new().mode(0o700).create(to) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(at(to, error));
                }
                _ => {}
            }
            let root = open_directory(to)?;
            CopyOut::new(self.volume(), root.as_fd(), &mut first_error)
                .copy_into(source.ino(), from);
        } else {
            let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
                return Err(at(to, Errno::ISDIR.into()));
            };
            check_no_slash(to)?;
            let parent = Some(parent).filter(|parent| !parent.as_os_str().is_empty());
            let root = open_directory(parent.unwrap_or(Path::new(".")))?;
            CopyOut::new(self.volume(), root.as_fd(), &mut first_error).copy(
                source.ino(),
                name,
                from,
            );
        }
        first_error.result()
    }
}

/// Returns an error if the path of a copy that is not a directory ends in a slash.
fn check_no_slash(to: &Path) -> io::Result<()> {
    if to.as_os_str().as_bytes().ends_with(b"/") {
        return Err(at(to, Errno::ISDIR.into()));
    }
    Ok(())
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map_err(|errno| at(path, errno.into()))
}
