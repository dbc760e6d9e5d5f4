//! The init: the first process of the PID namespace of the command. It starts the command, and returns its exit code.
//! Then the kernel kills all other processes in the namespace.

use super::failed::Failed;
use super::pipes::{CONTINUED, ENDED, STARTED, STOPPED, open_notes, open_signals};
use super::{namespaces, root, terminal};
use crate::background;
use crate::stage::{FAILED, Link};
use larder_console::{Failure, Result, print_error};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_parent_process_death_signal,
    wait,
};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;

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
    /// In the root directory of the image, which is its root directory.
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
    background::set_process_name();
    set_parent_process_death_signal(Some(Signal::KILL)).failed("cannot follow the server")?;
    if getpid() != Pid::INIT {
        return Err(Failure::new(
            "this process is not the first one of its PID namespace",
        ));
    }
    let (signals, mut notes) = (open_signals(link)?, open_notes(link)?);
    close_others(&[signals.as_raw_fd(), notes.as_raw_fd()])?;
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
    // The server has blocked SIGTTOU, and the command must not inherit that.
    terminal::restrict_output();
    let spawned = starting.spawn();
    terminal::permit_output();
    let child = match spawned {
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
    // A note is lost only if the launcher has ended. Then this process ends, too.
    let _ = notes.write_all(&[STARTED]);
    let started = thread::Builder::new().spawn(move || pass_on(signals, child));
    started.failed("cannot pass signals on")?;
    wait_for(child, notes).map(ExitCode::from)
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

/// Sends the signals that the launcher passes on to the command. When the launcher has ended, ends this process.
fn pass_on(mut signals: File, command: Pid) {
    let mut signal = [0];
    while signals.read_exact(&mut signal).is_ok() {
        if let Some(signal) = Signal::from_named_raw(signal[0].into()) {
            // This fails if the command has ended, or if it runs as a user to which no signals can be sent.
            let _ = kill_process(command, signal);
        }
    }
    std::process::exit(FAILED.into());
}

/// Waits until `command` ends, and returns its exit code. Notes on `notes` each time that it is stopped or
/// continued, and when it has ended.
///
/// All child processes of this process are the command or processes that the command has left, so their statuses are of
/// no interest to other code.
fn wait_for(command: Pid, mut notes: File) -> Result<u8> {
    loop {
        match wait(WaitOptions::UNTRACED | WaitOptions::CONTINUED) {
            Ok(Some((process, status))) if process == command => {
                let code = code(status);
                let note = match code {
                    Some(_) => ENDED,
                    None if status.continued() => CONTINUED,
                    None => STOPPED,
                };
                let _ = notes.write_all(&[note]);
                if let Some(code) = code {
                    return Ok(code);
                }
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                return Err(Failure::new(format!(
                    "cannot wait for the command: {error}"
                )));
            }
        }
    }
}

/// Returns the exit code that stands for `status`, or `None` if the command has not ended.
fn code(status: WaitStatus) -> Option<u8> {
    let signal = status.terminating_signal();
    let code = status.exit_status().or(signal.map(|signal| 128 + signal))?;
    Some(u8::try_from(code).unwrap_or(FAILED))
}
