//! The end of a recording: by a signal, after a time, or with the command.

use super::args::RecordArgs;
use super::failure::failure;
use crate::commands::interrupt::is_interrupted;
use larder_console::{Result, print_note};
use larder_lab::trace::kernel::Error;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, IsTerminal, PipeReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// The time in which the command must exit after SIGTERM, before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between checks whether the command has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Prints how the user can end the recording, if neither a command nor a time ends it.
pub(super) fn print_interrupt_note(args: &RecordArgs) {
    if args.command.is_empty() && args.seconds.is_none() && io::stderr().is_terminal() {
        print_note("recording until Ctrl-C");
    }
}

/// The conditions that end a recording.
pub(super) struct StopCondition {
    interrupt: PipeReader,
    deadline: Option<Instant>,
    child: Option<Child>,
    status: Option<ExitStatus>,
}

impl StopCondition {
    /// Creates the conditions of a recording. If the arguments contain a command, starts it with `spawn`.
    pub(super) fn new(
        args: &RecordArgs,
        interrupt: PipeReader,
        spawn: impl FnOnce(&mut Command) -> Result<Child, Error>,
    ) -> Result<Self> {
        let child = args
            .command
            .split_first()
            .map(|(program, arguments)| spawn(Command::new(program).args(arguments)));
        let child = child.transpose().map_err(|error| {
            // Nothing was recorded.
            let _ = std::fs::remove_file(&args.output);
            failure(&error)
        })?;
        let after = |s| Instant::now() + Duration::from_secs(s);
        Ok(Self {
            interrupt,
            deadline: args.seconds.map(after),
            child,
            status: None,
        })
    }

    /// Waits for at most `wait`, and returns whether the recording must end.
    pub(super) fn is_reached(&mut self, wait: Duration) -> bool {
        let left = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let is_interrupted = self.is_interrupted(left.map_or(wait, |left| left.min(wait)));
        if let Some(child) = &mut self.child {
            self.status = child.try_wait().ok().flatten();
        }
        is_interrupted || left.is_some_and(|left| left.is_zero()) || self.status.is_some()
    }

    /// Waits for a signal for at most `wait`, and returns whether there was one.
    pub(super) fn is_interrupted(&self, wait: Duration) -> bool {
        is_interrupted(&self.interrupt, wait)
    }

    /// Terminates the command if it is still running when the recording ends. Kills the command if it does
    /// not exit within [`EXIT_TIMEOUT`], or if this process receives another signal. Returns the exit status
    /// of the command, or `None` if there is no command.
    pub(super) fn finish_child(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none()
            && let Some(child) = &self.child
            && let Some(pid) = Pid::from_raw(child.id().cast_signed())
        {
            // The command may have exited already.
            let _ = kill_process(pid, Signal::TERM);
            self.deadline = Some(Instant::now() + EXIT_TIMEOUT);
            while !self.is_reached(POLL_INTERVAL) {}
        }
        let Some(child) = &mut self.child else {
            return Ok(None);
        };
        if self.status.is_none() {
            child.kill()?;
        }
        child.wait().map(Some)
    }
}

/// Returns the command's exit code as shells report it: 128 + N if signal N ended the command.
pub(in crate::commands) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
