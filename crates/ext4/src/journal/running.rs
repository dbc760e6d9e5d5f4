//! The running transaction: the blocks that handles have changed since the last commit.

use super::block_map::{BlockMap, BlockSet};
use super::order::Order;
use super::undo::UndoRecords;
use crate::FsBlock;
pub use crate::ondisk::jbd2::Tid;
use std::sync::Arc;
use std::time::Instant;

/// The maximum number of buffers that are kept to be reused for copies of blocks.
const POOL_BLOCKS: usize = 64;

/// The transaction that handles join.
#[derive(Debug)]
pub(crate) struct Running {
    tid: Tid,
    blocks: BlockSet,
    revoked: BlockSet,
    /// The order in which the commit writes the blocks; `None` if there is a journal.
    pub(super) order: Option<Order>,
    /// The maximum number of blocks of the transaction, which must fit into the log.
    pub(super) limit_blocks: u32,
    /// The time when a handle first changed a block; `None` while the transaction is empty.
    since: Option<Instant>,
    /// Whether the file system was closed. No more handles can then be opened.
    pub(super) is_closed: bool,
    pub(super) pool: Pool,
}

/// Memory that a handle leaves for later handles, to avoid memory allocations.
#[derive(Debug, Default)]
pub(super) struct Pool {
    copies: Vec<Arc<[u8]>>,
    pub(super) undo: UndoRecords,
}

/// A transaction that is being committed.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) tid: Tid,
    /// The blocks that the transaction changed, with their contents. `Writer` sorts them by number.
    pub(super) blocks: Vec<(FsBlock, Arc<[u8]>)>,
    /// The blocks that the transaction freed.
    pub(super) revoked: Vec<FsBlock>,
    /// The order in which the commit writes the blocks; `None` if there is a journal.
    pub(super) order: Option<Order>,
}

impl Running {
    pub(super) fn new(tid: Tid, limit_blocks: u32) -> Self {
        Self {
            tid,
            blocks: BlockSet::default(),
            revoked: BlockSet::default(),
            order: None,
            limit_blocks,
            since: None,
            is_closed: false,
            pool: Pool::default(),
        }
    }

    pub(super) fn tid(&self) -> Tid {
        self.tid
    }

    /// Returns whether no handle has changed a block since the last commit.
    pub(super) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// Returns the number of blocks that the transaction changed.
    pub(super) fn len_blocks(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }

    /// Returns whether a handle that may change `credits` blocks fits into the transaction.
    pub(super) fn admits(&self, credits: u32) -> bool {
        self.len_blocks().saturating_add(credits) <= self.limit_blocks
    }

    /// Returns the time of the first change; `None` while the transaction is empty.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Records that the transaction changed `block`.
    pub(super) fn add(&mut self, block: FsBlock) {
        if self.since.is_none() {
            self.since = Some(Instant::now());
        }
        self.blocks.insert(block);
        if !self.revoked.is_empty() {
            self.revoked.remove(&block);
        }
    }

    /// Records that the transaction freed `block`.
    pub(super) fn forget(&mut self, block: FsBlock) {
        self.blocks.remove(&block);
        self.revoked.insert(block);
    }

    /// Ends the transaction and returns its blocks. `version` must return the current contents of a
    /// dirty block, or `None` for a clean block, which is left out because it was freed or is
    /// already on the device. Handles that open afterwards join the next transaction.
    pub(super) fn take_snapshot(
        &mut self,
        version: impl Fn(FsBlock) -> Option<Arc<[u8]>>,
    ) -> Snapshot {
        let versions = std::mem::take(&mut self.blocks)
            .into_iter()
            .filter_map(|block| Some((block, version(block)?)));
        let snapshot = Snapshot {
            tid: self.tid,
            blocks: versions.collect(),
            revoked: std::mem::take(&mut self.revoked).into_iter().collect(),
            order: self.order.as_mut().map(std::mem::take),
        };
        self.tid = self.tid.next();
        self.since = None;
        snapshot
    }
}

impl Pool {
    /// Returns a copy of `contents`. There is no other reference to the copy.
    pub(super) fn copy(&mut self, contents: &[u8]) -> Arc<[u8]> {
        match self.copies.pop() {
            Some(mut copy) if copy.len() == contents.len() => {
                if let Some(bytes) = Arc::get_mut(&mut copy) {
                    bytes.copy_from_slice(contents);
                    return copy;
                }
                Arc::from(contents)
            }
            _ => Arc::from(contents),
        }
    }

    /// Keeps the memory of `contents` for reuse, if there is no other reference to it.
    pub(super) fn put(&mut self, mut contents: Arc<[u8]>) {
        if self.copies.len() < POOL_BLOCKS && Arc::get_mut(&mut contents).is_some() {
            self.copies.push(contents);
        }
    }
}

/// The contents of blocks, by block number.
pub(super) type Versions = BlockMap<Arc<[u8]>>;
