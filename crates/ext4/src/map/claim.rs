//! Claims for the blocks of a file, near its existing blocks.

use super::freeing::MISPLACED;
use crate::alloc::{Claim, Goal, Reservation};
use crate::error::Place;
use crate::ondisk::extent::Extent;
use crate::ondisk::inode::InodeFlags;
use crate::{Error, FileBlock, FileKind, Filesystem, FsBlock, Ino, Inode, Result};
use std::ops::Range;

/// A file with more than this number of bytes is considered a stream, which is allocated apart from
/// small files.
const STREAM_BYTES: u64 = 1 << 20;

/// The maximum size of a claim for a file without extents, as the number of indirect blocks that
/// its block numbers fill.
const NUMBER_BLOCKS_MAX: u64 = 8;

impl Filesystem {
    /// Claims at least one and at most `want` adjacent blocks for the file blocks from `start` on,
    /// which must be holes. The claim is near the blocks of the preceding file blocks, or near the
    /// inode.
    ///
    /// With bigalloc, unused blocks of a cluster that the file already has are used first. A claim
    /// of such blocks reserves no cluster. The caller must map the claimed blocks of a cluster
    /// before it claims more blocks of that cluster.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`], [`crate::Error::FileTooLarge`], or corruption of the image.
    pub fn claim_for(
        &self,
        inode: &Inode,
        start: FileBlock,
        want: u32,
        reservation: Option<&mut Reservation>,
    ) -> Result<Claim> {
        let block_size_log2 = self.superblock().block_size_log2;
        let limit = self.max_file_bytes(inode) >> block_size_log2;
        let first = u64::from(start.0);
        let want = u64::from(want.max(1));
        let mut end = limit.min(first + want.min(self.claim_blocks_max(inode)));
        if first >= end {
            return Err(Error::FileTooLarge(inode.ino()));
        }
        let cluster = self.cluster_around(first);
        let skip = first - cluster.start;
        if self.cluster_blocks() > 1 {
            if let Some(own) = self.own_cluster(inode, &cluster)? {
                let blocks = small(end.min(cluster.end) - first);
                return self.own_cluster_claim(FsBlock(own.0 + skip), blocks);
            }
            // The file may already have the cluster of the last file block.
            let last = self.cluster_around(end - 1);
            if last.start > first && self.maps_any(inode, end..last.end)? {
                end = last.start;
            }
        }
        let mapped = self.goal_for(inode, start)?;
        let is_regular = inode.kind() == FileKind::Regular;
        let file_blocks =
            inode.blocks_512(self.superblock().block_size_bytes()) >> (block_size_log2 - 9);
        let goal = Goal {
            near: mapped.unwrap_or_else(|| self.home_goal(inode)),
            is_stream: inode.size_bytes().max(end << block_size_log2) > STREAM_BYTES,
            ino: if is_regular { inode.ino() } else { Ino(0) },
            file_blocks: mapped.map_or(0, |_| file_blocks.max(1)),
            may_use_reserved: false,
        };
        let mut claim = self.claim(goal, small(end - cluster.start), reservation)?;
        claim.narrow(small(skip), small(end - first));
        Ok(claim)
    }

    /// Returns the maximum number of blocks that one handle can map.
    fn claim_blocks_max(&self, inode: &Inode) -> u64 {
        if inode.flags().contains(InodeFlags::EXTENTS) {
            Extent::blocks_max(true)
        } else {
            NUMBER_BLOCKS_MAX << self.numbers_log2()
        }
    }

    /// Returns the first block of the cluster to which the file blocks in `cluster` are mapped, or
    /// `None` if none of them is mapped.
    fn own_cluster(&self, inode: &Inode, cluster: &Range<u64>) -> Result<Option<FsBlock>> {
        let Some((file_block, block)) = self.first_mapped(inode, cluster.clone())? else {
            return Ok(None);
        };
        let start = self.cluster_around(block.0).start;
        Place::Block(block, inode.ino())
            .ensure(block.0 - start == file_block - cluster.start, MISPLACED)?;
        Ok(Some(FsBlock(start)))
    }

    /// Returns the preferred location of the file block `start`, based on the blocks that are
    /// mapped near it.
    fn goal_for(&self, inode: &Inode, start: FileBlock) -> Result<Option<FsBlock>> {
        let by_mapping = if inode.flags().contains(InodeFlags::EXTENTS) {
            self.goal_by_extents(inode, u64::from(start.0))?
        } else {
            self.goal_by_indirect(inode, start)?
        };
        Ok(by_mapping.filter(|&goal| self.superblock().contains_blocks(goal, 1)))
    }
}

/// Converts a number of blocks that is bounded by a `u32`.
fn small(blocks: u64) -> u32 {
    u32::try_from(blocks).unwrap_or(u32::MAX)
}
