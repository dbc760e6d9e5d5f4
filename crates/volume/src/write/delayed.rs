//! Space for delayed blocks: promised before a block that is mapped to nothing becomes dirty, so that
//! write-back cannot lack it.
//!
//! Model: `ext4_da_reserve_space`. Different from it, the blocks that the mapping will need at worst
//! are promised too, where Linux relies on a part of the file system that it keeps back,
//! and on a file with indirect blocks on luck. What was promised too much comes back when the
//! file is written back: a write that finds no space writes everything back, and asks once more.
//!
//! # Invariants
//! 1. What is delayed has a promise, but while its write-back has claimed it.
//! 2. What a writer is about to make delayed ([`Dirty::expected`]) has one too.
//! 3. What is dirty and has a place without content ([`Dirty::converting`]) has one for the mapping.

use crate::Result;
use crate::dirty::{BlockSet, Dirty};
use crate::live::Live;
use crate::read::Reader;
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::{FileBlock, Inode, MappingKind, MappingLevel, MappingReservation, Reservation};
use std::ops::Range;

/// What is promised for some blocks, in clusters.
#[derive(Clone, Copy, Debug, Default)]
struct Need {
    content: u64,
    mapping: u64,
}

/// Blocks that are not mapped to content.
#[derive(Debug, Default)]
struct Lacking {
    /// Mapped to nothing.
    holes: BlockSet,
    /// Mapped to blocks that hold none.
    unwritten: BlockSet,
}

impl Reader {
    /// As [`Reader::reserve_holes`], to as many of `blocks` from the first on as there is space for;
    /// returns where those end.
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

    /// Promises space to those of `blocks` that have none, mapped or promised, or to none of them:
    /// they are expected to become delayed. With `rw` held exclusively, and `writeback` not.
    pub(super) fn reserve_holes(&self, live: &Live<'_>, blocks: Range<u64>) -> Result<()> {
        self.while_room_is_made(|| self.try_reserve(live, blocks.clone()))
    }

    /// Promises space for the content of those of `blocks` that are mapped to nothing, to somebody
    /// who gives them blocks at once. The file has nothing dirty.
    pub(super) fn reserve_content(
        &self,
        live: &Live<'_>,
        blocks: Range<u64>,
    ) -> Result<Reservation> {
        self.while_room_is_made(|| {
            let mut lacking = Lacking::default();
            let inode = live.inode()?;
            self.find_lacking(&inode, blocks.clone(), &mut lacking)?;
            let need = self.need_of(&inode, &lacking.holes, None);
            Ok(self.fs.reserve(need.content, false)?)
        })
    }

    /// Promises space for the blocks that a mapping needs at worst if extents come to start at `blocks`
    /// in it, or to end before them: before the first step of a change that must not stop in the middle.
    /// The file has nothing dirty.
    pub(super) fn reserve_remapping(
        &self,
        live: &Live<'_>,
        blocks: &BlockSet,
    ) -> Result<MappingReservation> {
        self.while_room_is_made(|| {
            let inode = live.inode()?;
            // Other mappings never grow where nothing is added.
            let has_extents = inode.flags().contains(InodeFlags::EXTENTS);
            let clusters = if has_extents {
                self.need_of(&inode, blocks, None).mapping
            } else {
                0
            };
            Ok(self.fs.reserve_for_mapping(clusters, true)?)
        })
    }

