//! The sums of free clusters and inodes over all group descriptors.
//!
//! A large file system has more descriptors than a handle may read, and other handles change them
//! meanwhile. So they are summed up block by block, each in its own handle. A handle that stops in
//! between adds its changes of the groups that are in the sums already.

use crate::GroupNo;

/// The sums over the groups before `until`.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) until: GroupNo,
    pub(super) clusters: u64,
    pub(super) inodes: u64,
}

impl Sums {
    /// Returns whether the groups are being summed up.
    pub(super) fn is_active(&self) -> bool {
        self.until > GroupNo(0)
    }

    /// Adds the change of the free clusters of `group`.
    pub(super) fn add_clusters(&mut self, group: GroupNo, more: i64) {
        if group < self.until {
            self.clusters = self.clusters.saturating_add_signed(more);
        }
    }

    /// Adds the change of the free inodes of `group`.
    pub(super) fn add_inodes(&mut self, group: GroupNo, more: i64) {
        if group < self.until {
            self.inodes = self.inodes.saturating_add_signed(more);
        }
    }
}
