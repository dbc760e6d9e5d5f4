//! Signals that end a command.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use std::io::{self, PipeReader};

/// Returns a pipe that becomes readable on SIGINT, SIGTERM or SIGHUP, so that the command can
/// remove its files.
pub(super) fn interrupt() -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}
