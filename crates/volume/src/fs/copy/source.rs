//! Files of the host that are copied into an image.

use super::error::CopyError;
use crate::{Errno, Volume};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;

/// An open file of the host.
pub(super) struct Source {
    /// The file. It can be read only if it is a regular file or a directory.
    pub(super) file: File,
    pub(super) metadata: Metadata,
}

impl Source {
    /// Opens the file `name` in `parent`. A special file is not opened for reading, because that could
    /// have effects, or wait for another process.
    pub(super) fn open(
        volume: &Volume,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        follow: bool,
    ) -> Result<Self, CopyError> {
        let (at_flags, no_follow) = if follow {
            (AtFlags::empty(), OFlags::empty())
        } else {
            (AtFlags::SYMLINK_NOFOLLOW, OFlags::NOFOLLOW)
        };
        let found = statat(parent, name, at_flags).map_err(CopyError::source)?;
        if volume.is_stored_in(found.st_dev, found.st_ino) {
            return Err(CopyError::is_image());
        }
        let kind = FileType::from_raw_mode(found.st_mode);
        let access = match kind {
            FileType::Directory => OFlags::RDONLY | OFlags::DIRECTORY,
            // Another process may replace the file by a FIFO. Without NONBLOCK, opening the FIFO would
            // wait for a writer.
            FileType::RegularFile => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
            _ => OFlags::PATH,
        };
        let flags = access | no_follow | OFlags::CLOEXEC;
        let file = openat(parent, name, flags, Mode::empty()).map_err(CopyError::source)?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(CopyError::source)?;
        if FileType::from_raw_mode(metadata.mode()) != kind {
            return Err(CopyError::source(Errno::STALE));
        }
        Ok(Self { file, metadata })
    }
}
