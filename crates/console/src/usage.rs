//! Help, the version, and arguments that make no sense.

use std::process::ExitCode;

/// Prints what clap has to say: help and version to standard output.
#[must_use]
pub fn tell_usage(error: &clap::Error) -> ExitCode {
    // A closed pipe is no failure.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(2)
    } else {
        ExitCode::SUCCESS
    }
}
