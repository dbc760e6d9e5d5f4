//! Recovery onto the image: writes the blocks in the journal to their final locations (their
//! homes), as the kernel does when it mounts a file system, and empties the journal.
//!
//! The contents are first inserted into the buffer cache as dirty buffers, so that no cached block
//! keeps its old contents. The journal is emptied last, so after a crash, the next recovery repeats
//! everything.

use super::checkpoint::Logged;
use super::file::JournalFile;
use super::home::{PendingClean, Version, write_home};
use super::log::{self, End, Log};
use super::log_writer::LogWriter;
use super::progress::Progress;
use super::running::Tid;
use super::writer::{Journal, Writer};
use super::{JOURNAL, Overlay, RecoveryCounts, fast_commit};
use crate::alloc::{Space, check_geometry};
use crate::ondisk::features::Compat;
use crate::ondisk::jbd2::{JournalSuperblock, MAGIC, SUPERBLOCK_BYTES};
use crate::ondisk::superblock::Superblock;
use crate::{Error, Filesystem, Result};
use larder_block::BlockDevice;
use std::io::IoSlice;
use std::sync::Arc;

/// The maximum number of blocks that are read and written as one batch, and so are in memory at the
/// same time.
const BATCH_BLOCKS: usize = 512;

impl Filesystem {
    /// Writes the blocks in the journal to their homes, applies the journal's fast commits, and
    /// empties the journal. `file` is the file of the journal, and `journal` its superblock.
    /// Afterwards, this file system has the superblock of the replayed image.
    pub(super) fn recover_home(
        &mut self,
        device: &Arc<dyn BlockDevice>,
        file: &JournalFile,
        journal: &mut JournalSuperblock,
    ) -> Result<RecoveryCounts> {
        let (log, end) = log::read(file, journal, self.superblock())?;
        self.write_copies_home(device, file, &log)?;
        let replayed = Superblock::read(&**device)?;
        if replayed.block_size_bytes() != self.superblock().block_size_bytes() {
            return Err(JOURNAL.corrupt("replaying the journal would change the block size"));
        }
        JOURNAL.ensure(
            replayed.journal_ino == self.superblock().journal_ino
                && replayed.compat.contains(Compat::HAS_JOURNAL),
            "replaying the journal would change the journal's location",
        )?;
        // The replayed superblock determines which blocks may be written from now on.
        check_geometry(&replayed, device.size_bytes())?;
        self.replace_superblock(replayed);
        let (overlay, fast_commits) = fast_commit::read(file, journal, end.tid, self)?;
        let mut last = end.tid;
        if !overlay.is_empty() {
            last = self.apply_to_image(device, file, journal, end, &overlay)?;
        }
        // The number `last` is skipped, because the log may contain an unfinished transaction with
        // this number.
        journal.sequence = last.next();
        journal.start = 0;
        write_superblock(file, journal)?;
        device.flush()?;
        Ok(log.counts(fast_commits))
    }

    /// Applies `overlay` in a transaction that is committed to the log at `end`, and then
    /// checkpoints. Returns the number of the transaction that would follow.
    fn apply_to_image(
        &mut self,
        device: &Arc<dyn BlockDevice>,
        file: &JournalFile,
        journal: &JournalSuperblock,
        end: End,
        overlay: &Overlay,
    ) -> Result<Tid> {
        let mut bytes = Box::new([0; SUPERBLOCK_BYTES]);
        file.read(0, &mut *bytes)?;
        let log = LogWriter::new(file.clone(), bytes, journal.clone());
        let logged = Logged::new(log.ring(), journal.start, end.block, end.tid);
        let allocator = Space::new(self.superblock(), false);
        let journal = Journal { log, logged };
        let mut writer = Writer::new(
            Arc::clone(device),
            self.superblock().block_size_bytes(),
            Some(journal),
            allocator,
            end.tid,
        );
        writer.allow_whole_log();
        let credits = writer.max_blocks;
        self.writer = Some(writer);
        let applied = self.apply_overlay(overlay, credits).and_then(|tid| {
            self.commit(tid)?;
            self.checkpoint()?;
            Ok(tid.next())
        });
        self.writer = None;
        applied.map_err(|error| match error {
            Error::Device(_) | Error::Unreadable { .. } | Error::Aborted(_) => error,
            error => Error::NotWritable(format!(
                "the journal contains fast commits that cannot be applied ({error}); run e2fsck first"
            )),
        })
    }

    /// Writes the blocks in `log` to their homes.
    fn write_copies_home(
        &self,
        device: &Arc<dyn BlockDevice>,
        file: &JournalFile,
        log: &Log,
    ) -> Result<()> {
        let buffers = self.buffers();
        let journal = file.extent();
        let (pending_clean, progress) = (PendingClean::default(), Progress::new(Tid(0)));
        let mut copies = log.copies.iter().peekable();
        while copies.peek().is_some() {
            let mut batch: Vec<Version> = Vec::with_capacity(BATCH_BLOCKS);
            for (home, copy) in copies.by_ref().take(BATCH_BLOCKS) {
                if journal.contains(*home) {
                    return Err(JOURNAL.corrupt("the log contains a copy of a journal block"));
                }
                let contents = read_copy(file, copy)?;
                buffers.set_dirty(home.0, Arc::clone(&contents));
                batch.push((*home, contents));
            }
            write_home(&**device, buffers, &progress, &batch)?;
            pending_clean.clean(buffers, batch.into_iter());
        }
        Ok(device.flush()?)
    }
}

/// Reads the contents of a block from its copy in the journal.
fn read_copy(file: &JournalFile, copy: &log::Copy) -> Result<Arc<[u8]>> {
    let mut contents = vec![0; file.block_size_bytes()];
    file.read(copy.block, &mut contents)?;
    if copy.tag.is_escaped {
        contents[..size_of_val(&MAGIC)].copy_from_slice(&MAGIC.to_be_bytes());
    }
    Ok(contents.into())
}

/// Writes the superblock `journal` to the journal in `file`.
fn write_superblock(file: &JournalFile, journal: &JournalSuperblock) -> Result<()> {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    file.read(0, &mut bytes)?;
    journal.store(&mut bytes);
    file.write(0, &[IoSlice::new(&bytes)])
}
