//! The terminal of `larder run`.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp};
use std::fs::File;

/// The controlling terminal, if the process group of this process is in the foreground.
///
/// The command belongs to this process group, so that it can use the terminal. If the command is a shell, the shell puts
/// process groups of its own in the foreground. When it ends, it cannot restore the process group that was there before,
/// because this group has no number in the PID namespace of the command.
#[derive(Debug)]
pub(super) struct Terminal(Option<File>);

impl Terminal {
    pub(super) fn of_foreground() -> Self {
        let terminal = File::options().read(true).write(true).open("/dev/tty").ok();
        Self(terminal.filter(|terminal| tcgetpgrp(terminal) == Ok(getpgrp())))
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
            // Unless SIGTTOU is blocked, the kernel sends it to a process that is not in the foreground.
            let mut blocked = SigSet::empty();
            blocked.add(Signal::SIGTTOU);
            // On failure, the user's shell may still restore the group.
            let _ = blocked
                .thread_block()
                .and_then(|()| tcsetpgrp(terminal, own));
        }
    }
}
