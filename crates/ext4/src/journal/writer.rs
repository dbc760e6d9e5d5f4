//! Transactions: from the first handle to the block that commits them, and home.
//!
//! # Model
//! jbd2's commit and checkpoint, without threads of their own: who asks for a commit does it
//! ([`super::progress`]), who finds no room in the log makes some. The volume's flusher drives
//! both by age ([`Filesystem::commit_if_old`]).
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

use super::RecoveryCounts;
use super::checkpoint::Logged;
use super::guard::Guard;
use super::handle::Handle;
use super::home::{Homes, write_home};
use super::log_writer::{LogWriter, Snapshot};
use super::order::Order;
use super::progress::Progress;
use super::running::{Running, Tid};
use crate::alloc::Allocator;
use crate::ondisk::superblock::{ErrorCode, ErrorRecord, SuperblockRepair};
use crate::ondisk::time::Timestamp;
use crate::sync::{Mutex, lock_after_spinning};
use crate::{Error, Filesystem, FsBlock, Ino, Place, Result};
use larder_block::BlockDevice;
use larder_cache::buffer::BufferCache;
use larder_cache::mbcache::AttributeCaches;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A transaction takes at most this part of the log.
const LOG_PART: u32 = 4;

/// Bytes of a transaction's blocks without a journal: as much memory is dirty.
const NO_JOURNAL_BYTES: u32 = 64 << 20;

/// A transaction may hold at least this many blocks of metadata, however small the bound on dirty
/// metadata is: about a quarter of the smallest journal, which the largest handle fits into.
const LEAST_BLOCKS: u64 = 256;

/// The errno in the journal's superblock when it was aborted: minus `EIO`.
const ABORTED: u32 = 5_u32.wrapping_neg();

/// What a file system that is written to has beside one that is read.
#[derive(Debug)]
pub(crate) struct Writer {
    device: Arc<dyn BlockDevice>,
    running: Mutex<Running>,
    progress: Progress,
    journal: Option<Journal>,
    /// The most blocks of a transaction.
    max_blocks: u32,
    /// The most metadata blocks that are kept in memory because the device lacks them.
    max_dirty_blocks: u64,
    pub(super) journals_content: bool,
    homes: Homes,
    guard: Guard,
    allocator: Allocator,
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
        allocator: Allocator,
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
            allocator,
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

    /// The most blocks of a transaction.
    pub(super) fn max_blocks(&self) -> u32 {
        self.max_blocks
    }

    /// Lets the running transaction grow as far as there is room for it.
    fn set_limit(&self, running: &mut Running) {
        let room = self.journal.as_ref().map_or(u32::MAX, |journal| {
            let free = journal.logged.free_blocks();
            journal.log.fitting_blocks(free)
        });
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
        let sealed = running.seal();
        if let Some(journal) = &self.journal {
            let blocks = u32::try_from(sealed.blocks.len()).unwrap_or(u32::MAX);
            journal.logged.reserve(journal.log.needed_blocks(blocks));
        }
        self.set_limit(&mut running);
        Some(Snapshot::new(sealed, |block| buffers.dirty(block.0)))
    }

    /// Commits the running transaction. One at a time.
    fn commit_running(&self, buffers: &BufferCache) -> Result<()> {
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
    fn checkpoint(&self, buffers: &BufferCache) -> Result<()> {
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

impl Filesystem {
    /// Whether the file system was opened for writing and has not failed since.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writer.is_some() && self.failure().is_none()
    }

    /// Why nothing is written any more, if something failed.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<str>> {
        self.writer.as_ref()?.progress.failure().cloned()
    }

    /// What the journal had left when the file system was opened for writing.
    #[must_use]
    pub fn recovered(&self) -> RecoveryCounts {
        self.recovered
    }

    fn writer(&self) -> Result<&Writer> {
        self.writer.as_ref().ok_or(Error::ReadOnly(None))
    }

    /// Makes sure that the metadata of `ino` can be in `block`.
    pub(super) fn check_place(&self, block: FsBlock, ino: Ino) -> Result<()> {
        match self.writer()?.guard.refusal(block) {
            Some(refusal) => Err(Error::corrupt(Place::Block(block, ino), refusal)),
            None => Ok(()),
        }
    }

    /// Whether the content of files goes through handles.
    pub(crate) fn journals_content(&self) -> bool {
        let writer = self.writer.as_ref();
        writer.is_some_and(|writer| writer.journals_content)
    }

    /// The device that is written to.
    pub(crate) fn writing_device(&self) -> Result<&dyn BlockDevice> {
        Ok(&*self.writer()?.device)
    }

    pub(crate) fn allocator(&self) -> &Allocator {
        &self.writer.as_ref().expect("a handle is open").allocator
    }

    /// Opens a handle that may change `credits` blocks. Waits while another is open, and, where
    /// the log has no room, for a commit and a checkpoint.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::HandleTooLarge`].
    pub fn start(&self, credits: u32) -> Result<Handle<'_>> {
        let writer = self.writer()?;
        loop {
            if let Some(reason) = writer.progress.failure() {
                return Err(Error::ReadOnly(Some(Arc::clone(reason))));
            }
            let running = lock_after_spinning(&writer.running);
            if running.is_closed {
                return Err(Error::ReadOnly(None));
            }
            if running.admits(credits) {
                return Ok(Handle::new(self, running, credits));
            }
            let tid = running.tid();
            let is_full = running.len_blocks().saturating_add(credits) > writer.max_blocks;
            drop(running);
            if credits > writer.max_blocks {
                return Err(Error::HandleTooLarge);
            }
            self.wait_for_room(writer, tid, is_full)?;
        }
    }

