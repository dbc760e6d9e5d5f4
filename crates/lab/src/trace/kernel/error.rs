//! Errors of recording the kernel.

use std::io;
use std::path::{Path, PathBuf};

/// The kernel cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This process has no permission to trace.
    #[error("tracing the kernel requires root")]
    NotRoot,
    /// The kernel has no tracing file system, or refuses to mount it.
    #[error("this kernel has no tracing file system: {0}")]
    NoTracefs(io::Error),
    /// The kernel lacks required tracepoints.
    #[error("this kernel has no tracepoint {0}")]
    NoTracepoint(&'static str),
    /// An operation on the tracing file system failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Tracefs {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file of the tracing file system has an unknown format.
    #[error("{} has an unknown format", .0.display())]
    UnknownFormat(PathBuf),
    /// The path on the file system to record cannot be accessed.
    #[error("cannot access {}: {source}", path.display())]
    Mount {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The process does not exist.
    #[error("process {0} does not exist")]
    NoProcess(u32),
    /// The command cannot be started.
    #[error("cannot run {command}: {source}")]
    Command {
        /// The command.
        command: String,
        /// The system's error.
        source: io::Error,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] crate::trace::Error),
}

impl Error {
    /// Returns a function that wraps an error of operation `what` on the file at `path`.
    pub(super) fn tracefs<E: Into<io::Error>>(
        what: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Tracefs {
            what,
            path,
            source: source.into(),
        }
    }
}
