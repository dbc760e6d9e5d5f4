//! Claims and reservations: free space that only one owner may use, recorded in memory only. When
//! a claim or a reservation is dropped, others can use its space.

use super::run::Run;
use super::space::Space;
use crate::FsBlock;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// A run of blocks that one file may map, and that nothing else can claim.
///
/// With bigalloc, a claim reserves whole clusters, even if the file maps only some of the blocks in
/// them. If the blocks are in a cluster that the file already has, the claim reserves no cluster.
///
/// A clone is the same claim. The clusters are free again when the last clone is dropped, unless a
/// handle took them. If the handle that took them is undone, they belong to the remaining clones
/// again.
#[derive(Clone, Debug)]
pub struct Claim {
    start: FsBlock,
    blocks: u32,
    /// The clusters that the claim reserves; `None` if the file already had the cluster.
    clusters: Option<Arc<ClaimedClusters>>,
}

/// Claimed clusters. They stay claimed until a handle takes them or this value is dropped.
#[derive(Debug)]
pub(super) struct ClaimedClusters {
    pub(super) run: Run,
    space: Arc<Space>,
    is_taken: AtomicBool,
}

impl ClaimedClusters {
    /// Records that the clusters are in use, because the handle that took them has stopped.
    pub(super) fn set_taken(&self) {
        self.is_taken.store(true, Relaxed);
        self.space.end_hold(self.run);
    }
}

impl Drop for ClaimedClusters {
    fn drop(&mut self) {
        if !*self.is_taken.get_mut() {
            self.space.release(self.run);
            self.space.counts().unclaim(self.run.len);
        }
    }
}

impl Claim {
    pub(super) fn new(space: Arc<Space>, run: Run) -> Self {
        let (start, blocks) = space.blocks_of(run);
        Self {
            start,
            blocks,
            clusters: Some(Arc::new(ClaimedClusters {
                run,
                space,
                is_taken: AtomicBool::new(false),
            })),
        }
    }

    /// Creates a claim of blocks in a cluster that the file already has.
    pub(super) fn of_own_cluster(start: FsBlock, blocks: u32) -> Self {
        Self {
            start,
            blocks,
            clusters: None,
        }
    }

    /// Removes the first `skip` blocks, and all blocks after the next `want` blocks. `skip` must be
    /// less than the number of blocks. The clusters that the claim reserves do not change.
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

    /// Returns whether mapping the claim reduces the number of free clusters. Returns false if the
    /// blocks are in a cluster that the file already has.
    #[must_use]
    pub fn takes_blocks(&self) -> bool {
        self.clusters.is_some()
    }

    /// Returns the blocks of the clusters that the claim reserves, if any.
    pub(crate) fn kept_blocks(&self) -> Option<(FsBlock, u32)> {
        let clusters = self.clusters.as_ref()?;
        Some(clusters.space.blocks_of(clusters.run))
    }

    /// Returns the clusters that the claim reserves, for the handle that takes them.
    pub(super) fn into_clusters(self) -> Option<Arc<ClaimedClusters>> {
        self.clusters
    }
}

/// A number of free clusters, without a location, that nothing else can claim.
#[derive(Debug)]
pub struct Reservation {
    clusters: u64,
    space: Arc<Space>,
}

impl Reservation {
    pub(super) fn new(space: Arc<Space>, clusters: u64) -> Self {
        Self { clusters, space }
    }

    /// Returns the number of clusters that are still reserved.
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

    /// Moves at most `want` clusters from the reservation to the count of claimed clusters, and
    /// returns their number.
    pub(super) fn claim(&mut self, want: u32) -> u32 {
        let granted = u32::try_from(self.clusters).map_or(want, |left| left.min(want));
        self.clusters -= u64::from(granted);
        self.space.counts().claim_reserved(granted);
        granted
    }

    /// Moves `clusters` back from the count of claimed clusters to the reservation, because the
    /// search found fewer clusters.
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

/// A number of free clusters that are reserved for the blocks that map the content of files. Unlike
/// a [`Reservation`], it is not reduced by an allocation. An operation that maps content may use
/// the clusters of all these reservations. Afterwards, it must reduce or drop its own reservation.
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
