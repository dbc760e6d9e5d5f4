//! The running transaction: the blocks that handles have changed since the last commit.

use super::block_map::{BlockMap, BlockSet};
use super::order::Order;
use super::touched::Touched;
use crate::FsBlock;
pub use crate::ondisk::jbd2::Tid;
use std::sync::Arc;
use std::time::Instant;

/// The maximum number of arrays that are kept for copies of blocks.
const POOL_BLOCKS: usize = 64;

/// The transaction that handles join.
#[derive(Debug)]
pub(crate) struct Running {
    tid: Tid,
    blocks: BlockSet,
    revoked: BlockSet,
    /// The order of its blocks; `None` if there is a journal.
    pub(super) order: Option<Order>,
    /// The maximum number of blocks that it may hold: as many as fit into the log.
    pub(super) limit_blocks: u32,
    /// The time when the first handle that changed anything stopped.
    since: Option<Instant>,
    /// Whether the file system was closed, so that no more handles can be opened.
    pub(super) is_closed: bool,
    pub(super) pool: Pool,
}

/// Memory that handles leave for later ones, to save allocations.
#[derive(Debug, Default)]
pub(super) struct Pool {
    copies: Vec<Arc<[u8]>>,
    pub(super) touched: Touched,
}

/// A transaction that is being committed.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) tid: Tid,
    /// The blocks and their contents, sorted.
    pub(super) blocks: Vec<(FsBlock, Arc<[u8]>)>,
    /// The blocks that it freed.
    pub(super) revoked: Vec<FsBlock>,
    /// The order of its blocks; `None` if there is a journal.
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

    /// Returns whether no handle has changed anything.
    pub(super) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// Returns the number of blocks that were changed.
    pub(super) fn len_blocks(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }

    /// Returns whether a handle with `credits` more blocks fits.
    pub(super) fn admits(&self, credits: u32) -> bool {
        self.len_blocks().saturating_add(credits) <= self.limit_blocks
    }

    /// Returns when it began; `None` while it is empty.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Records that the block was changed.
    pub(super) fn add(&mut self, block: FsBlock) {
        if self.since.is_none() {
            self.since = Some(Instant::now());
        }
        self.blocks.insert(block);
        if !self.revoked.is_empty() {
            self.revoked.remove(&block);
        }
    }

    /// Records that the block was freed.
    pub(super) fn forget(&mut self, block: FsBlock) {
        self.blocks.remove(&block);
        self.revoked.insert(block);
    }

    /// Ends the transaction, with the version of each block that `version` returns. A block without
    /// a version was freed, or is already on the device. From now on handles join the next
    /// transaction.
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
    /// Returns a copy of `contents` that has no other reference.
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

    /// Stores an array for reuse, if there is no other reference to it.
    pub(super) fn put(&mut self, mut contents: Arc<[u8]>) {
        if self.copies.len() < POOL_BLOCKS && Arc::get_mut(&mut contents).is_some() {
            self.copies.push(contents);
        }
    }
}

/// Versions of blocks that were written, or are still to be written.
pub(super) type Versions = BlockMap<Arc<[u8]>>;
