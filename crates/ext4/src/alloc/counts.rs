//! The counts of free and reserved space, and the part of the free space that each kind of request
//! may use.

use crate::ondisk::features::Incompat;
use crate::ondisk::superblock::{State, Superblock};

/// The maximum number of clusters that are kept back for metadata.
const METADATA_CLUSTERS_MAX: u64 = 4096;

/// Of the clusters that are kept back for metadata, one in this many is reserved for changes of mappings.
/// With these clusters, holes can be punched, and content can be written to allocated blocks, even if the
/// file system is full.
const REMAPPING_DIVISOR: u64 = 4;

/// Returns the number of clusters that are kept back for the metadata of reserved content: a
/// fiftieth of all clusters, at most 4,096. As in the kernel, returns 0 if the file system does not
/// have the feature `extents`.
pub(crate) fn clusters_for_metadata(sb: &Superblock) -> u64 {
    if !sb.incompat.contains(Incompat::EXTENTS) {
        return 0;
    }
    let clusters = sb.blocks_count >> sb.cluster_blocks_log2;
    (clusters / 50).min(METADATA_CLUSTERS_MAX)
}

/// The kind of a request for space, which determines the free clusters that it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Privilege {
    /// Any request that is not of another kind. Cannot use clusters that are kept back for the
    /// super-user, for metadata, for mapping or for accepted content.
    Ordinary,
    /// Content that was accepted from a program earlier. May also use the clusters that are set aside for it
    /// ([`Filesystem::set_aside`](crate::Filesystem::set_aside)), those that are kept back for the
    /// super-user, and most of those that are kept back for metadata. Of the other kinds, only
    /// [`Privilege::Remapping`] and [`Privilege::Mapping`] can use what is set aside.
    Accepted,
    /// A request of the super-user. May also use the clusters that are kept back for the super-user.
    SuperUser,
    /// Metadata. May also use the clusters that are kept back for the super-user, and most of those that are
    /// kept back for metadata.
    Metadata,
    /// A change to the mapping of content whose blocks are already allocated. May use all clusters except for
    /// those that are reserved for mapping.
    Remapping,
    /// Blocks that map the content of files. May use all clusters, including those that are reserved for
    /// mapping.
    Mapping,
}

/// The counts, in clusters.
#[derive(Debug)]
pub(super) struct Counts {
    /// The clusters that are free in the bitmaps. They include claimed clusters, and freed clusters
    /// that cannot be claimed yet.
    free: u64,
    /// The clusters that are claimed and not allocated yet.
    claimed: u64,
    /// The clusters that are reserved, without a location.
    reserved: u64,
    /// The clusters that are reserved for blocks that map content. Any operation may use them for this
    /// purpose.
    for_mapping: u64,
    /// The number of free inodes.
    pub(super) free_inodes: u64,
    /// Whether `free` is a sum of the group descriptors that includes all later changes.
    is_exact: bool,
    /// Whether `free` is from the superblock of a cleanly unmounted file system.
    is_clean: bool,
    /// The number of clusters in the file system.
    total: u64,
    for_metadata: u64,
    for_super_user: u64,
    /// The clusters that are set aside for [`Privilege::Accepted`].
    for_accepted: u64,
}

impl Counts {
    /// Creates the counts from the superblock `sb`, as it was when the file system was opened.
    /// `was_clean` is true if there was nothing to recover.
    pub(super) fn new(sb: &Superblock, was_clean: bool) -> Self {
        let total = sb.blocks_count >> sb.cluster_blocks_log2;
        Self {
            free: (sb.free_blocks_count >> sb.cluster_blocks_log2).min(total),
            claimed: 0,
            reserved: 0,
            for_mapping: 0,
            free_inodes: u64::from(sb.free_inodes_count),
            is_exact: false,
            is_clean: was_clean
                && sb.state.contains(State::VALID)
                && !sb.state.contains(State::ERROR),
            total,
            for_metadata: clusters_for_metadata(sb),
            for_super_user: sb.reserved_blocks_count >> sb.cluster_blocks_log2,
            for_accepted: 0,
        }
    }

    /// Returns whether the group descriptors must be summed up before `clusters` more may be
    /// reserved. This is so if the counts are from the superblock, and less than an eighth of all
    /// clusters would be left.
    pub(super) fn need_exact(&self, clusters: u64) -> bool {
        let left = self.available(Privilege::Ordinary).saturating_sub(clusters);
        !self.is_exact && left < self.total / 8
    }

    /// Returns whether the counts can be trusted. Counts from a superblock cannot be trusted if
    /// less than an eighth of the space is left, or if the file system was not unmounted cleanly.
    pub(super) fn is_known(&self) -> bool {
        self.is_exact || (self.is_clean && !self.need_exact(0))
    }

