//! Writers in separate processes: the subcommands of `larder-benches` that begin with
//! `write-`.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::tree::PAGE_BYTES;
use crate::work::shuffled;

/// The size of each small file.
const SMALL_BYTES: usize = 4096;
/// The size of the records that [`append_records`] appends.
const RECORD_BYTES: usize = 100;
/// The size of the pieces that [`append_at_once`] appends.
const PIECE_BYTES: usize = 16 << 10;
/// The number of files that grow concurrently.
const GROWING_FILES: u32 = 4;

/// The amount written, and the elapsed time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Written {
    /// The number of files.
    pub files: u64,
    /// The number of bytes in all files.
    pub bytes: u64,
    /// The elapsed time in seconds, including syncs.
    pub seconds: f64,
}

/// Writes `bytes` to a new file in requests of 1 MiB, then syncs it once.
pub fn write_sequential(path: &Path, bytes: u64) -> Result<Written> {
    let block = content(1 << 20, 1);
    let started = Instant::now();
    let mut file =
        File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut left = bytes;
    while left > 0 {
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
        file.write_all(&block[..len])?;
        left -= len as u64;
    }
    file.sync_all()?;
    drop(file);
    Ok(Written {
        files: 1,
        bytes,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Appends `count` records of 100 bytes to a new file.
pub fn append_records(path: &Path, count: u64) -> Result<Written> {
    let started = Instant::now();
    append(path, RECORD_BYTES, count)?;
    let seconds = started.elapsed().as_secs_f64();
    let bytes = fs::metadata(path)?.len();
    ensure!(
        bytes == count * RECORD_BYTES as u64,
        "the file has {bytes} bytes after {count} appends"
    );
    Ok(Written {
        files: 1,
        bytes,
        seconds,
    })
}

/// Overwrites at most `count` random pages of a file, no page twice, then syncs it once.
pub fn overwrite_random(path: &Path, count: u32) -> Result<Written> {
    let block = content(PAGE_BYTES, 4);
    let file = File::options().write(true).open(path)?;
    let mut pages = shuffled(file.metadata()?.len() / PAGE_BYTES as u64, 1);
    pages.truncate(count as usize);
    let started = Instant::now();
    for page in &pages {
        file.write_all_at(&block, page * PAGE_BYTES as u64)?;
    }
    file.sync_all()?;
    Ok(Written {
        files: 1,
        bytes: (pages.len() * PAGE_BYTES) as u64,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Runs `processes` concurrent processes, each of which writes `files_each` small files.
pub fn write_files(folder: &Path, processes: u32, files_each: u32) -> Result<Written> {
    let harness = std::env::current_exe()?;
    for process in 0..processes {
        fs::create_dir_all(folder.join(format!("writer-{process}")))?;
    }
    let started = Instant::now();
    let children: Vec<Child> = (0..processes)
        .map(|process| {
            Command::new(&harness)
                .arg("write-files-of-one")
                .arg(folder.join(format!("writer-{process}")))
                .arg(files_each.to_string())
                .stdin(Stdio::null())
                .spawn()
        })
        .collect::<Result<_, _>>()?;
    for mut child in children {
        ensure!(child.wait()?.success(), "a writer failed");
    }
    let files = u64::from(processes) * u64::from(files_each);
    Ok(Written {
        files,
        bytes: files * SMALL_BYTES as u64,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Creates `files` small files in `folder`, each synced before it is closed.
pub fn write_files_of_one(folder: &Path, files: u32) -> Result<()> {
    let bytes = content(SMALL_BYTES, 2);
    for number in 0..files {
        let mut file = File::create_new(folder.join(format!("file-{number:06}")))?;
        file.write_all(&bytes)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Extends several files concurrently in small pieces, up to the plan's `write_bytes` in total.
pub(super) fn append_at_once(folder: &Path, plan: &Plan) -> Result<()> {
    let pieces = plan.write_bytes / u64::from(GROWING_FILES) / PIECE_BYTES as u64;
    thread::scope(|scope| {
        let writers: Vec<_> = (0..GROWING_FILES)
            .map(|number| {
                let path = folder.join(format!("growing-{number}"));
                scope.spawn(move || append(&path, PIECE_BYTES, pieces))
            })
            .collect();
        for writer in writers {
            writer
                .join()
                .unwrap_or_else(|_| anyhow::bail!("a writer panicked"))?;
        }
        Ok(())
    })
}

fn append(path: &Path, piece_bytes: usize, pieces: u64) -> Result<()> {
    let piece = content(piece_bytes, 3);
    let mut file = File::options().append(true).create_new(true).open(path)?;
    for _ in 0..pieces {
        file.write_all(&piece)?;
    }
    Ok(())
}

/// Returns random bytes, which no file system can compress or store as a hole.
fn content(len: usize, part: u64) -> Vec<u8> {
    larder_testkit::Random::new(larder_testkit::Seed(0xb14e).part(part)).bytes(len)
}
