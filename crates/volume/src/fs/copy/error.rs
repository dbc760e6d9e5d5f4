//! Errors of copies.

use crate::Errno;
use crate::error::{Error, prefix};
use std::io;
use std::path::Path;

/// The reason why a file, or a part of its metadata, was not copied.
#[derive(Debug, thiserror::Error)]
#[error("{}{cause}", prefix(.what))]
#[non_exhaustive]
pub struct CopyError {
    /// What failed, as in "cannot write the copy". Empty if the cause needs no explanation.
    pub what: String,
    /// The cause. If it is an error of the image, the inner error is an [`Error`].
    #[source]
    pub cause: io::Error,
}

impl CopyError {
    /// Creates an error. `what` says what failed, and can be empty.
    #[must_use]
    pub fn new(what: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        Self {
            what: what.into(),
            cause: cause.into(),
        }
    }

    /// The image could not be read.
    pub(super) fn image(cause: impl Into<io::Error>) -> Self {
        Self::new("", cause)
    }

    /// A file of the host could not be read.
    pub(super) fn source(cause: impl Into<io::Error>) -> Self {
        Self::new("cannot read the source", cause)
    }

    /// The image, or a file of the host, could not be written.
    pub(super) fn copy(cause: impl Into<io::Error>) -> Self {
        Self::new("cannot write the copy", cause)
    }

    pub(super) fn refused(errno: Errno, reason: &'static str) -> Self {
        Self::new("", Error::NotCopied(errno, reason))
    }

    /// A file cannot replace a directory.
    pub(super) fn cannot_replace_directory() -> Self {
        let reason = "cannot replace a directory with a file";
        Self::refused(Errno::ISDIR, reason)
    }

    /// A directory cannot replace a file.
    pub(super) fn cannot_replace_file() -> Self {
        let reason = "cannot create the directory: a file with this name exists";
        Self::refused(Errno::NOTDIR, reason)
    }

    /// The source or the copy is the file that stores the image.
    pub(super) fn is_image() -> Self {
        Self::refused(Errno::INVAL, "is the image itself")
    }

    /// Returns whether the image had no space. An attribute that is larger than ext4 permits has the same errno, but is
    /// not included: it would not fit into an empty image either.
    pub(super) fn is_no_space(&self) -> bool {
        let inner = self.cause.get_ref();
        let inner = inner.and_then(|inner| inner.downcast_ref());
        inner.is_some_and(Error::is_no_space)
    }

    /// Returns the error with the path of the source.
    pub(super) fn at(self, path: &Path) -> io::Error {
        let kind = self.cause.kind();
        let error = Error::At {
            path: path.to_owned(),
            what: self.what,
            source: self.cause,
        };
        io::Error::new(kind, error)
    }
}
