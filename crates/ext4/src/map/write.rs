//! Changing what a file's blocks are mapped to: extent trees and indirect blocks.
//!
//! Model: `ext4_ext_insert_extent`, `ext4_ext_remove_space` and their indirect counterparts, over
//! one description of the change that both kinds of mapping follow. All change the inode in
//! memory (`i_block`, `i_blocks`): the caller writes it in the same handle, and where one fails,
//! goes back to the inode as it was before.
//!
//! # Long work
//! What may concern many blocks of metadata stops while the handle still has the credits that
//! its caller needs ([`Filesystem::map_credits`] for one block), and returns what is left to do: the caller
//! goes on in another handle. Each step leaves a mapping that is whole. A handle with
//! `map_credits` for one block always gets on.

use super::FileClaim;
use crate::alloc::Reservation;
use crate::journal::Handle;
use crate::{FileBlock, Filesystem, Inode, Result};
use std::ops::Range;

/// Blocks of a file, from its start; up to 2^32.
pub type FileBlocks = Range<u64>;

impl Filesystem {
    /// Claims blocks for the blocks of the file from `start` on that follow each other on the
    /// image: at most `want`, all of which must be holes; at least one. Near what is mapped
    /// before them, or near the inode.
    ///
    /// With bigalloc, what is left of a cluster that the file has already comes first, and
    /// claims nothing. So what was claimed in a cluster must be mapped before more of that
    /// cluster is asked for.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`], [`crate::Error::FileTooLarge`], or what is wrong with the image.
    pub fn claim_for(
        &self,
        inode: &Inode,
        start: FileBlock,
        want: u32,
        reservation: Option<&mut Reservation>,
    ) -> Result<FileClaim> {
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
        claim: FileClaim,
        is_written: bool,
    ) -> Result<()> {
        let _ = (handle, inode, start, claim, is_written);
        todo!()
    }

    /// Says of those of `blocks` that are mapped whether they hold content, from the start
    /// on, as far as the handle's credits reach. Returns what is left to do, up to the end of `blocks`;
    /// empty when all is done. Indirect mappings cannot say that blocks hold none: there, it
    /// is an error.
    pub fn set_written(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        blocks: FileBlocks,
        is_written: bool,
    ) -> Result<FileBlocks> {
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

    /// Moves what is mapped in `blocks` by `by` blocks: back over a hole that was made before,
    /// or on, where `blocks` must reach to the last that is mapped. As far as the handle's
    /// credits reach: returns what is left to do, empty when all is done. Only extents.
    ///
    /// # Errors
    /// [`crate::Error::NotSupported`] without extents, [`crate::Error::FileTooLarge`], or what is
    /// wrong with the image.
    pub fn shift(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        blocks: FileBlocks,
        by: i64,
    ) -> Result<FileBlocks> {
        let _ = (handle, inode, blocks, by);
        todo!()
    }

    /// The credits that a handle needs to map `blocks` more blocks of the file that follow each
    /// other on the image, its inode included: also for one step of what takes several handles.
    #[must_use]
    pub fn map_credits(&self, inode: &Inode, blocks: u32) -> u32 {
        let _ = (inode, blocks);
        todo!()
    }

    /// The size in bytes that a file of this inode's kind of mapping can have at most.
    #[must_use]
    pub fn max_file_bytes(&self, inode: &Inode) -> u64 {
        let _ = inode;
        todo!()
    }
}
