//! Loading of block bitmaps from the image into memory.
//!
//! A bitmap is checked before it is used, because content is written to the blocks that the bitmap
//! marks as free. If the bitmap marked a superblock, a descriptor, a bitmap, an inode table or the
//! journal as free, content would overwrite that metadata. Nothing is allocated in a group with a
//! damaged bitmap.

use super::NO_INO;
use super::bits::Bits;
use super::space::{Group, GroupState, Map, Summary};
use crate::error::{Corrupt, Place};
use crate::ondisk::bitmap;
use crate::ondisk::features::{Compat, Incompat};
use crate::ondisk::group::{GroupDesc, GroupFlags};
use crate::ondisk::superblock::Superblock;
use crate::{Error, FileBlock, Filesystem, FsBlock, GroupNo, MappingKind, Result};
use larder_cache::buffer::Buffer;
use parking_lot::MutexGuard;
use std::ops::Range;

/// In a flexible group, the maximum number of groups whose metadata is taken into account. The
/// metadata of each group can be in any group of its flexible group.
const FLEX_GROUPS_MAX: u32 = 4096;

/// The maximum number of runs of the journal that are recorded; mke2fs creates a handful.
const JOURNAL_RUNS_MAX: usize = 4096;

impl Filesystem {
    /// Loads the map of `group`, if necessary, and calls `look` with the state of the group.
    ///
    /// # Errors
    /// Corruption of the group, or the device's error.
    pub(super) fn with_map<R>(
        &self,
        group: GroupNo,
        look: impl FnOnce(&mut GroupState) -> R,
    ) -> Result<R> {
        let space = self.allocator();
        let entry = space.group(group);
        // An open handle may need the lock, so the device is not read while the lock is held.
        let (mut state, is_new) = self.without_waiting(|| self.lock_map(&entry, group))?;
        let result = look(&mut state);
        drop(state);
        if is_new {
            space.count_map();
        }
        Ok(result)
    }

