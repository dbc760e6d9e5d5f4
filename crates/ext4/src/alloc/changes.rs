//! The changes that handles make to the free space in memory.

use super::claim::ClaimedClusters;
use super::run::Run;
use super::space::Space;
use crate::Ino;
use crate::journal::Tid;
use std::ops::Range;
use std::sync::Arc;

/// The blocks and inodes that a handle allocated and freed. If the handle stops, these changes become part of
/// its transaction; if it is dropped, they are undone.
#[derive(Debug, Default)]
pub(crate) struct AllocationChanges {
    pub(super) taken: Vec<Arc<ClaimedClusters>>,
    pub(super) freed: Vec<Run>,
    pub(super) taken_inodes: Vec<Ino>,
    pub(super) freed_inodes: Vec<Ino>,
}

impl AllocationChanges {
    /// Returns the inode numbers that were freed.
    pub(crate) fn freed_inodes(&self) -> impl Iterator<Item = Ino> {
        self.freed_inodes.iter().copied()
    }
}

impl Space {
    /// Returns the blocks that `changes` allocated.
    pub(crate) fn taken_blocks(
        &self,
        changes: &AllocationChanges,
    ) -> impl Iterator<Item = Range<u64>> {
        changes.taken.iter().map(|clusters| {
            let (start, blocks) = self.blocks_of(clusters.run);
            start.0..start.0 + u64::from(blocks)
        })
    }

    /// Adds the `changes` of a handle that stops to transaction `tid`.
    pub(crate) fn keep(&self, changes: &mut AllocationChanges, tid: Tid) {
        let changes = std::mem::take(changes);
        self.add_to_sums(&changes);
        for clusters in changes.taken {
            clusters.set_taken();
        }
        self.hold_until_commit(tid, changes.freed);
    }

    /// Adds the changes to the sums of the groups, if these are being computed.
    fn add_to_sums(&self, changes: &AllocationChanges) {
        let mut sums = self.sums.lock();
        if !sums.is_active() {
            return;
        }
        let group_of = |run: Run| self.geometry.place(run.start).0;
        for clusters in &changes.taken {
            sums.add_clusters(group_of(clusters.run), -i64::from(clusters.run.len));
        }
        for run in &changes.freed {
            sums.add_clusters(group_of(*run), i64::from(run.len));
        }
        for (inodes, more) in [(&changes.taken_inodes, -1), (&changes.freed_inodes, 1)] {
            for ino in inodes {
                sums.add_inodes(self.geometry.group_of_inode(*ino), more);
            }
        }
    }

    /// Undoes the `changes` of a handle that is dropped. The clusters that the handle took are claimed
    /// again. They become free if no clone of their claim exists.
    pub(crate) fn undo(&self, changes: &mut AllocationChanges) {
        let changes = std::mem::take(changes);
        let mut counts = self.counts();
        for clusters in &changes.taken {
            counts.undo(clusters.run.len, 0);
        }
        for run in &changes.freed {
            counts.undo(0, run.len);
        }
        counts.free_inodes += changes.taken_inodes.len() as u64;
        let freed_inodes = changes.freed_inodes.len() as u64;
        counts.free_inodes -= freed_inodes.min(counts.free_inodes);
        drop(counts);
        for run in changes.freed {
            self.end_hold(run);
        }
    }
}
