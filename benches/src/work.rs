//! The workloads on a mount. Each returns its figures and checks what it read.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::{Random, Seed};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::child;
use crate::tree::{BIG_FILE_NUMBER, PAGE_BYTES, Tree, wrong_pages};

/// The size of reads when a program reads a whole file.
const SEQUENTIAL_BYTES: usize = 1 << 20;

/// The result of readers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// The time from just before the start of the first reader to the end of the last one.
    pub seconds: f64,
    /// Bytes read.
    pub bytes: u64,
    /// Pages that differ from the content of the image.
    pub wrong_pages: u64,
    /// Bytes read in each second, for readers with a deadline.
    #[serde(default)]
    pub bytes_by_second: Vec<u64>,
}

/// Runs `find`, which queries the size of each file. Returns the elapsed time in seconds.
pub fn find(root: &Path, tree: &Tree, log: &Path) -> Result<f64> {
    let mut command = Command::new("find");
    command.arg(root).args(["-printf", "%s %P\\n"]);
    let mut names = 0;
    let seconds = child::run(command, log, |block| {
        names += block.split(|byte| *byte == b'\n').count() as u64 - 1;
    })?;
    ensure!(
        names == tree.entries,
        "find listed {names} of {} names",
        tree.entries
    );
    Ok(seconds)
}

/// Runs `tar` with its output to a pipe. Returns the elapsed time in seconds, and the size of the output
/// in bytes.
pub fn tar(root: &Path, tree: &Tree, log: &Path) -> Result<(f64, u64)> {
    let mut command = Command::new("tar");
    command.args(["-cf", "-", "-C"]).arg(root).arg(".");
    let mut bytes = 0;
    let seconds = child::run(command, log, |block| bytes += block.len() as u64)?;
    ensure!(
        bytes > tree.big_file_bytes,
        "tar wrote {bytes} bytes, fewer than the largest file has"
    );
    Ok((seconds, bytes))
}

/// Runs `command`, a command of this crate's binary, and returns the result that it prints as JSON.
pub fn result_of<R: DeserializeOwned>(
    deadline: Duration,
    command: Command,
    log: &Path,
) -> Result<R> {
    let (_, json) = child::output_of(deadline, command, log)?;
    serde_json::from_slice(&json).context("the process wrote no result")
}

/// A file that several threads can read concurrently, each at its own offset.
pub trait ReadAt: Sync {
    /// Fills `buf` with the bytes at `offset_bytes`, which must be inside the file.
    fn read_exact(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()>;
}

impl ReadAt for File {
    fn read_exact(&self, buf: &mut [u8], offset_bytes: u64) -> Result<()> {
        Ok(self.read_exact_at(buf, offset_bytes)?)
    }
}

/// Reads the first `size_bytes` of the big file from start to end.
pub fn sequential_at(file: &impl ReadAt, size_bytes: u64) -> Result<Reading> {
    let mut buf = vec![0; SEQUENTIAL_BYTES];
    let mut result = Reading::default();
    let started = Instant::now();
    while result.bytes < size_bytes {
        let rest = usize::try_from(size_bytes - result.bytes)?;
        let len = buf.len().min(rest);
        file.read_exact(&mut buf[..len], result.bytes)?;
        let page = result.bytes / PAGE_BYTES as u64;
        result.wrong_pages += wrong_pages(&buf[..len], BIG_FILE_NUMBER, page);
        result.bytes += len as u64;
    }
    result.seconds = started.elapsed().as_secs_f64();
    Ok(result)
}

/// Reads `file` from its start to its end.
pub fn sequential(file: &Path) -> Result<Reading> {
    let mut buf = vec![0; SEQUENTIAL_BYTES];
    let mut result = Reading::default();
    let started = Instant::now();
    let mut file = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    loop {
        let mut len = 0;
        while len < buf.len() {
            match file.read(&mut buf[len..])? {
                0 => break,
                more => len += more,
            }
        }
        if len == 0 {
            break;
        }
        let page = result.bytes / PAGE_BYTES as u64;
        result.wrong_pages += wrong_pages(&buf[..len], BIG_FILE_NUMBER, page);
        result.bytes += len as u64;
    }
    result.seconds = started.elapsed().as_secs_f64();
    Ok(result)
}

/// Reads random pages of `file` with several threads, no page twice. `run` determines the pages: each run
/// reads other pages, but all peers read the same pages in a run.
pub fn random(file: &Path, run: u64, threads: u32, reads_each: u32) -> Result<Reading> {
    let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let pages = shuffled(opened.metadata()?.len() / PAGE_BYTES as u64, run);
    let wanted = (threads as usize) * (reads_each as usize);
    random_pages(&opened, &pages[..wanted.min(pages.len())], threads)
}

/// Reads `pages` of the big file with at most `at_once` threads. Each thread reads a contiguous part of
/// the list in order, one page at a time.
pub fn random_pages(file: &impl ReadAt, pages: &[u64], at_once: u32) -> Result<Reading> {
    let share = pages.len().div_ceil(at_once.max(1) as usize).max(1);
    let started = Instant::now();
    let wrong: Result<Vec<u64>> = thread::scope(|scope| {
        let readers: Vec<_> = pages
            .chunks(share)
            .map(|part| scope.spawn(|| read_pages(file, part)))
            .collect();
        readers
            .into_iter()
            .map(|reader| {
                reader
                    .join()
                    .unwrap_or_else(|_| anyhow::bail!("a reader panicked"))
            })
            .collect()
    });
    let seconds = started.elapsed().as_secs_f64();
    Ok(Reading {
        seconds,
        bytes: (pages.len() * PAGE_BYTES) as u64,
        wrong_pages: wrong?.iter().sum(),
        bytes_by_second: Vec::new(),
    })
}

/// Returns the numbers below `count` in an order that `seed` determines.
#[must_use]
pub fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(Seed(0x5eed).part(seed));
    let mut numbers: Vec<u64> = (0..count).collect();
    random.shuffle(&mut numbers);
    numbers
}

fn read_pages(file: &impl ReadAt, pages: &[u64]) -> Result<u64> {
    let mut buf = [0; PAGE_BYTES];
    let mut wrong = 0;
    for page in pages {
        file.read_exact(&mut buf, page * PAGE_BYTES as u64)?;
        wrong += wrong_pages(&buf, BIG_FILE_NUMBER, *page);
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffled_numbers_are_complete_and_depend_on_the_seed() {
        let (a, b) = (shuffled(1000, 1), shuffled(1000, 2));
        assert_ne!(a, b);
        assert_eq!(a, shuffled(1000, 1));
        let mut sorted = a;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000));
        assert!(shuffled(0, 1).is_empty());
    }
}
