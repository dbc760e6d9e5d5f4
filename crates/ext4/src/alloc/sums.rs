//! The sums of free clusters and inodes over all group descriptors.
//!
//! A large file system has more descriptors than one handle may read, and other handles change
//! descriptors while they are summed up. Therefore each block of descriptors is summed up in a
//! handle of its own. Another handle that stops in between adds its own changes to the sums, if
//! they affect groups that the sums already include.

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

    /// Adds `more` to the free clusters if the sums already include `group`.
    pub(super) fn add_clusters(&mut self, group: GroupNo, more: i64) {
        if group < self.until {
            self.clusters = self.clusters.saturating_add_signed(more);
        }
    }

    /// Adds `more` to the free inodes if the sums already include `group`.
    pub(super) fn add_inodes(&mut self, group: GroupNo, more: i64) {
        if group < self.until {
            self.inodes = self.inodes.saturating_add_signed(more);
        }
    }
}
