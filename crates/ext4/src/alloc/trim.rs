//! Discarding free space, so that the file or disk below can release it.

use super::run::Run;
use super::space::{GroupState, Space};
use crate::{Error, Filesystem, GroupNo, Result};
use std::ops::Range;

impl Filesystem {
    /// Discards the free space in the range `bytes` of the file system, in runs of at least
    /// `min_bytes`, and returns the number of bytes discarded. Blocks that an uncommitted
    /// transaction freed are not discarded.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::DeviceCannot`] if the device cannot discard, or the device's
    /// error.
    pub fn trim(&self, bytes: Range<u64>, min_bytes: u64) -> Result<u64> {
        let space = self.space()?;
        let geometry = &space.geometry;
        let cluster_bytes = self.superblock().cluster_size_bytes();
        // Only clusters that are completely inside the range are discarded.
        let first_byte = geometry.first_data_block << self.superblock().block_size_log2;
        let start = bytes
            .start
            .saturating_sub(first_byte)
            .div_ceil(cluster_bytes);
        let end = bytes.end.saturating_sub(first_byte) / cluster_bytes;
        let end = if bytes.end >= self.superblock().size_bytes() {
            geometry.clusters_count()
        } else {
            end
        };
        if start >= end {
            return Ok(0);
        }
        let clusters_min = u32::try_from(min_bytes.div_ceil(cluster_bytes)).unwrap_or(u32::MAX);
        let (first_group, last_group) = (geometry.place(start).0, geometry.place(end - 1).0);
        let mut discarded = 0;
        for group in (first_group.0..=last_group.0).map(GroupNo) {
            let first = geometry.first_cluster(group);
            let within =
                |cluster: u64| u32::try_from(cluster.saturating_sub(first)).unwrap_or(u32::MAX);
            let bits = within(start)..within(end).min(geometry.clusters_in(group));
            discarded += self.trim_group(space, group, &bits, clusters_min)?;
        }
        Ok(discarded)
    }

    fn trim_group(
        &self,
        space: &Space,
        group: GroupNo,
        bits: &Range<u32>,
        clusters_min: u32,
    ) -> Result<u64> {
        let mut at = bits.start;
        let mut discarded = 0;
        // The thread holds one run at a time, and discards it. An allocation that finds no other
        // space waits until this run is released.
        loop {
            let _alone = space.trimming.lock();
            let Some(found) = self.hold_next_run(group, at..bits.end, clusters_min) else {
                return Ok(discarded);
            };
            at = found.end;
            let run = space.geometry.run(group, &found);
            let result = self.discard(space, run);
            space.release(run);
            discarded += result?;
        }
    }

    /// Holds and returns the first free run of at least `clusters_min` clusters in `bits`. Returns
    /// `None` if `bits` contains no such run, or the group is damaged.
    fn hold_next_run(
        &self,
        group: GroupNo,
        bits: Range<u32>,
        clusters_min: u32,
    ) -> Option<Range<u32>> {
        let held = self.with_map(group, |state| {
            let GroupState { map: Some(map), .. } = state else {
                return None;
            };
            let run = map
                .busy
                .runs(bits)
                .find(|run| run.end - run.start >= clusters_min)?;
            state.hold(run.clone());
            Some(run)
        });
        held.ok().flatten()
    }

    fn discard(&self, space: &Space, run: Run) -> Result<u64> {
        let log2 = self.superblock().block_size_log2;
        let (start, blocks) = space.blocks_of(run);
        let len_bytes = u64::from(blocks) << log2;
        if self.writing_device()?.discard(start.0 << log2, len_bytes)? {
            return Ok(len_bytes);
        }
        Err(Error::DeviceCannot("discard"))
    }
}
