//! Checks of the blocks from handles, before the journal writes them to the log or home.
//!
//! They are the other half of what [`Handle::stop`](super::Handle::stop) promises: see
//! [`crate::invariant`].

use super::file::Extent;
use super::home::Version;
use crate::{Error, FsBlock, Result};

/// The limits of where metadata may be written, and how much at once.
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
    /// Checks the blocks of a transaction, and those that it freed.
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

    /// Returns why metadata cannot be stored in `block`, or `None` if it can.
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

    /// Checks blocks that are to be written home, now or later.
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
