//! Commit and checkpoint: the path of a transaction's blocks to the log and to their final
//! locations.
//!
//! # Model
//! jbd2's commit and checkpoint, without a dedicated thread: a thread that needs a commit performs
//! it ([`super::progress`]), and a thread that finds too little space in the log performs a
//! checkpoint. The flusher thread of the volume commits old transactions, and performs checkpoints
//! ([`Filesystem::commit_if_old`](crate::Filesystem::commit_if_old)).
//!
//! Without a journal, a commit writes the blocks directly to their final locations
//! ([`super::order`]).
//!
//! # Locking
//! ```text
//!   turn (commit, checkpoint, flush) -> running -> logged
//! ```
//! A turn is the exclusive right to commit, to checkpoint or to flush. It is not a mutex, but it is
//! part of the lock order. A thread that has a turn may lock `running` and `logged`. A thread that
//! holds one of these locks must not wait for a turn. An open handle holds `running`, and so does a
//! commit while it collects the contents of the blocks. Both hold it for microseconds, so a thread
//! that finds `running` locked spins for about that long before it sleeps.

use super::checkpoint::Logged;
use super::counters::{CommitReason, Counters};
use super::guard::Guard;
use super::home::{PendingClean, write_home};
use super::log_writer::LogWriter;
use super::order::Order;
use super::progress::Progress;
use super::running::{Running, Snapshot, Tid};
use crate::alloc::Space;
use crate::ondisk::superblock::SuperblockRepair;
use crate::ondisk::time::Timestamp;
use crate::sync::Mutex;
use crate::{Error, Result};
use larder_block::BlockDevice;
use larder_cache::buffer::BufferCache;
use larder_cache::mbcache::AttributeCaches;
use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// A transaction may use at most the size of the log divided by this number.
const LOG_DIVISOR: u32 = 4;

/// The maximum size in bytes of a transaction's blocks if there is no journal. It bounds the memory
/// for dirty metadata.
const NO_JOURNAL_BYTES: u32 = 64 << 20;

/// The bound on dirty metadata never limits a transaction to fewer metadata blocks than this. This
/// number is about a quarter of the smallest journal, and enough for the largest handle.
const MIN_TRANSACTION_BLOCKS: u64 = 256;

/// The state that a file system has only while it is open for writing.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) running: Mutex<Running>,
    pub(super) progress: Progress,
    pub(super) journal: Option<Journal>,
    /// The maximum number of blocks of a transaction.
    pub(super) max_blocks: u32,
    /// The intended maximum number of dirty metadata blocks in memory.
    pub(super) max_dirty_blocks: u64,
    pub(super) journals_content: bool,
    pending_clean: PendingClean,
    pub(super) counters: Counters,
    pub(super) guard: Guard,
    pub(super) allocator: Arc<Space>,
    pub(super) now: Now,
}

/// The journal of a file system that has one.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) log: LogWriter,
    pub(super) logged: Logged,
}

impl Writer {
    /// Creates the state for writing to `device`. The first transaction has the number `tid`.
    pub(super) fn new(
        device: Arc<dyn BlockDevice>,
        block_size_bytes: u32,
        journal: Option<Journal>,
        allocator: Space,
        tid: Tid,
    ) -> Self {
        let committed = Tid(tid.0.wrapping_sub(1));
        let max_blocks = match &journal {
            Some(Journal { log, .. }) => log.fitting_blocks(log.len_blocks() / LOG_DIVISOR),
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
            pending_clean: PendingClean::default(),
            counters: Counters::default(),
            guard,
            allocator: Arc::new(allocator),
            now: Now::default(),
        };
        writer.set_limit(&mut writer.running.lock());
        writer
    }

    /// Allows the running transaction to use the whole log. The transaction must be the only one of
    /// this writer.
    pub(super) fn allow_whole_log(&mut self) {
        self.max_blocks = u32::MAX;
        let mut running = self.running.lock();
        self.set_limit(&mut running);
        let room = running.limit_blocks;
        drop(running);
        self.max_blocks = room;
        self.guard.max_blocks = room;
    }

