//! Changes of extent trees, one leaf at a time.

use super::change::MapChange;
use super::tree::Walk;
use super::{FileBlocks, leaf};
use crate::ondisk::extent::{BLOCKS_MAX, Extent, FILE_BLOCKS};
use crate::{Error, FileBlock, Filesystem, FsBlock, Inode, Result};
use std::ops::Range;

/// One more than the last block that an extent may map: the kernel's `EXT_MAX_BLOCKS`.
pub(super) const END: u64 = FILE_BLOCKS - 1;

impl Filesystem {
    /// Returns whether any of the file blocks `wanted` is mapped, by the changed leaf of `walk` in
    /// memory or by another leaf.
    fn is_mapped_beside(&self, inode: &Inode, walk: &Walk, wanted: Range<u64>) -> Result<bool> {
        if !leaf::is_hole(&walk.extents, &wanted) {
            return Ok(true);
        }
        let before = wanted.start..wanted.end.min(walk.file_blocks.start);
        let after = wanted.start.max(walk.file_blocks.end)..wanted.end;
        Ok(self.maps_any(inode, before)? || self.maps_any(inode, after)?)
    }

    /// Returns whether any of the file blocks `wanted` is mapped.
    pub(super) fn maps_any(&self, inode: &Inode, wanted: Range<u64>) -> Result<bool> {
        Ok(self.first_mapped(inode, wanted)?.is_some())
    }

    /// Returns the first file block in `wanted` that is mapped, and the block that it is mapped to.
    pub(super) fn first_mapped(
        &self,
        inode: &Inode,
        wanted: Range<u64>,
    ) -> Result<Option<(u64, FsBlock)>> {
        let mut at = wanted.start;
        while at < wanted.end.min(FILE_BLOCKS) {
            let max_blocks = u32::try_from(wanted.end - at).unwrap_or(u32::MAX);
            let start = FileBlock(u32::try_from(at).unwrap_or(u32::MAX));
            let mapping = self.map(inode, start, max_blocks)?;
            if let Some((block, _)) = mapping.kind.block() {
                return Ok(Some((at, block)));
            }
            at += u64::from(mapping.blocks);
        }
        Ok(None)
    }

    /// Returns an error if `blocks` cannot be moved by `by` blocks: they must be whole clusters and
    /// must be moved to a hole.
    fn check_shift(&self, inode: &Inode, blocks: &FileBlocks, by: i64) -> Result<()> {
        let distance = by.unsigned_abs();
        let cluster = self.cluster_blocks();
        if !distance.is_multiple_of(cluster) || !blocks.start.is_multiple_of(cluster) {
            let what = "only whole clusters can be moved";
            return Err(Error::Invalid(inode.ino(), what));
        }
        let target = if by < 0 {
            blocks
                .start
                .checked_sub(distance)
                .map(|to| to..blocks.start)
        } else {
            let end = blocks.end.saturating_add(distance).min(FILE_BLOCKS);
            Some(blocks.end..end)
        };
        match target {
            Some(target) if !self.maps_any(inode, target.clone())? => Ok(()),
            _ => Err(Error::Invalid(
                inode.ino(),
                "blocks can only be moved into a hole",
            )),
        }
    }

    /// Returns the preferred location of the file block `start`, based on the blocks that are
    /// mapped around it.
    pub(super) fn goal_by_extents(&self, inode: &Inode, start: u64) -> Result<Option<FsBlock>> {
        let walk = self.walk_to(inode, start)?;
        Ok(leaf::goal_for(&walk.extents, start).or(walk.block))
    }
}

impl MapChange<'_, '_> {
    /// Maps the file blocks from `start` on, which must be a hole.
    pub(super) fn insert_extent(
        &mut self,
        start: FileBlock,
        (block, blocks): (FsBlock, u32),
        is_written: bool,
    ) -> Result<()> {
        let start = u64::from(start.0);
        let whole = Extent {
            file_blocks: start..start + u64::from(blocks),
            block,
            is_written,
        };
        if whole.file_blocks.end > END {
            return Err(Error::FileTooLarge(self.inode.ino()));
        }
        if block.0 + u64::from(blocks) > BLOCKS_MAX {
            return Err(Error::NoSpace);
        }
        let is_inside = self.fs.superblock().contains_blocks(block, blocks.into());
        let mut at = start;
        while at < whole.file_blocks.end {
            // The replay of a fast commit may add several runs outside the file system.
            let mut walk = if is_inside {
                self.fs.walk_to(self.inode, at)?
            } else {
                self.fs.walk_unchecked(self.inode, at)?
            };
            let longest = at + Extent::blocks_max(is_written);
            let end = whole.file_blocks.end.min(walk.file_blocks.end).min(longest);
            if !leaf::insert(&mut walk.extents, whole.part(at..end)) {
                return Err(Error::Invalid(
                    self.inode.ino(),
                    "blocks are already mapped",
                ));
            }
            self.store(walk, at)?;
            at = end;
        }
        Ok(())
    }

