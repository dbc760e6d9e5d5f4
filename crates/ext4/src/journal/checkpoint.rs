//! The blocks that are in the log but not yet in their final locations (their homes), and the free
//! space of the log.
//!
//! # Model
//! jbd2's checkpoint lists and its log tail. A checkpoint covers everything that is committed: it
//! writes the last version of each block to its home, and then moves the start of the log past the
//! last transaction. A block that a later transaction freed is not written, because the block may
//! have been reused for content since.
//!
//! ```text
//!   first        tail             head                       end
//!     |   free    |   committed    | being committed |  free   |
//!                  used_blocks       reserved_blocks
//! ```
//!
//! # Invariants
//! 1. Every block whose version in the log is newer than the version at its home is in `waiting` or
//!    `in_flight`, except for revoked blocks.
//! 2. Used and reserved blocks together are less than the size of the log: the head never catches
//!    up with the tail.

use super::running::{Snapshot, Versions};
use crate::FsBlock;
use crate::ondisk::jbd2::{JournalSuperblock, Tid};
use crate::sync::Mutex;
use std::sync::Arc;

/// The blocks of the journal that the log uses as a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    pub(super) first: u32,
    pub(super) end: u32,
}

impl Ring {
    pub(super) fn of(journal: &JournalSuperblock) -> Self {
        Self {
            first: journal.first,
            end: journal.end,
        }
    }

    pub(super) fn len_blocks(self) -> u32 {
        self.end - self.first
    }

    /// Returns the block that is `blocks` blocks after `block` in the ring.
    pub(super) fn wrapped(self, block: u32, blocks: u32) -> u32 {
        let offset = u64::from(block - self.first) + u64::from(blocks);
        let offset = offset % u64::from(self.len_blocks());
        self.first + u32::try_from(offset).unwrap_or(0)
    }

    /// Returns the number of blocks of the ring from `tail` up to `head`.
    pub(super) fn distance(self, tail: u32, head: u32) -> u32 {
        if head >= tail {
            head - tail
        } else {
            self.len_blocks() - (tail - head)
        }
    }
}

/// The state of the log: the part that is in use, from the tail to the head, and the blocks in it.
#[derive(Debug)]
pub(super) struct Logged {
    ring: Ring,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tail: u32,
    head: u32,
    /// The number of the transaction that will start at `head`.
    head_tid: Tid,
    used_blocks: u32,
    /// The blocks of the log that the transaction being committed may use.
    reserved_blocks: u32,
    waiting: Versions,
    /// The blocks that the current checkpoint is writing home.
    in_flight: Arc<Versions>,
}

/// The blocks of one checkpoint.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) blocks: Arc<Versions>,
    /// The start of the log after the checkpoint.
    pub(super) tail: u32,
    /// The number of the transaction that starts at `tail`.
    pub(super) tail_tid: Tid,
}

impl Logged {
    /// Creates the state of a log that uses the blocks from `tail` to `head`. All blocks that it
    /// contains must already be written to their homes. The next transaction has the number `tid`.
    pub(super) fn new(ring: Ring, tail: u32, head: u32, tid: Tid) -> Self {
        Self {
            ring,
            state: Mutex::new(State {
                tail,
                head,
                head_tid: tid,
                used_blocks: ring.distance(tail, head),
                reserved_blocks: 0,
                waiting: Versions::default(),
                in_flight: Arc::default(),
            }),
        }
    }

    /// Returns the number of blocks of the log that the running transaction can still use.
    pub(super) fn free_blocks(&self) -> u32 {
        let state = self.state.lock();
        let taken = state.used_blocks.saturating_add(state.reserved_blocks);
        let free = self.ring.len_blocks().saturating_sub(taken);
        free.saturating_sub(1)
    }

    /// Reserves `blocks` for the transaction that is about to be committed.
    pub(super) fn reserve(&self, blocks: u32) {
        self.state.lock().reserved_blocks = blocks;
    }

    /// Returns the block of the log where the next transaction starts, and the number of the
    /// transaction.
    pub(super) fn head(&self) -> (u32, Tid) {
        let state = self.state.lock();
        (state.head, state.head_tid)
    }

    /// Removes from `blocks` all blocks that are not in the log, because only blocks in the log
    /// need to be revoked.
    pub(super) fn retain_logged(&self, blocks: &mut Vec<FsBlock>) {
        let state = self.state.lock();
        blocks.retain(|block| {
            state.waiting.contains_key(block) || state.in_flight.contains_key(block)
        });
    }

    /// Records that `transaction` is committed, and that the log now ends at `head`.
    pub(super) fn committed(&self, transaction: &Snapshot, head: u32) {
        let mut state = self.state.lock();
        state.head = head;
        state.head_tid = transaction.tid.next();
        state.used_blocks = self.ring.distance(state.tail, head);
        state.reserved_blocks = 0;
        for (block, contents) in &transaction.blocks {
            state.waiting.insert(*block, Arc::clone(contents));
        }
        for block in &transaction.revoked {
            state.waiting.remove(block);
        }
    }

    /// Returns whether a checkpoint is writing one of `blocks`.
    pub(super) fn is_in_flight(&self, blocks: &[FsBlock]) -> bool {
        let in_flight = Arc::clone(&self.state.lock().in_flight);
        !in_flight.is_empty() && blocks.iter().any(|block| in_flight.contains_key(block))
    }

    /// Returns whether the log is empty. If it is, a checkpoint would free no space.
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().used_blocks == 0
    }

    /// Begins a checkpoint of all committed transactions, and returns the blocks to be written.
    pub(super) fn begin(&self) -> Batch {
        let mut state = self.state.lock();
        let blocks = Arc::new(std::mem::take(&mut state.waiting));
        state.in_flight = Arc::clone(&blocks);
        Batch {
            blocks,
            tail: state.head,
            tail_tid: state.head_tid,
        }
    }

    /// Ends the checkpoint of `batch`, which frees the log up to the new tail.
    pub(super) fn end(&self, batch: &Batch) {
        let mut state = self.state.lock();
        state.tail = batch.tail;
        state.used_blocks = self.ring.distance(state.tail, state.head);
        state.in_flight = Arc::default();
    }
}
