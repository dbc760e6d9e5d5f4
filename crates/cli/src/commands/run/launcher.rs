//! The launcher: starts the server, passes signals on to the command, and stops when the command is stopped.

use super::failed::Failed;
use super::pipes::{self, Ends, STARTED};
use super::terminal::Terminal;
use crate::holder::LARDER;
use crate::signals;
use crate::stage::{FAILED, SERVER};
use larder_console::{Failure, Result};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use std::ffi::{OsStr, OsString};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// Runs `larder run` with `args`, and returns the exit code of the command.
pub(crate) fn launch(args: &[OsString]) -> Result<ExitCode> {
    let what = "cannot start the server";
    let terminal = Terminal::of_foreground();
    let (ends, inherited) = pipes::create().failed(what)?;
    let passed_on = [
        signals::ENDING.as_slice(),
        &signals::STOPPING,
        &signals::OTHER,
    ]
    .concat();
    let received = signals::handled(&passed_on)
        .and_then(SignalsInfo::<WithRawSiginfo>::new)
        .failed(what)?;
    let program = args.first().map_or(OsStr::new(LARDER), OsString::as_os_str);
    // The kernel kills the server when this thread, which is its parent, ends.
    let mut server = Command::new("/proc/self/exe")
        .arg0(program)
        .arg(format!("{SERVER}{}", inherited.link()))
        .args(args.iter().skip(2))
        .spawn()
        .failed(what)?;
    drop(inherited);
    let Ends { signals, notes } = ends;
    let has_started = Arc::new(AtomicBool::new(false));
    let sender = Sender {
        signals,
        has_started: Arc::clone(&has_started),
        server: pidfd_open(Pid::from_child(&server), PidfdFlags::empty()).ok(),
    };
    let started = thread::Builder::new().spawn(move || sender.pass_on(received));
    started.failed(what)?;
    let started = thread::Builder::new().spawn(move || follow(notes, &has_started));
    started.failed(what)?;
    let status = server.wait().failed("cannot wait for the server")?;
    terminal.restore();
    code(status)
}

/// Returns the exit code of the server, which is that of the command.
fn code(status: ExitStatus) -> Result<ExitCode> {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(FAILED))),
        // Before the command starts, the server does not suppress these signals.
        (None, Some(signal)) if signals::ENDING.contains(&signal) => {
            Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(FAILED)))
        }
        _ => Err(Failure::new(format!("the server has failed: {status}"))),
    }
}

/// Sends signals to the command.
struct Sender {
    /// The pipe to the init.
    signals: PipeWriter,
    /// Whether the command has started.
    has_started: Arc<AtomicBool>,
    server: Option<OwnedFd>,
}

impl Sender {
    /// Passes on the signals of this process until it ends.
    fn pass_on(mut self, mut received: SignalsInfo<WithRawSiginfo>) {
        for info in received.forever() {
            let has_started = self.has_started.load(Relaxed);
            // Signals of the kernel have positive codes. The command gets those of the terminal from the kernel.
            let is_from_process = info.si_code <= 0;
            if (is_from_process || !has_started)
                && let Ok(signal) = u8::try_from(info.si_signo)
            {
                // This fails only if the command has ended. A command that has not started gets the signal when it starts.
                let _ = self.signals.write_all(&[signal]);
            }
            // Opening the image may take long. The server suppresses the signal if it is about to start the command.
            if !has_started
                && signals::ENDING.contains(&info.si_signo)
                && let Some(server) = &self.server
                && let Some(signal) = Signal::from_named_raw(info.si_signo)
            {
                // This fails only if the server has ended.
                let _ = pidfd_send_signal(server, signal);
            }
        }
    }
}

/// Stops this process each time that the command is stopped, so that the user's shell continues.
fn follow(mut notes: PipeReader, has_started: &AtomicBool) {
    let mut note = [0];
    while notes.read_exact(&mut note).is_ok() {
        if note == [STARTED] {
            has_started.store(true, Relaxed);
        } else {
            // A process can always stop itself.
            let _ = kill_process(getpid(), Signal::STOP);
        }
    }
}
