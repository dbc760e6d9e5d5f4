//! The journal (jbd2): recovery, and journaled writing.
//!
//! A block's *home* is its location in the file system, in contrast to the location of its copy in
//! the journal.
//!
//! # Reading
//! If a file system was not unmounted cleanly, some of its changes may exist only as copies of
//! blocks in the journal. The kernel writes these copies to their homes when it mounts the file
//! system. A read-only mount of Larder does not change the image. Instead, [`recover`] creates a
//! device that reads these blocks from the journal, not from their homes. Then [`recover`] reads the
//! superblock again through this device. [`recover`] returns a [`Recovery`], which contains the device, this
//! superblock and, if there are fast commits, an [`Overlay`] with their changes. Lookups of inodes, mappings
//! and names consult the overlay.
//!
//! ```text
//!                     ,-> RemapDevice --+--> page cache
//!                     |                 +--> BufferCache -------------.
//! image --> recover --+                 `--> superblock, read again --+--> Filesystem
//!                     |                                               |
//!                     `-> overlay ------------------------------------'
//! ```
//!
//! To ignore the journal, as the mount option `noload` does, do not call [`recover`].
//!
//! - `log`: reads the transactions in the log;
//! - `fast_commit`: reads the fast commits, and builds the overlay from them;
//! - `overlay`: the overlay;
//! - `file`, `map_file`: the locations of the journal's blocks in the image.
//!
//! # Writing
//! [`Filesystem::enable_writing`] replays the journal onto the image. Afterwards, every metadata change
//! uses a [`Handle`], with two exceptions: direct writes of the superblock (at opening, at closing and after
//! an error), and writes of the MMP block. When the handle stops, its changes join the running transaction. A
//! commit writes the transaction to the log, and a checkpoint writes the blocks to their homes.
//! Without a journal, a commit writes the blocks to their homes. In this diagram, the names in
//! parentheses are modules:
//!
//! ```text
//!  start --> Handle --stop--> running --commit--> log --checkpoint--> home
//!                             (running)  (log_writer, progress)  (checkpoint, home)
//! ```
//!
//! - `enable`: checks an image that is opened for writing, and marks it as in use in its superblock;
//! - `recover_home`, `apply`: the replay onto the image, including fast commits;
//! - `start`: opens handles, and waits for space in the log if necessary;
//! - `handle`, `undo`: changes, and their undo records;
//! - `running`: the transaction that handles join;
//! - `writer`: commit and checkpoint;
//! - `transactions`: when to commit and when to checkpoint, and how to abort the journal;
//! - `close`: the last commit and checkpoint;
//! - `progress`: the choice of the thread that commits or checkpoints while other threads wait;
//! - `log_writer`: the format of the log;
//! - `checkpoint`: which blocks are not yet at home, and how much of the log is free;
//! - `home`: the writes of blocks to their homes;
//! - `guard`: the checks of blocks before they are written;
//! - `order`: without a journal, the order in which a commit writes the blocks to their homes;
//! - `block_map`: maps and sets with block numbers as keys.

mod apply;
mod block_map;
mod checkpoint;
mod close;
mod counters;
mod enable;
mod fast_commit;
mod file;
mod guard;
mod handle;
mod home;
mod log;
mod log_writer;
mod map_file;
mod order;
mod overlay;
mod progress;
mod recover_home;
mod running;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod start;
#[cfg(test)]
pub(crate) mod test_image;
mod transactions;
mod undo;
mod writer;

pub use counters::JournalCounts;
pub use handle::Handle;
pub use log::RecoveryCounts;
pub use running::Tid;
pub(crate) use writer::Writer;
pub use writer::{Now, WriteOptions};

pub use overlay::{Overlay, OverlayEntry};

use crate::error::Place;
use crate::ondisk::features::{Compat, Incompat};
use crate::ondisk::jbd2::{self, JournalSuperblock, MAGIC};
use crate::ondisk::superblock::Superblock;
use crate::{Error, Filesystem, Ino, Result};
use file::JournalFile;
use larder_block::{BlockDevice, Redirect, RemapDevice};
use larder_cache::buffer::BufferCache;
use log::Log;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The state of a file system's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalState {
    /// The file system has no journal.
    None,
    /// The superblock does not require recovery, or the journal is empty.
    Clean,
    /// The journal is on another device, and the superblock does not require recovery.
    External,
    /// The journal was replayed in memory.
    Recovered,
}

/// A file system as it is after the replay of its journal in memory.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recovery {
    /// The journal's state.
    pub state: JournalState,
    /// The superblock after the replay.
    pub superblock: Superblock,
    /// The device from which to read the file system. It is the original device if no block is
    /// redirected.
    pub device: Arc<dyn BlockDevice>,
    /// The changes of fast commits; `None` if fast commits changed nothing.
    pub overlay: Option<Overlay>,
    /// How many transactions, blocks, revocations and fast commits were found in the journal.
    pub counts: RecoveryCounts,
}

