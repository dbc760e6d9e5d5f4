//! Failures, and how they are printed: a line that begins with `error:` and, if the user can do something
//! about the failure, a line that begins with `hint:`.

use crate::name;
use std::io::{self, Write};
use std::process::ExitCode;

/// The reason why a command ends early.
#[derive(Debug)]
pub enum Failure {
    /// The command could not do what was requested.
    Message {
        /// What failed.
        message: String,
        /// What the user can do about it.
        hint: Option<String>,
    },
    /// The arguments are invalid.
    Usage {
        /// What is wrong with the arguments.
        message: String,
        /// What the user can do about it.
        hint: Option<String>,
    },
    /// The reader of standard output closed the pipe. This is not reported.
    BrokenPipe,
}

/// The result of a command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Returns a failure with a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self::Message {
            message: message.into(),
            hint: None,
        }
    }

    /// Returns the failure for invalid arguments.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            hint: None,
        }
    }

    /// Returns the failure for invalid arguments, with a hint.
    pub fn usage_with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// Returns a failure with a message and a hint.
    pub fn with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Message {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// Adds to the message the path inside the image at which the failure occurred.
    #[must_use]
    pub fn at(self, path: &[u8]) -> Self {
        match self {
            Self::Message { message, hint } => Self::Message {
                message: format!("{}: {message}", name::escaped(path)),
                hint,
            },
            other => other,
        }
    }

    /// Prints the failure, and returns the exit code of the program. `failed` is the exit code for failures
    /// other than invalid arguments.
    #[expect(
        clippy::must_use_candidate,
        reason = "the caller may have an exit code of its own"
    )]
    pub fn print(&self, failed: u8) -> ExitCode {
        match self {
            Self::Message { message, hint } | Self::Usage { message, hint } => {
                print_error(message);
                if let Some(hint) = hint {
                    print_line("hint", hint);
                }
                let is_usage = matches!(self, Self::Usage { .. });
                ExitCode::from(if is_usage { 2 } else { failed })
            }
            Self::BrokenPipe => ExitCode::SUCCESS,
        }
    }
}

/// Prints `message` after `error:`. This is for a failure after which the command continues.
pub fn print_error(message: &str) {
    print_line("error", message);
}

/// Prints `message` after `warning:`.
pub fn print_warning(message: &str) {
    print_line("warning", message);
}

/// Prints `message` after `hint:`.
pub fn print_hint(message: &str) {
    print_line("hint", message);
}

/// Prints `message` after `note:`.
pub fn print_note(message: &str) {
    print_line("note", message);
}

fn print_line(what: &str, message: &str) {
    // Messages of other programs and of servers, and paths, can contain any characters.
    let message = name::printable(message);
    // If standard error is closed, the message cannot be printed. The error is ignored.
    let _ = writeln!(io::stderr(), "{what}: {message}");
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::BrokenPipe
        } else {
            Self::new(error.to_string())
        }
    }
}

impl From<larder_observe::Error> for Failure {
    fn from(error: larder_observe::Error) -> Self {
        larder_fuse::Error::from(error).into()
    }
}

impl From<larder_fuse::Error> for Failure {
    fn from(error: larder_fuse::Error) -> Self {
        Self::Message {
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Message { message, .. } | Self::Usage { message, .. } => f.write_str(message),
            Self::BrokenPipe => f.write_str("broken pipe"),
        }
    }
}
