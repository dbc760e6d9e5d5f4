//! Errors of overlays.

use super::base::Base;
use larder_block::Error as DeviceError;
use std::io::ErrorKind;

/// The reason why an overlay cannot be created or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverlayError {
    /// The file of the overlay cannot be read or written.
    #[error(transparent)]
    Device(DeviceError),
    /// The file of the overlay ends before its last cluster.
    #[error("it is truncated")]
    Truncated,
    /// The file is not an overlay, or another program created it.
    #[error("it is not an overlay that larder created")]
    NotOverlay,
    /// Another program has written to the overlay.
    #[error("another program has written to it")]
    Foreign,
    /// The base is not the one for which the overlay was created, or it has changed since.
    #[error("its base has changed, or is not the recorded base")]
    OtherBase {
        /// The base for which the overlay was created.
        recorded: Base,
        /// The version of the base that was given.
        given: String,
    },
    /// A commit was interrupted. The base may contain a part of the changes.
    #[error("its commit was interrupted")]
    Committing {
        /// The name of the base to which the commit has begun.
        recorded: Vec<u8>,
    },
    /// After a commit was interrupted, another program has written to the base, or the base was replaced.
    #[error("its base was changed at byte {offset_bytes} after its commit was interrupted")]
    ChangedInCommit {
        /// The name of the base to which the commit has begun.
        recorded: Vec<u8>,
        /// The first sector of the base that has neither its original content nor that of the overlay.
        offset_bytes: u64,
    },
    /// The base cannot be read, or cannot be written during a commit.
    #[error("its base: {0}")]
    Base(#[source] DeviceError),
    /// A commit has written all changes to the base.
    #[error("its changes were committed already")]
    Committed,
    /// The overlay is damaged.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// The disk is too large, or the format or the version of the base is too long.
    #[error("{0}")]
    TooLarge(&'static str),
}

impl From<DeviceError> for OverlayError {
    /// Converts an error of the file of the overlay.
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::OutOfRange { .. } => Self::Truncated,
            // The device of a growing file has the size that the file can reach.
            DeviceError::Io { source, .. } if source.kind() == ErrorKind::UnexpectedEof => {
                Self::Truncated
            }
            error => Self::Device(error),
        }
    }
}
