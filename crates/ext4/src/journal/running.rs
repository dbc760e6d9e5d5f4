//! The running transaction: which blocks the handles since the last commit have changed.

use super::block_map::{BlockMap, BlockSet};
use super::order::Order;
use super::touched::Touched;
use crate::FsBlock;
pub use crate::ondisk::jbd2::Tid;
use std::sync::Arc;
use std::time::Instant;

/// Arrays kept for the next copies of blocks.
const POOL_BLOCKS: usize = 64;

/// The transaction that handles join.
#[derive(Debug)]
pub(crate) struct Running {
    tid: Tid,
    blocks: BlockSet,
    revoked: BlockSet,
    /// What its blocks are ordered by; `None` where there is a journal.
    pub(super) order: Option<Order>,
    /// Blocks that it may come to hold: as many as the log has room for.
    pub(super) limit_blocks: u32,
    /// When the first handle that changed anything stopped.
    since: Option<Instant>,
    /// Whether the file system was closed: no handle opens any more.
    pub(super) is_closed: bool,
    pub(super) pool: Pool,
}

/// What handles leave for the next ones, to spare them allocations.
#[derive(Debug, Default)]
pub(super) struct Pool {
    copies: Vec<Arc<[u8]>>,
    pub(super) touched: Touched,
}

/// A transaction as it is committed.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) tid: Tid,
    /// The blocks and what they hold, sorted.
    pub(super) blocks: Vec<(FsBlock, Arc<[u8]>)>,
    /// The blocks that it freed.
    pub(super) revoked: Vec<FsBlock>,
    /// What the blocks are ordered by; `None` where there is a journal.
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

    /// Whether no handle has changed anything.
    pub(super) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// Blocks that were changed.
    pub(super) fn len_blocks(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }

    /// Whether a handle of `credits` more blocks fits.
    pub(super) fn admits(&self, credits: u32) -> bool {
        self.len_blocks().saturating_add(credits) <= self.limit_blocks
    }

    /// When it began; `None` while it is empty.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// The block was changed.
    pub(super) fn add(&mut self, block: FsBlock) {
        if self.since.is_none() {
            self.since = Some(Instant::now());
        }
        self.blocks.insert(block);
        if !self.revoked.is_empty() {
            self.revoked.remove(&block);
        }
    }

    /// The block was freed.
    pub(super) fn forget(&mut self, block: FsBlock) {
        self.blocks.remove(&block);
        self.revoked.insert(block);
    }

    /// Ends it, with the versions of its blocks that `version` knows: one that it does not was
    /// freed, or is on the device already. Handles join the next one from now on.
    pub(super) fn seal(&mut self, version: impl Fn(FsBlock) -> Option<Arc<[u8]>>) -> Snapshot {
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
    /// A copy of `contents` that nobody else has.
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

    /// Takes back an array, if nobody else has it.
    pub(super) fn put(&mut self, mut contents: Arc<[u8]>) {
        if self.copies.len() < POOL_BLOCKS && Arc::get_mut(&mut contents).is_some() {
            self.copies.push(contents);
        }
    }
}

/// What was written for blocks, or waits to be.
pub(super) type Versions = BlockMap<Arc<[u8]>>;
