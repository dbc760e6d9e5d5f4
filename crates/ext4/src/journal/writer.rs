//! Transactions: from the first handle to the commit block, and home.
//!
//! # Model
//! jbd2's commit and checkpoint, without threads of their own: a thread that requests a commit does
//! it ([`super::progress`]), and a thread that finds no space in the log frees some. The volume's
//! flusher starts both by age ([`Filesystem::commit_if_old`](crate::Filesystem::commit_if_old)).
//!
//! Without a journal, a commit writes the blocks home ([`super::order`]).
//!
//! # Locking
//! ```text
//!   turn (commit, checkpoint, flush) -> running -> logged
//! ```
//! A turn is not a mutex, but a thread that holds one may take the locks after it. `running` is
//! held for the duration of a handle, and by a commit while it records the versions of the blocks.
//! Both take microseconds, so a thread that finds it held spins for about that long before it
//! sleeps.

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

/// A transaction may use at most the log's size divided by this number.
const LOG_PART: u32 = 4;

/// The maximum size in bytes of a transaction's blocks without a journal, and thus of the memory
/// that is dirty.
const NO_JOURNAL_BYTES: u32 = 64 << 20;

/// A transaction may hold at least this many blocks of metadata, even if the bound on dirty
/// metadata is smaller. This is about a quarter of the smallest journal, and the largest handle
/// fits into it.
const MIN_TRANSACTION_BLOCKS: u64 = 256;

/// The additional state of a file system that is open for writing.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) running: Mutex<Running>,
    pub(super) progress: Progress,
    pub(super) journal: Option<Journal>,
    /// The maximum number of blocks of a transaction.
    pub(super) max_blocks: u32,
    /// The maximum number of metadata blocks that are kept in memory because they are not on the
    /// device yet.
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
    /// Creates a writer to `device`, whose first transaction is `tid`.
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

    /// Allows a transaction to use the whole log, for the last transaction of a writer.
    pub(super) fn allow_whole_log(&mut self) {
        self.max_blocks = u32::MAX;
        let mut running = self.running.lock();
        self.set_limit(&mut running);
        let room = running.limit_blocks;
        drop(running);
        self.max_blocks = room;
        self.guard.max_blocks = room;
    }

    /// Keeps at most `blocks` metadata blocks in memory that are not on the device. A transaction
    /// gets a quarter of them: one transaction is running, another is being committed, and
    /// checkpoints begin at half. `content_blocks` is how much content one handle may journal in
    /// addition to its metadata.
    pub(super) fn bound_dirty(&mut self, blocks: u64, content_blocks: u64) {
        let blocks = blocks.max(4 * (MIN_TRANSACTION_BLOCKS + content_blocks));
        self.max_dirty_blocks = blocks;
        let most = u32::try_from(blocks / 4).unwrap_or(u32::MAX);
        self.max_blocks = self.max_blocks.min(most);
        self.guard.max_blocks = self.max_blocks;
        let mut running = self.running.lock();
        self.set_limit(&mut running);
    }

    /// Sets the limit of the running transaction to the space that is available for it.
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

    /// Ends the running transaction and records the contents of its blocks; `None` if it is empty.
    fn take_snapshot(&self, buffers: &BufferCache) -> Option<Snapshot> {
        let mut running = self.running.lock();
        if running.is_empty() {
            return None;
        }
        if let Some(Journal { log, logged }) = &self.journal {
            logged.reserve(log.needed_blocks(running.len_blocks()));
        }
        let snapshot = running.take_snapshot(|block| buffers.dirty(block.0));
        self.set_limit(&mut running);
        Some(snapshot)
    }

    /// Commits the running transaction. Only one call may be active at a time.
    pub(super) fn commit_running(&self, buffers: &BufferCache) -> Result<()> {
        let Some(mut transaction) = self.take_snapshot(buffers) else {
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
                "a transaction used more of the log than it reserved",
            ));
        }
        // Content that the transaction maps was written before, and becomes durable here too.
        self.flush()?;
        self.progress.check()?;
        let head = log.write_commit(commit_at, transaction.tid)?;
        self.flush()?;
        logged.committed(transaction, head);
        // From now on freed blocks may become content, so older versions must not be written home
        // any more.
        self.progress
            .wait_until(|| !logged.is_in_flight(&transaction.revoked))
    }

    fn commit_home(&self, buffers: &BufferCache, transaction: &mut Snapshot) -> Result<()> {
        // Content must be durable before the metadata that maps it.
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

    /// Writes home everything that is committed, which empties the log up to that point.
    pub(super) fn checkpoint(&self, buffers: &BufferCache) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        self.progress.checkpoint(|| {
            self.checkpoint_locked(journal, buffers)?;
            self.set_limit(&mut self.running.lock());
            Ok(())
        })
    }

    fn checkpoint_locked(&self, journal: &Journal, buffers: &BufferCache) -> Result<()> {
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
        // The new tail must be durable before blocks of the old part of the log are overwritten.
        self.flush()?;
        logged.end(&batch);
        drop(batch);
        self.homes.clean(buffers, blocks.into_iter());
        Ok(())
    }
}

/// Options for writing to a file system.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Whether the content of files is journaled too, as metadata is: `data=journal`.
    pub journals_content: bool,
    /// The maximum size in bytes of the metadata that is kept in memory until it is on the device,
    /// however large the journal is; at least 1,024 blocks. `None`: as much as the journal holds.
    pub dirty_metadata_bytes: Option<u64>,
    /// The repair of a damaged superblock, which is written before anything else.
    pub repair: Option<SuperblockRepair>,
    /// The caches that find attributes another file already has. Default: none.
    pub attributes: Arc<AttributeCaches>,
}
