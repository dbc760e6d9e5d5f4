//! Signals that end a command.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use std::io::{self, PipeReader, Read as _};
use std::time::Duration;

/// Returns a pipe that becomes readable on SIGINT, SIGTERM or SIGHUP, so that the command can
/// remove its files.
pub(super) fn interrupt() -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// Waits for a signal for at most `wait`, and returns whether there was one. Each signal is returned once.
pub(super) fn is_interrupted(mut interrupt: &PipeReader, wait: Duration) -> bool {
    let mut ready = [PollFd::new(interrupt, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: wait.as_secs().cast_signed(),
        tv_nsec: wait.subsec_nanos().into(),
    };
    // If the signal interrupts this poll, the next poll finds that the pipe is readable.
    let is_interrupted = matches!(poll(&mut ready, Some(&timeout)), Ok(1..));
    if is_interrupted {
        // Each byte in the pipe represents a signal. Consume the byte, so that the next poll detects the next
        // signal.
        let _ = interrupt.read(&mut [0]);
    }
    is_interrupted
}
