//! Going into the background, once the mount is there.
//!
//! The command starts itself again as a child that mounts, with the child's
//! standard output as a pipe to the parent. The child tells of failures on the
//! standard error that both share, and ends. When it has mounted, it writes a
//! line to the pipe, leaves its terminal, and the parent ends.

use larder_console::{Failure, Result};
use rustix::process::setsid;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// What the program is called, unless by another name.
pub(crate) const NAME: &str = "larder";

/// Tells the child that it is the child.
const MARK: &str = "_LARDER_BACKGROUND";
const READY: &[u8] = b"ready\n";

/// Whether this process is the child.
pub(crate) fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Names the process as its program was called: the kernel named it `exe`, after the last part of the
/// path that it was started by.
pub(crate) fn take_name() {
    let program = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or(NAME.as_ref());
    if let Ok(name) = CString::new(name.as_bytes()) {
        // The name is for people to see: the server runs without it too.
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
        .env(MARK, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(READY.len() as u64).read_to_end(&mut said)?;
    }
    if said == READY {
        return Ok(0);
    }
    let status = child.wait()?;
    if let Some(signal) = status.signal() {
        return Err(io::Error::other(format!(
            "it was killed by signal {signal}"
        )));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    // A child that ends without a word is a failure, whatever its code says.
    Ok(code.unwrap_or(1).max(1))
}

/// What the child needs to leave its terminal, had before it mounts: a mount whose
/// server cannot leave is of no use.
#[derive(Debug)]
pub(crate) struct Departure {
    null: File,
}

impl Departure {
    pub(crate) fn prepare() -> Result<Self> {
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.map_err(|error| Failure::new(format!("cannot open /dev/null: {error}")))?;
        Ok(Self { null })
    }

    /// Lets go of the terminal and of the current directory, and tells the parent
    /// to end. What fails before that is the parent's to know: it is returned, and
    /// the child has to end.
    pub(crate) fn leave(self) -> io::Result<()> {
        // Fails only if this is the leader of a group already, which is as good.
        let _ = setsid();
        std::env::set_current_dir("/")?;
        let mut stdout = io::stdout();
        // A parent that was killed does not keep the mount from being served.
        let _ = stdout.write_all(READY).and_then(|()| stdout.flush());
        rustix::stdio::dup2_stdin(&self.null)?;
        rustix::stdio::dup2_stdout(&self.null)?;
        rustix::stdio::dup2_stderr(&self.null)?;
        Ok(())
    }
}
