//! Changing what a file's blocks are mapped to: extent trees and indirect blocks.
//!
//! Model: `ext4_ext_insert_extent`, `ext4_ext_remove_space` and their indirect counterparts, over
//! one description of the change that both kinds of mapping follow. All change the inode in
//! memory (`i_block`, `i_blocks`): the caller writes it in the same handle.

use crate::alloc::{Claim, Reservation};
use crate::journal::Handle;
use crate::{FileBlock, Filesystem, Inode, Result};
use std::ops::Range;

/// Blocks of a file, from its start; up to 2^32.
pub type FileBlocks = Range<u64>;

impl Filesystem {
    /// Claims blocks for the blocks of the file from `start` on that follow each other on the
    /// image: at most `want`, all of which must be holes; at least one. Near what is mapped
    /// before them, or near the inode. With bigalloc, what is left of a cluster that the file
    /// has already comes first, and claims nothing.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`], [`crate::Error::FileTooLarge`], or what is wrong with the image.
    pub fn claim_for(
        &self,
        inode: &Inode,
        start: FileBlock,
        want: u32,
        reservation: Option<&mut Reservation>,
    ) -> Result<Claim> {
        let _ = (inode, start, want, reservation);
        todo!()
    }

    /// Maps the file's blocks from `start` on, which are holes, to those of `claim`, as content
    /// or as blocks that were never written.
    pub fn map_claim(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        start: FileBlock,
        claim: Claim,
        is_written: bool,
    ) -> Result<()> {
        let _ = (handle, inode, start, claim, is_written);
        todo!()
    }

    /// Says of those of `blocks` that are mapped whether they hold content. Indirect mappings
    /// cannot say that they do not: there, it is an error.
    pub fn set_written(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        blocks: FileBlocks,
        is_written: bool,
    ) -> Result<()> {
        let _ = (handle, inode, blocks, is_written);
        todo!()
    }

    /// Makes a hole of `blocks` and frees what they were mapped to, from the end on, as far
    /// as the handle's credits reach. Returns what is left to do, from the start of `blocks`
    /// on; empty when all is done.
    pub fn unmap(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        blocks: FileBlocks,
    ) -> Result<FileBlocks> {
        let _ = (handle, inode, blocks);
        todo!()
    }

    /// Moves all that is mapped from `from` on by `by` blocks: back over a hole that was made
    /// before, or on. Only extents.
    pub fn shift(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        from: FileBlock,
        by: i64,
    ) -> Result<()> {
        let _ = (handle, inode, from, by);
        todo!()
    }

    /// The size in bytes that a file of this inode's kind of mapping can have at most.
    #[must_use]
    pub fn max_file_bytes(&self, inode: &Inode) -> u64 {
        let _ = inode;
        todo!()
    }
}
