//! What can go wrong below the file system.

use std::io;
use std::path::PathBuf;

/// The result of a device operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed device operation: what failed and where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image or device could not be opened. Errno: the cause's.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Another process holds a lock that excludes ours. Errno: `EBUSY`.
    #[error("{path} is locked by another process")]
    Locked {
        /// The path as given.
        path: PathBuf,
    },
    /// A loop device is attached to the image, and writes it behind our back. Errno: `EBUSY`.
    #[error("{path} is attached to loop device {device}")]
    Attached {
        /// The path as given.
        path: PathBuf,
        /// The loop device.
        device: PathBuf,
    },
    /// The range does not lie inside the device. Errno: `EIO`.
    #[error(
        "{len_bytes} bytes at byte {offset_bytes} pass the end of the device at byte {size_bytes}"
    )]
    OutOfRange {
        /// First byte asked for.
        offset_bytes: u64,
        /// Bytes asked for.
        len_bytes: u64,
        /// Size of the device.
        size_bytes: u64,
    },
    /// The device failed. Errno: the cause's, `EIO` if it has none.
    #[error("read of {len_bytes} bytes at byte {offset_bytes} failed: {source}")]
    Io {
        /// First byte asked for.
        offset_bytes: u64,
        /// Bytes asked for.
        len_bytes: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// A write to the device failed. Errno: the cause's, `EIO` if it has none.
    #[error("write of {len_bytes} bytes at byte {offset_bytes} failed: {source}")]
    Write {
        /// First byte of the write.
        offset_bytes: u64,
        /// Bytes to be written.
        len_bytes: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// What was written could not be made durable. Errno: `EIO`.
    #[error("flushing the device failed: {0}")]
    Flush(io::Error),
    /// The device was opened for reading only. Errno: `EROFS`.
    #[error("the device was opened for reading only")]
    ReadOnly,
}
