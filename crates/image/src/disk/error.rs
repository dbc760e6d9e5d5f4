//! Errors of disk images.

use larder_block::Error as DeviceError;
use std::io;

/// The reason why a disk image cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// The device of the file has failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A part of the disk is in another file, which is not opened.
    #[error("it needs another file: its {role} is {}", String::from_utf8_lossy(.name))]
    OtherFile {
        /// What the other file is for the image, for example "backing file".
        role: &'static str,
        /// The name of the file in the image. It is empty if it is unknown. Its bytes can be hostile.
        name: Vec<u8>,
    },
    /// The file does not begin like an image of the format that was given.
    #[error("it does not have this format")]
    OtherFormat,
    /// The content is encrypted by this method.
    #[error("it is encrypted ({0})")]
    Encrypted(&'static str),
    /// The image uses a feature that is not supported.
    #[error("it is not supported: {0}")]
    Unsupported(String),
    /// The image is damaged.
    #[error("it is damaged: {0}")]
    Corrupt(&'static str),
}

/// Returns the error of a read of `len_bytes` at `offset_bytes` of the disk, which has found the damage `what`.
pub(crate) fn corrupt(offset_bytes: u64, len_bytes: u64, what: &'static str) -> DeviceError {
    DeviceError::Io {
        offset_bytes,
        len_bytes,
        source: io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the disk image is damaged: {what}"),
        ),
    }
}
