//! The checks of changed blocks before they are written to the log or to their final locations.
//!
//! The journal checks the blocks that it has received from handles. A handle also makes checks of its own, before it
//! passes its blocks to the journal ([`Handle::stop`](super::Handle::stop)). [`crate::invariant`] explains why
//! both sides check.

use super::file::Extent;
use super::home::Version;
use crate::{Error, FsBlock, Result};

/// The limits for metadata writes.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) blocks_count: u64,
    pub(super) block_bytes: usize,
    /// The blocks of the journal, if the image has one.
    pub(super) journal: Option<Extent>,
    /// The maximum number of blocks of a transaction.
    pub(super) max_blocks: u32,
}

impl Guard {
    /// Returns an error if a transaction that changed `blocks` and freed `revoked` must not be
    /// committed.
    pub(super) fn check_transaction(&self, blocks: &[Version], revoked: &[FsBlock]) -> Result<()> {
        if blocks.len() > self.max_blocks as usize {
            return Err(Error::Invariant(
                "a transaction exceeds the maximum number of blocks",
            ));
        }
        let is_outside = |block: &FsBlock| block.0 >= self.blocks_count;
        if revoked.iter().any(is_outside) {
            return Err(Error::Invariant(
                "a transaction frees a block outside the file system",
            ));
        }
        self.check_blocks(blocks)
    }

    /// Returns the reason why metadata must not be written to `block`, or `None` if it may be.
    pub(super) fn refusal(&self, block: FsBlock) -> Option<&'static str> {
        let journal = self.journal.as_ref();
        if block.0 >= self.blocks_count {
            Some("metadata block is outside the file system")
        } else if journal.is_some_and(|journal| journal.contains(block)) {
            Some("metadata block overlaps the journal")
        } else {
            None
        }
    }

    /// Returns an error if one of `blocks` must not be written to its final location.
    pub(super) fn check_blocks(&self, blocks: &[Version]) -> Result<()> {
        for (block, contents) in blocks {
            if let Some(refusal) = self.refusal(*block) {
                return Err(Error::Invariant(refusal));
            }
            if contents.len() != self.block_bytes {
                return Err(Error::Invariant(
                    "size of a metadata buffer differs from the block size",
                ));
            }
        }
        Ok(())
    }
}
