//! The init: the first process of the PID namespace of the command. It starts the command, and returns its exit code.
//! Then the kernel kills all other processes in the namespace.

use super::failed::Failed;
use super::pipes::{
    ENDED, IS_RUNNING, IS_STOPPED, QUERY, STARTED, STOPPED, open_notes, open_signals,
};
use super::{namespaces, root, terminal};
use crate::background;
use crate::stage::{FAILED, Link};
use larder_console::{Failure, Result, print_error};
use nix::sys::signal::SigSet;
use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_parent_process_death_signal,
    wait,
};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::process::{Command, ExitCode};

/// The environment variable of the command with the path of the root directory of the image.
const ROOT_VARIABLE: &str = "LARDER_ROOT";
/// The exit codes for a command that cannot be executed, and for one that is not found.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Where the command starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the root directory of the image.
    Root,
    /// In the current directory.
    Current,
    /// In the root directory of the image, which is also the root directory of the command.
    Chroot,
}

impl Place {
    const ALL: [Self; 3] = [Self::Root, Self::Current, Self::Chroot];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Current => "current",
            Self::Chroot => "chroot",
        }
    }
}

/// Runs the command. The arguments after the first two are the mount point, the [`Place`] and the command.
pub(crate) fn run(args: &[OsString], link: Link) -> Result<ExitCode> {
    let place = |name: &OsStr| Place::ALL.into_iter().find(|place| name == place.as_str());
    let Some((root, place, command)) = (match args {
        [_, _, root, name, _separator, command @ ..] => {
            place(name.as_os_str()).map(|place| (Path::new(root), place, command))
        }
        _ => None,
    }) else {
        return Err(Failure::usage("these are not the arguments of larder run"));
    };
    background::set_process_name("-init");
    set_parent_process_death_signal(Some(Signal::KILL)).failed("cannot follow the server")?;
    if getpid() != Pid::INIT {
        return Err(Failure::new(
            "this process is not the first one of its PID namespace",
        ));
    }
    let (requests, notes) = (open_signals(link)?, open_notes(link)?);
    close_others(&[requests.as_raw_fd(), notes.as_raw_fd()])?;
    namespaces::copy_mounts()?;
    let directory = prepare_files(root, place)?;
    namespaces::drop_privileges()?;

    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::usage("the command is missing"));
    };
    let mut starting = Command::new(program);
    starting.args(arguments).env(ROOT_VARIABLE, directory);
    if place != Place::Current {
        starting.env("PWD", directory);
    }
    // The launcher has blocked these signals, and the command must not inherit that.
    terminal::unblock_stops();
    let spawned = starting.spawn();
    terminal::block_stops();
    let command = match spawned {
        Ok(child) => Pid::from_child(&child),
        Err(error) => {
            print_error(&format!("cannot run {}: {error}", program.display()));
            let is_missing = error.kind() == ErrorKind::NotFound;
            let code = if is_missing {
                NOT_FOUND
            } else {
                NOT_EXECUTABLE
            };
            return Ok(ExitCode::from(code));
        }
    };
    let mut job = Job {
        command,
        requests,
        notes,
        is_stopped: false,
        accepts_continue: false,
    };
    job.note(STARTED);
    job.run().map(ExitCode::from)
}

/// Closes the descriptors that this process has inherited, except the standard ones and `kept`.
fn close_others(kept: &[RawFd]) -> Result<()> {
    let what = "cannot list the open files";
    let entries = fs::read_dir("/proc/self/fd").failed(what)?;
    let mut open = Vec::new();
    for entry in entries {
        let name = entry.failed(what)?.file_name();
        open.extend(name.to_str().and_then(|name| name.parse::<RawFd>().ok()));
    }
    for number in open {
        if number > 2 && !kept.contains(&number) {
            // The descriptor with which the list was read is already closed.
            let _ = nix::unistd::close(number);
        }
    }
    Ok(())
}

/// Sets up the mounts of this process, and moves it to the place where the command starts. Returns the root directory of
/// the image as the command sees it.
fn prepare_files(mountpoint: &Path, place: Place) -> Result<&Path> {
    if place == Place::Chroot {
        root::enter(mountpoint)?;
        return Ok(Path::new("/"));
    }
    // This fails in some containers. Then /proc shows the processes of the container.
    let _ = root::mount_proc(Path::new("/proc"));
    if place == Place::Root {
        env::set_current_dir(mountpoint)
            .failed(format_args!("cannot enter {}", mountpoint.display()))?;
    } else if let Ok(current) = env::current_dir() {
        // If the image is mounted on the current directory, its path now leads to the image. The directory is kept if
        // the path cannot be used.
        let _ = env::set_current_dir(current);
    }
    Ok(mountpoint)
}

