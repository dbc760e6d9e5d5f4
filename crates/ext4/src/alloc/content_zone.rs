//! The blocks where content may be written: not those of the file system's own metadata.
//!
//! Model: `ext4_inode_block_valid` and its system zone, computed for each group when it is first
//! written to.

use crate::{Filesystem, FsBlock};
use std::sync::Arc;

impl Filesystem {
    /// Returns whether content may be written to these blocks: they are in the file system, and
    /// none of them is a superblock, descriptor, bitmap, inode table, or part of the journal, as
    /// far as the descriptors of their groups can be trusted. The file system must be open for
    /// writing.
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
            let entry = space.group(group);
            let mut state = entry.state.lock();
            let system = state.system.get_or_insert_with(|| {
                let desc = self.group(group);
                let system = desc.and_then(|desc| self.system_clusters(group, &desc));
                Arc::from(system.unwrap_or_default())
            });
            if system.iter().any(|at| at.start < bit + len && bit < at.end) {
                return false;
            }
            first += u64::from(len);
        }
        true
    }
}
