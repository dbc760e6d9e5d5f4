//! Space for delayed blocks. It is reserved before an unmapped block becomes dirty, so that
//! write-back cannot run out of space.
//!
//! Model: `ext4_da_reserve_space`. One difference: the blocks that the mapping needs in the worst
//! case are reserved too. Linux relies on space that the file system sets aside for this, and has
//! no guarantee for files with indirect blocks. Surplus reservations are released when the file is
//! written back. Therefore a write that finds no space writes everything back, and tries again.
//!
//! # Invariants
//! 1. Delayed blocks have a reservation, except while write-back has claimed them.
//! 2. Blocks that a writer is about to make delayed
//!    ([`Dirty::expected`](crate::dirty::Dirty::expected)) have one too.
//! 3. Unwritten blocks that are dirty ([`Dirty::converting`](crate::dirty::Dirty::converting)) have
//!    one for the mapping.

use super::Writer;
use crate::Result;
use crate::dirty::BlockSet;
use crate::live::Live;
use crate::need::need_of;
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::{Inode, MappingKind, MappingReservation, Reservation};
use std::ops::Range;

/// Blocks that are not mapped as written.
#[derive(Debug, Default)]
struct NotWritten {
    /// Blocks that are not mapped.
    holes: BlockSet,
    /// Blocks that are mapped as unwritten.
    unwritten: BlockSet,
}

impl Writer {
    /// Reserves like [`Writer::reserve_holes`] for as many of `blocks` as there is space for, from
    /// the first on. Returns the end of those blocks.
    pub(super) fn reserve_first_holes(&self, live: &Live<'_>, blocks: Range<u64>) -> Result<u64> {
        let Err(error) = self.reserve_holes(live, blocks.clone()) else {
            return Ok(blocks.end);
        };
        if !error.is_no_space() {
            return Err(error);
        }
        let mut end = blocks.start;
        let mut step = (blocks.end - blocks.start) / 2;
        while step > 0 && end < blocks.end {
            let next = blocks.end.min(end + step);
            match self.try_reserve(live, end..next) {
                Ok(()) => end = next,
                Err(error) if error.is_no_space() => step /= 2,
                Err(other) => return Err(other),
            }
        }
        if end == blocks.start {
            return Err(error);
        }
        Ok(end)
    }

    /// Reserves space for those of `blocks` that are neither mapped nor reserved, or for none of
    /// them. They are then expected to become delayed. The caller holds `rw` exclusively, and does
    /// not hold `writeback`.
    pub(super) fn reserve_holes(&self, live: &Live<'_>, blocks: Range<u64>) -> Result<()> {
        self.write_back
            .retry_after_write_back(|| self.try_reserve(live, blocks.clone()))
    }

    /// Reserves space for the content of those of `blocks` that are not mapped, for a caller that
    /// allocates them at once. The file has no dirty content.
    pub(super) fn reserve_content(
        &self,
        live: &Live<'_>,
        blocks: Range<u64>,
    ) -> Result<Reservation> {
        self.write_back.retry_after_write_back(|| {
            let mut not_written = NotWritten::default();
            let inode = live.inode()?;
            self.find_not_written(&inode, blocks.clone(), &mut not_written)?;
            let need = need_of(self.fs(), &inode, &not_written.holes, None);
            Ok(self.fs().reserve(need.content, false)?)
        })
    }

    /// Reserves space for the blocks that a mapping needs in the worst case if extents are made to
    /// start, or to end, at `blocks`. Called before the first step of a change that must not stop
    /// in the middle. The file has no dirty content.
    pub(super) fn reserve_remapping(
        &self,
        live: &Live<'_>,
        blocks: &BlockSet,
    ) -> Result<MappingReservation> {
        self.write_back.retry_after_write_back(|| {
            let inode = live.inode()?;
            // The other kind of mapping does not grow if no blocks are added.
            let has_extents = inode.flags().contains(InodeFlags::EXTENTS);
            let clusters = if has_extents {
                need_of(self.fs(), &inode, blocks, None).mapping
            } else {
                0
            };
            Ok(self.fs().reserve_for_mapping(clusters, true)?)
        })
    }

    fn try_reserve(&self, live: &Live<'_>, blocks: Range<u64>) -> Result<()> {
        let mut not_written = NotWritten::default();
        let _shared = live.map.read();
        let (inode, covered) = {
            let mut state = live.state();
            let inode = live.present_in(&mut state)?;
            let mut covered = BlockSet::default();
            let dirty = &state.dirty;
            for set in [&dirty.blocks, &dirty.expected, &dirty.converting] {
                for run in set.runs_in(blocks.clone()) {
                    covered.insert(run);
                }
            }
            (inode, covered)
        };
        let mut at = blocks.start;
        for run in covered.runs_in(blocks.clone()) {
            self.find_not_written(&inode, at..run.start, &mut not_written)?;
            at = run.end;
        }
        self.find_not_written(&inode, at..blocks.end, &mut not_written)?;
        let NotWritten { holes, unwritten } = not_written;
        if holes.is_empty() && unwritten.is_empty() {
            return Ok(());
        }
        let (need, to_convert) = {
            let dirty = &live.state().dirty;
            (
                need_of(self.fs(), &inode, &holes, Some(dirty)),
                need_of(self.fs(), &inode, &unwritten, Some(dirty)).mapping,
            )
        };
        let content = self.fs().reserve(need.content, false)?;
        let mut mapping = self.fs().reserve_for_mapping(need.mapping, false)?;
        mapping.add(self.fs().reserve_for_mapping(to_convert, true)?);
        let mut state = live.state();
        let dirty = &mut state.dirty;
        dirty.add_reservation(content);
        match &mut dirty.for_mapping {
            Some(before) => before.add(mapping),
            None => dirty.for_mapping = Some(mapping),
        }
        for run in holes.runs_in(0..u64::MAX) {
            dirty.expected.insert(run);
        }
        for run in unwritten.runs_in(0..u64::MAX) {
            dirty.converting.insert(run);
        }
        Ok(())
    }

    /// Finds those of `blocks` that are not mapped as written.
    fn find_not_written(
        &self,
        inode: &Inode,
        blocks: Range<u64>,
        not_written: &mut NotWritten,
    ) -> Result<()> {
        let mut at = blocks.start;
        while at < blocks.end {
            let mapping = self.inodes.mapping(inode, at..blocks.end)?;
            let end = at + u64::from(mapping.blocks);
            let run = at..end.min(blocks.end);
            match mapping.kind {
                MappingKind::Hole => not_written.holes.insert(run),
                MappingKind::Unwritten(_) => not_written.unwritten.insert(run),
                MappingKind::Written(_) => {}
            }
            at = end;
        }
        Ok(())
    }
}
