//! How much is free, who may have it, and what was promised.

use crate::ondisk::features::Incompat;
use crate::ondisk::superblock::{State, Superblock};

/// Clusters that are kept back for metadata, at most; else a fiftieth of all.
const METADATA_CLUSTERS_MAX: u64 = 4096;

/// Of these, the part that no other metadata than mappings gets: a file can be punched, and content
/// written to what was allocated before, however full the file system is.
const REMAPPING_PART: u64 = 4;

/// Clusters for the metadata of what was reserved: 4,096, or a fiftieth of a smaller
/// file system. None where content is not mapped by extents, as in the kernel.
pub(crate) fn clusters_for_metadata(sb: &Superblock) -> u64 {
    if !sb.incompat.contains(Incompat::EXTENTS) {
        return 0;
    }
    let clusters = sb.blocks_count >> sb.cluster_blocks_log2;
    (clusters / 50).min(METADATA_CLUSTERS_MAX)
}

/// Who asks for space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Privilege {
    /// Anybody: what is kept back for the super-user and for metadata stays.
    Ordinary,
    /// Who may take what is kept back for the super-user.
    SuperUser,
    /// Metadata, without which what was promised could not be kept.
    Metadata,
    /// A change to the mapping of content that already has its blocks.
    Remapping,
    /// What maps the content of files: what was promised for that is for this.
    Mapping,
}

/// The counts, in clusters.
#[derive(Debug)]
pub(super) struct Counts {
    /// Free by the bitmaps: claimed ones included, and freed ones that cannot be claimed yet.
    free: u64,
    /// Claimed and not taken yet.
    claimed: u64,
    /// Promised by reservations, wherever they are.
    reserved: u64,
    /// Promised to what will map content, whoever allocates it then.
    for_mapping: u64,
    /// Inodes that are free.
    pub(super) free_inodes: u64,
    /// Whether `free` was counted.
    is_exact: bool,
    /// Whether `free` is of a superblock that was left clean.
    is_clean: bool,
    /// All that the file system has.
    total: u64,
    for_metadata: u64,
    for_super_user: u64,
}

impl Counts {
    /// Counts by the superblock `sb`, as it was when the file system was opened; `was_clean`
    /// if there was nothing to recover then.
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

    /// Whether the group descriptors must be summed up before `clusters` more may be
    /// promised: less than an eighth would be left by the superblock.
    pub(super) fn need_exact(&self, clusters: u64) -> bool {
        let left = self.available(Privilege::Ordinary).saturating_sub(clusters);
        !self.is_exact && left < self.total / 8
    }

    /// Whether the counts can be trusted: not those of a superblock that says that
    /// nearly all space is used, or was not left clean.
    pub(super) fn is_known(&self) -> bool {
        self.is_exact || (self.is_clean && !self.need_exact(0))
    }

    /// Whether inodes may be left.
    pub(super) fn may_have_inodes(&self) -> bool {
        self.free_inodes > 0 || !self.is_exact
    }

    /// One inode fewer is free.
    pub(super) fn take_inode(&mut self) {
        self.free_inodes = self.free_inodes.saturating_sub(1);
    }

    /// The sums of the group descriptors.
    pub(super) fn set_exact(&mut self, free: u64, free_inodes: u64) {
        self.free = free.min(self.total);
        self.free_inodes = free_inodes;
        self.is_exact = true;
    }

    /// Free by the bitmaps.
    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// What nobody has been promised.
    pub(super) fn unpromised(&self) -> u64 {
        self.free
            .saturating_sub(self.claimed)
            .saturating_sub(self.reserved)
    }

    /// What is kept back from anybody.
    pub(super) fn kept_back(&self) -> u64 {
        self.for_metadata
            .saturating_add(self.for_super_user)
            .saturating_add(self.for_mapping)
    }

    /// What `privilege` may have more.
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
        self.unpromised().saturating_sub(kept_back)
    }

    /// Promises `clusters`, or nothing.
    pub(super) fn reserve(&mut self, clusters: u64, privilege: Privilege) -> bool {
        let is_there = self.available(privilege) >= clusters;
        if is_there {
            self.reserved += clusters;
        }
        is_there
    }

    /// Promises `clusters` that were promised before.
    pub(super) fn reserve_again(&mut self, clusters: u64) {
        self.reserved += clusters;
    }

    /// Promises `clusters` to what will map content, or nothing.
    pub(super) fn reserve_for_mapping(&mut self, clusters: u64, privilege: Privilege) -> bool {
        let is_there = self.available(privilege) >= clusters;
        if is_there {
            self.for_mapping += clusters;
        }
        is_there
    }

    /// Takes such a promise back.
    pub(super) fn unreserve_for_mapping(&mut self, clusters: u64) {
        self.for_mapping = self.for_mapping.saturating_sub(clusters);
    }

    /// Takes a promise back.
    pub(super) fn unreserve(&mut self, clusters: u64) {
        self.reserved = self.reserved.saturating_sub(clusters);
    }

    /// Counts at most `want` clusters as claimed; returns how many.
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

    /// They are claimed no longer.
    pub(super) fn unclaim(&mut self, clusters: u32) {
        self.claimed = self.claimed.saturating_sub(u64::from(clusters));
    }

    /// The bitmaps changed: `taken` clusters are used now that were claimed, `freed` ones
    /// are free.
    pub(super) fn apply(&mut self, taken: u32, freed: u32) {
        self.unclaim(taken);
        self.free = self.free.saturating_sub(u64::from(taken)) + u64::from(freed);
    }

    /// The bitmaps are what they were before `taken` and `freed`. What was claimed
    /// is free.
    pub(super) fn undo(&mut self, taken: u32, freed: u32) {
        self.free = self.free.saturating_sub(u64::from(freed)) + u64::from(taken);
    }
}
