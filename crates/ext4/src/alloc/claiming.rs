//! Reserving and claiming free space for writes, in memory only.

use super::claim::{Claim, MappingReservation, Reservation};
use super::counts::Privilege;
use super::run::Run;
use super::search::Wanted;
use super::space::Space;
use super::{Goal, NO_INO};
use crate::error::Place;
use crate::{Error, FileKind, Filesystem, FsBlock, GroupNo, Ino, Inode, Result};
use std::sync::Arc;

/// The maximum number of blocks that are preallocated for one file that grows.
const WINDOW_MAX_BLOCKS: u64 = 2048;

/// At most the free space divided by this number is preallocated for one file.
const WINDOW_DIVISOR: u64 = 64;

/// If a flexible group has at least this many groups, content is allocated from its second group on. The
/// first group then holds metadata and directories.
const FLEX_GROUPS_APART: u32 = 4;

impl Filesystem {
    /// Reserves `clusters` free clusters, without choosing their location. With delayed allocation,
    /// write(2) reserves space, so that the later allocation cannot fail. `privilege` determines the
    /// free clusters that may be used. Must not be called while the thread has an open handle.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::ReadOnly`]. If the free clusters must first be counted from the
    /// group descriptors, which opens handles, also the errors of [`Filesystem::change`].
    pub fn reserve(&self, clusters: u64, privilege: Privilege) -> Result<Reservation> {
        let space = self.space()?;
        if space.counts().need_exact(clusters) {
            self.count_free()?;
        }
        if !space.counts().reserve(clusters, privilege) {
            return Err(Error::NoSpace);
        }
        Ok(Reservation::new(Arc::clone(space), clusters))
    }