    /// Returns false if there is certainly no free inode.
    pub(super) fn may_have_inodes(&self) -> bool {
        self.free_inodes > 0 || !self.is_exact
    }

    /// Reduces the number of free inodes by one.
    pub(super) fn take_inode(&mut self) {
        self.free_inodes = self.free_inodes.saturating_sub(1);
    }

    /// Sets the counts to the sums of the group descriptors.
    pub(super) fn set_exact(&mut self, free: u64, free_inodes: u64) {
        self.free = free.min(self.total);
        self.free_inodes = free_inodes;
        self.is_exact = true;
    }

    /// Returns the number of clusters that are free in the bitmaps.
    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// Returns the number of free clusters that are neither claimed nor reserved.
    pub(super) fn unreserved(&self) -> u64 {
        self.free
            .saturating_sub(self.claimed)
            .saturating_sub(self.reserved)
    }

    /// Returns the number of free clusters that ordinary requests cannot use.
    pub(super) fn kept_back(&self) -> u64 {
        self.for_metadata
            .saturating_add(self.for_super_user)
            .saturating_add(self.for_mapping)
            .saturating_add(self.for_accepted)
    }

    /// Sets aside `clusters` for accepted content.
    pub(super) fn set_aside(&mut self, clusters: u64) {
        self.for_accepted = clusters;
    }

    /// Returns how many more clusters a request with `privilege` may use.
    pub(super) fn available(&self, privilege: Privilege) -> u64 {
        let kept_back = match privilege {
            Privilege::Ordinary => self.kept_back(),
            Privilege::Accepted => self
                .for_mapping
                .saturating_add(self.for_metadata / REMAPPING_DIVISOR),
            Privilege::SuperUser => self.kept_back() - self.for_super_user,
            Privilege::Metadata => self
                .for_mapping
                .saturating_add(self.for_accepted)
                .saturating_add(self.for_metadata / REMAPPING_DIVISOR),
            Privilege::Remapping => self.for_mapping,
            Privilege::Mapping => 0,
        };
        self.unreserved().saturating_sub(kept_back)
    }

    /// Reserves `clusters`. Returns false, and reserves nothing, if there are too few.
    pub(super) fn reserve(&mut self, clusters: u64, privilege: Privilege) -> bool {
        let is_available = self.available(privilege) >= clusters;
        if is_available {
            self.reserved += clusters;
        }
        is_available
    }

    /// Reserves `clusters`, without a check that they are free.
    pub(super) fn reserve_again(&mut self, clusters: u64) {
        self.reserved += clusters;
    }

    /// Reserves `clusters` for blocks that map content. Returns false, and reserves nothing, if
    /// there are too few.
    pub(super) fn reserve_for_mapping(&mut self, clusters: u64, privilege: Privilege) -> bool {
        let is_available = self.available(privilege) >= clusters;
        if is_available {
            self.for_mapping += clusters;
        }
        is_available
    }

    /// Releases clusters that were reserved for mapping.
    pub(super) fn unreserve_for_mapping(&mut self, clusters: u64) {
        self.for_mapping = self.for_mapping.saturating_sub(clusters);
    }

    /// Releases reserved clusters.
    pub(super) fn unreserve(&mut self, clusters: u64) {
        self.reserved = self.reserved.saturating_sub(clusters);
    }

    /// Counts at most `want` free clusters as claimed, and returns their number.
    pub(super) fn claim(&mut self, want: u32, privilege: Privilege) -> u32 {
        let granted = u64::from(want).min(self.available(privilege));
        self.claimed += granted;
        u32::try_from(granted).unwrap_or(want)
    }

    /// Moves `clusters` from the count of reserved clusters to the count of claimed clusters.
    pub(super) fn claim_reserved(&mut self, clusters: u32) {
        self.unreserve(u64::from(clusters));
        self.claimed += u64::from(clusters);
    }

    /// Subtracts `clusters` from the count of claimed clusters.
    pub(super) fn unclaim(&mut self, clusters: u32) {
        self.claimed = self.claimed.saturating_sub(u64::from(clusters));
    }

    /// Updates the counts after a change of the bitmaps: `taken` claimed clusters are now in use,
    /// and `freed` clusters are now free.
    pub(super) fn apply(&mut self, taken: u32, freed: u32) {
        self.unclaim(taken);
        self.free = self.free.saturating_sub(u64::from(taken)) + u64::from(freed);
    }

    /// Updates the counts after a change of the bitmaps was undone. The `taken` clusters are claimed
    /// again; the `freed` clusters are in use again.
    pub(super) fn undo(&mut self, taken: u32, freed: u32) {
        self.claimed += u64::from(taken);
        self.free = self.free.saturating_sub(u64::from(freed)) + u64::from(taken);
    }
}
