//! Allocation and freeing of the blocks of a file: the blocks that store its mapping, and the
//! blocks of its content.
//!
//! The inode counts whole clusters as used space. With bigalloc, a cluster of file blocks is mapped
//! to one cluster of content. That cluster is allocated when the first of the file blocks is
//! mapped, and freed when the last of them is unmapped.

use super::change::MapChange;
use crate::error::Place;
use crate::ondisk::features::RoCompat;
use crate::ondisk::inode::InodeFlags;
use crate::{Error, FileKind, Filesystem, FsBlock, Inode, Result};
use std::ops::Range;

/// The error message if a file block and the block that it is mapped to have different offsets in
/// their clusters.
pub(super) const MISPLACED: &str =
    "offset in its cluster differs from the offset in the file's cluster";

/// The maximum number of runs of content, plus blocks of the mapping, that one handle frees.
/// Freeing this many takes a few milliseconds, during which all other handles wait.
const RUNS_MAX: u32 = 4096;

/// The credits for freeing a run: the bitmaps and descriptors of two groups.
const FREE_CREDITS: u32 = 4;

impl Filesystem {
    /// Returns the number of blocks in a cluster: 1 without bigalloc.
    pub(super) fn cluster_blocks(&self) -> u64 {
        1 << self.superblock().cluster_blocks_log2
    }

    /// Returns the cluster of file blocks that contains `file_block`.
    pub(super) fn cluster_around(&self, file_block: u64) -> Range<u64> {
        let blocks = self.cluster_blocks();
        let start = file_block & !(blocks - 1);
        start..start + blocks
    }

    /// Returns whether the content is journaled. If it is, neither a checkpoint nor a replay may write old
    /// content to a freed block. The inode flag for journaled content has no effect here.
    fn is_journaled(&self, inode: &Inode) -> bool {
        self.journals_content()
            || inode.kind() != FileKind::Regular
            || inode.flags().contains(InodeFlags::EA_INODE)
    }
}

impl MapChange<'_, '_> {
    /// Returns whether the handle has enough credits to free another run, which must not be longer
    /// than a group, and to complete the change of the mapping. `runs` is the number of runs and
    /// blocks of the mapping that the handle has already freed. The first run is always allowed, so
    /// that each handle makes progress.
    pub(super) fn may_free(&self, runs: u32) -> bool {
        let needed = FREE_CREDITS + self.fs.map_credits(self.inode, 1);
        runs == 0 || (runs < RUNS_MAX && self.handle.credits() >= needed)
    }

    /// Adds `blocks`, which may be negative, to the space that the inode uses.
    pub(super) fn count_blocks(&mut self, blocks: i64) {
        let sb = self.fs.superblock();
        let may_be_huge = sb.ro_compat.contains(RoCompat::HUGE_FILE);
        self.inode
            .add_blocks(blocks, sb.block_size_bytes(), may_be_huge);
    }

    /// Allocates a block for the mapping itself; with bigalloc, a whole cluster.
    pub(super) fn allocate_mapping_block(&mut self, near: FsBlock) -> Result<FsBlock> {
        let block = if self.inode.kind() == FileKind::Regular {
            self.fs.allocate_mapping(self.handle, near)?
        } else {
            self.fs.allocate_block(self.handle, near)?
        };
        self.count_blocks(signed(self.fs.cluster_blocks()));
        Ok(block)
    }

    /// Frees a block of the mapping itself.
    pub(super) fn free_mapping_block(&mut self, block: FsBlock) -> Result<()> {
        self.handle.forget(block);
        let cluster = self.fs.cluster_around(block.0);
        self.free_clusters(&cluster)
    }

    /// Frees the `blocks` blocks of content from `block` on, to which the file blocks from
    /// `file_block` on were mapped. `is_mapped` must return whether any file block of a range is
    /// still mapped.
    pub(super) fn free_content(
        &mut self,
        (file_block, block, blocks): (u64, FsBlock, u64),
        is_mapped: impl Fn(Range<u64>) -> Result<bool>,
    ) -> Result<()> {
        if !self.fs.superblock().contains_blocks(block, blocks) {
            return Err(Place::Block(block, self.inode.ino()).corrupt("outside the file system"));
        }
        let end = block.0 + blocks;
        if self.fs.is_journaled(self.inode) {
            // A block that is not dirty is durable in its final location, and no longer in the log.
            (block.0..end)
                .filter(|&block| self.fs.buffers().dirty(block).is_some())
                .for_each(|block| self.handle.forget(FsBlock(block)));
        }
        if self.fs.cluster_blocks() == 1 {
            return self.free_clusters(&(block.0..end));
        }
        let (first, last) = (
            self.fs.cluster_around(block.0),
            self.fs.cluster_around(end - 1),
        );
        if block.0 - first.start != file_block - self.fs.cluster_around(file_block).start {
            return Err(Place::Block(block, self.inode.ino()).corrupt(MISPLACED));
        }
        // The file blocks in the first and the last cluster, except for those that are freed.
        let file_end = file_block + blocks;
        let before = self.fs.cluster_around(file_block).start..file_block;
        let after = file_end..self.fs.cluster_around(file_end - 1).end;
        let mut freed = first.start..last.end;
        if is_mapped(before)? {
            freed.start = first.end;
        }
        if is_mapped(after)? {
            freed.end = last.start;
        }
        self.free_clusters(&freed)
    }

    /// Frees whole clusters. Does nothing if `blocks` is empty.
    fn free_clusters(&mut self, blocks: &Range<u64>) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let count = blocks.end - blocks.start;
        // The last cluster may extend past the end of the file system.
        let end = blocks.end.min(self.fs.superblock().blocks_count);
        let present = u32::try_from(end.saturating_sub(blocks.start)).unwrap_or(u32::MAX);
        let start = FsBlock(blocks.start);
        let freed = self
            .fs
            .free_blocks(self.handle, start, present, self.inode.ino());
        match freed {
            // The handle will give way. The operation continues, so that all missing bitmaps are
            // recorded now and read together.
            Err(Error::NotInMemory(_)) => {}
            freed => freed?,
        }
        self.count_blocks(-signed(count));
        Ok(())
    }
}

/// Converts a number of blocks that is within the limits of an inode.
pub(super) fn signed(blocks: u64) -> i64 {
    i64::try_from(blocks).unwrap_or(i64::MAX)
}