    /// Sets aside `blocks` of the free space for content that is reserved with [`Privilege::Accepted`].
    /// Requests with other privileges, except for [`Privilege::Remapping`] and [`Privilege::Mapping`], fail
    /// if they would leave fewer free blocks. Replaces the number that was set aside before.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub fn set_aside(&self, blocks: u64) -> Result<()> {
        let space = self.space()?;
        let clusters = blocks.div_ceil(1 << space.geometry.cluster_blocks_log2);
        space.counts().set_aside(clusters);
        Ok(())
    }

    /// Restores a reservation of `clusters` clusters for content that could not be mapped and
    /// therefore stays dirty. Succeeds even if there are fewer free clusters.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub fn reserve_again(&self, clusters: u64) -> Result<Reservation> {
        let space = self.space()?;
        space.counts().reserve_again(clusters);
        Ok(Reservation::new(Arc::clone(space), clusters))
    }

    /// Reserves `clusters` clusters for the extent-tree or indirect blocks that will map content. The
    /// caller computes `clusters` with [`Filesystem::mapping_levels`]. `privilege` is
    /// [`Privilege::Remapping`] if the blocks of the content are already allocated; otherwise it is
    /// the privilege with which the content is reserved. Must not be called while the thread has an
    /// open handle.
    ///
    /// # Errors
    /// As [`Filesystem::reserve`].
    pub fn reserve_for_mapping(
        &self,
        clusters: u64,
        privilege: Privilege,
    ) -> Result<MappingReservation> {
        let space = self.space()?;
        if space.counts().need_exact(clusters) {
            self.count_free()?;
        }
        if !space.counts().reserve_for_mapping(clusters, privilege) {
            return Err(Error::NoSpace);
        }
        Ok(MappingReservation::new(Arc::clone(space), clusters))
    }

    /// Claims a run of at least one and at most `want` free blocks. With bigalloc, claims whole
    /// clusters, and rounds `want` up. If `reservation` still has clusters, the claim uses only
    /// these, and is limited to their number.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if no block can be claimed now; after [`Filesystem::commit_freed`], another
    /// try may succeed. [`Error::ReadOnly`].
    pub fn claim(
        &self,
        goal: Goal,
        want: u32,
        reservation: Option<&mut Reservation>,
    ) -> Result<Claim> {
        let reservation = reservation.filter(|reservation| reservation.clusters() > 0);
        self.claim_as(goal, want, reservation, privilege(goal.may_use_reserved))
    }

    /// Returns a claim of blocks in a cluster that the file already has. The claim reserves no
    /// cluster.
    pub(crate) fn own_cluster_claim(&self, start: FsBlock, blocks: u32) -> Result<Claim> {
        self.space()?;
        Ok(Claim::of_own_cluster(start, blocks))
    }

    pub(super) fn claim_as(
        &self,
        goal: Goal,
        want: u32,
        mut reservation: Option<&mut Reservation>,
        privilege: Privilege,
    ) -> Result<Claim> {
        let space = self.space()?;
        let geometry = &space.geometry;
        let want = want.max(1).div_ceil(1 << geometry.cluster_blocks_log2);
        let want = want.min(geometry.clusters_per_group);
        let granted = match &mut reservation {
            Some(reservation) => reservation.claim(want),
            None => space.counts().claim(want, privilege),
        };
        let run = if granted == 0 {
            None
        } else {
            self.find_for(space, goal, granted)
        };
        let surplus = granted - run.map_or(0, |run| run.len);
        match reservation {
            Some(reservation) => reservation.unclaim(surplus),
            None => space.counts().unclaim(surplus),
        }
        let run = run.ok_or(Error::NoSpace)?;
        Ok(Claim::new(Arc::clone(space), run))
    }

    /// Finds at most `want` free clusters, and marks them as unavailable to other claims. Uses the
    /// clusters that are preallocated for the file, if they start at the goal. Otherwise, searches
    /// for more than `want` clusters if the file grows, and preallocates the surplus.
    fn find_for(&self, space: &Space, goal: Goal, want: u32) -> Option<Run> {
        let near = space.geometry.cluster_of(goal.near);
        if goal.ino != NO_INO {
            let preallocated = space.windows.lock().take(goal.ino, near, want);
            if preallocated.is_some() {
                return preallocated;
            }
            // Clusters that are preallocated for the file, if any, are not at the goal.
            space.release_window(goal.ino);
        }
        let continues = goal.file_blocks > 0;
        let more = if continues && goal.ino != NO_INO {
            window_clusters(space, goal.file_blocks, want)
        } else {
            0
        };
        let starts_stream = goal.is_stream && !continues;
        let found = self.find_clusters(Wanted {
            goal: space
                .stream_goal(goal.ino)
                .filter(|_| starts_stream)
                .unwrap_or(near),
            clusters: want.saturating_add(more),
            continues,
        })?;
        if goal.is_stream {
            space.set_stream_goal(goal.ino, found.start + u64::from(found.len));
        }
        Some(space.preallocate_rest(goal.ino, found, want))
    }

    /// Releases the clusters that are preallocated for the file `ino`. Called when the file is closed.
    pub fn release_preallocation(&self, ino: Ino) {
        if let Ok(space) = self.space() {
            space.release_window(ino);
        }
    }

    /// Returns the goal for the first blocks of `inode`: the start of the first or second group of
    /// the flexible group that contains the inode.
    #[must_use]
    pub fn home_goal(&self, inode: &Inode) -> FsBlock {
        let sb = self.superblock();
        let (group, _) = sb.inode_location(inode.ino());
        let size = self.flex_group_size();
        let first = GroupNo(group.0 / size * size);
        let second = GroupNo(first.0 + 1);
        let is_apart = inode.kind() == FileKind::Regular
            && size >= FLEX_GROUPS_APART
            && second.0 < sb.groups_count;
        sb.group_first_block(if is_apart { second } else { first })
    }

    /// Returns the clusters that contain the `blocks` blocks from `start` on, as one run for each
    /// group.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the blocks are outside the file system, or `blocks` is 0.
    pub(super) fn runs_of(&self, start: FsBlock, blocks: u32, ino: Ino) -> Result<Vec<Run>> {
        if blocks == 0 || !self.superblock().contains_blocks(start, u64::from(blocks)) {
            return Err(Place::Block(start, ino).corrupt("outside the file system"));
        }
        let geometry = &self.allocator().geometry;
        let last = geometry.cluster_of(FsBlock(start.0 + u64::from(blocks) - 1));
        let mut at = geometry.cluster_of(start);
        let mut runs = Vec::new();
        while at <= last {
            let (_, bit) = geometry.place(at);
            let in_group = u64::from(geometry.clusters_per_group - bit);
            let len = in_group.min(last + 1 - at);
            runs.push(Run {
                start: at,
                len: u32::try_from(len).unwrap_or(1),
            });
            at += len;
        }
        Ok(runs)
    }
}

fn privilege(may_use_reserved: bool) -> Privilege {
    if may_use_reserved {
        Privilege::SuperUser
    } else {
        Privilege::Ordinary
    }
}

/// Returns how many clusters to preallocate for a file of `file_blocks` blocks that needs `want` more
/// clusters. The result is approximately the total number of clusters of the file, including the `want`
/// clusters, limited by [`WINDOW_MAX_BLOCKS`] and [`WINDOW_DIVISOR`].
fn window_clusters(space: &Space, file_blocks: u64, want: u32) -> u32 {
    let log2 = space.geometry.cluster_blocks_log2;
    let has = file_blocks.saturating_add(u64::from(want) << log2);
    let blocks = has.min(WINDOW_MAX_BLOCKS).next_power_of_two();
    let clusters = (blocks >> log2).min(space.counts().unreserved() / WINDOW_DIVISOR);
    u32::try_from(clusters).unwrap_or(0)
}
