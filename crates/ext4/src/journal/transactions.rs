//! The operations of a file system on its transactions: commit, checkpoint and abort.

use super::counters::{CommitReason, JournalCounts};
use super::log::RecoveryCounts;
use super::running::Tid;
use super::writer::Writer;
use crate::alloc::Space;
use crate::attempt::Suspended;
use crate::ondisk::superblock::{ErrorCode, ErrorRecord};
use crate::{Error, Filesystem, FsBlock, Ino, MemoryOnly, Place, Result};
use larder_block::BlockDevice;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The errno in the superblock of an aborted journal: minus `EIO`.
const ABORTED: u32 = 5_u32.wrapping_neg();

impl Filesystem {
    /// Returns whether the file system was opened for writing and writing has not failed since.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writer.is_some() && self.failure().is_none()
    }

    /// Returns the error message of the failure that stopped writing, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<str>> {
        self.writer.as_ref()?.progress.failure().cloned()
    }

    /// Returns the numbers of transactions and blocks that were replayed from the journal when the
    /// file system was opened for writing.
    #[must_use]
    pub fn recovered(&self) -> RecoveryCounts {
        self.recovered
    }

    /// Returns the counts and durations of commits and checkpoints since the file system was opened for writing.
    #[must_use]
    pub fn journal_counts(&self) -> JournalCounts {
        let writer = self.writer.as_ref();
        writer.map_or_else(JournalCounts::default, |writer| writer.counters.counts())
    }

    /// Returns the state of writing.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the file system was not opened for writing.
    pub(super) fn writer(&self) -> Result<&Writer> {
        self.writer.as_ref().ok_or(Error::ReadOnly(None))
    }

    /// Returns an error, which names the inode `ino`, if metadata must not be written to `block`.
    pub(super) fn check_place(&self, block: FsBlock, ino: Ino) -> Result<()> {
        match self.writer()?.guard.refusal(block) {
            Some(refusal) => Err(Place::Block(block, ino).corrupt(refusal)),
            None => Ok(()),
        }
    }

    /// Returns whether file content is journaled, as metadata is (mode `data=journal`).
    #[must_use]
    pub fn journals_content(&self) -> bool {
        let writer = self.writer.as_ref();
        writer.is_some_and(|writer| writer.journals_content)
    }

    /// Returns the device that the file system is written to.
    pub(crate) fn writing_device(&self) -> Result<&dyn BlockDevice> {
        Ok(&*self.writer()?.device)
    }

    pub(crate) fn allocator(&self) -> &Arc<Space> {
        &self.writer.as_ref().expect("a handle is open").allocator
    }

    /// Commits transaction `tid` if it is still running, and waits until it is durable. The device
    /// is flushed even if the transaction is already durable, so that data written outside the
    /// journal becomes durable.
    ///
    /// # Errors
    /// The error of the commit, or [`Error::Aborted`] if writing failed earlier. After either
    /// error, the file system is read-only.
    pub fn commit(&self, tid: Tid) -> Result<()> {
        self.commit_because(tid, CommitReason::Sync)
    }

    /// As [`Filesystem::commit`], for a thread that needs space.
    pub(crate) fn commit_for_space(&self, tid: Tid) -> Result<()> {
        self.commit_because(tid, CommitReason::Space)
    }

    fn commit_because(&self, tid: Tid, reason: CommitReason) -> Result<()> {
        let writer = self.writer()?;
        writer.progress.wait_for(
            tid,
            || self.abort_on_error(writer.commit_running(self.buffers(), reason)),
            || self.abort_on_error(writer.device.flush().map_err(Error::from)),
        )?;
        // Committed blocks stay dirty until a checkpoint, so their number grows with each commit,
        // even if the commits are small.
        self.checkpoint_if(self.buffers().dirty_count() > writer.max_dirty_blocks / 4 * 3)
    }

    /// Commits the running transaction if it is at least `max_age` old or nearly full. Then
    /// checkpoints if more than half of the log, or of the memory for dirty metadata, is used. A
    /// background thread of the volume calls this function periodically.
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
            let reason = match (is_old, is_large) {
                (true, _) => Some(CommitReason::Age),
                (false, true) => Some(CommitReason::Space),
                (false, false) => None,
            };
            reason.map(|reason| (running.tid(), reason))
        };
        if let Some((tid, reason)) = due {
            self.commit_because(tid, reason)?;
        }
        self.checkpoint_if_short()
    }

    /// Checkpoints if more than half of the log, or of the memory for dirty metadata, is used.
    pub(super) fn checkpoint_if_short(&self) -> Result<()> {
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

    /// Writes all committed blocks to their final locations, which frees their space in the log. The
    /// contents come from memory, not from the log.
    pub(super) fn checkpoint(&self) -> Result<()> {
        self.abort_on_error(self.writer()?.checkpoint(self.buffers()))
    }

    /// Returns the number of the running transaction, which a new handle would join.
    pub fn running_tid(&self) -> Result<Tid> {
        Ok(self.writer()?.running.lock().tid())
    }

    /// Returns `outcome`. If `outcome` is an error, first stops all writing with
    /// [`Filesystem::abort`].
    pub(super) fn abort_on_error<T>(&self, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome {
            self.abort(error);
        }
        outcome
    }

    /// Stops all writing because of `error`: the running transaction is never committed, and every
    /// thread that waits for a commit receives an error. If possible, the error is recorded in the
    /// superblocks of the journal and of the file system.
    pub fn abort(&self, error: &Error) {
        let Some(writer) = &self.writer else { return };
        if !writer.progress.fail(&error.to_string()) {
            return;
        }
        tracing::error!("writing has stopped, and the file system is now read-only: {error}");
        // A thread with an open handle normally must not wait for the device, because other threads
        // may wait for the handle. Now it may: writing has stopped.
        let _may_wait = Suspended::new();
        let _part = MemoryOnly::suspend();
        if matches!(error, Error::InUse(_)) {
            // Another host may have mounted the image, so not even the error may be written to the
            // image.
            return;
        }
        let journal = writer.journal.as_ref();
        let in_journal = journal.map_or(Ok(()), |journal| journal.log.write_error(ABORTED));
        let in_superblock = self.record_error(&*writer.device, &record_of(error));
        if let Err(error) = in_journal.and(in_superblock) {
            tracing::error!("cannot record the failure in the image: {error}");
        }
    }

    /// Records in the superblock on the device that the image is damaged, with the details of
    /// `error`. Does not wait for a commit.
    ///
    /// # Errors
    /// As [`Filesystem::record_error`].
    pub fn record_damage(&self, error: &Error) -> Result<()> {
        self.record_error(&*self.writer()?.device, &record_of(error))
    }
}

