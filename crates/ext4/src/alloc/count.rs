//! The free space and free inodes: the counts in memory, and the sums of the group descriptors, also
//! while other threads change them.

use super::GROUPS_MAX;
use super::counts::Privilege;
use super::space::Space;
use super::sums::Sums;
use crate::ondisk::features::Incompat;
use crate::ondisk::group::DescriptorPlace;
use crate::{Error, Filesystem, GroupNo, Result};

/// The number of groups whose descriptors are read ahead together.
const GROUPS_AHEAD: u32 = 4096;

impl Filesystem {
    /// Returns the number of free blocks that are neither claimed nor in a [`Reservation`](super::Reservation), the
    /// number of these blocks that ordinary requests may use, and the number of free inodes; `None`
    /// if the file system was not opened for writing. If the counts in memory are still based on
    /// the superblock, first replaces them with the sums of the group descriptors. If that fails,
    /// returns the counts in memory. Must not be called while the thread has an open handle.
    pub(crate) fn free_now(&self) -> Option<(u64, u64, u64)> {
        self.writer.as_ref()?;
        let space = self.allocator();
        if space.counts().need_exact(u64::MAX)
            && let Err(error) = self.count_free()
        {
            tracing::debug!(%error, "the free counts of the superblock are used");
        }
        let counts = space.counts();
        let free = counts.unreserved();
        let available = counts.available(Privilege::Ordinary);
        let log2 = space.geometry.cluster_blocks_log2;
        Some((free << log2, available << log2, counts.free_inodes))
    }

    /// If the free counts in memory, which were read from the superblock, cannot be trusted,
    /// replaces them with the sums of the group descriptors. Called when the file system is opened.
    pub(crate) fn count_free_unless_known(&self) {
        let space = self.allocator();
        if !space.counts().is_known() {
            // No other thread uses the file system yet.
            if let Some((clusters, inodes)) = self.sum_of_free() {
                space.counts().set_exact(clusters, inodes);
            }
        }
    }

    /// Returns the sums of the free clusters and of the free inodes in all group descriptors;
    /// `None` if there are more than [`GROUPS_MAX`] groups, or a descriptor is damaged or cannot be
    /// read.
    pub(crate) fn sum_of_free(&self) -> Option<(u64, u64)> {
        let sb = self.superblock();
        if sb.groups_count > GROUPS_MAX {
            return None;
        }
        let (mut clusters, mut inodes) = (0, 0);
        for group in 0..sb.groups_count {
            self.prefetch_descriptors(GroupNo(group));
            let desc = self.group(GroupNo(group)).ok()?;
            clusters += u64::from(desc.free_clusters);
            inodes += u64::from(desc.free_inodes);
        }
        Some((clusters, inodes))
    }

    /// If `group` is a multiple of [`GROUPS_AHEAD`], starts to read the descriptors of that many
    /// groups, from `group` on. Does nothing with the feature `meta_bg`, which stores descriptors
    /// in many places.
    fn prefetch_descriptors(&self, group: GroupNo) {
        let sb = self.superblock();
        if group.0.is_multiple_of(GROUPS_AHEAD) && !sb.incompat.contains(Incompat::META_BG) {
            let first = DescriptorPlace::of(sb, group).block;
            let bytes = GROUPS_AHEAD * u32::from(sb.descriptor_size_bytes);
            self.prefetch(first, bytes >> sb.block_size_log2);
        }
    }

    /// Sums up the group descriptors while other threads change them, and sets the counts in memory
    /// to the sums. If a descriptor is damaged or cannot be read, or there are too many groups, the
    /// counts stay as they are.
    pub(super) fn count_free(&self) -> Result<()> {
        let space = self.space()?;
        if self.superblock().groups_count > GROUPS_MAX {
            return Ok(());
        }
        let _alone = space.counting.lock();
        *space.sums.lock() = Sums::default();
        let counted = self.count_free_alone(space);
        *space.sums.lock() = Sums::default();
        match counted {
            Err(Error::Corrupt(_) | Error::Unreadable { .. }) => Ok(()),
            counted => counted,
        }
    }

    fn count_free_alone(&self, space: &Space) -> Result<()> {
        let sb = self.superblock();
        let per_block = sb.block_size_bytes() / u32::from(sb.descriptor_size_bytes);
        let mut first = 0;
        loop {
            let end = sb.groups_count.min(first + per_block);
            self.prefetch_descriptors(GroupNo(first));
            let (handle, descs) = self.change(0, |_| {
                let groups = (first..end).map(GroupNo);
                groups
                    .map(|group| self.group(group))
                    .collect::<Result<Vec<_>>>()
            })?;
            // The handle excludes changes.
            let mut sums = space.sums.lock();
            for desc in &descs {
                sums.clusters += u64::from(desc.free_clusters);
                sums.inodes += u64::from(desc.free_inodes);
            }
            sums.until = GroupNo(end);
            if end == sb.groups_count {
                space.counts().set_exact(sums.clusters, sums.inodes);
                return Ok(());
            }
            drop(sums);
            drop(handle);
            first = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::journal::test_image::open;
    use crate::{Filesystem, Goal, GroupNo, Ino, Result};

    /// Returns the free clusters and inodes of the first groups.
    fn sums_of(fs: &Filesystem, groups: u32) -> (u64, u64) {
        let descs = (0..groups).map(|group| fs.group(GroupNo(group)).unwrap());
        descs.fold((0, 0), |(clusters, inodes), desc| {
            let (more, more_inodes) = (desc.free_clusters, desc.free_inodes);
            (clusters + u64::from(more), inodes + u64::from(more_inodes))
        })
    }

    #[test]
    fn sums_follow_the_changes_of_groups_that_they_include() {
        let fs = open();
        let space = fs.allocator();
        let (clusters, inodes) = sums_of(&fs, 1);
        {
            let mut sums = space.sums.lock();
            (sums.clusters, sums.inodes, sums.until) = (clusters, inodes, GroupNo(1));
        }
        let second = fs.superblock().group_first_block(GroupNo(1));
        let root = fs.inode(Ino::ROOT).unwrap();
        let (handle, ()) = fs
            .change(40, |handle| -> Result<()> {
                for near in [Goal::default().near, second] {
                    fs.allocate_block(handle, near)?;
                }
                fs.allocate_inode(handle, &root, false)?;
                Ok(())
            })
            .unwrap();
        handle.stop();
        {
            let sums = space.sums.lock();
            assert_eq!((sums.clusters, sums.inodes), sums_of(&fs, 1));
        }
        assert_ne!(sums_of(&fs, 1), (clusters, inodes));
        fs.count_free().unwrap();
        let (free_clusters, free_inodes) = sums_of(&fs, fs.superblock().groups_count);
        assert_eq!(space.counts().free(), free_clusters);
        assert_eq!(space.counts().free_inodes, free_inodes);
        fs.close().unwrap();
    }
}
