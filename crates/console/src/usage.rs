//! Output of help, the version, and errors for invalid arguments.

use std::process::ExitCode;

/// Prints clap's message, and returns the exit code. Help and the version are printed to standard
/// output, with exit code 0. Invalid arguments give `usage_failed`.
#[must_use]
pub fn print_usage(error: &clap::Error, usage_failed: u8) -> ExitCode {
    // A closed pipe does not count as a failure.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { usage_failed } else { 0 })
}