/// Returns the fields of the superblock that record `error`.
fn record_of(error: &Error) -> ErrorRecord<'static> {
    let mut record = ErrorRecord {
        time: SystemTime::now().into(),
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

#[cfg(test)]
mod tests {
    use super::super::running::Running;
    use super::super::test_image::{assert_stopped, open};
    use crate::{Error, Filesystem, FsBlock, Ino};

    /// An unused block of the last group.
    const FREE: FsBlock = FsBlock(9000);

    /// Commits a change of [`FREE`], and asserts that writing stops with the message `what`.
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
    fn transaction_that_is_too_large_stops_writing() {
        let mut fs = open();
        fs.writer.as_mut().unwrap().guard.max_blocks = 0;
        assert_refused(&fs, "exceeds the maximum number of blocks");
    }

    #[test]
    fn metadata_outside_the_file_system_stops_writing() {
        let mut fs = open();
        fs.writer.as_mut().unwrap().guard.blocks_count = FREE.0;
        // Bypasses the check of the handle.
        fs.buffers().set_dirty(FREE.0, vec![0; 1024].into());
        let mut running = running(&fs);
        running.add(FREE);
        let tid = running.tid();
        drop(running);
        let error = fs.commit(tid).unwrap_err();
        assert!(matches!(error, Error::Invariant(_)), "{error}");
        assert_stopped(&fs, "metadata block is outside the file system");
    }

    #[test]
    fn freed_block_outside_the_file_system_stops_writing() {
        let fs = open();
        running(&fs).forget(FsBlock(fs.superblock().blocks_count));
        assert_refused(&fs, "frees a block outside the file system");
    }
}
