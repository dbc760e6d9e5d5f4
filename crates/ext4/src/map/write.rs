//! Changes of a file's mapping: extent trees and indirect blocks.
//!
//! Model: `ext4_ext_insert_extent`, `ext4_ext_remove_space` and their counterparts for indirect
//! blocks, with a common interface for both kinds of mapping. All functions change `i_block` and
//! `i_blocks` of the inode in memory. The caller must write the inode with the same handle, or
//! restore the previous inode if a function fails.
//!
//! # Long operations
//! A function that may change many blocks of metadata stops while the handle still has the credits
//! that its caller needs ([`Filesystem::map_credits`] for one block), and returns the remaining
//! range. The caller continues with another handle. The mapping is consistent after each handle. A
//! handle that was opened with `map_credits` for one block always makes progress.

use super::FileBlocks;
use super::change::MapChange;
use super::extents::END;
use super::freeing::signed;
use crate::alloc::Claim;
use crate::journal::Handle;
use crate::ondisk::extent::Node;
use crate::ondisk::features::RoCompat;
use crate::ondisk::indirect;
use crate::ondisk::inode::InodeFlags;
use crate::{Error, FileBlock, Filesystem, FsBlock, Inode, Result};

/// The number of extents in the inode itself.
const ROOT_EXTENTS: u64 = 4;

/// One level of the tree of indirect blocks or extent nodes, for the reservation of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingLevel {
    /// The first file block that needs a block of this level.
    pub first: u64,
    /// The binary logarithm of the number of file blocks that share a block of this level, counted
    /// from `first`.
    pub span_log2: u32,
}

impl Filesystem {
    /// Maps the file blocks from `start` on, which must be holes, to the blocks of `claim`, as
    /// written or as unwritten.
    pub fn map_claim(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        start: FileBlock,
        claim: Claim,
        is_written: bool,
    ) -> Result<()> {
        let mut change = self.map_change(handle, inode)?;
        let run = (claim.start(), claim.blocks());
        if let Some((start, blocks)) = claim.kept_blocks() {
            let first = self.cluster_around(start.0).start;
            let end = start.0 + u64::from(blocks);
            let taken = end.next_multiple_of(self.cluster_blocks()) - first;
            self.take(change.handle, claim)?;
            change.count_blocks(signed(taken));
        }
        change.insert_run(start, run, is_written)
    }

    /// Maps file blocks like [`Filesystem::map_claim`], but to a run of blocks that the bitmaps
    /// already mark as used.
    pub(crate) fn map_used(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        start: FileBlock,
        run: (FsBlock, u32),
        is_written: bool,
    ) -> Result<()> {
        let mut change = self.map_change(handle, inode)?;
        let first = u64::from(start.0);
        let end = first + u64::from(run.1);
        let (head, tail) = (self.cluster_around(first), self.cluster_around(end - 1));
        // Other file blocks may already be mapped to the first and the last cluster of the run.
        let has_head = self.maps_any(change.inode, head.start..first)?;
        let has_tail = self.maps_any(change.inode, end..tail.end)?;
        let owned = if head == tail {
            u64::from(has_head || has_tail)
        } else {
            u64::from(has_head) + u64::from(has_tail)
        };
        let taken = tail.end - head.start - owned * self.cluster_blocks();
        change.count_blocks(signed(taken));
        change.insert_run(start, run, is_written)
    }

    /// Marks the mapped blocks in `blocks` as written or unwritten, starting at the first block, as
    /// far as the handle's credits allow. Returns the part at the end of `blocks` that remains,
    /// which is empty when all blocks are done. Indirect mappings have no unwritten blocks: for
    /// them, `is_written` must be true.
    pub fn set_written(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        blocks: FileBlocks,
        is_written: bool,
    ) -> Result<FileBlocks> {
        let mut change = self.map_change(handle, inode)?;
        if has_extents(change.inode) {
            return change.set_extents_written(blocks, is_written);
        }
        if !is_written {
            return Err(unwritten_refused(change.inode));
        }
        Ok(blocks.end..blocks.end)
    }

    /// Unmaps the file blocks `blocks`, and frees the blocks that they were mapped to. Starts at
    /// the end, and stops when the handle runs out of credits or has freed many runs. Returns the
    /// part at the start of `blocks` that remains, which is empty when all blocks are done.
    pub fn unmap(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        blocks: FileBlocks,
    ) -> Result<FileBlocks> {
        if !self.has_blocks(inode) {
            return Ok(blocks.start..blocks.start);
        }
        let mut change = self.map_change(handle, inode)?;
        if has_extents(change.inode) {
            change.unmap_extents(blocks)
        } else {
            change.unmap_indirect(blocks)
        }
    }

    /// Moves the mapping of `blocks` by `by` blocks. If `by` is negative, the blocks move to a hole
    /// before them, which the caller must have made. If `by` is positive, `blocks` must include the
    /// last mapped block. Stops when the handle runs out of credits. Returns the remaining range,
    /// which is empty when all blocks are moved. Supports only extents.
    ///
    /// # Errors
    /// [`crate::Error::NotSupported`] without extents, [`crate::Error::FileTooLarge`], or
    /// corruption of the image.
    pub fn shift(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        blocks: FileBlocks,
        by: i64,
    ) -> Result<FileBlocks> {
        let mut change = self.map_change(handle, inode)?;
        if !has_extents(change.inode) {
            let what = "moving blocks of a file without extents";
            return Err(Error::NotSupported(change.inode.ino(), what));
        }
        change.shift_extents(blocks, by)
    }

