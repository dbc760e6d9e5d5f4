//! Runs the server of a mount as a background process.
//!
//! The command starts itself again as a child process, which mounts the image. The standard output of the
//! child is a pipe to the parent. If the mount fails, the child reports the failure on standard error, which
//! it shares with the parent, and ends. If the mount succeeds, the child writes a line to the pipe and
//! detaches from the terminal, and the parent ends.

use crate::holder::LARDER;
use crate::remote;
use larder_console::{Failure, Result};
use rustix::process::setsid;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// The environment variable that is set only in the child process.
const CHILD_VARIABLE: &str = "_LARDER_BACKGROUND";
const READY: &[u8] = b"ready\n";

/// Returns whether this process is the child process that mounts.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD_VARIABLE).is_some()
}

/// Sets the name of this process to the name of the program, followed by `suffix`. Without this, the name is `exe`, because
/// the child is started from `/proc/self/exe`.
pub(crate) fn set_process_name(suffix: &str) {
    let program = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or(LARDER.as_ref());
    let name = [name.as_bytes(), suffix.as_bytes()].concat();
    if let Ok(name) = CString::new(name) {
        // The name is only shown to users, so a failure to set it is ignored.
        let _ = rustix::thread::set_name(&name);
    }
}

/// Runs the same command line in a child process. Returns 0 when the child serves the mount. If the child
/// fails, returns its exit code; the child has then reported the failure.
pub(crate) fn run_child() -> io::Result<u8> {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_else(|| OsString::from(LARDER));
    let url = remote::url_from_stdin();
    let mut child = Command::new("/proc/self/exe")
        .arg0(program)
        .args(args)
        .env(CHILD_VARIABLE, "1")
        .stdin(match url {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        })
        .stdout(Stdio::piped())
        .spawn()?;
    if let (Some(url), Some(mut input)) = (url, child.stdin.take()) {
        // This fails only if the child has ended, which is reported below.
        let _ = input.write_all(url.as_bytes());
    }
    let mut received = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(READY.len() as u64).read_to_end(&mut received)?;
    }
    if received == READY {
        return Ok(0);
    }
    let status = child.wait()?;
    if let Some(signal) = status.signal() {
        return Err(io::Error::other(format!(
            "it was killed by signal {signal}"
        )));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    // A child that ended without the ready line has failed, even if its exit code is 0.
    Ok(code.unwrap_or(1).max(1))
}

/// The resources that the child needs to detach from its terminal. They are acquired before it mounts,
/// because a server that cannot detach must not mount.
#[derive(Debug)]
pub(crate) struct Detach {
    null: File,
}

impl Detach {
    pub(crate) fn prepare() -> Result<Self> {
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.map_err(|error| Failure::new(format!("cannot open /dev/null: {error}")))?;
        Ok(Self { null })
    }

    /// Detaches this process from its terminal and its current directory, and signals to the parent that the
    /// mount is served. On failure, this process must end, so that the parent reports the failure.
    pub(crate) fn detach(self) -> io::Result<()> {
        // `setsid` fails only if the process already leads a process group. A failure is ignored.
        let _ = setsid();
        std::env::set_current_dir("/")?;
        let mut stdout = io::stdout();
        // This write fails if the parent was killed. The failure is ignored, and the mount is served.
        let _ = stdout.write_all(READY).and_then(|()| stdout.flush());
        rustix::stdio::dup2_stdin(&self.null)?;
        rustix::stdio::dup2_stdout(&self.null)?;
        rustix::stdio::dup2_stderr(&self.null)?;
        Ok(())
    }
}
