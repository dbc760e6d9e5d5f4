//! What keeps the kernel from being recorded.

use std::io;
use std::path::{Path, PathBuf};

/// The kernel cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This process may not trace.
    #[error("only root may trace the kernel")]
    NotRoot,
    /// The kernel has no tracing file system, or refuses it.
    #[error("this kernel has no tracing file system: {0}")]
    NoTracefs(io::Error),
    /// The kernel lacks tracepoints that there is no recording without.
    #[error("this kernel has no tracepoint {0}")]
    NoTracepoint(&'static str),
    /// Something of the tracing file system is not as it should be.
    #[error("{what} {}: {source}", path.display())]
    Tracefs {
        /// What was done.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// A file of the tracing file system has another form than it should.
    #[error("{} has a form that this program does not know", .0.display())]
    Form(PathBuf),
    /// The path whose mount is to be recorded.
    #[error("cannot look at {}: {source}", path.display())]
    Mount {
        /// The path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The command cannot be started.
    #[error("cannot run {command}: {source}")]
    Command {
        /// The command.
        command: String,
        /// What the system says.
        source: io::Error,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] crate::trace::Error),
}

impl Error {
    /// What a failure to do `what` to the file at `path` is.
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
