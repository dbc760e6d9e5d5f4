//! The results of statfs(2).
//!
//! Model: the kernel's default (`bsddf`). The number of blocks excludes metadata. The number of
//! available blocks excludes the blocks that ordinary users cannot use: those that the superblock
//! reserves for the super-user, and those that are kept back for metadata of delayed allocation.
//!
//! While a file system is open for writing, the free space comes from the allocator. It excludes
//! space that is reserved for content that is not written yet. It includes space that was freed but
//! not committed.
//!
//! Cost: the first call reads all group descriptors. On a file system that is open for writing,
//! later calls read them again if one of them could not be used.

use crate::alloc::{GROUPS_MAX, clusters_for_metadata};
use crate::ondisk::features::{Compat, Incompat};
use crate::{Filesystem, GroupNo, Statfs};

impl Filesystem {
    /// Returns the results of statfs(2). The free counts are the sums of the group descriptors. If
    /// descriptors are damaged or cannot be read, the free counts are based on those of the
    /// superblock.
    #[must_use]
    pub fn statfs(&self) -> Statfs {
        let counted = *self.statfs.get_or_init(|| self.count_statfs());
        match self.free_now() {
            Some((free_blocks, available_blocks, free_files)) => Statfs {
                free_blocks,
                available_blocks,
                free_files,
                ..counted
            },
            None => counted,
        }
    }

    fn count_statfs(&self) -> Statfs {
        let sb = self.superblock();
        let free = self.free_now().unwrap_or_else(|| self.free_by_groups());
        let (free_blocks, available_blocks, free_files) = free;
        let (low, high) = sb.uuid.as_u64_pair();
        Statfs {
            block_size_bytes: sb.block_size_bytes(),
            blocks: sb.blocks_count.saturating_sub(self.overhead_blocks()),
            free_blocks,
            available_blocks,
            files: u64::from(sb.inodes_count),
            free_files,
            // The kernel treats the halves of the UUID as little-endian.
            fsid: low.swap_bytes() ^ high.swap_bytes(),
        }
    }

    /// Returns the number of free blocks, the number of these blocks that ordinary users may use,
    /// and the number of free inodes of a read-only file system.
    fn free_by_groups(&self) -> (u64, u64, u64) {
        let sb = self.superblock();
        let (free_blocks, free_files) = self.sum_of_free().map_or(
            (sb.free_blocks_count, u64::from(sb.free_inodes_count)),
            |(clusters, inodes)| (clusters << sb.cluster_blocks_log2, inodes),
        );
        let kept_back = sb
            .reserved_blocks_count
            .saturating_add(clusters_for_metadata(sb) << sb.cluster_blocks_log2);
        let available_blocks = free_blocks.saturating_sub(kept_back);
        (free_blocks, available_blocks, free_files)
    }

    /// Returns the number of blocks of the metadata that mke2fs created: superblocks, descriptors,
    /// bitmaps, inode tables and the journal. Returns 0 if there are too many groups to count.
    fn overhead_blocks(&self) -> u64 {
        let sb = self.superblock();
        if sb.overhead_clusters != 0 {
            return u64::from(sb.overhead_clusters) << sb.cluster_blocks_log2;
        }
        if sb.groups_count > GROUPS_MAX {
            return 0;
        }
        let bitmaps_and_table = u64::from(sb.inode_table_blocks()) + 2;
        let in_groups: u64 = (0..sb.groups_count)
            .map(|group| self.leading_blocks(GroupNo(group)) + bitmaps_and_table)
            .sum();
        u64::from(sb.first_data_block) + in_groups + self.journal_blocks()
    }

    /// Returns the number of blocks at the start of `group` that hold a superblock and descriptors.
    pub(crate) fn leading_blocks(&self, group: GroupNo) -> u64 {
        let sb = self.superblock();
        let per_block = sb.block_size_bytes() / u32::from(sb.descriptor_size_bytes);
        let has_superblock = sb.group_has_superblock(group);
        let all = sb.groups_count.div_ceil(per_block);
        let has_meta_bg = sb.incompat.contains(Incompat::META_BG);
        let descriptors = if has_meta_bg && group.0 / per_block >= sb.first_meta_bg {
            // A block of descriptors is in the first, the second and the last of the groups that it
            // describes.
            let index = group.0 % per_block;
            u64::from(index <= 1 || index == per_block - 1)
        } else if has_superblock {
            let table_blocks = if has_meta_bg { sb.first_meta_bg } else { all };
            u64::from(table_blocks) + u64::from(sb.reserved_descriptor_blocks)
        } else {
            0
        };
        u64::from(has_superblock) + descriptors
    }

    fn journal_blocks(&self) -> u64 {
        let sb = self.superblock();
        if !sb.compat.contains(Compat::HAS_JOURNAL) || sb.journal_ino.0 == 0 {
            return 0;
        }
        self.inode(sb.journal_ino)
            .map_or(0, |journal| journal.size_bytes() >> sb.block_size_log2)
    }
}
