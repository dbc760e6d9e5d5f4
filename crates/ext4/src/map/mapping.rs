//! The mapping of a run of a file's blocks.

use crate::{FileBlock, FsBlock};
use std::ops::Range;

/// Blocks of a file, from its start; up to 2^32.
pub type FileBlocks = Range<u64>;

/// The kind of blocks that a run of a file's blocks is mapped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingKind {
    /// No blocks: reads as zeros.
    Hole,
    /// Blocks that were never written, starting at this block: reads as zeros.
    Unwritten(FsBlock),
    /// Content, starting at this block.
    Written(FsBlock),
}

impl MappingKind {
    /// Returns the kind for blocks starting at `block`.
    pub(crate) fn mapped(block: FsBlock, is_written: bool) -> Self {
        if is_written {
            Self::Written(block)
        } else {
            Self::Unwritten(block)
        }
    }

    /// Returns the mapping of the block that is `blocks` further in the run.
    pub(crate) fn skip(self, blocks: u32) -> Self {
        self.block().map_or(Self::Hole, |(block, is_written)| {
            let later = FsBlock(block.0.saturating_add(u64::from(blocks)));
            Self::mapped(later, is_written)
        })
    }

    /// Returns the block that the run is mapped to, and whether it was written.
    pub(crate) fn block(self) -> Option<(FsBlock, bool)> {
        match self {
            Self::Hole => None,
            Self::Unwritten(block) => Some((block, false)),
            Self::Written(block) => Some((block, true)),
        }
    }
}

/// A run of a file's blocks with the same kind of mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The first block of the run: the requested block.
    pub start: FileBlock,
    /// The number of blocks of the run: at least 1.
    pub blocks: u32,
    /// The blocks that the run is mapped to.
    pub kind: MappingKind,
}
