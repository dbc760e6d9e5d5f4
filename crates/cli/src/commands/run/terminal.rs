//! The terminal of `larder run`.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp};
use std::fs::File;

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
    /// Afterwards, SIGTTOU is blocked in this thread.
    pub(super) fn restore(&self) {
        let Some(terminal) = &self.0 else {
            return;
        };
        let own = getpgrp();
        // The group of the user's shell has a process, and must stay.
        let is_left = tcgetpgrp(terminal)
            .is_ok_and(|group| group != own && killpg(group, None::<Signal>) == Err(Errno::ESRCH));
        if is_left {
            permit_output();
            // On failure, the user's shell may still restore the group.
            let _ = tcsetpgrp(terminal, own);
        }
    }
}

/// Blocks SIGTTOU in this thread and in the threads and processes that it starts. They can then write to the terminal, and
/// change its foreground group, also in the background. Otherwise, the kernel sends SIGTTOU to the process group, and if a
/// handler returns, repeats that without end.
pub(super) fn permit_output() {
    // With a signal that exists, this cannot fail.
    let _ = output_signal().thread_block();
}

/// Undoes [`permit_output`] in this thread.
pub(super) fn restrict_output() {
    let _ = output_signal().thread_unblock();
}

fn output_signal() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTTOU);
    signals
}
