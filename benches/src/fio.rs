//! Runs fio on an image, and parses the JSON report of its first job.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use larder_testkit::tool;
use serde::Deserialize;

use crate::child;
use crate::tree::PAGE_BYTES;
use crate::work::Reading;

#[derive(Deserialize)]
struct Output {
    jobs: Vec<Job>,
}

/// The report on a job.
#[derive(Deserialize)]
pub(crate) struct Job {
    error: i32,
    /// The figures of its reads.
    #[serde(default)]
    pub(crate) read: Reads,
}

/// The figures of reads.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Reads {
    pub(crate) io_bytes: u64,
    pub(crate) total_ios: u64,
    /// The duration in milliseconds.
    pub(crate) runtime: u32,
}

/// Returns the first job of fio's output, which must have succeeded.
pub(crate) fn job(json: &[u8]) -> Result<Job> {
    let output: Output = serde_json::from_slice(json).context("fio wrote no JSON")?;
    let job = output.jobs.into_iter().next().context("fio ran no job")?;
    ensure!(job.error == 0, "fio: error {}", job.error);
    Ok(job)
}

/// Returns the reason why fio cannot read with `io_uring` here, if there is one. `file` is any file.
pub(crate) fn missing(file: &Path) -> Option<String> {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    let probe = || {
        let Some(fio) = tool::find("fio") else {
            return Some("fio is not installed".to_owned());
        };
        let status = Command::new(fio)
            .args(["--name=probe", "--readonly", "--thread", "--rw=read"])
            .args(["--ioengine=io_uring", "--bs=4096", "--size=4096"])
            .arg(format!("--filename={}", file.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let works = status.is_ok_and(|status| status.success());
        (!works).then(|| "fio cannot use io_uring here".to_owned())
    };
    MISSING.get_or_init(probe).clone()
}

/// Reads the pages at `offsets` (in bytes) of `image` with `io_uring`, with a queue of `at_once`
/// requests. The list of pages and the log are written to `folder`.
pub(crate) fn random_reads(
    image: &Path,
    offsets: &[u64],
    at_once: u32,
    folder: &Path,
) -> Result<Reading> {
    let file = image.display();
    let mut list = format!("fio version 2 iolog\n{file} add\n{file} open\n");
    for offset in offsets {
        let _ = writeln!(list, "{file} read {offset} {PAGE_BYTES}");
    }
    let _ = writeln!(list, "{file} close");
    let log = folder.join("reads.iolog");
    fs::write(&log, list)?;
    let mut command = Command::new(child::find("fio")?);
    command
        .args(["--name=random", "--readonly", "--thread", "--rw=randread"])
        .args(["--ioengine=io_uring", "--direct=0", "--invalidate=0"])
        .args(["--fadvise_hint=random", "--replay_no_stall=1"])
        .args(["--output-format=json", &format!("--iodepth={at_once}")])
        .arg(format!("--read_iolog={}", log.display()));
    let (_, json) = child::output_of(child::DEADLINE, command, &folder.join("fio.log"))?;
    let read = job(&json)?.read;
    Ok(Reading {
        // When fio replays a list, `io_bytes` excludes the reads that were in flight at the list's end.
        bytes: read.total_ios * PAGE_BYTES as u64,
        seconds: f64::from(read.runtime.max(1)) / 1e3,
        ..Reading::default()
    })
}
