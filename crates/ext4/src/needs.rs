//! Needs: the blocks that an operation must find in memory, because it must not wait for the device.
//!
//! # Model
//! A journal handle excludes all other changes and commits, so its thread must not wait while the
//! handle is open. The kernel's handles may wait for a read, because other handles join the same
//! transaction meanwhile.
//!
//! # How it works
//! An *attempt* runs an operation with only the blocks that are in memory. In an attempt,
//! [`Filesystem::read_block`] does not read the device: it records a missing block and returns
//! [`Error::NotInMemory`](crate::Error::NotInMemory). An attempt that missed anything gives way: its result
//! is discarded, and its changes are undone. Then the thread, without a handle or a lock, reads the missing
//! blocks and holds them in the buffer cache, and the next attempt starts.
//!
//! - Each miss is recorded, because some code tolerates the error. The search for space and the comparison of
//!   shared attributes can do without an unreadable block: they continue, and the attempt gives way afterwards.
//!   Such code must not store any conclusion that it draws from
//!   [`Error::NotInMemory`](crate::Error::NotInMemory).
//! - A missing block, once read, is held until the operation ends, even if the cache is tiny and other
//!   threads need space in it. So an operation gives way at most once for each block that it needs. In
//!   practice, most blocks are already in memory, because the caller has read them.
//! - A block that cannot be read is recorded as such. If the next attempt needs the block, the read
//!   fails with the device's error, as an ordinary read would.
//!
//! A search for space that finds none, perhaps because the free space is being discarded, gives way in
//! the same manner. The next attempt runs while discards are excluded.
//!
//! # Locking
//! The state of an attempt belongs to its thread. A thread makes one attempt at a time. Within an attempt,
//! the thread must not wait for a lock whose holder may be waiting for the device. Therefore even a thread
//! without a handle may hold the locks of the allocator's groups and of live inodes only in an attempt
//! ([`Filesystem::without_waiting`]).
//!
//! # Cost
//! A read within an attempt costs one more access to thread-local memory. An attempt that gives way
//! costs some microseconds, which is little compared with the read that follows.

use crate::attempt::{self, Attempt};
use crate::{Filesystem, FsBlock, MemoryOnly};
use parking_lot::MutexGuard;

/// What earlier attempts missed. The blocks are held, and discards are excluded, until this value is
/// dropped.
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

    /// Provides what the last attempt of this thread missed. Waits for the device. The attempt must
    /// have ended.
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
        if missing.exclusion_of_discards && self.no_discard.is_none() {
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
    /// Calls `run` in an attempt, so that `run` does not wait for the device and may take a lock that a
    /// thread with an open handle also takes. If `run` needs blocks that are not in memory, they are read
    /// after `run` returns, and `run` is called again. If a handle is open, calls `run` once, as a part of
    /// the handle's attempt. In a [`MemoryOnly`] part, calls `run` once, and records whether blocks were
    /// missing.
    ///
    /// `run` must not store any conclusion that it draws from
    /// [`Error::NotInMemory`](crate::Error::NotInMemory). If it returns the guard of a lock, the caller
    /// must not read blocks from the device while it holds this guard.
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
            if MemoryOnly::is_active() {
                MemoryOnly::would_wait();
                return result;
            }
            // The result may contain the guard of a lock.
            drop(result);
            needs.provide();
        }
    }
}
