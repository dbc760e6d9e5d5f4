//! The amount of free space, who may use it, and how much of it is reserved.

use crate::ondisk::features::Incompat;
use crate::ondisk::superblock::{State, Superblock};

/// The maximum number of clusters that are kept back for metadata; on a small file system, it is a
/// fiftieth of all clusters.
const METADATA_CLUSTERS_MAX: u64 = 4096;

/// The part of these clusters (one in this number) that only mappings may use. A file can therefore
/// be punched, and content can be written to blocks that were allocated before, however full the
/// file system is.
const REMAPPING_PART: u64 = 4;

/// Returns the number of clusters that are kept back for the metadata of reserved content: 4,096,
/// or a fiftieth of a smaller file system. As in the kernel, 0 if content is not mapped by extents.
pub(crate) fn clusters_for_metadata(sb: &Superblock) -> u64 {
    if !sb.incompat.contains(Incompat::EXTENTS) {
        return 0;
    }
    let clusters = sb.blocks_count >> sb.cluster_blocks_log2;
    (clusters / 50).min(METADATA_CLUSTERS_MAX)
}

/// The kind of a request for space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Privilege {
    /// Cannot use clusters that are kept back for the super-user or for metadata.
    Ordinary,
    /// May use the clusters that are kept back for the super-user.
    SuperUser,
    /// Metadata, which is needed to use reserved space.
    Metadata,
    /// A change to the mapping of content that already has its blocks.
    Remapping,
    /// Blocks that map the content of files. May use the clusters that are reserved for mapping.
    Mapping,
}

/// The counts, in clusters.
#[derive(Debug)]
pub(super) struct Counts {
    /// Free in the bitmaps. Includes claimed clusters, and freed clusters that cannot be claimed
    /// yet.
    free: u64,
    /// Claimed and not taken yet.
    claimed: u64,
    /// Reserved, at no particular place.
    reserved: u64,
    /// Reserved for blocks that map content, whichever operation allocates them.
    for_mapping: u64,
    /// Inodes that are free.
    pub(super) free_inodes: u64,
    /// Whether `free` was counted.
    is_exact: bool,
    /// Whether `free` is from a superblock that was left clean.
    is_clean: bool,
    /// All clusters of the file system.
    total: u64,
    for_metadata: u64,
    for_super_user: u64,
}

impl Counts {
    /// Creates the counts from the superblock `sb`, as it was when the file system was opened.
    /// `was_clean` says that there was nothing to recover then.
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
        }
    }

    /// Returns whether the group descriptors must be summed up before `clusters` more may be
    /// reserved: by the superblock's count, less than an eighth would be left.
    pub(super) fn need_exact(&self, clusters: u64) -> bool {
        let left = self.available(Privilege::Ordinary).saturating_sub(clusters);
        !self.is_exact && left < self.total / 8
    }

    /// Returns whether the counts can be trusted. Counts from a superblock cannot be trusted if
    /// nearly all space is used, or if it was not left clean.
    pub(super) fn is_known(&self) -> bool {
        self.is_exact || (self.is_clean && !self.need_exact(0))
    }

    /// Returns whether there may be a free inode.
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

    /// Returns the number of clusters that ordinary requests cannot use.
    pub(super) fn kept_back(&self) -> u64 {
        self.for_metadata
            .saturating_add(self.for_super_user)
            .saturating_add(self.for_mapping)
    }

    /// Returns how many more clusters `privilege` may use.
    fn available(&self, privilege: Privilege) -> u64 {
        let kept_back = match privilege {
            Privilege::Ordinary => self.kept_back(),
            Privilege::SuperUser => self.for_metadata.saturating_add(self.for_mapping),
            Privilege::Metadata => self
                .for_mapping
                .saturating_add(self.for_metadata / REMAPPING_PART),
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

    /// Reserves `clusters` that were reserved before.
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

    /// Counts at most `want` clusters as claimed, and returns how many.
    pub(super) fn claim(&mut self, want: u32, privilege: Privilege) -> u32 {
        let granted = u64::from(want).min(self.available(privilege));
        self.claimed += granted;
        u32::try_from(granted).unwrap_or(want)
    }

    /// Counts `clusters` that were reserved as claimed.
    pub(super) fn claim_reserved(&mut self, clusters: u32) {
        self.unreserve(u64::from(clusters));
        self.claimed += u64::from(clusters);
    }

    /// Counts `clusters` as not claimed any more.
    pub(super) fn unclaim(&mut self, clusters: u32) {
        self.claimed = self.claimed.saturating_sub(u64::from(clusters));
    }

    /// Applies a change of the bitmaps: `taken` clusters, which were claimed, are used now, and
    /// `freed` clusters are free.
    pub(super) fn apply(&mut self, taken: u32, freed: u32) {
        self.unclaim(taken);
        self.free = self.free.saturating_sub(u64::from(taken)) + u64::from(freed);
    }

    /// Undoes a change of the bitmaps. The taken clusters, which had been claimed, are free again.
    pub(super) fn undo(&mut self, taken: u32, freed: u32) {
        self.free = self.free.saturating_sub(u64::from(freed)) + u64::from(taken);
    }
}