    fn try_reserve(&self, live: &Live<'_>, blocks: Range<u64>) -> Result<()> {
        let mut lacking = Lacking::default();
        let _stays = live.map.read();
        let (inode, seen_to) = {
            let mut state = live.state();
            let inode = live.present_in(&mut state)?;
            let mut seen_to = BlockSet::default();
            let dirty = &state.dirty;
            for set in [&dirty.blocks, &dirty.expected, &dirty.converting] {
                for run in set.runs_in(blocks.clone()) {
                    seen_to.insert(run);
                }
            }
            (inode, seen_to)
        };
        let mut at = blocks.start;
        for run in seen_to.runs_in(blocks.clone()) {
            self.find_lacking(&inode, at..run.start, &mut lacking)?;
            at = run.end;
        }
        self.find_lacking(&inode, at..blocks.end, &mut lacking)?;
        let Lacking { holes, unwritten } = lacking;
        if holes.is_empty() && unwritten.is_empty() {
            return Ok(());
        }
        let (need, to_convert) = {
            let dirty = &live.state().dirty;
            (
                self.need_of(&inode, &holes, Some(dirty)),
                self.need_of(&inode, &unwritten, Some(dirty)).mapping,
            )
        };
        let content = self.fs.reserve(need.content, false)?;
        let mut mapping = self.fs.reserve_for_mapping(need.mapping, false)?;
        mapping.add(self.fs.reserve_for_mapping(to_convert, true)?);
        let mut state = live.state();
        let dirty = &mut state.dirty;
        match &mut dirty.reservation {
            Some(before) => before.add(content),
            None => dirty.reservation = Some(content),
        }
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

    /// Finds those of `blocks` that are not mapped to content.
    fn find_lacking(&self, inode: &Inode, blocks: Range<u64>, lacking: &mut Lacking) -> Result<()> {
        let mut at = blocks.start;
        while at < blocks.end {
            let mapping = self.mapping(inode, at..blocks.end)?;
            let end = at + u64::from(mapping.blocks);
            let run = at..end.min(blocks.end);
            match mapping.kind {
                MappingKind::Hole => lacking.holes.insert(run),
                MappingKind::Unwritten(_) => lacking.unwritten.insert(run),
                MappingKind::Written(_) => {}
            }
            at = end;
        }
        Ok(())
    }

    /// How the first of `blocks` are mapped.
    pub(crate) fn mapping(
        &self,
        inode: &Inode,
        blocks: Range<u64>,
    ) -> Result<larder_ext4::Mapping> {
        let too_large = |_| larder_ext4::Error::FileTooLarge(inode.ino());
        let start = u32::try_from(blocks.start).map_err(too_large)?;
        let most = u32::try_from(blocks.end - blocks.start).unwrap_or(u32::MAX);
        Ok(self.fs.map(inode, FileBlock(start), most)?)
    }

    /// What `blocks` of the file need, beyond what `promised` has already.
    fn need_of(&self, inode: &Inode, blocks: &BlockSet, promised: Option<&Dirty>) -> Need {
        let clusters = MappingLevel {
            first: 0,
            span_log2: self.fs.superblock().cluster_blocks_log2.into(),
        };
        let levels = self.fs.mapping_levels(inode).into_iter();
        Need {
            content: spans(clusters, blocks, promised),
            mapping: levels.map(|level| spans(level, blocks, promised)).sum(),
        }
    }
}

impl Live<'_> {
    /// The writer is done with `blocks`: what of them did not become dirty needs no space.
    pub(super) fn end_expecting(&self, blocks: Range<u64>) {
        let mut state = self.state();
        let dirty = &mut state.dirty;
        let is_in = |set: &BlockSet| set.runs_in(blocks.clone()).next().is_some();
        if !is_in(&dirty.expected) && !is_in(&dirty.converting) {
            return;
        }
        dirty.expected.remove(blocks.clone());
        let mut clean = blocks.start;
        for run in dirty.blocks.runs_in(blocks.clone()) {
            dirty.converting.remove(clean..run.start);
            clean = run.end;
        }
        dirty.converting.remove(clean..blocks.end);
        self.keep_needed(&mut state);
    }

