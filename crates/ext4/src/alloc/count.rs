//! Summing up the group descriptors while other threads change them.

use super::GROUPS_MAX;
use super::space::Space;
use super::sums::Sums;
use crate::{Error, Filesystem, GroupNo, Result};

impl Filesystem {
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