    /// Implements [`Filesystem::set_written`] for extents.
    pub(super) fn set_extents_written(
        &mut self,
        blocks: FileBlocks,
        is_written: bool,
    ) -> Result<FileBlocks> {
        let end_of_all = blocks.end.min(FILE_BLOCKS);
        let mut at = blocks.start;
        while at < end_of_all {
            if at > blocks.start && self.handle.credits() < self.fs.map_credits(self.inode, 1) {
                break;
            }
            let mut walk = self.fs.walk_to(self.inode, at)?;
            let end = walk.file_blocks.end.min(end_of_all);
            if leaf::set_written(&mut walk.extents, &(at..end), is_written) {
                self.store(walk, at)?;
            }
            at = end;
        }
        if self.handle.credits() >= self.fs.map_credits(self.inode, 1) {
            self.shrink_root()?;
        }
        Ok(at..end_of_all.max(at))
    }

    /// Implements [`Filesystem::unmap`] for extents.
    pub(super) fn unmap_extents(&mut self, blocks: FileBlocks) -> Result<FileBlocks> {
        let mut end = blocks.end.min(FILE_BLOCKS);
        let mut runs = 0;
        while blocks.start < end && self.may_free(runs) {
            let mut walk = self.fs.walk_to(self.inode, end - 1)?;
            let first = walk.file_blocks.start.max(blocks.start);
            let (runs_before, was_empty) = (runs, walk.extents.is_empty());
            let done = self.unmap_leaf(&mut walk, first..end, &mut runs)?;
            // Removing an empty leaf needs as many credits as freeing a run.
            runs += u32::from(was_empty);
            if runs > runs_before {
                self.store(walk, end)?;
            }
            end = done;
        }
        if self.handle.credits() >= self.fs.map_credits(self.inode, 1) {
            self.shrink_root()?;
        }
        Ok(blocks.start..end.max(blocks.start))
    }

    /// Frees the blocks to which the leaf of `walk` maps `blocks`, starting at the end, as far as
    /// the credits allow. Adds the number of freed runs to `runs`. Returns the start of the part of
    /// `blocks` that is now unmapped.
    fn unmap_leaf(&mut self, walk: &mut Walk, blocks: Range<u64>, runs: &mut u32) -> Result<u64> {
        let longest = u64::from(self.fs.superblock().blocks_per_group);
        let mut end = blocks.end;
        while let Some(last) = leaf::last_in(&walk.extents, &(blocks.start..end), longest) {
            if !self.may_free(*runs) {
                return Ok(end);
            }
            *runs += 1;
            leaf::remove(&mut walk.extents, &last.file_blocks);
            let run = (last.file_blocks.start, last.block, last.blocks());
            let before = *self.inode;
            self.free_content(run, |wanted| {
                self.fs.is_mapped_beside(&before, walk, wanted)
            })?;
            end = last.file_blocks.start;
        }
        Ok(blocks.start)
    }

    /// Implements [`Filesystem::shift`] for extents.
    pub(super) fn shift_extents(&mut self, blocks: FileBlocks, by: i64) -> Result<FileBlocks> {
        let mut left = blocks.start..blocks.end.min(FILE_BLOCKS);
        if by == 0 || left.is_empty() {
            return Ok(left.end..left.end);
        }
        self.fs.check_shift(self.inode, &left, by)?;
        let mut must_move = true;
        while !left.is_empty() {
            let at = if by < 0 { left.start } else { left.end };
            // A cluster whose blocks are mapped in two leaves moves as a whole.
            let may_stop = !must_move && at.is_multiple_of(self.fs.cluster_blocks());
            if may_stop && self.handle.credits() < self.fs.map_credits(self.inode, 1) {
                break;
            }
            must_move = false;
            let at = if by < 0 { at } else { at - 1 };
            let mut walk = self.fs.walk_to(self.inode, at)?;
            let here = left.start.max(walk.file_blocks.start)..left.end.min(walk.file_blocks.end);
            match leaf::shift(&mut walk.extents, &here, by, END) {
                None => return Err(Error::FileTooLarge(self.inode.ino())),
                Some(false) => {}
                Some(true) => self.store(walk, at)?,
            }
            left = if by < 0 {
                here.end..left.end
            } else {
                left.start..here.start
            };
        }
        Ok(left)
    }
}
