//! A checkpoint of a full journal: its time, and its requests to the device.
//!
//! The image has many empty files, in directories that are spread over its block groups. A measurement
//! chooses random blocks of the inode tables. Their number is seven eighths of the number of blocks of the
//! journal. The measurement changes the modification time of one file in each of the chosen blocks. It
//! syncs whenever the blocks that were changed since the last sync would fill a sixteenth of the journal.
//! There is no background thread, and no transaction is large enough to start a checkpoint. Therefore the
//! checkpoint takes place in [`Volume::close`]. Apart from the checkpoint, this function writes only the
//! end of the journal and the superblock.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use larder::{DeviceStats, Ino, NewFile, OpenOptions, SetAttributes, SetTime, Timestamp, Volume};
use larder_testkit::e2fsprogs;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::work::shuffled;

/// The command of this crate's binary that runs a [`Job`].
pub const WORKER: &str = "checkpoint";

const BLOCK_BYTES: u64 = 4096;
const INODE_BYTES: u64 = 256;
/// The size of the image, which is sparse: 128 groups.
const IMAGE_SIZE: &str = "16G";
const FILES_PER_FOLDER: u32 = 256;
/// The prefixes of the names of directories and files.
const FOLDER: &str = "folder-";
const FILE: &str = "file-";

/// Makes the image with the files of `plan`.
pub(super) fn make_image(image: &Path, plan: &Plan) -> Result<()> {
    let files = plan.checkpoint_files;
    let arguments = format!(
        "-t ext4 -b {BLOCK_BYTES} -I {INODE_BYTES} -J size={} -N {}",
        plan.checkpoint_journal_mib,
        files * 2
    );
    e2fsprogs::make_image(image, &arguments, IMAGE_SIZE)?;
    let volume = open(image, true, false)?;
    let new = |permissions| NewFile {
        permissions,
        umask: 0,
        uid: 0,
        gid: 0,
    };
    for folder in 0..files.div_ceil(FILES_PER_FOLDER) {
        let name = format!("{FOLDER}{folder:05}");
        let parent = volume.make_dir(Ino::ROOT, name.as_bytes(), &new(0o755))?;
        for file in 0..FILES_PER_FOLDER.min(files - folder * FILES_PER_FOLDER) {
            let name = format!("{FILE}{file:03}");
            volume.create(parent.ino, name.as_bytes(), &new(0o644))?;
        }
    }
    Ok(volume.close()?)
}

fn open(image: &Path, read_write: bool, is_direct: bool) -> Result<Volume> {
    let mut options = OpenOptions::default();
    options.read_write = read_write;
    options.direct_device = is_direct;
    options.background = false;
    Ok(Volume::open(image, &options)?)
}

/// What to measure.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// The path of the image, made by this module.
    pub image: PathBuf,
    /// Whether the image is opened with direct I/O.
    pub is_direct: bool,
    /// The size of the image's journal.
    pub journal_mib: u32,
    /// The number of the run, which determines the files and their new time.
    pub run: u64,
}

/// The cost of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The elapsed time.
    pub milliseconds: f64,
    /// The number of writes and flushes.
    pub requests: u64,
}

impl Job {
    /// Fills the journal, measures the checkpoint, and checks that the changes are on the device.
    pub fn run(&self) -> Result<Checkpoint> {
        let journal_blocks = (u64::from(self.journal_mib) << 20) / BLOCK_BYTES;
        let volume = open(&self.image, true, self.is_direct)?;
        let files = self.scattered_files(&volume, journal_blocks / 8 * 7)?;
        let time = Timestamp {
            seconds: 1_000_000_000 + i64::try_from(self.run)?,
            nanoseconds: 0,
        };
        let set = SetAttributes {
            mtime: Some(SetTime::To(time)),
            ..SetAttributes::default()
        };
        for transaction in files.chunks(usize::try_from(journal_blocks / 16)?) {
            for file in transaction {
                volume.set_attributes(*file, &set)?;
            }
            volume.sync()?;
        }
        let waiting = volume
            .stats()
            .writing
            .context("the volume does not write")?;
        let waiting_blocks = waiting.dirty_metadata_bytes / BLOCK_BYTES;
        ensure!(
            waiting_blocks >= files.len() as u64,
            "only {waiting_blocks} of {} blocks wait for the checkpoint",
            files.len()
        );
        let before = volume.stats().device;
        let started = Instant::now();
        volume.close()?;
        let milliseconds = started.elapsed().as_secs_f64() * 1e3;
        let after = volume.stats().device;
        ensure!(
            after.written_bytes - before.written_bytes >= waiting_blocks * BLOCK_BYTES,
            "the checkpoint wrote {} bytes of {waiting_blocks} blocks",
            after.written_bytes - before.written_bytes
        );
        drop(volume);
        let volume = open(&self.image, false, self.is_direct)?;
        for file in files {
            let found = volume.metadata(file)?.modified;
            ensure!(found == time, "inode {file} has the time {found:?}");
        }
        let requests = |counts: DeviceStats| counts.writes + counts.flushes;
        Ok(Checkpoint {
            milliseconds,
            requests: requests(after) - requests(before),
        })
    }

    /// Returns `count` files in random order, whose inodes are in different blocks.
    fn scattered_files(&self, volume: &Volume, count: u64) -> Result<Vec<Ino>> {
        let mut by_block = BTreeMap::new();
        for folder in list(volume, Ino::ROOT, FOLDER)? {
            for file in list(volume, folder, FILE)? {
                let block = u64::from(file.0 - 1) / (BLOCK_BYTES / INODE_BYTES);
                by_block.insert(block, file);
            }
        }
        let files: Vec<Ino> = by_block.into_values().collect();
        let order = shuffled(files.len() as u64, self.run);
        let chosen = order.into_iter().take(usize::try_from(count)?);
        let chosen: Vec<Ino> = chosen
            .map(|index| Ok(files[usize::try_from(index)?]))
            .collect::<Result<_>>()?;
        ensure!(
            chosen.len() as u64 == count,
            "the inodes of the files are in only {} blocks",
            chosen.len()
        );
        Ok(chosen)
    }
}

/// Returns the inodes in `folder` whose names start with `prefix`.
fn list(volume: &Volume, folder: Ino, prefix: &str) -> Result<Vec<Ino>> {
    let mut found = Vec::new();
    volume.read_dir(folder, 0, &mut |entry| {
        if entry.name.starts_with(prefix.as_bytes()) {
            found.push(entry.ino);
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