    /// Gives up what is promised beyond what is delayed or expected to be.
    pub(crate) fn keep_needed(&self, state: &mut crate::live::LiveState) {
        let dirty = &state.dirty;
        let is_needed = [&dirty.delayed, &dirty.expected, &dirty.converting]
            .iter()
            .any(|set| !set.is_empty());
        let need = match state.loaded() {
            Some(inode) if is_needed => {
                let delayed = self.reader.need_of(&inode, &dirty.delayed, None);
                let expected = self.reader.need_of(&inode, &dirty.expected, None);
                let converting = self.reader.need_of(&inode, &dirty.converting, None);
                Need {
                    content: delayed.content + expected.content,
                    mapping: delayed.mapping + expected.mapping + converting.mapping,
                }
            }
            _ => Need::default(),
        };
        let dirty = &mut state.dirty;
        if !is_needed {
            dirty.reservation = None;
            dirty.for_mapping = None;
        }
        if let Some(reservation) = &mut dirty.reservation {
            reservation.keep(need.content);
        }
        if let Some(for_mapping) = &mut dirty.for_mapping {
            for_mapping.keep(need.mapping);
        }
    }

    /// Promises again what was claimed for delayed blocks and not mapped, and gives up what
    /// is promised beyond what is needed. With `writeback` held.
    pub(crate) fn settle_reservation(&self) {
        let mut state = self.state();
        if let Some(inode) = state.loaded() {
            let needed = self.reader.need_of(&inode, &state.dirty.delayed, None);
            let reservation = &mut state.dirty.reservation;
            let reserved = reservation.as_ref().map_or(0, Reservation::clusters);
            if reserved < needed.content
                && let Ok(again) = self.reader.fs.reserve_again(needed.content - reserved)
            {
                match reservation {
                    Some(left) => left.add(again),
                    None => *reservation = Some(again),
                }
            }
        }
        self.keep_needed(&mut state);
    }
}

/// How many spans of `level` the `blocks` touch in which nothing has a promise.
fn spans(level: MappingLevel, blocks: &BlockSet, promised: Option<&Dirty>) -> u64 {
    let MappingLevel { first, span_log2 } = level;
    let is_promised = |span: u64| {
        let start = first + (span << span_log2);
        let all = start..start + (1 << span_log2);
        promised.is_some_and(|dirty| {
            let mut sets = [&dirty.delayed, &dirty.expected, &dirty.converting].into_iter();
            sets.any(|set| set.runs_in(all.clone()).next().is_some())
        })
    };
    let mut count = 0;
    // The span behind the last that was looked at.
    let mut next = 0;
    for run in blocks.runs_in(first..u64::MAX) {
        let touched =
            ((run.start - first) >> span_log2).max(next)..((run.end - 1 - first) >> span_log2) + 1;
        next = touched.end.max(next);
        let is_apart = promised.is_none() || span_log2 == 0;
        count += if is_apart {
            // A block has no promise that it shares with others.
            touched.end.saturating_sub(touched.start)
        } else {
            touched.filter(|span| !is_promised(*span)).count() as u64
        };
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(runs: &[(u64, u64)]) -> BlockSet {
        let mut set = BlockSet::default();
        for &(start, end) in runs {
            set.insert(start..end);
        }
        set
    }

    #[test]
    fn spans_that_blocks_touch_are_counted_once() {
        let level = MappingLevel {
            first: 12,
            span_log2: 8,
        };
        assert_eq!(spans(level, &set(&[(0, 12)]), None), 0);
        assert_eq!(spans(level, &set(&[(0, 13)]), None), 1);
        assert_eq!(
            spans(level, &set(&[(20, 30), (40, 50), (267, 269)]), None),
            2
        );
        assert_eq!(spans(level, &set(&[(12, 12 + 256 * 5)]), None), 5);
    }

    #[test]
    fn span_in_which_something_is_promised_is_not_counted() {
        let level = MappingLevel {
            first: 12,
            span_log2: 8,
        };
        let mut dirty = Dirty {
            delayed: set(&[(30, 31)]),
            ..Dirty::default()
        };
        assert_eq!(spans(level, &set(&[(40, 41)]), Some(&dirty)), 0);
        assert_eq!(spans(level, &set(&[(40, 41), (300, 301)]), Some(&dirty)), 1);
        dirty.expected = set(&[(301, 302)]);
        assert_eq!(spans(level, &set(&[(40, 41), (300, 301)]), Some(&dirty)), 0);
    }
}