    /// Locks the state of `group`, which is in `entry`, and loads the map if necessary. Returns
    /// whether this call loaded the map.
    fn lock_map<'e>(
        &self,
        entry: &'e Group,
        group: GroupNo,
    ) -> Result<(MutexGuard<'e, GroupState>, bool)> {
        let mut state = entry.state.lock();
        if let Some(Corrupt { place, what }) = state.damage {
            return Err(place.corrupt(what));
        }
        if state.map.is_some() {
            return Ok((state, false));
        }
        match self.load_map(group) {
            Ok((map, summary)) => {
                state.map = Some(map);
                state.summary = Some(summary);
                Ok((state, true))
            }
            Err(error) => {
                if let Error::Corrupt(corrupt) = &error {
                    let Corrupt { place, what } = *corrupt;
                    tracing::warn!(%place, what, "damaged block group is not used for allocation");
                    state.damage = Some(Corrupt { place, what });
                }
                Err(error)
            }
        }
    }

    /// Reads and verifies the block bitmap of `group`.
    fn load_map(&self, group: GroupNo) -> Result<(Map, Summary)> {
        let place = Place::Group(group);
        let geometry = &self.allocator().geometry;
        let len = geometry.clusters_in(group);
        let desc = self.group(group)?;
        let system = self.system_clusters(group, &desc)?;
        let busy = if is_uninitialized(&desc, group) {
            let mut busy = Bits::new(len);
            for range in &system {
                busy.fill(range.clone(), true);
            }
            busy
        } else {
            let bytes = self.block_bitmap(group, &desc)?;
            let busy = Bits::from_bytes(&bytes, len);
            if system
                .iter()
                .any(|range| busy.count_set(range.clone()) != range.end - range.start)
            {
                return Err(place.corrupt("block bitmap marks metadata as free"));
            }
            busy
        };
        let free = len - busy.count_set(0..len);
        if free != desc.free_clusters {
            return Err(place.corrupt("block bitmap and free block count differ"));
        }
        let summary = Summary {
            free,
            longest_max: free,
        };
        Ok((Map { busy, system }, summary))
    }

    /// Returns the block bitmap of `group`, which must be initialized.
    pub(super) fn block_bitmap(&self, group: GroupNo, desc: &GroupDesc) -> Result<Buffer<'_>> {
        let stored = (desc.block_bitmap, desc.block_bitmap_checksum);
        self.bitmap(group, stored, bitmap::block_bitmap_checksum)
    }

    /// Returns the inode bitmap of `group`, which must be initialized.
    pub(super) fn inode_bitmap(&self, group: GroupNo, desc: &GroupDesc) -> Result<Buffer<'_>> {
        let stored = (desc.inode_bitmap, desc.inode_bitmap_checksum);
        self.bitmap(group, stored, bitmap::inode_bitmap_checksum)
    }

    fn bitmap(
        &self,
        group: GroupNo,
        (block, stored): (FsBlock, u32),
        checksum: fn(&Superblock, &[u8]) -> u32,
    ) -> Result<Buffer<'_>> {
        let sb = self.superblock();
        let place = Place::Group(group);
        if !sb.contains_blocks(block, 1) {
            return Err(place.corrupt("bitmap is outside the file system"));
        }
        self.read_block(block, place, |bytes| {
            let is_right = !sb.has_metadata_checksums()
                || GroupDesc::is_checksum(sb, stored, checksum(sb, bytes));
            place.ensure(is_right, "checksum of a bitmap is wrong")
        })
    }

    /// Returns the clusters of `group` that contain metadata of the file system itself. This is the
    /// metadata of `group` and of other groups in its flexible group, the block of multiple-mount
    /// protection, and the journal. The ranges are sorted and not adjacent.
    pub(super) fn system_clusters(
        &self,
        group: GroupNo,
        desc: &GroupDesc,
    ) -> Result<Vec<Range<u32>>> {
        let geometry = &self.allocator().geometry;
        let log2 = geometry.cluster_blocks_log2;
        let start = geometry.first_data_block + (geometry.first_cluster(group) << log2);
        let end = start + (u64::from(geometry.clusters_in(group)) << log2);
        let mut blocks = self.system_blocks(group, desc)?;
        blocks.retain(|range| range.start < end && start < range.end);
        blocks.sort_unstable_by_key(|range| range.start);
        let mut clusters: Vec<Range<u32>> = Vec::new();
        let mut used_to = 0;
        for range in blocks {
            Place::Group(group)
                .ensure(range.start >= used_to, "metadata of block groups overlaps")?;
            used_to = range.end;
            let first = (range.start.max(start) - start) >> log2;
            let end_cluster = (range.end.min(end) - start).div_ceil(1 << log2);
            let (Ok(first), Ok(end_cluster)) = (u32::try_from(first), u32::try_from(end_cluster))
            else {
                continue;
            };
            match clusters.last_mut() {
                Some(last) if last.end >= first => last.end = end_cluster,
                _ => clusters.push(first..end_cluster),
            }
        }
        Ok(clusters)
    }

    /// Returns the blocks of metadata that may be in `group`.
    fn system_blocks(&self, group: GroupNo, desc: &GroupDesc) -> Result<Vec<Range<u64>>> {
        let sb = self.superblock();
        let table_blocks = u64::from(sb.inode_table_blocks());
        let start = sb.group_first_block(group).0;
        // With blocks of 1 KiB, the superblock is in block 1, even if the first data block is block
        // 0.
        let before = u64::from(group.0 == 0 && sb.block_size_log2 == 10 && start == 0);
        let leading = before + self.leading_blocks(group);
        let mut blocks: Vec<_> = std::iter::once(start..start + leading).collect();
        let mut add = |desc: &GroupDesc| {
            for bitmap in [desc.block_bitmap, desc.inode_bitmap] {
                blocks.push(bitmap.0..bitmap.0.saturating_add(1));
            }
            let table = desc.inode_table.0;
            blocks.push(table..table.saturating_add(table_blocks));
        };
        add(desc);
        for peer in self.flex_groups(group).take(FLEX_GROUPS_MAX as usize) {
            if peer != group {
                add(&self.group(peer)?);
            }
        }
        if sb.incompat.contains(Incompat::MMP) {
            blocks.push(sb.mmp_block.0..sb.mmp_block.0.saturating_add(1));
        }
        blocks.extend_from_slice(self.journal_runs()?);
        blocks.retain(|range| !range.is_empty());
        Ok(blocks)
    }

    /// Returns the blocks of the journal, or an empty list if the journal's mapping cannot be read.
    fn journal_runs(&self) -> Result<&[Range<u64>]> {
        let journal = &self.allocator().journal;
        if let Some(runs) = journal.get() {
            return Ok(runs);
        }
        let runs = match self.map_journal() {
            Err(missing @ Error::NotInMemory(_)) => return Err(missing),
            runs => runs.unwrap_or_default(),
        };
        Ok(journal.get_or_init(|| runs))
    }

    fn map_journal(&self) -> Result<Vec<Range<u64>>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let sb = self.superblock();
        if !sb.compat.contains(Compat::HAS_JOURNAL) || sb.journal_ino == NO_INO {
            return Ok(runs);
        }
        let inode = self.inode(sb.journal_ino)?;
        let blocks = u32::try_from(inode.size_bytes() >> sb.block_size_log2).unwrap_or(u32::MAX);
        let mut at = 0;
        while at < blocks && runs.len() < JOURNAL_RUNS_MAX {
            let mapping = self.map(&inode, FileBlock(at), blocks - at)?;
            let MappingKind::Written(start) = mapping.kind else {
                break;
            };
            let len = mapping.blocks.max(1);
            let end = start.0.saturating_add(u64::from(len));
            match runs.last_mut() {
                Some(last) if last.end == start.0 => last.end = end,
                _ => runs.push(start.0..end),
            }
            at = at.saturating_add(len);
        }
        Ok(runs)
    }

    /// Returns the groups of the flexible group that contains `group`; without `flex_bg`, only
    /// `group`.
    pub(super) fn flex_groups(&self, group: GroupNo) -> impl Iterator<Item = GroupNo> + use<> {
        let size = self.flex_group_size();
        let first = group.0 / size * size;
        let end = first.saturating_add(size);
        (first..end.min(self.superblock().groups_count)).map(GroupNo)
    }

    /// Returns the number of groups in a flexible group; 1 without `flex_bg`.
    pub(super) fn flex_group_size(&self) -> u32 {
        let sb = self.superblock();
        if sb.incompat.contains(Incompat::FLEX_BG) {
            1 << u32::from(sb.flex_bg_groups_log2).min(31)
        } else {
            1
        }
    }
}

/// Returns whether the block bitmap of `group` does not exist yet. The bitmap of the first group
/// always exists.
pub(super) fn is_uninitialized(desc: &GroupDesc, group: GroupNo) -> bool {
    desc.flags.contains(GroupFlags::BLOCK_UNINIT) && group.0 != 0
}
