//! Errors of the setup of a test.

use crate::tool;
use std::io;
use std::path::Path;

/// The result of a setup step.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of the setup of a test, or of one side of a comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tool could not be started or failed.
    #[error(transparent)]
    Tool(#[from] tool::Error),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The action and its file.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The volume under test failed.
    #[error("{what}: {source}")]
    Volume {
        /// The operation and the inode.
        what: String,
        /// The volume's error.
        source: larder::Error,
    },
    /// The volume under test is inconsistent.
    #[error("{0}")]
    Inconsistent(String),
}

/// Adds the action to the error of a system call.
pub(crate) trait Context<T> {
    /// Names the action and the file.
    fn context(self, action: &str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, action: &str, path: &Path) -> Result<T> {
        self.map_err(|error| Error::Io {
            what: format!("cannot {action} {}", path.display()),
            source: error.into(),
        })
    }
}
