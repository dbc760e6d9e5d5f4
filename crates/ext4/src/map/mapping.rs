//! The mapping of a run of a file's blocks.

use crate::{FileBlock, FsBlock};
use std::ops::Range;

/// A range of file blocks, counted from the start of the file; the end is at most 2^32.
pub type FileBlocks = Range<u64>;

/// The blocks that a run of file blocks is mapped to, and their state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingKind {
    /// The run is not mapped, and is read as zeros.
    Hole,
    /// The run is mapped to the blocks from this block on, which were never written. It is read as
    /// zeros.
    Unwritten(FsBlock),
    /// The run is mapped to content in the blocks from this block on.
    Written(FsBlock),
}

impl MappingKind {
    /// Returns the mapping to the blocks from `block` on.
    pub(crate) fn mapped(block: FsBlock, is_written: bool) -> Self {
        if is_written {
            Self::Written(block)
        } else {
            Self::Unwritten(block)
        }
    }

    /// Returns the mapping of the run without its first `blocks` blocks.
    pub(crate) fn skip(self, blocks: u32) -> Self {
        self.block().map_or(Self::Hole, |(block, is_written)| {
            let later = FsBlock(block.0.saturating_add(u64::from(blocks)));
            Self::mapped(later, is_written)
        })
    }

    /// Returns the first block that the run is mapped to, and whether it was written; `None` for a
    /// hole.
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
    /// The first file block of the run, which is the requested block.
    pub start: FileBlock,
    /// The number of blocks of the run: at least 1.
    pub blocks: u32,
    /// The blocks that the run is mapped to.
    pub kind: MappingKind,
}
