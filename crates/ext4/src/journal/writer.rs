//! Transactions: from the first handle to the block that commits them, and home.
//!
//! # Model
//! jbd2's commit and checkpoint, without threads of their own: who asks for a commit does it
//! ([`super::progress`]), who finds no room in the log makes some. The volume's flusher drives
//! both by age ([`Filesystem::commit_if_old`](crate::Filesystem::commit_if_old)).
//!
//! Without a journal, a commit writes the blocks home ([`super::order`]).
//!
//! # Locking
//! ```text
//!   turn (commit, checkpoint, flush) -> running -> logged
//! ```
//! The turns are no locks: who has one takes the others. `running` is held for a handle,
//! and by a commit for as long as it takes to note the versions of the blocks. That is microseconds, so
//! who finds it held looks again for as long before it sleeps.

use super::checkpoint::Logged;
use super::guard::Guard;
use super::home::{Homes, write_home};
use super::log_writer::LogWriter;
use super::order::Order;
use super::progress::Progress;
use super::running::{Running, Snapshot, Tid};
use crate::alloc::Space;
use crate::ondisk::superblock::SuperblockRepair;
use crate::sync::Mutex;
use crate::{Error, Result};
use larder_block::BlockDevice;
use larder_cache::buffer::BufferCache;
use larder_cache::mbcache::AttributeCaches;
use std::sync::Arc;

/// A transaction takes at most this part of the log.
const LOG_PART: u32 = 4;

/// Bytes of a transaction's blocks without a journal: as much memory is dirty.
const NO_JOURNAL_BYTES: u32 = 64 << 20;

/// A transaction may hold at least this many blocks of metadata, however small the bound on dirty
/// metadata is: about a quarter of the smallest journal, which the largest handle fits into.
const LEAST_BLOCKS: u64 = 256;

/// What a file system that is written to has beside one that is read.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) running: Mutex<Running>,
    pub(super) progress: Progress,
    pub(super) journal: Option<Journal>,
    /// The most blocks of a transaction.
    pub(super) max_blocks: u32,
    /// The most metadata blocks that are kept in memory because the device lacks them.
    pub(super) max_dirty_blocks: u64,
    pub(super) journals_content: bool,
    homes: Homes,
    pub(super) guard: Guard,
    pub(super) allocator: Arc<Space>,
}

/// The journal of a file system that has one.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) log: LogWriter,
    pub(super) logged: Logged,
}

impl Writer {
    /// A writer to `device` of blocks of that size, whose first transaction is `tid`.
    pub(super) fn new(
        device: Arc<dyn BlockDevice>,
        block_size_bytes: u32,
        journal: Option<Journal>,
        allocator: Space,
        tid: Tid,
    ) -> Self {
        let committed = Tid(tid.0.wrapping_sub(1));
        let max_blocks = match &journal {
            Some(Journal { log, .. }) => log.fitting_blocks(log.len_blocks() / LOG_PART),
            None => NO_JOURNAL_BYTES / block_size_bytes,
        };
        let guard = Guard {
            blocks_count: allocator.blocks_count(),
            block_bytes: block_size_bytes as usize,
            journal: journal.as_ref().map(|journal| journal.log.extent()),
            max_blocks,
        };
        let mut running = Running::new(tid, 0);
        if journal.is_none() {
            running.order = Some(Order::default());
        }
        let writer = Self {
            device,
            running: Mutex::new(running),
            progress: Progress::new(committed),
            journal,
            max_blocks,
            max_dirty_blocks: u64::MAX,
            journals_content: false,
            homes: Homes::default(),
            guard,
            allocator: Arc::new(allocator),
        };
        writer.set_limit(&mut writer.running.lock());
        writer
    }

    /// Lets a transaction take all the room that the log has, for one that nothing follows.
    pub(super) fn use_all_room(&mut self) {
        self.max_blocks = u32::MAX;
        let mut running = self.running.lock();
        self.set_limit(&mut running);
        let room = running.limit_blocks;
        drop(running);
        self.max_blocks = room;
        self.guard.max_blocks = room;
    }

    /// Keeps at most `blocks` metadata blocks in memory that the device lacks. A transaction gets a
    /// quarter of them: one runs, one is committed, and checkpoints begin at half. `content_blocks`
    /// is how much content one handle may journal beside its metadata.
    pub(super) fn bound_dirty(&mut self, blocks: u64, content_blocks: u64) {
        let blocks = blocks.max(4 * (LEAST_BLOCKS + content_blocks));
        self.max_dirty_blocks = blocks;
        let most = u32::try_from(blocks / 4).unwrap_or(u32::MAX);
        self.max_blocks = self.max_blocks.min(most);
        self.guard.max_blocks = self.max_blocks;
        let mut running = self.running.lock();
        self.set_limit(&mut running);
    }

