//! The terminal of `larder run`, and the signals that stop processes.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp};
use std::fs::File;

/// The signals that stop a process, unless it handles them.
const STOPPING: [Signal; 3] = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];

/// The controlling terminal, if there is one.
///
/// The command belongs to this process group, so that it can use the terminal. If the command is a shell, the shell puts
/// process groups of its own in the foreground. When it ends, it cannot restore the process group that was there before,
/// because this group has no number in the PID namespace of the command.
#[derive(Debug)]
pub(super) struct Terminal(Option<File>);

impl Terminal {
    pub(super) fn open() -> Self {
        let terminal = File::options().read(true).write(true).open("/dev/tty");
        Self(terminal.ok())
    }

    /// Puts the process group of this process in the foreground again, if the group in the foreground has no processes.
    /// SIGTTOU must be blocked in this thread.
    pub(super) fn restore(&self) {
        let Some(terminal) = &self.0 else {
            return;
        };
        let own = getpgrp();
        // The group of the user's shell has a process, and must stay.
        let is_left = tcgetpgrp(terminal)
            .is_ok_and(|group| group != own && killpg(group, None::<Signal>) == Err(Errno::ESRCH));
        if is_left {
            // On failure, the user's shell may still restore the group.
            let _ = tcsetpgrp(terminal, own);
        }
    }
}

/// Blocks the signals that stop a process, in this thread and in the threads and processes that it starts.
///
/// They can then write to the terminal, and change its foreground group, also in the background. If SIGTTOU is not
/// blocked, the kernel sends it to the process group instead and, if a handler returns, repeats that without end.
pub(super) fn block_stops() {
    // With signals that exist, this cannot fail.
    let _ = stopping().thread_block();
}

/// Undoes [`block_stops`] in this thread.
pub(super) fn unblock_stops() {
    let _ = stopping().thread_unblock();
}

/// Does the same as [`block_stops`], and returns a descriptor from which the signals that arrive can be read.
pub(super) fn receive_stops() -> nix::Result<SignalFd> {
    receive(&stopping())
}

/// Blocks `signals` like [`block_stops`], and returns a descriptor from which those that arrive can be read. A read never
/// waits.
pub(super) fn receive(signals: &SigSet) -> nix::Result<SignalFd> {
    signals.thread_block()?;
    SignalFd::with_flags(signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}

/// Sends SIGTSTP, which must be blocked, to this thread. It is pending until [`stop`], unless SIGCONT arrives: then the
/// kernel discards it.
pub(super) fn prepare_stop() {
    // With a signal that exists, this cannot fail.
    let _ = raise(Signal::SIGTSTP);
}

/// Stops this process if SIGTSTP is pending. As for each process, this has no effect if the process group is orphaned, or
/// if the process ignores SIGTSTP.
pub(super) fn stop() {
    let signal = SigSet::from(Signal::SIGTSTP);
    // The process is stopped before this returns.
    let _ = signal.thread_unblock();
    let _ = signal.thread_block();
}

fn stopping() -> SigSet {
    STOPPING.into_iter().collect()
}
