//! The choice of a group for a new directory's inode.
//!
//! # Model
//! Orlov's allocator: directories in the root directory, or in a directory with the flag `TOPDIR`,
//! are spread over the disk, because their contents are mostly unrelated. A deeper directory stays
//! near its parent if the flexible group of the parent has about the average number of free inodes
//! and blocks.
//!
//! # Cost
//! The descriptors of the parent's flexible group, and of at most [`FLEX_GROUPS_COMPARED`] others,
//! are read.

use crate::ondisk::inode::InodeFlags;
use crate::{Filesystem, GroupNo, Ino, Inode, attempt};
use std::cmp::Reverse;

/// The maximum number of flexible groups that are compared.
const FLEX_GROUPS_COMPARED: u32 = 64;

/// In a flexible group, the maximum number of groups whose free space is summed up.
const GROUPS_SUMMED: usize = 64;

/// The numbers of free inodes, free clusters and directories of a flexible group.
#[derive(Clone, Copy, Debug, Default)]
struct FlexGroupStats {
    free_inodes: u64,
    free_clusters: u64,
    directories: u64,
}

impl Filesystem {
    /// Returns the preferred group for a new directory in `parent`, whose inode is in group `home`.
    /// If that group is full, the caller should use a group near it.
    pub(super) fn group_for_directory(&self, parent: &Inode, home: GroupNo) -> GroupNo {
        let is_top = parent.ino() == Ino::ROOT || parent.flags().contains(InodeFlags::TOPDIR);
        let chosen = if is_top {
            self.emptiest_flex_group(home)
        } else {
            self.flex_group_with_room(home)
        };
        chosen.unwrap_or(home)
    }

    /// Returns the flexible group with the fewest directories and, among those, the most free
    /// inodes. Compares all flexible groups, or a sample at equal distances, and skips those without
    /// free inodes or without free clusters.
    fn emptiest_flex_group(&self, home: GroupNo) -> Option<GroupNo> {
        let (size, count) = self.flex_geometry();
        let step = count.div_ceil(FLEX_GROUPS_COMPARED);
        let compared = (0..count / step.max(1)).map(|at| GroupNo(at * step * size));
        // The parent's own flexible group is first, so that it is preferred among equals.
        let own = self.flex_groups(home).next();
        own.into_iter()
            .chain(compared)
            .map(|group| (self.flex_group_stats(group), group))
            .filter(|(stats, _)| stats.free_inodes > 0 && stats.free_clusters > 0)
            .min_by_key(|(stats, _)| (stats.directories, Reverse(stats.free_inodes)))
            .map(|(_, group)| group)
    }

    /// Returns the first flexible group, starting at that of `home`, whose free space is not much
    /// below the average.
    fn flex_group_with_room(&self, home: GroupNo) -> Option<GroupNo> {
        let sb = self.superblock();
        let (size, count) = self.flex_geometry();
        let (free_inodes, free_clusters) = {
            let counts = self.allocator().counts();
            (counts.free_inodes, counts.unreserved())
        };
        let clusters = u64::from(sb.blocks_per_group >> sb.cluster_blocks_log2);
        let quarter = |per_group: u64| per_group.saturating_mul(u64::from(size)) / 4;
        let inodes_min = (free_inodes / u64::from(count))
            .saturating_sub(quarter(u64::from(sb.inodes_per_group)));
        let clusters_min = (free_clusters / u64::from(count)).saturating_sub(quarter(clusters));
        let own = home.0 / size;
        (0..count.min(FLEX_GROUPS_COMPARED))
            .map(|ahead| GroupNo((own + ahead) % count * size))
            .find(|&group| {
                let stats = self.flex_group_stats(group);
                attempt::gives_way()
                    || stats.free_inodes > 0
                        && stats.free_inodes >= inodes_min
                        && stats.free_clusters >= clusters_min
            })
    }

    /// Returns the number of groups in a flexible group, and the number of flexible groups.
    fn flex_geometry(&self) -> (u32, u32) {
        let groups = self.superblock().groups_count;
        let size = self.flex_group_size().min(groups).max(1);
        (size, groups.div_ceil(size).max(1))
    }

    /// Returns the free space and the number of directories of the flexible group that contains
    /// `group`. A group with a damaged descriptor counts as full.
    fn flex_group_stats(&self, group: GroupNo) -> FlexGroupStats {
        let descs = self.flex_groups(group).take(GROUPS_SUMMED);
        descs.filter_map(|group| self.group(group).ok()).fold(
            FlexGroupStats::default(),
            |stats, desc| FlexGroupStats {
                free_inodes: stats.free_inodes + u64::from(desc.free_inodes),
                free_clusters: stats.free_clusters + u64::from(desc.free_clusters),
                directories: stats.directories + u64::from(desc.used_directories),
            },
        )
    }
}
