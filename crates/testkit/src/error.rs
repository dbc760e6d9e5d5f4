//! What can go wrong while a test is set up.

use std::io;
use std::path::Path;

/// The result of setting something up.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of the set-up, or of a side of a comparison, not of the code under test.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tool could not be started or failed.
    #[error("{command}: {reason}")]
    Tool {
        /// The command line.
        command: String,
        /// Its standard error, or why it could not be started.
        reason: String,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, and to which file.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The volume under test failed.
    #[error("{what}: {source}")]
    Volume {
        /// The operation and the inode.
        what: String,
        /// The volume's reason.
        source: larder::Error,
    },
    /// The volume under test contradicts itself.
    #[error("{0}")]
    Inconsistent(String),
}

/// Adds to a failed system call what was being done.
pub(crate) trait Context<T> {
    /// Names the action and the file.
    fn context(self, action: &str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, action: &str, path: &Path) -> Result<T> {
        self.map_err(|error| Error::Io {
            what: format!("{action} {}", path.display()),
            source: error.into(),
        })
    }
}
