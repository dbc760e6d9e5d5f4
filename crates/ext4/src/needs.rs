//! Needs: the blocks that must be in memory before something that must not wait for the device.
//!
//! # Model
//! A journal handle excludes all other changes and commits, so nothing may wait while it is open. The
//! kernel's handles may wait for a read, because other handles join the same transaction meanwhile.
//!
//! # How it works
//! An *attempt* runs with the blocks that are in memory. [`Filesystem::read_block`] then does not read
//! the device: it records a missing block and returns [`Error::NotInMemory`](crate::Error::NotInMemory). An attempt that missed
//! anything gives way: whatever it returned is discarded, and what it changed is undone. Then the
//! missing blocks are read and held, without a handle or lock, and the next attempt starts.
//!
//! - Missing blocks are recorded, and not only returned as errors: code that tolerates an unreadable
//!   block (the search for space, the comparison of shared attributes) continues without it, and the
//!   attempt gives way afterwards. Such code must not remember anything because of
//!   [`Error::NotInMemory`](crate::Error::NotInMemory).
//! - Every attempt that gives way adds a block that the next one finds, even if the cache is tiny and
//!   other threads use it. So an operation ends after as many attempts as it needs blocks, at most.
//!   In practice, callers have read most blocks before.
//! - A block that cannot be read is recorded as such. The next attempt gets the device's error where
//!   it needs the block, as it would without all this.
//!
//! A search for space that needs the end of a discard gives way in the same way, and has discards
//! excluded in the next attempt.
//!
//! # Locking
//! The state of an attempt belongs to its thread. A thread makes one attempt at a time. Within it,
//! nothing may wait for a lock whose holder may be waiting for the device; the locks of a group of
//! the allocator and of a live inode are therefore held only in attempts, too
//! ([`Filesystem::without_waiting`]).
//!
//! # Cost
//! A read within an attempt costs one more access to thread-local memory. An attempt that gives way
//! costs some microseconds, which is little beside the read that follows.

use crate::attempt::{self, Attempt};
use crate::{Filesystem, FsBlock};
use parking_lot::MutexGuard;

/// What earlier attempts were missing. It is kept until this is dropped.
#[derive(Debug)]
pub(crate) struct Needs<'f> {
    fs: &'f Filesystem,
    held: Vec<FsBlock>,
    unreadable: Vec<(FsBlock, larder_block::Error)>,
    no_discard: Option<MutexGuard<'f, ()>>,
}

impl<'f> Needs<'f> {
    pub(crate) fn new(fs: &'f Filesystem) -> Self {
        Self {
            fs,
            held: Vec::new(),
            unreadable: Vec::new(),
            no_discard: None,
        }
    }

    /// Begins an attempt.
    pub(crate) fn attempt(&self) -> Attempt {
        Attempt::begin(&self.unreadable, self.no_discard.is_some())
    }

    /// Provides what the last attempt of this thread, which has ended, was missing. Waits for the
    /// device.
    #[cold]
    pub(crate) fn provide(&mut self) {
        let mut missing = attempt::take_missing();
        let buffers = self.fs.buffers();
        if let Some((block, count)) = missing.ahead {
            buffers.prefetch(block.0, count);
        }
        missing.blocks.sort_unstable();
        missing.blocks.dedup();
        for block in missing.blocks {
            match buffers.hold(block.0) {
                Ok(()) => self.held.push(block),
                Err(error) => self.unreadable.push((block, error)),
            }
        }
        if missing.discards && self.no_discard.is_none() {
            self.no_discard = Some(self.fs.allocator().trimming.lock());
        }
    }
}

impl Drop for Needs<'_> {
    fn drop(&mut self) {
        for block in &self.held {
            self.fs.buffers().release(block.0);
        }
    }
}

impl Filesystem {
    /// Calls `run` with the blocks that are in memory, so that it does not wait for the device and may
    /// take a lock that an open handle takes. Blocks that it lacks are read after it returned, and it
    /// is called again. Within a handle, calls it once, as a part of the handle's attempt.
    ///
    /// `run` must not remember anything because of [`Error::NotInMemory`](crate::Error::NotInMemory). Its result must not be
    /// used to read blocks.
    pub fn without_waiting<R>(&self, mut run: impl FnMut() -> R) -> R {
        if attempt::is_attempt() {
            return run();
        }
        let mut needs = Needs::new(self);
        loop {
            let active = needs.attempt();
            let result = run();
            drop(active);
            if !attempt::has_missed() {
                return result;
            }
            // It may contain a lock.
            drop(result);
            needs.provide();
        }
    }
}
