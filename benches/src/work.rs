//! The workloads on a mount. Each returns what it took and checks what it read.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use larder_testkit::{Random, Seed};
use serde::{Deserialize, Serialize};

use crate::child;
use crate::tree::{PAGE_BYTES, Tree, page_word};

/// Reads are of this size where a program reads a whole file.
const SEQUENTIAL_BYTES: usize = 1 << 20;

/// What reading the big file came to.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ReadResult {
    /// From before it was opened until all was read.
    pub seconds: f64,
    /// Pages read.
    pub pages: u64,
    /// Pages that did not hold what the tree has there.
    pub wrong_pages: u64,
}

/// `find`, which asks each file for its size. Returns the seconds it took.
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

/// `tar` to a pipe. Returns the seconds it took and the bytes it wrote.
pub fn tar(root: &Path, tree: &Tree, log: &Path) -> Result<(f64, u64)> {
    let mut command = Command::new("tar");
    command.args(["-cf", "-", "-C"]).arg(root).arg(".");
    let mut bytes = 0;
    let seconds = child::run(command, log, |block| bytes += block.len() as u64)?;
    ensure!(bytes > tree.big_file_bytes, "tar wrote only {bytes} bytes");
    Ok((seconds, bytes))
}

/// Runs a reading command of this crate's binary, which prints a [`ReadResult`].
pub fn read_result(command: Command, log: &Path) -> Result<ReadResult> {
    let mut json = Vec::new();
    child::run(command, log, |block| json.extend_from_slice(block))?;
    Ok(serde_json::from_slice(&json)?)
}

/// Reads `file` from its start to its end.
pub fn sequential(file: &Path) -> Result<ReadResult> {
    let mut buf = vec![0; SEQUENTIAL_BYTES];
    let mut result = ReadResult::default();
    let started = Instant::now();
    let mut file = File::open(file).with_context(|| format!("open {}", file.display()))?;
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
        for page in buf[..len].chunks(PAGE_BYTES) {
            result.wrong_pages += u64::from(!holds(page, result.pages));
            result.pages += 1;
        }
    }
    result.seconds = started.elapsed().as_secs_f64();
    Ok(result)
}

/// Reads pages of `file` at random with several threads at once, no page twice. `run` chooses
/// which, so that each run reads others and each peer the same.
pub fn random(file: &Path, run: u64, threads: u32, reads_each: u32) -> Result<ReadResult> {
    let opened = File::open(file).with_context(|| format!("open {}", file.display()))?;
    let pages = shuffled(opened.metadata()?.len() / PAGE_BYTES as u64, run);
    let wanted = (threads as usize) * (reads_each as usize);
    let pages = &pages[..wanted.min(pages.len())];
    let share = pages.len().div_ceil(threads.max(1) as usize).max(1);
    let started = Instant::now();
    let wrong: Result<Vec<u64>> = thread::scope(|scope| {
        let readers: Vec<_> = pages
            .chunks(share)
            .map(|part| scope.spawn(|| read_pages(&opened, part)))
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
    Ok(ReadResult {
        seconds,
        pages: pages.len() as u64,
        wrong_pages: wrong?.iter().sum(),
    })
}

/// The numbers below `count` in an order that `seed` determines.
#[must_use]
pub fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(Seed(0x5eed).part(seed));
    let mut numbers: Vec<u64> = (0..count).collect();
    for last in (1..numbers.len()).rev() {
        let other = usize::try_from(random.below(last as u64 + 1)).unwrap_or(last);
        numbers.swap(last, other);
    }
    numbers
}

fn read_pages(file: &File, pages: &[u64]) -> Result<u64> {
    let mut buf = [0; PAGE_BYTES];
    let mut wrong = 0;
    for page in pages {
        file.read_exact_at(&mut buf, page * PAGE_BYTES as u64)?;
        wrong += u64::from(!holds(&buf, *page));
    }
    Ok(wrong)
}

/// True if `bytes` begin as page number `page` of the big file does.
#[must_use]
pub fn holds(bytes: &[u8], page: u64) -> bool {
    bytes.first_chunk::<8>() == Some(&page_word(page).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffled_numbers_are_all_there_and_differ_by_seed() {
        let (a, b) = (shuffled(1000, 1), shuffled(1000, 2));
        assert_ne!(a, b);
        assert_eq!(a, shuffled(1000, 1));
        let mut sorted = a;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000));
        assert!(shuffled(0, 1).is_empty());
    }
}
