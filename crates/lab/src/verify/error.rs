//! Errors of a verification.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// A verification cannot be completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was attempted.
        what: &'static str,
        /// The file, directory or program.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The image could not be mounted.
    #[error("cannot mount the image with -o {options}: {message}")]
    Mount {
        /// The mount options.
        options: String,
        /// The message of the server.
        message: String,
    },
    /// The image could not be unmounted, or its changes could not be written.
    #[error("cannot unmount the image after the command: {0}")]
    Unmount(String),
    /// The command failed.
    #[error("the command {} in run {run}, with -o {options}: {message}", described(*.status))]
    Command {
        /// The end of the command.
        status: ExitStatus,
        /// The number of the run, from 1.
        run: usize,
        /// The mount options.
        options: String,
        /// The last lines of its standard error.
        message: String,
    },
    /// The user ended the verification.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns a function that adds the place to an error of a system call.
    pub(super) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}

/// Returns how the command ended.
fn described(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("failed with exit status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "failed".to_owned(),
    }
}
