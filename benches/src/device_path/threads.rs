//! The threads of an idle mount.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::child;
use crate::measure::as_f64;
use crate::peer::{Peer, Programs};
use crate::plan::Plan;
use crate::scratch::{Scratch, Size};
use crate::work::result_of;
use crate::writing::files::Written;

/// The number of processes that use the mount at first, so that it starts all of its threads.
const PROCESSES: u32 = 16;
/// The time to wait until the threads that exit when they are idle have exited.
const REST: Duration = Duration::from_secs(1);

/// Returns the number of threads of a writable mount that was used, and then was idle for [`REST`].
pub(super) fn at_rest(
    programs: &Programs,
    plan: &Plan,
    peer: Peer,
    (folder, log): (&Path, &Path),
) -> Result<f64> {
    let files = plan.fsync_files.max(PROCESSES);
    let scratch = Scratch::make(folder, Size::of_files(u64::from(files)))?;
    let mounted = scratch.mount(programs, peer, &[])?;
    let mut command = Command::new(&programs.harness);
    command
        .arg("write-files")
        .arg(mounted.root())
        .args([PROCESSES.to_string(), (files / PROCESSES).to_string()]);
    let written: Written = result_of(child::DEADLINE, command, log)?;
    ensure!(written.files > 0, "no files were written");
    thread::sleep(REST);
    let pid = mounted.server_pid().context("the mount has no server")?;
    let threads = fs::read_dir(format!("/proc/{pid}/task"))?.count() as u64;
    ensure!(threads > 0, "the server has ended");
    drop(mounted);
    scratch.check()?;
    Ok(as_f64(threads))
}