impl Recovery {
    /// Describes a file system whose journal changes nothing.
    #[must_use]
    pub fn new(state: JournalState, superblock: Superblock, device: Arc<dyn BlockDevice>) -> Self {
        Self {
            state,
            superblock,
            device,
            overlay: None,
            counts: RecoveryCounts::default(),
        }
    }
}

/// Recovers the journal of the file system on `device` in memory.
///
/// As in the kernel, the journal is not replayed unless the superblock has the feature
/// `needs_recovery`.
///
/// # Errors
/// [`Error::ExternalJournal`] if the journal is on another device and needs recovery;
/// [`Error::UnsupportedFeature`] if the journal has an unknown feature; [`Error::Corrupt`], with
/// the number of the damaged block, if the journal is damaged; or the device's error.
pub fn recover(superblock: Superblock, device: Arc<dyn BlockDevice>) -> Result<Recovery> {
    let has_journal = superblock.compat.contains(Compat::HAS_JOURNAL);
    let needs_recovery = superblock.incompat.contains(Incompat::RECOVER);
    let is_external = superblock.journal_ino == Ino(0);
    let state = match (has_journal, needs_recovery, is_external) {
        (false, ..) => JournalState::None,
        (true, true, true) => return Err(Error::ExternalJournal),
        (true, false, true) => JournalState::External,
        (true, false, false) => JournalState::Clean,
        (true, true, false) => return replay(superblock, device),
    };
    Ok(Recovery::new(state, superblock, device))
}

/// Replays the journal in memory. `superblock` contains the number of the journal's inode.
fn replay(superblock: Superblock, device: Arc<dyn BlockDevice>) -> Result<Recovery> {
    let fs = filesystem(&superblock, &device);
    let inode = fs.inode(superblock.journal_ino)?;
    let first_block = JournalFile::map(&fs, device.clone(), &inode, 1)?;
    let journal = read_superblock(&first_block, &superblock)?;
    if journal.start == 0 {
        return Ok(Recovery::new(JournalState::Clean, superblock, device));
    }
    let file = JournalFile::map(&fs, device.clone(), &inode, journal.length_blocks)?;
    let (log, end) = log::read(&file, &journal, &superblock)?;
    let mut counts = log.counts(0);
    let device = redirected(&superblock, device, &file, log)?;
    let replayed = Superblock::read(&*device)?;
    if replayed.block_size_bytes() != superblock.block_size_bytes() {
        return Err(JOURNAL.corrupt("replaying the journal would change the block size"));
    }
    let fs = filesystem(&replayed, &device);
    let (overlay, fast_commits) = fast_commit::read(&file, &journal, end.tid, &fs)?;
    counts.fast_commits = fast_commits;
    Ok(Recovery {
        state: JournalState::Recovered,
        superblock: replayed,
        device,
        overlay: (!overlay.is_empty()).then_some(overlay),
        counts,
    })
}

/// Reads the superblock of the journal. `sb` is the superblock of its file system.
fn read_superblock(file: &JournalFile, sb: &Superblock) -> Result<JournalSuperblock> {
    let mut bytes = [0; jbd2::SUPERBLOCK_BYTES];
    file.read(0, &mut bytes)?;
    let journal = JournalSuperblock::parse(&bytes)?;
    if journal.block_size_bytes != sb.block_size_bytes() {
        return Err(JOURNAL.corrupt("block sizes of the journal and the file system differ"));
    }
    let needs_features = sb.has_metadata_checksums() || sb.incompat.contains(Incompat::BIT64);
    if journal.version == 1 && needs_features {
        let what =
            "journal superblock has version 1, but the file system's features require version 2";
        return Err(JOURNAL.corrupt(what));
    }
    Ok(journal)
}

/// Returns a file system with a small buffer cache, for the few blocks that recovery reads.
fn filesystem(superblock: &Superblock, device: &Arc<dyn BlockDevice>) -> Filesystem {
    let block_size_bytes = superblock.block_size_bytes() as usize;
    let buffers = BufferCache::small(device.clone(), block_size_bytes);
    Filesystem::new(superblock.clone(), Arc::new(buffers), None)
}

/// Returns a device that reads the blocks in `log` from the journal, and all other blocks from
/// `device`.
fn redirected(
    superblock: &Superblock,
    device: Arc<dyn BlockDevice>,
    file: &JournalFile,
    log: Log,
) -> Result<Arc<dyn BlockDevice>> {
    let block_size_bytes = NonZeroU32::new(superblock.block_size_bytes());
    let Some(block_size_bytes) = block_size_bytes.filter(|_| !log.copies.is_empty()) else {
        return Ok(device);
    };
    let mut redirects = Vec::with_capacity(log.copies.len());
    for (home, copy) in log.copies {
        redirects.push(Redirect {
            home: home.0,
            source: file.physical(copy.block)?.0,
            first_bytes: copy.tag.is_escaped.then_some(MAGIC.to_be_bytes()),
        });
    }
    Ok(Arc::new(RemapDevice::new(
        device,
        block_size_bytes,
        redirects,
    )?))
}

/// The place that is named in errors about the journal as a whole: block 0 of the journal, which contains
/// its superblock.
const JOURNAL: Place = Place::Journal(0);
