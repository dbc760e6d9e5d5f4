//! Help, the version, and arguments that make no sense.

use std::process::ExitCode;

/// Prints what clap has to say: help and the version to standard output, for which the exit code is
/// 0. For arguments that make no sense it is `usage_failed`.
#[must_use]
pub fn tell_usage(error: &clap::Error, usage_failed: u8) -> ExitCode {
    // A closed pipe does not count as a failure.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { usage_failed } else { 0 })
}
