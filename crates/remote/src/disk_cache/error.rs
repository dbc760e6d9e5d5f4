//! Errors of the disk cache.

use std::io;
use std::path::PathBuf;

/// The result of an operation on the disk cache.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed operation on the disk cache, with its cause and location.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory could not be created, opened, listed or locked. Errno: that of the cause.
    #[error("cannot use the cache directory {path}: {source}")]
    Directory {
        /// The path as given by the caller.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process has locked the directory for too long. Errno: `EAGAIN`.
    #[error("another process has locked the disk cache for too long: {path}")]
    Locked {
        /// The path of the lock.
        path: PathBuf,
    },
    /// The directory belongs to another user, who could read and change what is cached. Errno: `EACCES`.
    #[error("the cache directory {path} belongs to another user (UID {uid})")]
    OtherOwner {
        /// The path as given by the caller.
        path: PathBuf,
        /// The owner.
        uid: u32,
    },
    /// Other users can write to the directory. Errno: `EACCES`.
    #[error("other users can write to the cache directory {path} (mode {mode:o})")]
    WritableByOthers {
        /// The path as given by the caller.
        path: PathBuf,
        /// The permission bits.
        mode: u16,
    },
    /// A cache file could not be opened, created or removed. Errno: that of the cause.
    #[error("cannot use the cache file {path}: {source}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The cache file was removed while it was in use, so its blocks no longer count towards the limit.
    /// Errno: `ENOENT`.
    #[error("the cache file in {path} was removed while it was in use")]
    Unlinked {
        /// The path of the directory as given by the caller.
        path: PathBuf,
    },
    /// A unit could not be stored. Errno: that of the cause.
    #[error("cannot store unit {unit} in the disk cache: {source}")]
    Write {
        /// The number of the unit.
        unit: u64,
        /// The system's error.
        source: io::Error,
    },
}