    /// Makes room for a handle that did not fit into transaction `tid`, because that `is_full`, or
    /// else because the log is.
    #[cold]
    fn wait_for_room(&self, writer: &Writer, tid: Tid, is_full: bool) -> Result<()> {
        let logged = writer.journal.as_ref().map(|journal| &journal.logged);
        let made = if is_full {
            // Others go on meanwhile, in the next transaction.
            self.commit(tid).and_then(|()| self.checkpoint_if_short())
        } else if logged.is_some_and(|logged| !logged.is_empty()) {
            self.checkpoint()
        } else {
            // A transaction that is being committed keeps what room there is.
            writer.progress.wait_for_commit()
        };
        match made {
            Err(Error::Aborted(reason)) => Err(Error::ReadOnly(Some(reason))),
            made => made,
        }
    }

    /// Commits transaction `tid` if it is the running one, and waits until it is durable. If it
    /// is already, the device is flushed nevertheless: what was written past the journal becomes
    /// durable.
    ///
    /// # Errors
    /// What went wrong, [`Error::Aborted`] if it went wrong earlier; the file system is then
    /// read-only.
    pub fn commit(&self, tid: Tid) -> Result<()> {
        let writer = self.writer()?;
        writer.progress.wait_for(
            tid,
            || self.failing(writer.commit_running(self.buffers())),
            || self.failing(writer.device.flush().map_err(Error::from)),
        )?;
        // Many small commits may leave as much as large ones.
        self.checkpoint_if(self.buffers().dirty_count() > writer.max_dirty_blocks / 4 * 3)
    }

    /// Commits the running transaction if it is older than `max_age` or nearly full, and checkpoints
    /// as needed to keep half of the log, and half of the memory for dirty metadata, free. For a
    /// thread that calls it every now and
    /// then.
    ///
    /// # Errors
    /// As [`Filesystem::commit`].
    pub fn commit_if_old(&self, max_age: Duration) -> Result<()> {
        let writer = self.writer()?;
        let due = {
            let running = writer.running.lock();
            let is_old = running
                .since()
                .is_some_and(|since| since.elapsed() >= max_age);
            let is_large = running.len_blocks() > running.limit_blocks / 4 * 3;
            (is_old || is_large).then(|| running.tid())
        };
        if let Some(tid) = due {
            self.commit(tid)?;
        }
        self.checkpoint_if_short()
    }

    /// Checkpoints once half of the log is used, or half of the memory for dirty metadata.
    fn checkpoint_if_short(&self) -> Result<()> {
        let writer = self.writer()?;
        let is_log_short = writer
            .journal
            .as_ref()
            .is_some_and(|journal| journal.logged.free_blocks() < journal.log.len_blocks() / 2);
        let is_memory_short = self.buffers().dirty_count() > writer.max_dirty_blocks / 2;
        self.checkpoint_if(is_log_short || is_memory_short)
    }

    fn checkpoint_if(&self, is_due: bool) -> Result<()> {
        if is_due { self.checkpoint() } else { Ok(()) }
    }

    /// Brings home what is committed.
    pub(super) fn checkpoint(&self) -> Result<()> {
        self.failing(self.writer()?.checkpoint(self.buffers()))
    }

    /// The transaction that a handle opened now would belong to.
    pub fn running_tid(&self) -> Result<Tid> {
        Ok(self.writer()?.running.lock().tid())
    }

    /// Commits, checkpoints, and says on the image that it was left clean. Nothing can be
    /// written afterwards.
    ///
    /// # Errors
    /// What went wrong.
    pub fn close(&self) -> Result<()> {
        let writer = self.writer()?;
        writer.progress.check()?;
        let tid = {
            let mut running = writer.running.lock();
            if std::mem::replace(&mut running.is_closed, true) {
                return Ok(());
            }
            running.tid()
        };
        self.commit(tid)?;
        self.checkpoint()?;
        self.failing(self.mark_clean(writer))
    }

