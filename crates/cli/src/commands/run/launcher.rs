//! The launcher: starts the server, passes signals on to the command, and stops when the command is stopped.
//!
//! It has only one thread.

use super::failed::Failed;
use super::pipes::{self, ENDED, Ends, IS_RUNNING, IS_STOPPED, QUERY, STARTED, STOPPED};
use super::terminal::{self, Terminal};
use crate::holder::LARDER;
use crate::signals;
use crate::stage::{FAILED, SERVER};
use larder_console::{Failure, Result, print_note};
use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{read, retry_on_intr};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH};
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
    // Child processes inherit that these signals are blocked.
    let stops = terminal::receive_stops().failed(what)?;
    let passed_on = [signals::ENDING.as_slice(), &signals::OTHER].concat();
    let passed_on = signals::handled(&passed_on).failed(what)?;
    let received = UnixStream::pair()
        .and_then(|(read, write)| SignalDelivery::with_pipe(read, write, WithRawSiginfo, passed_on))
        .failed(what)?;
    // If the caller ignores this signal, larder inherits that, and the kernel would discard the exit codes of child
    // processes. A handler prevents this. Child processes do not inherit the handler, and have the default action.
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
        stops,
        signals,
        notes,
        server,
        phase: Phase::Starting,
        awaits_answer: false,
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
    /// The signals that stop a process, except SIGSTOP. SIGCONT removes those that were not read yet.
    stops: SignalFd,
    /// The pipe to the init.
    signals: PipeWriter,
    /// The pipe from the init.
    notes: PipeReader,
    server: Child,
    phase: Phase,
    /// Whether the init has not answered [`QUERY`] yet. Until then, `stops` is not read: the SIGTSTP of this process must
    /// remain pending.
    awaits_answer: bool,
}

impl Relay {
    /// Passes on the signals of this process, and stops it each time that the command is stopped, so that the user's shell
    /// continues. Returns when the server has ended.
    fn run(&mut self) -> Result<()> {
        loop {
            let stops = if self.awaits_answer {
                PollFlags::empty()
            } else {
                PollFlags::IN
            };
            let mut polled = [
                PollFd::new(self.received.get_read(), PollFlags::IN),
                PollFd::new(&self.notes, PollFlags::IN),
                PollFd::new(&self.stops, stops),
            ];
            retry_on_intr(|| poll(&mut polled, None)).failed("cannot wait for signals")?;
            let has_notes = !polled[1].revents().is_empty();

            self.pass_on();
            if has_notes {
                let mut notes = [0_u8; 64];
                let count = retry_on_intr(|| read(&self.notes, &mut notes))
                    .failed("cannot wait for the command")?;
                if count == 0 {
                    return Ok(());
                }
                for note in &notes[..count] {
                    self.follow(*note);
                }
            }
        }
    }

    /// Acts on a note of the init. The [parent module](super) describes the steps of a stop.
    fn follow(&mut self, note: u8) {
        match note {
            STARTED => self.phase = Phase::Running,
            // The answer to an earlier query follows, and is newer than this note.
            STOPPED if self.awaits_answer => {}
            STOPPED => {
                terminal::prepare_stop();
                self.awaits_answer = true;
                // A SIGCONT that arrived before the SIGTSTP has not discarded the SIGTSTP. Pass the SIGCONT on before
                // the query.
                self.pass_on();
                // This fails only if the command has ended.
                let _ = self.signals.write_all(&[QUERY]);
            }
            IS_STOPPED => {
                self.awaits_answer = false;
                terminal::stop();
            }
            IS_RUNNING => self.awaits_answer = false,
            ENDED => {
                self.awaits_answer = false;
                self.phase = Phase::Ended;
            }
            _ => {}
        }
    }

    /// Passes on the signals that have arrived.
    fn pass_on(&mut self) {
        let received = self.received.pending();
        let mut batch: Vec<(i32, i32)> =
            received.map(|info| (info.si_signo, info.si_code)).collect();
        // SIGCONT would have removed a signal that was sent before it. The following signals are therefore newer than a
        // SIGCONT in `batch`.
        while !self.awaits_answer
            && let Ok(Some(info)) = self.stops.read_signal()
        {
            // The SIGTSTP that this process has sent to itself remains if the command was continued.
            if info.ssi_pid != std::process::id() {
                batch.push((info.ssi_signo.cast_signed(), info.ssi_code));
            }
        }
        for (number, code) in batch {
            // Signals of processes have codes of at most 0, and those of the kernel have positive codes.
            self.pass_on_one(number, code > 0 && OF_TERMINAL.contains(&number));
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
