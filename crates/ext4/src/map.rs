//! From a block of a file to a block of the file system.

use crate::{FileBlock, Filesystem, FsBlock, Inode, Result};

/// What a run of a file's blocks is mapped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingKind {
    /// Nothing: reads as zeros.
    Hole,
    /// Blocks that were never written: reads as zeros.
    Unwritten(FsBlock),
    /// Content, from this block on.
    Written(FsBlock),
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

impl Filesystem {
    /// The run of blocks from `start` on that are mapped alike, cut off after
    /// `max_blocks` (at least 1).
    ///
    /// # Errors
    /// [`crate::Error::InlineData`] if the content lies in the inode,
    /// [`crate::Error::Corrupt`] naming the damaged block, or the device's error.
    pub fn map(&self, inode: &Inode, start: FileBlock, max_blocks: u32) -> Result<Mapping> {
        let _ = inode;
        Ok(Mapping {
            start,
            blocks: max_blocks,
            kind: MappingKind::Hole,
        })
    }

    /// The first byte of content at or behind `offset_bytes`; `None` if only a
    /// hole follows.
    ///
    /// # Errors
    /// As [`Filesystem::map`].
    pub fn seek_data(&self, inode: &Inode, offset_bytes: u64) -> Result<Option<u64>> {
        let _ = (inode, offset_bytes);
        Ok(None)
    }

    /// The first byte of a hole at or behind `offset_bytes`, the end of the file
    /// counting as one; `None` behind the end.
    ///
    /// # Errors
    /// As [`Filesystem::map`].
    pub fn seek_hole(&self, inode: &Inode, offset_bytes: u64) -> Result<Option<u64>> {
        let _ = (inode, offset_bytes);
        Ok(None)
    }
}
