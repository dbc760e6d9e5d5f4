//! Opening of handles.

use super::handle::Handle;
use super::running::Tid;
use super::writer::Writer;
use crate::needs::Needs;
use crate::sync::lock_after_spinning;
use crate::{Error, Filesystem, MemoryOnly, Result, attempt};
use std::sync::Arc;

impl Filesystem {
    /// Calls `change` with an open handle that may change `credits` blocks. Returns the handle, still
    /// open, and the result. The caller updates its own state in memory, such as the state of the inode,
    /// and then stops the handle.
    ///
    /// The handle does not wait for the device. If `change` needs a block that is not in memory, its changes
    /// are undone and its result is dropped. Then the block is read, and `change` is called again. Therefore
    /// `change` must not change anything that the handle does not undo.
    ///
    /// If the calling thread must not wait at all, because it is in a [`MemoryOnly`] part, a missing block is
    /// not read, and this function fails. The part ends when a handle stops.
    ///
    /// # Errors
    /// The error of `change`, whose changes are undone; the errors of [`Filesystem::start`]; or
    /// [`Error::WouldWait`] if a block is missing in a [`MemoryOnly`] part.
    pub fn change<'f, R, E: From<Error>>(
        &'f self,
        credits: u32,
        mut change: impl FnMut(&mut Handle<'f>) -> Result<R, E>,
    ) -> Result<(Handle<'f>, R), E> {
        let mut needs = Needs::new(self);
        loop {
            let mut handle = self.start(credits)?;
            handle.attempt = Some(needs.attempt());
            let result = change(&mut handle);
            if !attempt::has_missed() && !MemoryOnly::has_missed() {
                return result.map(|result| (handle, result));
            }
            drop(result);
            drop(handle);
            MemoryOnly::check_may_wait()?;
            needs.provide();
        }
    }

    /// Opens a handle that may change up to `credits` blocks. Waits while another handle is open.
    /// Also waits for a commit or a checkpoint if the running transaction or the log has too little
    /// space.
    ///
    /// A thread with an open handle normally must not wait for the device, because all other threads
    /// that need a handle would wait too. With a handle of this function, the thread may wait, for
    /// example to read a block that is not in memory. Therefore use this function only if no other
    /// thread uses the file system: for recovery and in tests. In all other cases, use
    /// [`Filesystem::change`].
    ///
    /// # Errors
    /// - [`Error::ReadOnly`] if the file system is not open for writing, or writing has failed.
    /// - [`Error::HandleTooLarge`] if no transaction can hold `credits` blocks.
    /// - [`Error::WouldWait`] in a [`MemoryOnly`] part, in two cases: the part has already missed
    ///   something, or this function would have to wait for a commit or a checkpoint.
    pub fn start(&self, credits: u32) -> Result<Handle<'_>> {
        let writer = self.writer()?;
        if MemoryOnly::has_missed() {
            return Err(Error::WouldWait);
        }
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
            MemoryOnly::check_may_wait()?;
            let wait = || self.wait_for_room(writer, tid, is_full);
            writer.counters.count_wait(wait)?;
        }
    }

    /// Makes space for a handle that did not fit. If `is_full`, transaction `tid` has too many
    /// blocks for the handle. Otherwise, the log has too little free space.
    #[cold]
    fn wait_for_room(&self, writer: &Writer, tid: Tid, is_full: bool) -> Result<()> {
        let logged = writer.journal.as_ref().map(|journal| &journal.logged);
        let made = if is_full {
            // During the commit, other threads can open handles in the next transaction.
            self.commit_for_space(tid)
                .and_then(|()| self.checkpoint_if_short())
        } else if logged.is_some_and(|logged| !logged.is_empty()) {
            self.checkpoint()
        } else {
            // A checkpoint would not free space: a transaction that is being committed has reserved
            // it.
            writer.progress.wait_for_commit()
        };
        match made {
            Err(Error::Aborted(reason)) => Err(Error::ReadOnly(Some(reason))),
            made => made,
        }
    }
}
