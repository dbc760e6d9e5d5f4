//! The changes that handles make to the free space in memory.

use super::run::Run;
use super::space::Space;
use crate::Ino;
use crate::journal::Tid;
use std::ops::Range;

/// The blocks and inodes that a handle allocated and freed. If the handle stops, these changes
/// become permanent; if it is dropped, they are undone.
#[derive(Debug, Default)]
pub(crate) struct AllocationChanges {
    pub(super) taken: Vec<Run>,
    pub(super) freed: Vec<Run>,
    pub(super) taken_inodes: u32,
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
        changes.taken.iter().map(|run| {
            let (start, blocks) = self.blocks_of(*run);
            start.0..start.0 + u64::from(blocks)
        })
    }

    /// Makes `changes`, of a handle that stops, part of transaction `tid`.
    pub(crate) fn keep(&self, changes: &mut AllocationChanges, tid: Tid) {
        let changes = std::mem::take(changes);
        for run in changes.taken {
            self.end_hold(run);
        }
        self.wait_for_commit(tid, changes.freed);
    }

    /// Undoes `changes`, of a handle that is dropped.
    pub(crate) fn undo(&self, changes: &mut AllocationChanges) {
        let changes = std::mem::take(changes);
        let mut counts = self.counts();
        for run in &changes.taken {
            counts.undo(run.len, 0);
        }
        for run in &changes.freed {
            counts.undo(0, run.len);
        }
        counts.free_inodes += u64::from(changes.taken_inodes);
        let freed_inodes = changes.freed_inodes.len() as u64;
        counts.free_inodes -= freed_inodes.min(counts.free_inodes);
        drop(counts);
        for run in changes.taken {
            self.release(run);
        }
        for run in changes.freed {
            self.end_hold(run);
        }
    }
}
