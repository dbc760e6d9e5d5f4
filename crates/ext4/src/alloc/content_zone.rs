//! The check that content is not written over the metadata of the file system itself.
//!
//! Model: `ext4_inode_block_valid` and the system zone of the kernel. Here, the zone of a group is
//! computed when content is first written to the group.

use super::space::Group;
use crate::{Error, Filesystem, FsBlock, GroupNo};
use std::ops::Range;
use std::sync::Arc;

impl Filesystem {
    /// Returns whether content may be written to these blocks. They must be in the file system, and
    /// must not contain a superblock, descriptors, a bitmap, the block of multiple-mount protection,
    /// or a part of an inode table or of the journal. The blocks of a group whose metadata cannot be
    /// located, for example because its descriptor is damaged, are not checked. The file system must
    /// be open for writing.
    #[must_use]
    pub fn may_hold_content(&self, start: FsBlock, blocks: u64) -> bool {
        if blocks == 0 || !self.superblock().contains_blocks(start, blocks) {
            return false;
        }
        let space = self.allocator();
        let geometry = &space.geometry;
        let mut first = geometry.cluster_of(start);
        let end = geometry.cluster_of(FsBlock(start.0 + blocks - 1)) + 1;
        while first < end {
            let (group, bit) = geometry.place(first);
            let left = geometry.clusters_in(group).saturating_sub(bit).max(1);
            let len = u32::try_from(end - first).map_or(left, |rest| rest.min(left));
            let system = self.without_waiting(|| self.system_in(&space.group(group), group));
            if system.iter().any(|at| at.start < bit + len && bit < at.end) {
                return false;
            }
            first += u64::from(len);
        }
        true
    }

    /// Returns the clusters of metadata in `group`, whose state is in `entry`. Returns an empty
    /// list if a block that describes the metadata is not in memory.
    fn system_in(&self, entry: &Group, group: GroupNo) -> Arc<[Range<u32>]> {
        let mut state = entry.state.lock();
        if let Some(system) = &state.system {
            return Arc::clone(system);
        }
        let desc = self.group(group);
        let system = desc.and_then(|desc| self.system_clusters(group, &desc));
        if let Err(Error::NotInMemory(_)) = system {
            return Arc::default();
        }
        let system: Arc<[_]> = Arc::from(system.unwrap_or_default());
        state.system = Some(Arc::clone(&system));
        system
    }
}
