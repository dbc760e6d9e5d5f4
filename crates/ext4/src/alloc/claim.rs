//! Blocks kept for an owner, in memory only. Dropped, they are free again.

use super::run::Run;
use super::space::Space;
use crate::FsBlock;
use std::sync::Arc;

/// A run of blocks that nobody else gets, and that a file may be about to map.
///
/// With bigalloc it keeps whole clusters, of which the file may map a part; and blocks of a cluster
/// that the file has already are kept by nothing but its mapping.
#[derive(Debug)]
pub struct Claim {
    start: FsBlock,
    blocks: u32,
    /// The clusters that are kept; `None` once they are taken.
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

    /// Blocks of a cluster that the file has already.
    pub(super) fn of_own_cluster(space: Arc<Space>, start: FsBlock, blocks: u32) -> Self {
        Self {
            start,
            blocks,
            run: None,
            space,
        }
    }

    /// Leaves at most `want` of its blocks, from `skip` on, which must be fewer than it has. What
    /// it keeps stays the same.
    pub(crate) fn narrow(&mut self, skip: u32, want: u32) {
        self.start.0 += u64::from(skip);
        self.blocks = self.blocks.saturating_sub(skip).min(want);
    }

    /// First block.
    #[must_use]
    pub fn start(&self) -> FsBlock {
        self.start
    }

    /// Number of blocks, at least 1.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Whether its blocks are free until it is mapped; else the file's mapping led to them.
    #[must_use]
    pub fn takes_blocks(&self) -> bool {
        self.run.is_some()
    }

    /// The blocks of the clusters that it keeps, if it does.
    pub(crate) fn kept_blocks(&self) -> Option<(FsBlock, u32)> {
        Some(self.space.blocks_of(self.run?))
    }

    /// Ends the claim, whose clusters are somebody else's to give back.
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

/// A number of free clusters that nobody else gets.
#[derive(Debug)]
pub struct Reservation {
    clusters: u64,
    space: Arc<Space>,
}

impl Reservation {
    pub(super) fn new(space: Arc<Space>, clusters: u64) -> Self {
        Self { clusters, space }
    }

    /// How many clusters are left of it.
    #[must_use]
    pub fn clusters(&self) -> u64 {
        self.clusters
    }

    /// Adds what `other` reserves.
    pub fn add(&mut self, mut other: Self) {
        self.clusters += std::mem::take(&mut other.clusters);
    }

    /// Gives up all but `clusters` of it.
    pub fn keep(&mut self, clusters: u64) {
        let surplus = self.clusters.saturating_sub(clusters);
        self.clusters -= surplus;
        self.space.counts().unreserve(surplus);
    }

    /// Takes at most `want` clusters out of it, which are claimed now.
    pub(super) fn claim(&mut self, want: u32) -> u32 {
        let granted = u32::try_from(self.clusters).map_or(want, |left| left.min(want));
        self.clusters -= u64::from(granted);
        self.space.counts().claim_reserved(granted);
        granted
    }

    /// Takes back what was claimed and not found.
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

/// Clusters that are kept for the blocks that map the content of files. Unlike a [`Reservation`],
/// none of them is taken out: who maps content may take what is kept, and gives up
/// what it has kept for that afterwards.
#[derive(Debug)]
pub struct MappingReservation {
    clusters: u64,
    space: Arc<Space>,
}

impl MappingReservation {
    pub(super) fn new(space: Arc<Space>, clusters: u64) -> Self {
        Self { clusters, space }
    }

    /// Adds what `other` reserves.
    pub fn add(&mut self, mut other: Self) {
        self.clusters += std::mem::take(&mut other.clusters);
    }

    /// Gives up all but `clusters` of it.
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
