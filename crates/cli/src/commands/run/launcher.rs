//! The launcher: starts the server, passes signals on to the command, and stops when the command is stopped.
//!
//! It has only one thread. A signal is therefore received before a note that was written later.

use super::failed::Failed;
use super::pipes::{self, ENDED, Ends, STARTED, STOPPED};
use super::terminal::{self, Terminal};
use crate::holder::LARDER;
use crate::signals;
use crate::stage::{FAILED, SERVER};
use larder_console::{Failure, Result, print_note};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{read, retry_on_intr};
use rustix::process::{Pid, Signal, getpid, kill_process};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH};
use signal_hook::flag;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use std::ffi::{OsStr, OsString};
use std::io::{PipeReader, PipeWriter, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;

/// The signals that the kernel sends to a process group because of its terminal. The command gets them, too, because it
/// belongs to the group. SIGHUP is not one of them: on a hang-up, the kernel sends it only to the first process of the
/// session, which may be the launcher.
const OF_TERMINAL: [i32; 6] = [SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH];
/// After the command has ended, the second of these signals ends larder. Signals that are often sent twice, such as
/// SIGTERM by timeout(1), are not among them.
const IMPATIENT: [i32; 2] = [SIGINT, SIGQUIT];

/// Runs `larder run` with `args`, and returns the exit code of the command.
pub(crate) fn launch(args: &[OsString]) -> Result<ExitCode> {
    let what = "cannot start the server";
    let terminal = Terminal::open();
    let (ends, inherited) = pipes::create().failed(what)?;
    let passed_on = [
        signals::ENDING.as_slice(),
        &signals::STOPPING,
        &signals::OTHER,
    ]
    .concat();
    let passed_on = signals::handled(&passed_on).failed(what)?;
    let received = UnixStream::pair()
        .and_then(|(read, write)| SignalDelivery::with_pipe(read, write, WithRawSiginfo, passed_on))
        .failed(what)?;
    // If the caller ignores this signal, and larder did, too, the kernel would discard the exit codes of child processes.
    // The child processes do not inherit a handler, and have the default action.
    flag::register(SIGCHLD, Arc::default()).failed(what)?;
    let program = args.first().map_or(OsStr::new(LARDER), OsString::as_os_str);
    // The kernel kills the server when this thread, which is its parent, ends.
    let server = Command::new("/proc/self/exe")
        .arg0(program)
        .arg(format!("{SERVER}{}", inherited.link()))
        .args(args.iter().skip(2))
        .spawn()
        .failed(what)?;
    drop(inherited);
    let Ends { signals, notes } = ends;
    let mut relay = Relay {
        received,
        signals,
        notes,
        server,
        phase: Phase::Starting,
    };
    relay.run()?;
    let status = relay.server.wait().failed("cannot wait for the server")?;
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

/// How far the command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Running,
    /// The command has ended. The server writes the changes to the image.
    Ended,
    /// Like `Ended`, and the user has sent a signal.
    Impatient,
}

/// Passes signals on to the command.
struct Relay {
    received: SignalDelivery<UnixStream, WithRawSiginfo>,
    /// The pipe to the init.
    signals: PipeWriter,
    /// The pipe from the init.
    notes: PipeReader,
    server: Child,
    phase: Phase,
}

impl Relay {
    /// Passes on the signals of this process, and stops it each time that the command is stopped, so that the user's shell
    /// continues. Returns when the server has ended.
    fn run(&mut self) -> Result<()> {
        loop {
            let mut polled = [
                PollFd::new(self.received.get_read(), PollFlags::IN),
                PollFd::new(&self.notes, PollFlags::IN),
            ];
            retry_on_intr(|| poll(&mut polled, None)).failed("cannot wait for signals")?;
            let has_notes = !polled[1].revents().is_empty();

            let mut notes = [0_u8; 64];
            let mut count = 0;
            if has_notes {
                count = retry_on_intr(|| read(&self.notes, &mut notes))
                    .failed("cannot wait for the command")?;
                if count == 0 {
                    return Ok(());
                }
            }
            let notes = &notes[..count];
            // The command may already be continued.
            let is_stopped = notes.last() == Some(&STOPPED);
            self.pass_on(is_stopped);
            for note in notes {
                match *note {
                    STARTED => self.phase = Phase::Running,
                    ENDED => {
                        self.phase = Phase::Ended;
                        // From now on, this process may print a note, also in the background.
                        terminal::permit_output();
                    }
                    _ => {}
                }
            }
            if is_stopped {
                // A process can always stop itself.
                let _ = kill_process(getpid(), Signal::STOP);
            }
        }
    }

    /// Passes on the signals that have arrived. If the command is stopped already, signals that would stop it have no
    /// effect, as in the kernel, which discards them when the command is continued.
    fn pass_on(&mut self, is_stopped: bool) {
        let batch: Vec<_> = self.received.pending().collect();
        let is_continued = batch.iter().any(|info| info.si_signo == SIGCONT);
        for info in batch {
            let is_stop = signals::STOPPING.contains(&info.si_signo);
            if !(is_stop && (is_stopped || is_continued)) {
                // Signals of processes have codes of at most 0, and those of the kernel have positive codes.
                let is_from_terminal = info.si_code > 0 && OF_TERMINAL.contains(&info.si_signo);
                self.pass_on_one(info.si_signo, is_from_terminal);
            }
        }
    }

    fn pass_on_one(&mut self, number: i32, is_from_terminal: bool) {
        match self.phase {
            Phase::Starting => {
                // The command gets the signal when it starts.
                self.send_to_command(number);
                // Opening the image may take long. The server suppresses the signal if it is about to start the command.
                if signals::ENDING.contains(&number)
                    && let Some(signal) = Signal::from_named_raw(number)
                {
                    // This fails only if the server has ended.
                    let _ = kill_process(Pid::from_child(&self.server), signal);
                }
            }
            Phase::Running if !is_from_terminal => self.send_to_command(number),
            Phase::Ended if IMPATIENT.contains(&number) => {
                self.phase = Phase::Impatient;
                print_note(
                    "the command has ended, and its changes are being written to the image; the next Ctrl-C \
                     ends larder at once",
                );
            }
            Phase::Impatient if IMPATIENT.contains(&number) => {
                // This fails only if the server has ended.
                let _ = self.server.kill();
            }
            Phase::Running | Phase::Ended | Phase::Impatient => {}
        }
    }

    fn send_to_command(&mut self, number: i32) {
        if let Ok(number) = u8::try_from(number) {
            // This fails only if the command has ended.
            let _ = self.signals.write_all(&[number]);
        }
    }
}
