//! Claims and reservations: space that is kept for an owner, in memory only. Dropping one frees the
//! space.

use super::run::Run;
use super::space::Space;
use crate::FsBlock;
use std::sync::Arc;

/// A run of blocks that a file may map, and that no other owner can get.
///
/// With bigalloc, a claim holds whole clusters, of which the file may map only a part. A claim of
/// blocks in a cluster that the file already has holds no cluster: the file's mapping keeps it.
#[derive(Debug)]
pub struct Claim {
    start: FsBlock,
    blocks: u32,
    /// The clusters that are held; `None` once they are taken.
    run: Option<Run>,
    space: Arc<Space>,
}

impl Claim {
    pub(super) fn new(space: Arc<Space>, run: Run) -> Self {
        let (start, blocks) = space.blocks_of(run);
        Self {
            start,
            blocks,
            run: Some(run),
            space,
        }
    }

    /// Creates a claim of blocks in a cluster that the file already has.
    pub(super) fn of_own_cluster(space: Arc<Space>, start: FsBlock, blocks: u32) -> Self {
        Self {
            start,
            blocks,
            run: None,
            space,
        }
    }

    /// Skips `skip` blocks, which must be fewer than the claim has, and keeps at most `want` of the
    /// rest. The clusters that the claim holds do not change.
    pub(crate) fn narrow(&mut self, skip: u32, want: u32) {
        self.start.0 += u64::from(skip);
        self.blocks = self.blocks.saturating_sub(skip).min(want);
    }

    /// Returns the first block.
    #[must_use]
    pub fn start(&self) -> FsBlock {
        self.start
    }

    /// Returns the number of blocks, at least 1.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns whether the blocks are free until they are mapped. Otherwise, they are in a cluster
    /// that the file already has.
    #[must_use]
    pub fn takes_blocks(&self) -> bool {
        self.run.is_some()
    }

    /// Returns the blocks of the clusters that it holds, if any.
    pub(crate) fn kept_blocks(&self) -> Option<(FsBlock, u32)> {
        Some(self.space.blocks_of(self.run?))
    }

    /// Ends the claim. The caller becomes responsible for its clusters.
    pub(super) fn into_run(mut self) -> Option<Run> {
        self.run.take()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            self.space.release(run);
            self.space.counts().unclaim(run.len);
        }
    }
}

/// A number of free clusters that no other owner can get.
#[derive(Debug)]
pub struct Reservation {
    clusters: u64,
    space: Arc<Space>,
}

impl Reservation {
    pub(super) fn new(space: Arc<Space>, clusters: u64) -> Self {
        Self { clusters, space }
    }

    /// Returns how many clusters are left.
    #[must_use]
    pub fn clusters(&self) -> u64 {
        self.clusters
    }

    /// Adds the clusters of `other`.
    pub fn add(&mut self, mut other: Self) {
        self.clusters += std::mem::take(&mut other.clusters);
    }

    /// Releases all but `clusters` clusters.
    pub fn keep(&mut self, clusters: u64) {
        let surplus = self.clusters.saturating_sub(clusters);
        self.clusters -= surplus;
        self.space.counts().unreserve(surplus);
    }

    /// Removes at most `want` clusters from the reservation, which are claimed now.
    pub(super) fn claim(&mut self, want: u32) -> u32 {
        let granted = u32::try_from(self.clusters).map_or(want, |left| left.min(want));
        self.clusters -= u64::from(granted);
        self.space.counts().claim_reserved(granted);
        granted
    }

    /// Returns clusters to the reservation that were claimed but not found.
    pub(super) fn unclaim(&mut self, clusters: u32) {
        let mut counts = self.space.counts();
        counts.unclaim(clusters);
        counts.reserve_again(u64::from(clusters));
        self.clusters += u64::from(clusters);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.space.counts().unreserve(self.clusters);
    }
}

/// Clusters that are reserved for the blocks that map the content of files. Unlike a
/// [`Reservation`], it is never reduced by an allocation: an operation that maps content may use
/// any cluster that is reserved in this way, and afterwards releases its own reservation.
#[derive(Debug)]
pub struct MappingReservation {
    clusters: u64,
    space: Arc<Space>,
}

impl MappingReservation {
    pub(super) fn new(space: Arc<Space>, clusters: u64) -> Self {
        Self { clusters, space }
    }

    /// Adds the clusters of `other`.
    pub fn add(&mut self, mut other: Self) {
        self.clusters += std::mem::take(&mut other.clusters);
    }

    /// Releases all but `clusters` clusters.
    pub fn keep(&mut self, clusters: u64) {
        let surplus = self.clusters.saturating_sub(clusters);
        self.clusters -= surplus;
        self.space.counts().unreserve_for_mapping(surplus);
    }
}

impl Drop for MappingReservation {
    fn drop(&mut self) {
        self.space.counts().unreserve_for_mapping(self.clusters);
    }
}
