//! Moving into the background after mounting.
//!
//! The command starts itself again as a child that mounts. The child's standard output is a pipe to the
//! parent. The child reports failures on the shared standard error, and ends. After a successful mount,
//! it writes a line to the pipe and leaves its terminal, and the parent ends.

use larder_console::{Failure, Result};
use rustix::process::setsid;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// The default name of the program.
pub(crate) const NAME: &str = "larder";

/// The environment variable that identifies the child.
const CHILD_VARIABLE: &str = "_LARDER_BACKGROUND";
const READY: &[u8] = b"ready\n";

/// Returns whether this process is the child.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD_VARIABLE).is_some()
}

/// Sets the name of the process to the name of the program. The kernel named it `exe`, after the last
/// part of the path from which it was started.
pub(crate) fn set_process_name() {
    let program = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or(NAME.as_ref());
    if let Ok(name) = CString::new(name.as_bytes()) {
        // The name is informational: the server runs without it too.
        let _ = rustix::thread::set_name(&name);
    }
}

/// Runs the same command line in a child. Returns 0 once the child serves, or the exit code of a child
/// that failed and has reported why.
pub(crate) fn run_child() -> io::Result<u8> {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_else(|| OsString::from(NAME));
    let mut child = Command::new("/proc/self/exe")
        .arg0(program)
        .args(args)
        .env(CHILD_VARIABLE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
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
    // A child that ends without the ready line has failed, whatever its exit code is.
    Ok(code.unwrap_or(1).max(1))
}

/// The resources that the child needs to leave its terminal. They are acquired before it mounts,
/// because a server that cannot leave must not mount.
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

    /// Leaves the terminal and the current directory, and lets the parent end. An earlier failure is
    /// returned, because the parent reports it; then the child must end.
    pub(crate) fn detach(self) -> io::Result<()> {
        // This fails only if the process is already a group leader, which is sufficient.
        let _ = setsid();
        std::env::set_current_dir("/")?;
        let mut stdout = io::stdout();
        // The mount is served even if the parent was killed.
        let _ = stdout.write_all(READY).and_then(|()| stdout.flush());
        rustix::stdio::dup2_stdin(&self.null)?;
        rustix::stdio::dup2_stdout(&self.null)?;
        rustix::stdio::dup2_stderr(&self.null)?;
        Ok(())
    }
}
