//! The running transaction: which blocks the handles since the last commit have changed.

use crate::FsBlock;
pub use crate::ondisk::jbd2::Tid;
use std::collections::HashSet;

/// The transaction that handles join.
#[derive(Debug)]
pub(crate) struct Running {
    tid: Tid,
    pub(super) blocks: HashSet<FsBlock>,
    pub(super) revoked: HashSet<FsBlock>,
}

impl Running {
    pub(super) fn new(tid: Tid) -> Self {
        Self {
            tid,
            blocks: HashSet::new(),
            revoked: HashSet::new(),
        }
    }

    pub(super) fn tid(&self) -> Tid {
        self.tid
    }

    /// The block was changed.
    pub(super) fn add(&mut self, block: FsBlock) {
        self.blocks.insert(block);
        self.revoked.remove(&block);
    }

    /// The block was freed.
    pub(super) fn forget(&mut self, block: FsBlock) {
        self.blocks.remove(&block);
        self.revoked.insert(block);
    }
}
