//! The workloads: the commands on a mount, and their timing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::child;
use crate::fio;
use crate::measure::{as_f64, megabytes};
use crate::peer::Programs;
use crate::plan::Plan;
use crate::tree;
use crate::work::result_of;
use crate::writing::files::Written;

/// The slowest peer takes minutes where others take seconds.
const DEADLINE: Duration = Duration::from_mins(10);
/// The directory in the archive, which `rm -r` removes.
const TREE: &str = "tree";
/// The file that is written sequentially.
const BIG: &str = "written.bin";

/// Creates the archive of the plan's tree of small files in `folder`.
pub fn make_archive(folder: &Path, plan: &Plan) -> Result<PathBuf> {
    let parent = folder.join("to-archive");
    tree::make_small_files(&parent.join(TREE), plan.files)?;
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

/// Removes the tree that [`untar`] created. Returns the time in seconds.
pub(super) fn remove(root: &Path, log: &Path) -> Result<f64> {
    let mut command = Command::new(child::find("rm")?);
    command.arg("-r").arg(root.join(TREE));
    let seconds = child::run_for(DEADLINE, command, log, |_| {})?;
    ensure!(
        !root.join(TREE).exists(),
        "the tree still exists after its removal"
    );
    Ok(seconds)
}

/// Writes the big file and syncs it. Returns the rate in 10^6 bytes per second.
pub(super) fn write_sequential(
    programs: &Programs,
    root: &Path,
    plan: &Plan,
    log: &Path,
) -> Result<f64> {
    let mut command = Command::new(&programs.harness);
    command
        .arg("write-sequential")
        .arg(root.join(BIG))
        .arg(plan.write_bytes.to_string());
    let written: Written = result_of(DEADLINE, command, log)?;
    Ok(megabytes(written.bytes) / written.seconds)
}

/// Overwrites the big file with fio, 4 KiB at a time in random order, and syncs once. Returns the writes
/// per second.
pub(super) fn overwrite_random(root: &Path, plan: &Plan, log: &Path) -> Result<f64> {
    let bytes = u64::from(plan.overwrites) * 4096;
    let mut command = Command::new(child::find("fio")?);
    command
        .args([
            "--name=overwrite",
            "--rw=randwrite",
            "--bs=4096",
            "--thread",
        ])
        .args(["--ioengine=psync", "--end_fsync=1", "--randseed=1"])
        .args(["--fadvise_hint=0", "--invalidate=0", "--output-format=json"])
        .arg(format!("--filename={}", root.join(BIG).display()))
        .arg(format!("--size={}", plan.write_bytes))
        .arg(format!("--io_size={bytes}"));
    // The time of the process: fio's time excludes the fsync.
    let (seconds, json) = child::output_of(DEADLINE, command, log)?;
    Ok(as_f64(fio::job(&json)?.write.total_ios) / seconds)
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
