//! Reservation of space for delayed blocks, which are dirty and not mapped yet. Space is reserved
//! before an unmapped block becomes dirty, so that write-back cannot run out of space.
//!
//! Model: `ext4_da_reserve_space`. One difference: Larder also reserves the blocks that the mapping
//! needs in the worst case. Linux relies on a pool of blocks that the file system sets aside for
//! mappings, and guarantees nothing for files with indirect blocks. Larder over-reserves, and
//! releases the surplus when it writes a file back. So a write that finds no space writes back all
//! files, and tries again.
//!
//! # Invariants
//! 1. Delayed blocks have a reservation for their content and mapping. While write-back holds a
//!    claim (free blocks assigned in memory) for them, the claim replaces the reservation for the
//!    content.
//! 2. Blocks that a writer is about to make delayed
//!    ([`Dirty::expected`](crate::dirty::Dirty::expected)) have the same reservations.
//! 3. Unwritten blocks that are dirty or about to become dirty
//!    ([`Dirty::converting`](crate::dirty::Dirty::converting)) have a reservation for the mapping
//!    only.

use super::Writer;
use crate::Result;
use crate::dirty::BlockSet;
use crate::live::Live;
use crate::need::need_of;
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::{Inode, MappingKind, MappingReservation, Privilege, Reservation};
use std::ops::Range;

/// Blocks of a file that are unmapped or mapped as unwritten.
#[derive(Debug, Default)]
struct NotWritten {
    /// Blocks that are not mapped.
    holes: BlockSet,
    /// Blocks that are mapped as unwritten.
    unwritten: BlockSet,
}

impl Writer {
    /// Reserves space for the longest prefix of `blocks` for which there is space. In contrast,
    /// [`Writer::reserve_holes`] reserves all of `blocks` or none. Returns the end of the prefix.
    /// Fails if the space does not suffice even for the first block.
    pub(super) fn reserve_first_holes(
        &self,
        live: &Live<'_>,
        blocks: Range<u64>,
        privilege: Privilege,
    ) -> Result<u64> {
        let Err(error) = self.reserve_holes(live, blocks.clone(), privilege) else {
            return Ok(blocks.end);
        };
        if !error.is_no_space() {
            return Err(error);
        }
        let mut end = blocks.start;
        let mut step = (blocks.end - blocks.start) / 2;
        while step > 0 && end < blocks.end {
            let next = blocks.end.min(end + step);
            match self.try_reserve(live, end..next, privilege) {
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

    /// Reserves space for every block in `blocks` that is not mapped as written and has no
    /// reservation yet. Reserves either all of this space or, on an error, none. Unmapped blocks
    /// are recorded as `expected`, unwritten blocks as `converting`. The caller must hold `rw`
    /// exclusively, and must not hold `writeback`.
    pub(super) fn reserve_holes(
        &self,
        live: &Live<'_>,
        blocks: Range<u64>,
        privilege: Privilege,
    ) -> Result<()> {
        self.write_back
            .retry_after_write_back(|| self.try_reserve(live, blocks.clone(), privilege))
    }

    /// Reserves space for the content of the unmapped blocks in `blocks`. Used by callers that
    /// allocate the blocks immediately. The file must have no dirty content.
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
            Ok(self.fs().reserve(need.content, Privilege::Ordinary)?)
        })
    }

    /// Reserves space for the blocks that the mapping needs in the worst case if extents are split
    /// at `blocks`. Called before the first step of a change that must not stop halfway for lack of
    /// space. The file must have no dirty content.
    pub(super) fn reserve_remapping(
        &self,
        live: &Live<'_>,
        blocks: &BlockSet,
    ) -> Result<MappingReservation> {
        self.write_back.retry_after_write_back(|| {
            let inode = live.inode()?;
            // A mapping with indirect blocks does not grow when no content blocks are added.
            let has_extents = inode.flags().contains(InodeFlags::EXTENTS);
            let clusters = if has_extents {
                need_of(self.fs(), &inode, blocks, None).mapping
            } else {
                0
            };
            let privilege = Privilege::Remapping;
            Ok(self.fs().reserve_for_mapping(clusters, privilege)?)
        })
    }

    fn try_reserve(&self, live: &Live<'_>, blocks: Range<u64>, privilege: Privilege) -> Result<()> {
        let mut not_written = NotWritten::default();
        let _shared = live.lock_mapping()?;
        let (inode, covered) = {
            let mut state = live.loaded()?;
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
        let content = self.fs().reserve(need.content, privilege)?;
        let mut mapping = self.fs().reserve_for_mapping(need.mapping, privilege)?;
        let converting = self
            .fs()
            .reserve_for_mapping(to_convert, Privilege::Remapping)?;
        mapping.add(converting);
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

    /// Adds the blocks in `blocks` that are not mapped as written to `not_written`.
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