    /// Limits the dirty metadata in memory to `blocks` blocks, or to about 1,024 blocks if `blocks`
    /// is smaller. A transaction may have a quarter of them: one transaction is running, another is
    /// being committed, and checkpoints begin when half of the blocks are dirty. `content_blocks`
    /// is the maximum number of content blocks that one handle journals in addition to metadata.
    pub(super) fn bound_dirty(&mut self, blocks: u64, content_blocks: u64) {
        let blocks = blocks.max(4 * (MIN_TRANSACTION_BLOCKS + content_blocks));
        self.max_dirty_blocks = blocks;
        let most = u32::try_from(blocks / 4).unwrap_or(u32::MAX);
        self.max_blocks = self.max_blocks.min(most);
        self.guard.max_blocks = self.max_blocks;
        let mut running = self.running.lock();
        self.set_limit(&mut running);
    }

    /// Limits the running transaction to the free space of the log and to `max_blocks`.
    fn set_limit(&self, running: &mut Running) {
        let room = match &self.journal {
            Some(Journal { log, logged }) => log.fitting_blocks(logged.free_blocks()),
            None => u32::MAX,
        };
        running.limit_blocks = room.min(self.max_blocks);
    }

    /// Flushes the device, also on behalf of other threads that need a flush.
    fn flush(&self) -> Result<()> {
        self.progress.flush(|| Ok(self.device.flush()?))
    }

    /// Ends the running transaction and returns the contents of its blocks; `None` if it is empty.
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

    /// Commits the running transaction because of `reason`. Only one call may be active at a time.
    pub(super) fn commit_running(&self, buffers: &BufferCache, reason: CommitReason) -> Result<()> {
        let start = Instant::now();
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
        let blocks = transaction.blocks.len();
        self.counters.count_commit(reason, blocks, start.elapsed());
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
        if log.ring().distance(head, commit_at) >= log.needed_blocks(blocks) {
            return Err(Error::Invariant(
                "a transaction used more of the log than it reserved",
            ));
        }
        // This flush also makes durable the content that the transaction maps, which was written
        // earlier.
        self.flush()?;
        self.progress.check()?;
        let end = log.write_commit(commit_at, transaction.tid)?;
        self.flush()?;
        self.counters.count_logged(log.ring().distance(head, end));
        logged.committed(transaction, end);
        // From now on, freed blocks may be reused for content, so a checkpoint must not write old
        // metadata to them.
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
        self.pending_clean
            .clean(buffers, transaction.blocks.iter().cloned());
        Ok(())
    }

    /// Writes all committed blocks to their final locations, and frees their space in the log.
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
        let start = Instant::now();
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
        self.pending_clean.clean(buffers, blocks.into_iter());
        self.counters.count_checkpoint(start.elapsed());
        Ok(())
    }
}

/// Options for writing to a file system.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Whether the content of files is journaled like metadata, as with `data=journal`.
    pub journals_content: bool,
    /// The maximum size in bytes of dirty metadata in memory; at least 1,024 blocks are allowed.
    /// If `None`, the only limit is the size of the journal; without a journal, it is the maximum
    /// size of a transaction.
    pub dirty_metadata_bytes: Option<u64>,
    /// The repair of a damaged superblock, which is written before all other changes.
    pub repair: Option<SuperblockRepair>,
    /// The caches that find equal attributes of other files, so that several files can share them.
    /// The default caches find nothing.
    pub attributes: Arc<AttributeCaches>,
    /// Whether searches for equal attributes also examine those that already have the maximum number
    /// of users.
    pub examines_full_attributes: bool,
    /// The clock for the times that the superblock records when the file system is opened and closed.
    pub now: Now,
}

/// A function that returns the current time. The default is the system's clock.
#[derive(Clone)]
pub struct Now(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Now {
    /// Returns a clock that calls `now`.
    #[must_use]
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(super) fn get(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Now {
    fn default() -> Self {
        Self::new(|| SystemTime::now().into())
    }
}

impl fmt::Debug for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Now")
    }
}
