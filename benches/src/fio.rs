//! Parses fio's report on a job, in JSON.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

#[derive(Deserialize)]
struct Output {
    jobs: Vec<Job>,
}

/// A job.
#[derive(Deserialize)]
pub(crate) struct Job {
    error: i32,
    /// Its reads.
    #[serde(default)]
    pub(crate) read: Direction,
    /// Its writes.
    #[serde(default)]
    pub(crate) write: Direction,
}

/// The figures of reads or writes.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Direction {
    pub(crate) io_bytes: u64,
    pub(crate) total_ios: u64,
    /// In milliseconds.
    pub(crate) runtime: u32,
}

/// Returns the first job of fio's output, which must have succeeded.
pub(crate) fn job(json: &[u8]) -> Result<Job> {
    let output: Output = serde_json::from_slice(json).context("fio wrote no JSON")?;
    let job = output.jobs.into_iter().next().context("fio ran no job")?;
    ensure!(job.error == 0, "fio: error {}", job.error);
    Ok(job)
}
