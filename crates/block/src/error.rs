//! Errors of devices.

use std::io;
use std::path::PathBuf;

/// The result of a device operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed device operation, with its cause and location.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image or device could not be opened. Errno: that of the cause.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The path as given by the caller.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process, or another device of this process, holds a conflicting lock. Errno: `EBUSY`.
    #[error("{path} is {}", lock_state(*is_own))]
    Locked {
        /// The path as given by the caller.
        path: PathBuf,
        /// Whether this process is known to hold the lock.
        is_own: bool,
    },
    /// A loop device is attached to the image and could write to it. Errno: `EBUSY`.
    #[error("{path} is attached to loop device {device}")]
    Attached {
        /// The path as given by the caller.
        path: PathBuf,
        /// The loop device.
        device: PathBuf,
    },
    /// The range is not inside the device. Errno: `EIO`.
    #[error(
        "{len_bytes} bytes at offset {offset_bytes} are past the end of the device ({size_bytes} bytes)"
    )]
    OutOfRange {
        /// First byte of the request.
        offset_bytes: u64,
        /// Length of the request.
        len_bytes: u64,
        /// Size of the device.
        size_bytes: u64,
    },
    /// A read from the device failed. Errno: that of the cause, or `EIO` if it has none.
    #[error("cannot read {len_bytes} bytes at offset {offset_bytes}: {source}")]
    Io {
        /// First byte of the request.
        offset_bytes: u64,
        /// Length of the request.
        len_bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// A write to the device failed. Errno: that of the cause, or `EIO` if it has none.
    #[error("cannot write {len_bytes} bytes at offset {offset_bytes}: {source}")]
    Write {
        /// First byte of the write.
        offset_bytes: u64,
        /// Length of the write.
        len_bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// Earlier writes could not be made durable. Errno: `EIO`.
    #[error("cannot flush the device: {0}")]
    Flush(io::Error),
    /// The request was cancelled before it was started, or the device was closed. Errno: `EIO`.
    #[error("the request was cancelled")]
    Cancelled,
    /// The device did not complete the request in time. It may still do so. Errno: `EIO`.
    #[error("the device did not answer within {0:?}")]
    Deadline(std::time::Duration),
    /// The kernel refused to wait for requests. Errno: `EIO`.
    #[error("cannot wait for the device: {0}")]
    Wait(io::Error),
    /// The device was opened for reading only. Errno: `EROFS`.
    #[error("the device is open for reading only")]
    ReadOnly,
}

impl Error {
    /// Returns a copy of the error, for another caller that needs the same failed read. The copy of
    /// a system error has the same errno, or if it has none, the same kind and text.
    #[must_use]
    pub fn again(&self) -> Self {
        let again = |source: &io::Error| match source.raw_os_error() {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::new(source.kind(), source.to_string()),
        };
        match self {
            Self::Open { path, source } => Self::Open {
                path: path.clone(),
                source: again(source),
            },
            Self::Locked { path, is_own } => Self::Locked {
                path: path.clone(),
                is_own: *is_own,
            },
            Self::Attached { path, device } => Self::Attached {
                path: path.clone(),
                device: device.clone(),
            },
            &Self::OutOfRange {
                offset_bytes,
                len_bytes,
                size_bytes,
            } => Self::OutOfRange {
                offset_bytes,
                len_bytes,
                size_bytes,
            },
            Self::Io {
                offset_bytes,
                len_bytes,
                source,
            } => Self::Io {
                offset_bytes: *offset_bytes,
                len_bytes: *len_bytes,
                source: again(source),
            },
            Self::Write {
                offset_bytes,
                len_bytes,
                source,
            } => Self::Write {
                offset_bytes: *offset_bytes,
                len_bytes: *len_bytes,
                source: again(source),
            },
            Self::Flush(source) => Self::Flush(again(source)),
            Self::ReadOnly => Self::ReadOnly,
            Self::Cancelled => Self::Cancelled,
            Self::Deadline(timeout) => Self::Deadline(*timeout),
            Self::Wait(source) => Self::Wait(again(source)),
        }
    }
}

fn lock_state(is_own: bool) -> &'static str {
    if is_own {
        "already open in this process"
    } else {
        "locked by another process"
    }
}

/// The error of a read inside the device that reached the end of the file.
pub(crate) fn truncated() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the file was truncated after it was opened",
    )
}
