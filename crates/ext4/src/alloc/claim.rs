//! Blocks kept for an owner, in memory only. Dropped, they are free again.

use crate::FsBlock;
use std::sync::Arc;

/// A run of blocks that nobody else gets.
#[derive(Debug)]
pub struct Claim {
    pub(super) start: FsBlock,
    pub(super) blocks: u32,
}

impl Claim {
    /// First block.
    #[must_use]
    pub fn start(&self) -> FsBlock {
        self.start
    }

    /// Number of blocks, at least 1.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }
}

/// A number of free clusters that nobody else gets.
#[derive(Debug)]
pub struct Reservation {
    pub(super) clusters: u64,
    pub(super) owner: Arc<()>,
}