    /// Lets the running transaction grow as far as there is room for it.
    fn set_limit(&self, running: &mut Running) {
        let room = match &self.journal {
            Some(Journal { log, logged }) => log.fitting_blocks(logged.free_blocks()),
            None => u32::MAX,
        };
        running.limit_blocks = room.min(self.max_blocks);
    }

    /// Flushes the device.
    fn flush(&self) -> Result<()> {
        self.progress.flush(|| Ok(self.device.flush()?))
    }

    /// Ends the running transaction and notes what its blocks hold; `None` if it is empty.
    fn seal(&self, buffers: &BufferCache) -> Option<Snapshot> {
        let mut running = self.running.lock();
        if running.is_empty() {
            return None;
        }
        if let Some(Journal { log, logged }) = &self.journal {
            logged.reserve(log.needed_blocks(running.len_blocks()));
        }
        let snapshot = running.seal(|block| buffers.dirty(block.0));
        self.set_limit(&mut running);
        Some(snapshot)
    }

    /// Commits the running transaction. One at a time.
    pub(super) fn commit_running(&self, buffers: &BufferCache) -> Result<()> {
        let Some(mut transaction) = self.seal(buffers) else {
            return Ok(());
        };
        transaction.blocks.sort_unstable_by_key(|(block, _)| *block);
        self.guard
            .check_transaction(&transaction.blocks, &transaction.revoked)?;
        match &self.journal {
            Some(journal) => self.commit_to_log(journal, &mut transaction)?,
            None => self.commit_home(buffers, &mut transaction)?,
        }
        self.allocator.committed(transaction.tid);
        self.progress.set_committed(transaction.tid);
        if self.journal.is_some() {
            self.set_limit(&mut self.running.lock());
        }
        Ok(())
    }

    fn commit_to_log(&self, journal: &Journal, transaction: &mut Snapshot) -> Result<()> {
        let Journal { log, logged } = journal;
        logged.retain_logged(&mut transaction.revoked);
        let (head, tid) = logged.head();
        if tid != transaction.tid {
            return Err(Error::Invariant("transactions are committed out of order"));
        }
        let commit_at = log.write_body(head, transaction)?;
        let blocks = u32::try_from(transaction.blocks.len()).unwrap_or(u32::MAX);
        if log.circle().distance(head, commit_at) >= log.needed_blocks(blocks) {
            return Err(Error::Invariant(
                "a transaction took more of the log than reserved",
            ));
        }
        // Content that the transaction maps was written before, and becomes durable here too.
        self.flush()?;
        self.progress.check()?;
        let head = log.write_commit(commit_at, transaction.tid)?;
        self.flush()?;
        logged.committed(transaction, head);
        // From now on freed blocks may become content: no older version may come home later.
        self.progress
            .wait_until(|| !logged.is_in_flight(&transaction.revoked))
    }

    fn commit_home(&self, buffers: &BufferCache, transaction: &mut Snapshot) -> Result<()> {
        // Content comes before what maps it.
        self.flush()?;
        let order = transaction.order.take().unwrap_or_default();
        for class in order.classes(&transaction.blocks) {
            write_home(&*self.device, buffers, &self.progress, &class)?;
            self.flush()?;
        }
        self.homes
            .clean(buffers, transaction.blocks.iter().cloned());
        Ok(())
    }

    /// Brings home all that is committed, which empties the log up to there.
    pub(super) fn checkpoint(&self, buffers: &BufferCache) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        self.progress.checkpoint(|| {
            self.checkpoint_alone(journal, buffers)?;
            self.set_limit(&mut self.running.lock());
            Ok(())
        })
    }

    fn checkpoint_alone(&self, journal: &Journal, buffers: &BufferCache) -> Result<()> {
        let Journal { log, logged } = journal;
        if logged.is_empty() {
            return Ok(());
        }
        let batch = logged.begin();
        let mut blocks: Vec<_> = batch
            .blocks
            .iter()
            .map(|(block, contents)| (*block, Arc::clone(contents)))
            .collect();
        blocks.sort_unstable_by_key(|(block, _)| *block);
        self.guard.check_blocks(&blocks)?;
        write_home(&*self.device, buffers, &self.progress, &blocks)?;
        self.flush()?;
        log.write_tail(batch.tail, batch.tail_tid)?;
        // Before anything is written where the log began until now.
        self.flush()?;
        logged.end(&batch);
        drop(batch);
        self.homes.clean(buffers, blocks.into_iter());
        Ok(())
    }
}

/// How a file system is written to.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Whether the content of files goes through handles too, as metadata does: `data=journal`.
    pub journals_content: bool,
    /// The most bytes of metadata to keep in memory until the device has them, however large
    /// the journal is; at least 1,024 blocks. `None`: as much as the journal holds.
    pub dirty_metadata_bytes: Option<u64>,
    /// What is written over a damaged superblock before anything else.
    pub repair: Option<SuperblockRepair>,
    /// What finds attributes that another file has already. Default: nothing.
    pub attributes: Arc<AttributeCaches>,
}
