//! What lies in the log and not yet at home, and how much room that leaves.
//!
//! # Model
//! jbd2's checkpoint lists and its log tail. A checkpoint takes all that is committed: the last
//! version of each block goes home, then the log starts behind the last transaction. A block
//! that a later transaction freed is not written: it may be content by then.
//!
//! ```text
//!   first        tail             head                       end
//!     |   free    |   committed    | being committed |  free   |
//!                  used_blocks       reserved_blocks
//! ```
//!
//! # Invariants
//! 1. What `waiting` and `in_flight` hold covers every block whose home is older than
//!    the log, but for those revoked.
//! 2. Used and reserved blocks are less than the log: head and tail never meet from behind.

use super::running::{Snapshot, Versions};
use crate::FsBlock;
use crate::ondisk::jbd2::{JournalSuperblock, Tid};
use crate::sync::Mutex;
use std::sync::Arc;

/// The blocks of the journal that the log goes round in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circle {
    pub(super) first: u32,
    pub(super) end: u32,
}

impl Circle {
    pub(super) fn of(journal: &JournalSuperblock) -> Self {
        Self {
            first: journal.first,
            end: journal.end,
        }
    }

    pub(super) fn len_blocks(self) -> u32 {
        self.end - self.first
    }

    /// The block `blocks` behind `block`.
    pub(super) fn wrapped(self, block: u32, blocks: u32) -> u32 {
        let offset = u64::from(block - self.first) + u64::from(blocks);
        let offset = offset % u64::from(self.len_blocks());
        self.first + u32::try_from(offset).unwrap_or(0)
    }

    /// Blocks from `tail` up to `head`.
    pub(super) fn distance(self, tail: u32, head: u32) -> u32 {
        if head >= tail {
            head - tail
        } else {
            self.len_blocks() - (tail - head)
        }
    }
}

/// The part of the log from its tail to its head, and the blocks that it holds.
#[derive(Debug)]
pub(super) struct Logged {
    circle: Circle,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tail: u32,
    head: u32,
    /// The transaction that starts at `head`.
    head_tid: Tid,
    used_blocks: u32,
    /// What the transaction being committed may take.
    reserved_blocks: u32,
    waiting: Versions,
    /// What a checkpoint writes home just now.
    in_flight: Arc<Versions>,
}

/// What a checkpoint is to do.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) blocks: Arc<Versions>,
    /// Where the log starts afterwards, and with which transaction.
    pub(super) tail: u32,
    pub(super) tail_tid: Tid,
}

impl Logged {
    /// The log holds what lies between `tail` and `head`, all of which is at home; transaction
    /// `tid` is next.
    pub(super) fn new(circle: Circle, tail: u32, head: u32, tid: Tid) -> Self {
        Self {
            circle,
            state: Mutex::new(State {
                tail,
                head,
                head_tid: tid,
                used_blocks: circle.distance(tail, head),
                reserved_blocks: 0,
                waiting: Versions::default(),
                in_flight: Arc::default(),
            }),
        }
    }

    /// Blocks of the log that the running transaction can still count on.
    pub(super) fn free_blocks(&self) -> u32 {
        let state = self.state.lock();
        let taken = state.used_blocks.saturating_add(state.reserved_blocks);
        let free = self.circle.len_blocks().saturating_sub(taken);
        free.saturating_sub(1)
    }

    /// Keeps `blocks` for the transaction that is to be committed.
    pub(super) fn reserve(&self, blocks: u32) {
        self.state.lock().reserved_blocks = blocks;
    }

    /// Where the next transaction goes, and its number.
    pub(super) fn head(&self) -> (u32, Tid) {
        let state = self.state.lock();
        (state.head, state.head_tid)
    }

    /// Leaves those of `blocks` that the log may hold: no others need to be revoked.
    pub(super) fn retain_logged(&self, blocks: &mut Vec<FsBlock>) {
        let state = self.state.lock();
        blocks.retain(|block| {
            state.waiting.contains_key(block) || state.in_flight.contains_key(block)
        });
    }

    /// `transaction` is in the log, which now ends at `head`.
    pub(super) fn committed(&self, transaction: &Snapshot, head: u32) {
        let mut state = self.state.lock();
        state.head = head;
        state.head_tid = transaction.tid.next();
        state.used_blocks = self.circle.distance(state.tail, head);
        state.reserved_blocks = 0;
        for (block, contents) in &transaction.blocks {
            state.waiting.insert(*block, Arc::clone(contents));
        }
        for block in &transaction.revoked {
            state.waiting.remove(block);
        }
    }

    /// Whether a checkpoint writes one of `blocks` just now.
    pub(super) fn is_in_flight(&self, blocks: &[FsBlock]) -> bool {
        let in_flight = Arc::clone(&self.state.lock().in_flight);
        !in_flight.is_empty() && blocks.iter().any(|block| in_flight.contains_key(block))
    }

    /// Whether a checkpoint would make room.
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().used_blocks == 0
    }

    /// Begins a checkpoint of all that is committed.
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

    /// The checkpoint `batch` is done, and the log starts where it said.
    pub(super) fn end(&self, batch: &Batch) {
        let mut state = self.state.lock();
        state.tail = batch.tail;
        state.used_blocks = self.circle.distance(state.tail, state.head);
        state.in_flight = Arc::default();
    }
}
