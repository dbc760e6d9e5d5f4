//! Errors of running the workload.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// The workload cannot be run, or one of its commands failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Commands of the script are not installed.
    #[error("the script needs commands that are not installed: {}", .commands.join(", "))]
    Missing {
        /// The names of the commands.
        commands: Vec<&'static str>,
        /// The Debian packages that contain the commands.
        packages: Vec<&'static str>,
    },
    /// A file or directory cannot be created, read or removed.
    #[error("{}: cannot {what}: {source}", path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A command cannot be started or waited for.
    #[error("user {user}: cannot run {command}: {source}")]
    Start {
        /// The user.
        user: u32,
        /// The command with its arguments.
        command: String,
        /// The system's error.
        source: io::Error,
    },
    /// A command failed.
    #[error("user {user}: {command}: {status}{}", error_output(.message))]
    Failed {
        /// The user.
        user: u32,
        /// The command with its arguments.
        command: String,
        /// The exit status of the command.
        status: ExitStatus,
        /// The error output of the command.
        message: String,
    },
    /// A file differs from the expected result of the script.
    #[error("user {user}: {path} differs from the expected result of the script: {found}")]
    Wrong {
        /// The user.
        user: u32,
        /// The path in the user's home.
        path: String,
        /// The beginning of the file's content.
        found: String,
    },
    /// A script that cannot be recorded.
    #[error("cannot record the script: {0}")]
    Record(String),
    /// The run was interrupted.
    #[error("interrupted: all measurements were discarded")]
    Interrupted,
}

fn error_output(message: &str) -> String {
    match message.trim() {
        "" => String::new(),
        message => format!(": {message}"),
    }
}