/// The command, and what its parent process knows of it.
///
/// One thread waits for the command and performs the requests of the launcher. Before a request, it reads the state of the
/// command, so that requests and changes of the state are not reordered.
struct Job {
    command: Pid,
    /// The pipe from the launcher.
    requests: File,
    /// The pipe to the launcher.
    notes: File,
    is_stopped: bool,
    /// Whether the launcher knows of the current stop, or has caused it. Only then can it end the stop: if the command was
    /// continued and stopped again, a SIGCONT that the launcher passes on is older than the second stop.
    accepts_continue: bool,
}

impl Job {
    /// Performs the requests of the launcher until the command has ended, and returns the exit code of the command.
    fn run(&mut self) -> Result<u8> {
        let changes = terminal::receive(&SigSet::from(nix::sys::signal::Signal::SIGCHLD))
            .failed("cannot wait for the command")?;
        let mut request = None;
        loop {
            // A change after this is found by `update`, or ends the next wait.
            let _ = changes.read_signal();
            if let Some(code) = self.update()? {
                return Ok(code);
            }
            if let Some(request) = request {
                self.perform(request);
            }
            request = self.wait(&changes)?;
        }
    }

    /// Reads the state of the command. Notes each stop and the end of the command for the launcher. Returns the exit code
    /// if the command has ended.
    ///
    /// All child processes of this process are the command or processes that the command has left, so their statuses are of
    /// no interest to other code.
    fn update(&mut self) -> Result<Option<u8>> {
        let options = WaitOptions::UNTRACED | WaitOptions::CONTINUED | WaitOptions::NOHANG;
        while let Some((process, status)) =
            retry_on_intr(|| wait(options)).failed("cannot wait for the command")?
        {
            if process != self.command {
                continue;
            }
            if let Some(code) = code(status) {
                self.note(ENDED);
                return Ok(Some(code));
            }
            // Between two stops, the command was continued: the kernel reports only the last change.
            if self.is_stopped || status.continued() {
                self.accepts_continue = false;
            }
            self.is_stopped = status.stopped();
            if self.is_stopped {
                self.note(STOPPED);
            }
        }
        Ok(None)
    }

    /// Waits until a request arrives or the state of a child process changes. Returns the request. When the launcher has
    /// ended, ends this process.
    fn wait(&mut self, changes: &SignalFd) -> Result<Option<u8>> {
        let mut polled = [
            PollFd::new(&self.requests, PollFlags::IN),
            PollFd::new(changes, PollFlags::IN),
        ];
        retry_on_intr(|| poll(&mut polled, None)).failed("cannot wait for the command")?;
        if polled[0].revents().is_empty() {
            return Ok(None);
        }
        let mut request = [0];
        if self.requests.read_exact(&mut request).is_err() {
            std::process::exit(FAILED.into());
        }
        Ok(Some(request[0]))
    }

    /// Performs a request of the launcher.
    fn perform(&mut self, request: u8) {
        if request == QUERY {
            self.accepts_continue |= self.is_stopped;
            let answer = if self.is_stopped {
                IS_STOPPED
            } else {
                IS_RUNNING
            };
            self.note(answer);
            return;
        }
        let Some(signal) = Signal::from_named_raw(request.into()) else {
            return;
        };
        if signal == Signal::CONT {
            if !mem::take(&mut self.accepts_continue) {
                return;
            }
        } else if [Signal::TSTP, Signal::TTIN, Signal::TTOU].contains(&signal) {
            self.accepts_continue = true;
        }
        // This fails if the command runs as a user to which no signals can be sent.
        let _ = kill_process(self.command, signal);
    }

    fn note(&mut self, note: u8) {
        // A note is lost only if the launcher has ended. Then this process ends, too.
        let _ = self.notes.write_all(&[note]);
    }
}

/// Returns the exit code that stands for `status`, or `None` if the command has not ended.
fn code(status: WaitStatus) -> Option<u8> {
    let signal = status.terminating_signal();
    let code = status.exit_status().or(signal.map(|signal| 128 + signal))?;
    Some(u8::try_from(code).unwrap_or(FAILED))
}
