//! Errors of profiles and packs.

/// The result of an operation on a profile or a pack.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a profile or a pack cannot be used. No text contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes are those of another kind of file.
    #[error("it is neither a profile nor a pack, or has a format that this version does not know")]
    Unknown,
    /// The content does not match its checksum, or is not valid.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// It has more units than a profile or a pack may have.
    #[error("it is too large: the limit is {} units", super::limits::MAX_UNITS)]
    TooLarge,
    /// The image was replaced after the recording.
    #[error("it belongs to another version of the image: {recorded}; the image has {current}")]
    OtherVersion {
        /// The version of the profile.
        recorded: String,
        /// The version of the image.
        current: String,
    },
    /// The image has no strong `ETag`, to which a pack must be bound.
    #[error("a pack needs an image with a strong ETag")]
    NoVersion,
    /// It cannot be read or written.
    #[error("{0}")]
    Io(String),
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error.to_string())
    }
}
