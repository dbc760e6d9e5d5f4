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

/// Extents in the inode itself.
const ROOT_EXTENTS: u64 = 4;

/// One level of the blocks that make up a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingLevel {
    /// The first block of the file that needs one.
    pub first: u64,
    /// The logarithm, to base 2, of the blocks of the file that share one, counted from there.
    pub span_log2: u32,
}

impl Filesystem {
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

    /// As [`Filesystem::map_claim`], to a run of blocks that the bitmaps say are used already.
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
        // The file may have the first and the last cluster already.
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
        let mut change = self.map_change(handle, inode)?;
        if has_extents(change.inode) {
            return change.set_extents_written(blocks, is_written);
        }
        if !is_written {
            return Err(unwritten_refused(change.inode));
        }
        Ok(blocks.end..blocks.end)
    }

    /// Makes a hole of `blocks` and frees what they were mapped to, from the end on, as far
    /// as the handle's credits reach and others can wait. Returns what is left to do, from the
    /// start of `blocks` on; empty when all is done.
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
            change.unmap_numbers(blocks)
        }
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
        let mut change = self.map_change(handle, inode)?;
        if !has_extents(change.inode) {
            let what = "moving blocks of a file without extents";
            return Err(Error::NotSupported(change.inode.ino(), what));
        }
        change.shift_extents(blocks, by)
    }

    /// The credits that a handle needs to map `blocks` more blocks of the file that follow each
    /// other on the image, its inode included: also for one step of what takes several handles.
    #[must_use]
    pub fn map_credits(&self, inode: &Inode, blocks: u32) -> u32 {
        let sb = self.superblock();
        // A run may begin in one group and end in another; each has a bitmap and a descriptor.
        let groups = (blocks / sb.blocks_per_group.max(1)).saturating_add(2);
        let nodes = if has_extents(inode) {
            let depth = Node::parse(inode.i_block()).map_or(0, |root| root.depth());
            // One that is split at each level, and a new one below the root; of two leaves
            // where a cluster that moves lies in both.
            let leaves = 1 + u32::from(self.cluster_blocks() > 1);
            u32::from(depth).saturating_add(2) * leaves
        } else {
            let numbers_log2 = self.numbers_log2();
            (1..=indirect::LEVELS)
                .map(|level| (blocks >> (numbers_log2 * level).min(31)).saturating_add(2))
                .fold(0, u32::saturating_add)
        };
        // Each is changed, and the new ones beside them are taken out of a group.
        nodes
            .saturating_mul(4)
            .saturating_add(groups.saturating_mul(2))
            .saturating_add(INODE_CREDITS)
    }

    /// What the blocks of a mapping span that are reserved for content of the file before it is
    /// mapped: at worst one for each span in which anything is. For extents that is
    /// half of what a node can have, since a full one is split in halves; content that the inode
    /// maps by itself, whatever comes, needs none.
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

    /// The size in bytes that a file of this inode's kind of mapping can have at most.
    #[must_use]
    pub fn max_file_bytes(&self, inode: &Inode) -> u64 {
        let sb = self.superblock();
        let numbers_log2 = self.numbers_log2();
        // The inode counts sectors with 32 bits, or blocks with 48.
        let counted = if sb.ro_compat.contains(RoCompat::HUGE_FILE) {
            (1 << 48) - 1
        } else {
            u64::from(u32::MAX) >> (sb.block_size_log2 - 9)
        };
        let blocks = if has_extents(inode) {
            END.min(counted)
        } else {
            let mapped = indirect::blocks_max(numbers_log2).min(END);
            let own = |blocks| indirect::own_blocks(blocks, numbers_log2);
            if mapped + own(mapped) <= counted {
                mapped
            } else {
                counted - own(counted)
            }
        };
        blocks << sb.block_size_log2
    }

    /// Begins a change of what the blocks of `inode` are mapped to; an error if they cannot be
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
            return Err(Error::Invalid(inode.ino(), "has no blocks"));
        }
        if !has_extents(inode) && self.cluster_blocks() > 1 {
            let what = "bigalloc for a file without extents";
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
    /// Enters a run of blocks into the mapping.
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
        self.insert_numbers(start, run)
    }
}

/// The inode's block, and its entry among the orphans.
const INODE_CREDITS: u32 = 3;

fn has_extents(inode: &Inode) -> bool {
    inode.flags().contains(InodeFlags::EXTENTS)
}

fn unwritten_refused(inode: &Inode) -> Error {
    Error::NotSupported(inode.ino(), "unwritten blocks without extents")
}
