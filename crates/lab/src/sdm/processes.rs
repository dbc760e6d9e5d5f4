//! Runs commands, and can terminate all of them.
//!
//! # Locking
//! The lock of the set of running commands is held while a command is started, so no command can start after
//! termination was requested. A command is removed from the set before wait(2) is called for it, so the set
//! never contains a process ID that the system has reused.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::collections::HashSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Running commands, each the leader of a separate process group.
#[derive(Debug)]
pub(super) struct Processes {
    /// The running commands; `None` after termination was requested.
    running: Mutex<Option<HashSet<Pid>>>,
}

impl Processes {
    pub(super) fn new() -> Self {
        Self {
            running: Mutex::new(Some(HashSet::new())),
        }
    }

    /// Runs `command` to completion; `None` if termination was requested.
    pub(super) fn run(&self, command: &mut Command) -> io::Result<Option<ExitStatus>> {
        let Some(mut child) = self.start(command)? else {
            return Ok(None);
        };
        let pid = pid_of(&child)?;
        loop {
            match waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
            ) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let was_running = self.lock().as_mut().map(|running| running.remove(&pid));
        let status = child.wait()?;
        Ok(was_running.map(|_| status))
    }

    /// Kills all commands and the processes that they started.
    pub(super) fn end(&self) {
        for group in self.lock().take().unwrap_or_default() {
            // An error means that the command has exited.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    fn start(&self, command: &mut Command) -> io::Result<Option<Child>> {
        let mut running = self.lock();
        let Some(running) = running.as_mut() else {
            return Ok(None);
        };
        let child = command.process_group(0).spawn()?;
        running.insert(pid_of(&child)?);
        Ok(Some(child))
    }

    fn lock(&self) -> MutexGuard<'_, Option<HashSet<Pid>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("the command has no valid process ID"))
}
