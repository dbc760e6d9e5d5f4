//! Errors of running a bench.

use larder::MbCacheVariant;
use larder_instruments::mke2fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// The reasons why a bench fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cache cannot be created.
    #[error("cannot create the cache `{variant}`: {source}")]
    Cache {
        /// The variant.
        variant: MbCacheVariant,
        /// The system's error.
        source: io::Error,
    },
    /// The image of the volume cannot be created.
    #[error(transparent)]
    Image(#[from] mke2fs::Error),
    /// The volume failed.
    #[error("the volume failed: {0}")]
    Volume(#[from] larder::Error),
    /// Files cannot be created or removed.
    #[error("{}: cannot {what}: {source}", path.display())]
    Directory {
        /// The operation.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An attribute cannot be set or read.
    #[error("{}: cannot {what} the attribute: {source}", path.display())]
    Attribute {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A process cannot be started, or communication with it failed.
    #[error("cannot {what} a process of the benchmark: {source}")]
    Process {
        /// The operation.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A process failed and reported the reason.
    #[error("{message}")]
    Reported {
        /// The reported message.
        message: String,
        /// The system's error, if any.
        source: Option<io::Error>,
    },
    /// A process exited before it was done.
    #[error("a process of the benchmark failed: {0}")]
    Worker(ExitStatus),
    /// The bench was interrupted.
    #[error("interrupted: all measurements are discarded")]
    Interrupted,
    /// A file does not have the value that was set last.
    #[error("file {file} of process {process} does not have the value that was last set")]
    Lost {
        /// The number of the process.
        process: u32,
        /// The number of the file among the process's files.
        file: usize,
    },
}
