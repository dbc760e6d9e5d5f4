//! What a run of a file's blocks is mapped to.

use crate::{FileBlock, FsBlock};
use std::ops::Range;

/// Blocks of a file, from its start; up to 2^32.
pub type FileBlocks = Range<u64>;

/// What a run of a file's blocks is mapped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingKind {
    /// Nothing: reads as zeros.
    Hole,
    /// Blocks that were never written, from this one on: reads as zeros.
    Unwritten(FsBlock),
    /// Content, from this block on.
    Written(FsBlock),
}

impl MappingKind {
    /// Mapped from `block` on.
    pub(crate) fn mapped(block: FsBlock, is_written: bool) -> Self {
        if is_written {
            Self::Written(block)
        } else {
            Self::Unwritten(block)
        }
    }

    /// What lies `blocks` further on in the run.
    pub(crate) fn skip(self, blocks: u32) -> Self {
        self.block().map_or(Self::Hole, |(block, is_written)| {
            let later = FsBlock(block.0.saturating_add(u64::from(blocks)));
            Self::mapped(later, is_written)
        })
    }

    /// The block that the run is mapped to, and whether it was written.
    pub(crate) fn block(self) -> Option<(FsBlock, bool)> {
        match self {
            Self::Hole => None,
            Self::Unwritten(block) => Some((block, false)),
            Self::Written(block) => Some((block, true)),
        }
    }
}

/// A run of a file's blocks that are mapped alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First block of the run: the one asked for.
    pub start: FileBlock,
    /// Blocks of the run: at least 1.
    pub blocks: u32,
    /// What the run is mapped to.
    pub kind: MappingKind,
}