    fn mark_clean(&self, writer: &Writer) -> Result<()> {
        if let Some(Journal { log, logged }) = &writer.journal {
            log.write_tail(0, logged.head().1)?;
            writer.device.flush()?;
        }
        let (free_blocks, free_inodes) = self.free_counts()?;
        self.mark_closed(&*writer.device, now(), free_blocks, free_inodes)
    }

    /// Passes `outcome` on; an error is the last thing that is written of.
    fn failing<T>(&self, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome {
            self.abort(error);
        }
        outcome
    }

    /// Stops all writing because of `error`: the running transaction is given up, whoever waits
    /// for a commit gets an error, and what still can be said of it on the image is.
    pub fn abort(&self, error: &Error) {
        let Some(writer) = &self.writer else { return };
        if !writer.progress.fail(&error.to_string()) {
            return;
        }
        tracing::error!("the file system is read-only from now on: {error}");
        if matches!(error, Error::InUse(_)) {
            // It is somebody else's.
            return;
        }
        let journal = writer.journal.as_ref();
        let in_journal = journal.map_or(Ok(()), |journal| journal.log.write_error(ABORTED));
        let in_superblock = self.record_error(&*writer.device, &record_of(error));
        if let Err(error) = in_journal.and(in_superblock) {
            tracing::error!("the image does not say that it failed: {error}");
        }
    }

    /// Records in the superblock, at once, that the image is damaged as `error` says.
    ///
    /// # Errors
    /// As [`Filesystem::record_error`].
    pub fn record_damage(&self, error: &Error) -> Result<()> {
        self.record_error(&*self.writer()?.device, &record_of(error))
    }
}

/// What the superblock is to say of `error`.
fn record_of(error: &Error) -> ErrorRecord<'static> {
    let mut record = ErrorRecord {
        time: now(),
        function: "journal",
        ino: None,
        block: None,
        code: ErrorCode::Device,
    };
    if let Error::Invariant(_) = error {
        (record.function, record.code) = ("invariant", ErrorCode::Other);
    }
    if let Error::Corrupt(damage) = error {
        (record.function, record.code) = ("change", ErrorCode::Corrupt);
        (record.ino, record.block) = match damage.place {
            Place::Inode(ino) => (Some(ino), None),
            Place::Block(block, ino) => (Some(ino), Some(block)),
            _ => (None, None),
        };
    }
    record
}

/// The time, for the superblock.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_image::{assert_stopped, open};
    use super::Running;
    use crate::{Error, Filesystem, FsBlock, Ino};

    /// A block of the last group, which nothing uses.
    const FREE: FsBlock = FsBlock(9000);

    /// Commits one handle's change of [`FREE`], and expects that writing stops because of `what`.
    fn assert_refused(fs: &Filesystem, what: &str) {
        let mut handle = fs.start(1).unwrap();
        handle.create(FREE, Ino::ROOT, |_| Ok(())).unwrap();
        let error = fs.commit(handle.stop()).unwrap_err();
        assert!(matches!(error, Error::Invariant(_)), "{error}");
        assert_stopped(fs, what);
    }

    fn running(fs: &Filesystem) -> crate::sync::MutexGuard<'_, Running> {
        fs.writer.as_ref().unwrap().running.lock()
    }

    #[test]
    fn transaction_out_of_order_stops_writing() {
        let fs = open();
        let mut running = running(&fs);
        *running = Running::new(running.tid().next(), running.limit_blocks);
        drop(running);
        assert_refused(&fs, "out of order");
    }

    #[test]
    fn transaction_that_does_not_fit_stops_writing() {
        let mut fs = open();
        fs.writer.as_mut().unwrap().guard.max_blocks = 0;
        assert_refused(&fs, "more blocks than fit");
    }

    #[test]
    fn metadata_where_none_can_be_stops_writing() {
        let mut fs = open();
        fs.writer.as_mut().unwrap().guard.blocks_count = FREE.0;
        // Past the handle's own check.
        fs.buffers().set_dirty(FREE.0, vec![0; 1024].into());
        let mut running = running(&fs);
        running.add(FREE);
        let tid = running.tid();
        drop(running);
        let error = fs.commit(tid).unwrap_err();
        assert!(matches!(error, Error::Invariant(_)), "{error}");
        assert_stopped(&fs, "metadata outside of the file system");
    }

    #[test]
    fn block_that_is_freed_and_does_not_exist_stops_writing() {
        let fs = open();
        running(&fs).forget(FsBlock(fs.superblock().blocks_count));
        assert_refused(&fs, "frees a block that does not exist");
    }
}
