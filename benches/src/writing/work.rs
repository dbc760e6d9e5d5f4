//! The workloads: the commands on a mount, and their timing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::child;
use crate::measure::as_f64;
use crate::peer::Programs;
use crate::plan::Plan;
use crate::tree;
use crate::work::result_of;
use crate::writing::files::Written;

/// The deadline of a workload. The slowest peer takes minutes where others take seconds.
const DEADLINE: Duration = Duration::from_mins(10);
/// The name of the directory in the archive.
const TREE: &str = "tree";
/// The name of the copy of that directory.
const COPY: &str = "copy";
/// The file that is written sequentially.
const BIG: &str = "written.bin";
/// The file to which records are appended.
const RECORDS: &str = "records.bin";

/// Creates the archive of the plan's tree of small files in `folder`.
pub fn make_archive(folder: &Path, plan: &Plan) -> Result<PathBuf> {
    let parent = folder.join("to-archive");
    tree::make_small_files(&parent.join(TREE), plan.files, 16 << 10)?;
    let archive = folder.join("tree.tar");
    let mut command = Command::new(child::find("tar")?);
    command
        .arg("-cf")
        .arg(&archive)
        .arg("-C")
        .arg(&parent)
        .arg(TREE);
    child::run(command, &folder.join("tar.log"), |_| {})?;
    fs::remove_dir_all(&parent)?;
    Ok(archive)
}

/// Unpacks `archive`. Returns the time in seconds.
pub(super) fn untar(root: &Path, archive: &Path, log: &Path) -> Result<f64> {
    let mut command = Command::new(child::find("tar")?);
    command.arg("-xf").arg(archive).arg("-C").arg(root);
    child::run_for(DEADLINE, command, log, |_| {})
}

/// Copies the tree that [`untar`] created. Returns the time in seconds.
pub(super) fn copy(root: &Path, log: &Path) -> Result<f64> {
    let mut command = Command::new(child::find("cp")?);
    command.arg("-a").arg(root.join(TREE)).arg(root.join(COPY));
    child::run_for(DEADLINE, command, log, |_| {})
}

/// Removes the permissions of other users from the tree. Returns the time in seconds.
pub(super) fn chmod(root: &Path, log: &Path) -> Result<f64> {
    let mut command = Command::new(child::find("chmod")?);
    command.args(["-R", "go="]).arg(root.join(TREE));
    let seconds = child::run_for(DEADLINE, command, log, |_| {})?;
    let mode = fs::metadata(root.join(TREE))?.permissions().mode();
    let others = mode & 0o077;
    ensure!(others == 0, "the tree has the mode {mode:o}");
    Ok(seconds)
}

/// Removes the tree. Returns the time in seconds.
pub(super) fn remove(root: &Path, log: &Path) -> Result<f64> {
    let mut command = Command::new(child::find("rm")?);
    command.arg("-r").arg(root.join(TREE));
    let seconds = child::run_for(DEADLINE, command, log, |_| {})?;
    ensure!(
        !root.join(TREE).exists() && root.join(COPY).exists(),
        "after its removal, the tree still exists or its copy does not"
    );
    Ok(seconds)
}

/// A workload of one file, in a separate process.
#[derive(Clone, Copy, Debug)]
pub(super) enum FileWork {
    /// Writes the big file and syncs it.
    Write,
    /// Overwrites random pages of the big file, and syncs it.
    Overwrite,
    /// Appends records to a new file.
    Append,
}

/// Runs a workload of one file.
pub(super) fn write(
    work: FileWork,
    programs: &Programs,
    root: &Path,
    plan: &Plan,
    log: &Path,
) -> Result<Written> {
    let (name, file, amount) = match work {
        FileWork::Write => ("write-sequential", BIG, plan.write_bytes),
        FileWork::Overwrite => ("write-random", BIG, plan.overwrites.into()),
        FileWork::Append => ("write-records", RECORDS, plan.appends.into()),
    };
    let mut command = Command::new(&programs.harness);
    command
        .arg(name)
        .arg(root.join(file))
        .arg(amount.to_string());
    result_of(DEADLINE, command, log)
}

/// Creates, writes, syncs and closes `files` files in total, in `processes` concurrent processes.
/// Returns the files per second.
pub(super) fn fsync_files(
    programs: &Programs,
    root: &Path,
    processes: u32,
    files: u32,
    log: &Path,
) -> Result<f64> {
    let mut command = Command::new(&programs.harness);
    command
        .arg("write-files")
        .arg(root)
        .arg(processes.to_string())
        .arg((files / processes).max(1).to_string());
    let written: Written = result_of(DEADLINE, command, log)?;
    Ok(as_f64(written.files) / written.seconds)
}
