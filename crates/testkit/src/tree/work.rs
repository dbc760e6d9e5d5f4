//! The kernel's work on a mounted image before the power fails, and the directory that the kernel
//! encrypts.

use crate::error::{Context, Result};
use crate::image::Work;
use crate::seed::{Random, Seed};
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The first bytes of a journal block. Content that begins with them must not be treated as a journal block.
const JOURNAL_MAGIC: [u8; 4] = 0xc03b_3998_u32.to_be_bytes();

/// Works on the tree at `root`. The returned files have no name left, and must stay open until the image
/// is copied.
pub(crate) fn crash_work(root: &Path, work: Work, seed: Seed) -> Result<Vec<File>> {
    let mut random = Random::new(seed);
    let folder = root.join("work");
    std::fs::create_dir(&folder).context("create", &folder)?;
    match work {
        Work::Transactions => transactions(&folder, &mut random, &[]),
        Work::JournalledData => transactions(&folder, &mut random, &JOURNAL_MAGIC),
        Work::FastCommits => fast_commits(&folder, &mut random),
    }
}

/// Several transactions. The last operations are not part of a committed transaction.
fn transactions(folder: &Path, random: &mut Random, prefix: &[u8]) -> Result<Vec<File>> {
    let content = |random: &mut Random| {
        let mut bytes = random.bytes(9000);
        for block in bytes.chunks_mut(1024) {
            let len = prefix.len().min(block.len());
            block[..len].copy_from_slice(&prefix[..len]);
        }
        bytes
    };
    for round in 0..6 {
        let old = folder.join(format!("round-{round}"));
        std::fs::create_dir(&old).context("create", &old)?;
        for number in 0..120 {
            let path = old.join(format!("file-{number}"));
            write_new(&path, &content(random))?;
        }
        sync(&old)?;
        for number in 0..60 {
            let path = old.join(format!("file-{}", number * 2));
            std::fs::remove_file(&path).context("remove", &path)?;
        }
        let renamed = folder.join(format!("renamed-{round}"));
        std::fs::rename(&old, &renamed).context("rename", &old)?;
        // Freed directory blocks are reused for content, so the journal needs revoke records.
        if round % 2 == 1 {
            let removed = folder.join(format!("renamed-{}", round - 1));
            std::fs::remove_dir_all(&removed).context("remove", &removed)?;
        }
        sync(&renamed)?;
    }
    let path = folder.join("orphan");
    write_new(&path, &content(random))?;
    let orphan = File::open(&path).context("open", &path)?;
    std::fs::remove_file(&path).context("remove", &path)?;
    let path = folder.join("last-synced");
    write_new(&path, &content(random))?;
    sync(&path)?;
    for number in 0..20 {
        write_new(
            &folder.join(format!("not-synced-{number}")),
            &content(random),
        )?;
    }
    Ok(vec![orphan])
}

/// Operations of every kind that a fast commit can contain, each followed by an fsync. No file without a name
/// stays open: for such a file, the kernel writes fast commits that its own recovery refuses.
fn fast_commits(folder: &Path, random: &mut Random) -> Result<Vec<File>> {
    sync(folder)?;
    let anchor = folder.join("anchor");
    let anchor_file = write_new(&anchor, b"0")?;
    for number in 0..25 {
        let path = folder.join(format!("file-{number}"));
        let file = write_new(&path, &random.bytes(3000 + number * 1000))?;
        sync_file(&file, &path)?;
        match number % 6 {
            0 => {
                let link = folder.join(format!("link-{number}"));
                std::fs::hard_link(&path, &link).context("create the hard link", &link)?;
            }
            1 => {
                drop(file);
                std::fs::remove_file(&path).context("remove", &path)?;
                file_grows(&anchor_file, &anchor)?;
                continue;
            }
            2 => {
                let renamed = folder.join(format!("renamed-{number}"));
                std::fs::rename(&path, &renamed).context("rename", &path)?;
            }
            3 => {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&file, punch, 0, 4096).context("punch a hole in", &path)?;
            }
            4 => ftruncate(&file, 1234).context("truncate", &path)?,
            _ => file
                .write_all_at(b"more", 300_000)
                .context("write", &path)?,
        }
        sync_file(&file, &path)?;
    }
    let path = folder.join("last-synced");
    let file = write_new(&path, &random.bytes(100))?;
    sync_file(&file, &path)?;
    write_new(&folder.join("not-synced"), b"lost")?;
    Ok(Vec::new())
}

fn file_grows(file: &File, path: &Path) -> Result<()> {
    let len = file.metadata().context("stat", path)?.len();
    file.write_all_at(b"+", len).context("write", path)?;
    sync_file(file, path)
}

/// A directory with encrypted names and content, on a mount with `test_dummy_encryption`.
pub(crate) fn encrypted_folder(root: &Path) -> Result<()> {
    let folder = root.join("encrypted");
    std::fs::create_dir(&folder).context("create", &folder)?;
    write_new(&folder.join("secret"), b"nothing to see")?;
    let link = folder.join("symlink");
    std::os::unix::fs::symlink("secret", &link).context("create the symbolic link", &link)
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<File> {
    let file = File::create_new(path).context("create", path)?;
    file.write_all_at(bytes, 0).context("write", path)?;
    Ok(file)
}

fn sync(path: &Path) -> Result<()> {
    let file = File::open(path).context("open", path)?;
    sync_file(&file, path)
}

fn sync_file(file: &File, path: &Path) -> Result<()> {
    rustix::fs::fsync(file).context("sync", path)
}
