//! What keeps a bench from being run.

use crate::mke2fs;
use larder::MbCacheVariant;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// A bench cannot be run, or showed that what was set is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cache cannot be made.
    #[error("cannot make the cache `{variant}`: {source}")]
    Cache {
        /// Which one.
        variant: MbCacheVariant,
        /// The system's reason.
        source: io::Error,
    },
    /// The image of the volume cannot be made.
    #[error(transparent)]
    Image(#[from] mke2fs::Error),
    /// The volume refused an operation.
    #[error("the volume failed: {0}")]
    Volume(#[from] larder::Error),
    /// Files cannot be made, or removed.
    #[error("{}: cannot {what}: {source}", path.display())]
    Directory {
        /// What was to be done.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// An attribute cannot be set or read.
    #[error("{}: cannot {what} the attribute: {source}", path.display())]
    Attribute {
        /// What was to be done.
        what: &'static str,
        /// Of which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A process cannot be started, or spoken with.
    #[error("cannot {what} a process of the bench: {source}")]
    Process {
        /// What was to be done.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A process failed, and said why.
    #[error("{message}")]
    Told {
        /// What it said.
        message: String,
        /// The system's reason, where there is one.
        source: Option<io::Error>,
    },
    /// A process ended before it was done.
    #[error("a process of the bench failed: {0}")]
    Worker(ExitStatus),
    /// It was to end early.
    #[error("interrupted: nothing is kept of what was measured")]
    Interrupted,
    /// A file has another value than the one that was set last.
    #[error("file {file} of process {process} does not have the value that was set last")]
    Lost {
        /// Whose file.
        process: u32,
        /// Which of its files.
        file: usize,
    },
}
