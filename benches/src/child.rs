//! Runs programs with a deadline, and logs their errors.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use larder_testkit::tool;
use rustix::process::{Pid, Signal, kill_process};

/// The default deadline of a workload. A workload that takes longer is assumed to hang.
pub const DEADLINE: Duration = Duration::from_mins(2);

/// Runs `command` until it exits. Passes its standard output to `consume` block by block, and writes its
/// standard error to `log`. Returns the elapsed time in seconds, from just before the start to the exit.
///
/// # Errors
/// Fails if the command fails, or does not exit within [`DEADLINE`]; it is then killed.
pub fn run(command: Command, log: &Path, consume: impl FnMut(&[u8])) -> Result<f64> {
    run_for(DEADLINE, command, log, consume)
}

/// Runs `command` as [`run`] does, but with `deadline` instead of [`DEADLINE`].
pub fn run_for(
    deadline: Duration,
    mut command: Command,
    log: &Path,
    mut consume: impl FnMut(&[u8]),
) -> Result<f64> {
    let line = format!("{command:?}");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(log)?);
    let mut block = vec![0; 1 << 20];
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| line.clone())?;
    let watchdog = Watchdog::new(&child, deadline);
    if let Some(mut pipe) = child.stdout.take() {
        loop {
            match pipe.read(&mut block) {
                Ok(0) => break,
                Ok(len) => consume(&block[..len]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).with_context(|| line),
            }
        }
    }
    let status = child.wait()?;
    let seconds = started.elapsed().as_secs_f64();
    if watchdog.stop() {
        bail!("{line}: did not finish within {} s", deadline.as_secs());
    }
    if !status.success() {
        bail!("{line}: {status}: {}", tail(log));
    }
    Ok(seconds)
}

/// Runs `command` as [`run_for`] does, and also returns its standard output.
pub fn output_of(deadline: Duration, command: Command, log: &Path) -> Result<(f64, Vec<u8>)> {
    let mut output = Vec::new();
    let seconds = run_for(deadline, command, log, |block| {
        output.extend_from_slice(block);
    })?;
    Ok((seconds, output))
}

/// Returns the path of the program `name`.
pub fn find(name: &str) -> Result<PathBuf> {
    tool::find(name).with_context(|| format!("{name} is not installed"))
}

/// Returns the last three lines of `log` as one line, or an empty text if `log` cannot be read.
#[must_use]
pub fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("; ")
}

/// Waits at most `limit` for `child` to exit. Returns `None` if it is still running then.
pub fn wait_for(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let give_up = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > give_up {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Kills a child that takes too long, so that a mount that hangs does not block the run.
struct Watchdog {
    done: mpsc::Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watchdog {
    fn new(child: &Child, limit: Duration) -> Self {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (done, wait) = mpsc::channel();
        let thread = thread::spawn(move || {
            let expired = wait.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            if let (true, Some(pid)) = (expired, pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
            expired
        });
        Self { done, thread }
    }

    /// Stops watching, and returns whether the child was killed.
    fn stop(self) -> bool {
        let _ = self.done.send(());
        self.thread.join().unwrap_or(false)
    }
}
