//! Prints help, the version, and errors for invalid arguments.

use std::process::ExitCode;

/// Prints the message of clap, and returns the exit code of the program. Help and the version are printed to
/// standard output, and the exit code is 0. For invalid arguments, the exit code is `usage_failed`.
#[must_use]
pub fn print_usage(error: &clap::Error, usage_failed: u8) -> ExitCode {
    // If the reader has closed the pipe, printing fails. The failure is ignored.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { usage_failed } else { 0 })
}