    /// Returns the number of credits that a handle needs to map `blocks` more adjacent blocks and
    /// to write the inode. The same number is enough for one step of a long operation.
    #[must_use]
    pub fn map_credits(&self, inode: &Inode, blocks: u32) -> u32 {
        let sb = self.superblock();
        // A run may begin in one group and end in another; each has a bitmap and a descriptor.
        let groups = (blocks / sb.blocks_per_group.max(1)).saturating_add(2);
        let nodes = if has_extents(inode) {
            let depth = Node::parse(inode.i_block()).map_or(0, |root| root.depth());
            // One node may be split at each level, and one node may be added below the root. Twice
            // as many nodes change if two leaves map a cluster that is moved.
            let leaves = 1 + u32::from(self.cluster_blocks() > 1);
            u32::from(depth).saturating_add(2) * leaves
        } else {
            let numbers_log2 = self.numbers_log2();
            (1..=indirect::LEVELS)
                .map(|level| (blocks >> (numbers_log2 * level).min(31)).saturating_add(2))
                .fold(0, u32::saturating_add)
        };
        // Four blocks for each node: the node, a new node beside it, and the bitmap and the
        // descriptor of the group in which the new node is allocated.
        nodes
            .saturating_mul(4)
            .saturating_add(groups.saturating_mul(2))
            .saturating_add(INODE_CREDITS)
    }

    /// Returns the span of each level of the mapping: the minimum number of file blocks that one
    /// block of the level maps. A caller reserves one mapping block for each span that will contain
    /// content. For extents, a span is half of the capacity of a node, because a full node is split
    /// into halves. Content that the inode can always map without other blocks needs no
    /// reservation.
    #[must_use]
    pub fn mapping_levels(&self, inode: &Inode) -> [MappingLevel; 3] {
        let numbers_log2 = self.numbers_log2();
        if has_extents(inode) {
            let half_log2 = numbers_log2.saturating_sub(3);
            let root = Node::parse(inode.i_block());
            let is_small = root.is_ok_and(|root| {
                root.depth() == 0
                    && root
                        .extents()
                        .last()
                        .is_none_or(|last| last.file_blocks.end <= ROOT_EXTENTS)
            });
            let first = if is_small { ROOT_EXTENTS } else { 0 };
            return [1, 2, 3].map(|level| MappingLevel {
                first,
                span_log2: half_log2 * level,
            });
        }
        let mut first = indirect::DIRECT_BLOCKS;
        [1, 2, 3].map(|level| {
            let span_log2 = numbers_log2 * level;
            let this = MappingLevel { first, span_log2 };
            first += 1 << span_log2;
            this
        })
    }

    /// Returns the maximum size in bytes of a file with the kind of mapping that `inode` has.
    #[must_use]
    pub fn max_file_bytes(&self, inode: &Inode) -> u64 {
        let sb = self.superblock();
        let numbers_log2 = self.numbers_log2();
        // The size is also limited by the block count of the inode: sectors in 32 bits, or blocks
        // in 48 bits.
        let counted = if sb.ro_compat.contains(RoCompat::HUGE_FILE) {
            (1 << 48) - 1
        } else {
            u64::from(u32::MAX) >> (sb.block_size_log2 - 9)
        };
        let blocks = if has_extents(inode) {
            END.min(counted)
        } else {
            let mapped = indirect::blocks_max(numbers_log2).min(END);
            let overhead = |blocks| indirect::mapping_blocks(blocks, numbers_log2);
            if mapped + overhead(mapped) <= counted {
                mapped
            } else {
                counted - overhead(counted)
            }
        };
        blocks << sb.block_size_log2
    }

    /// Begins a change of the mapping of `inode`. Returns an error if the mapping cannot be
    /// changed.
    fn map_change<'c, 'f>(
        &'c self,
        handle: &'c mut Handle<'f>,
        inode: &'c mut Inode,
    ) -> Result<MapChange<'c, 'f>> {
        if inode.has_inline_data() {
            return Err(Error::InlineData(inode.ino()));
        }
        if !inode.kind().has_blocks() {
            return Err(Error::Invalid(
                inode.ino(),
                "files of this type have no blocks",
            ));
        }
        if !has_extents(inode) && self.cluster_blocks() > 1 {
            let what = "file without extents on a bigalloc file system";
            return Err(Error::NotSupported(inode.ino(), what));
        }
        Ok(MapChange {
            fs: self,
            handle,
            inode,
        })
    }
}

impl MapChange<'_, '_> {
    /// Inserts a run of blocks into the mapping.
    fn insert_run(
        &mut self,
        start: FileBlock,
        run: (FsBlock, u32),
        is_written: bool,
    ) -> Result<()> {
        if has_extents(self.inode) {
            return self.insert_extent(start, run, is_written);
        }
        if !is_written {
            return Err(unwritten_refused(self.inode));
        }
        self.insert_indirect(start, run)
    }
}

/// The credits for the block of the inode, and for its entry in the orphan file or list.
const INODE_CREDITS: u32 = 3;

fn has_extents(inode: &Inode) -> bool {
    inode.flags().contains(InodeFlags::EXTENTS)
}

fn unwritten_refused(inode: &Inode) -> Error {
    Error::NotSupported(inode.ino(), "unwritten blocks in a file without extents")
}
