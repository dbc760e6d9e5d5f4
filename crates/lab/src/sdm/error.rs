//! What keeps the workload from being run.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// The workload cannot be run, or a command of it went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Commands of the script are not installed.
    #[error("not installed, but needed by the script: {}", .commands.join(", "))]
    Missing {
        /// Their names.
        commands: Vec<&'static str>,
        /// The Debian packages that have them.
        packages: Vec<&'static str>,
    },
    /// A file or directory cannot be made, read or removed.
    #[error("{}: cannot {what}: {source}", path.display())]
    File {
        /// What was to be done.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A command cannot be started or waited for.
    #[error("user {user}: cannot run {command}: {source}")]
    Start {
        /// Whose.
        user: u32,
        /// The command with its arguments.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A command failed.
    #[error("user {user}: {command}: {status}{}", told(.message))]
    Failed {
        /// Whose.
        user: u32,
        /// The command with its arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        message: String,
    },
    /// A file is not what the script must make of it.
    #[error("user {user}: {path} is not what the script makes of it: {found}")]
    Wrong {
        /// Whose.
        user: u32,
        /// In the user's home.
        path: String,
        /// The beginning of what it is.
        found: String,
    },
    /// What a recording cannot be made of.
    #[error("cannot record the script: {0}")]
    Record(String),
    /// It was to end early.
    #[error("interrupted: nothing is kept of what was measured")]
    Interrupted,
}

fn told(message: &str) -> String {
    match message.trim() {
        "" => String::new(),
        message => format!(": {message}"),
    }
}
