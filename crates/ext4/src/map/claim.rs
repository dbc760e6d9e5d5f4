//! Blocks claimed for a file: the allocator's claim, and what of it the file maps.

use crate::FsBlock;
use crate::alloc::Claim;

/// Blocks that a file is about to map, one after the other.
///
/// With bigalloc a claim keeps whole clusters, of which the file may map a part; and blocks of
/// a cluster that the file has already need no claim. Elsewhere it is the claim. Dropped, what
/// was claimed is free again.
#[derive(Debug)]
pub struct FileClaim {
    start: FsBlock,
    blocks: u32,
    claim: Option<Claim>,
}

impl FileClaim {
    /// At most `want` blocks of `claim`, from `skip` on, which must be fewer than it has.
    pub(super) fn part_of(claim: Claim, skip: u32, want: u32) -> Self {
        Self {
            start: FsBlock(claim.start().0 + u64::from(skip)),
            blocks: claim.blocks().saturating_sub(skip).min(want),
            claim: Some(claim),
        }
    }

    /// Blocks of a cluster that the file has already.
    pub(super) fn of_own_cluster(start: FsBlock, blocks: u32) -> Self {
        Self {
            start,
            blocks,
            claim: None,
        }
    }

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

    /// What is to be taken, if anything.
    pub(super) fn into_claim(self) -> Option<Claim> {
        self.claim
    }
}
