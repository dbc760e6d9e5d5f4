//! Changes of mappings by indirect blocks.
//!
//! An indirect block is an array of block numbers. It is allocated when its first number is set,
//! and freed when its last number is cleared.

use super::FileBlocks;
use super::change::MapChange;
use crate::ondisk::indirect::{self, DIRECT_BLOCKS, LEVELS, Path};
use crate::{Error, FileBlock, Filesystem, FsBlock, Inode, MappingKind, Result};
use std::ops::Range;
use zerocopy::little_endian::U32;

/// The number of slots in the inode for data blocks.
const DIRECT_SLOTS: usize = 12;

/// The progress of unmapping a range of file blocks from its end to its start.
struct Unmapping {
    /// The first file block to be unmapped.
    start: u64,
    /// The end of the range that is still to be unmapped.
    end: u64,
    /// The number of runs and indirect blocks that were freed.
    runs: u32,
    /// Whether unmapping has stopped because the handle has too few credits left.
    has_stopped: bool,
}

/// An indirect block: its location, its level (1 if its numbers refer to data blocks), and the
/// first file block that it maps.
#[derive(Clone, Copy)]
struct IndirectBlock {
    block: FsBlock,
    level: u32,
    first: u64,
}

impl Filesystem {
    /// Returns the binary logarithm of the number of block numbers that fit into a block.
    pub(super) fn numbers_log2(&self) -> u32 {
        u32::from(self.superblock().block_size_log2) - 2
    }

    /// Returns the block numbers in `block`, an indirect block of `inode`.
    fn numbers_in(&self, block: FsBlock, inode: &Inode) -> Result<Vec<U32>> {
        let buffer = self.metadata_block(block, inode.ino(), |_| Ok(()))?;
        Ok(indirect::numbers(&buffer).to_vec())
    }

    /// Returns the preferred location of the file block `start`, based on the blocks that are
    /// mapped before it.
    pub(super) fn goal_by_indirect(
        &self,
        inode: &Inode,
        start: FileBlock,
    ) -> Result<Option<FsBlock>> {
        if let Some(before) = start.0.checked_sub(1)
            && let MappingKind::Written(block) = self.map(inode, FileBlock(before), 1)?.kind
        {
            return Ok(Some(FsBlock(block.0 + 1)));
        }
        let Some(path) = Path::to(start, self.numbers_log2()) else {
            return Ok(None);
        };
        let (mut numbers, mut slot) = (indirect::numbers(inode.i_block()).to_vec(), path.slot);
        for level in (1..=path.levels).rev() {
            match numbers.get(slot).map_or(0, |number| number.get()) {
                0 => break,
                block => {
                    numbers = self.numbers_in(FsBlock(block.into()), inode)?;
                    slot = path.index(level, self.numbers_log2());
                }
            }
        }
        let before = numbers.get(..slot).unwrap_or_default();
        let last = before.iter().rposition(|&number| number != U32::ZERO);
        Ok(last.map(|last| FsBlock(u64::from(before[last]) + (slot - last) as u64)))
    }
}

impl MapChange<'_, '_> {
    /// Maps the file blocks from `start` on, which must be a hole.
    pub(super) fn insert_indirect(
        &mut self,
        start: FileBlock,
        (block, blocks): (FsBlock, u32),
    ) -> Result<()> {
        let ino = self.inode.ino();
        let mut number = u32::try_from(block.0).map_err(|_| Error::NoSpace)?;
        if number.checked_add(blocks).is_none() {
            return Err(Error::NoSpace);
        }
        let (mut at, mut left) = (start.0, blocks);
        while left > 0 {
            let path =
                Path::to(FileBlock(at), self.fs.numbers_log2()).ok_or(Error::FileTooLarge(ino))?;
            let done = if path.levels == 0 {
                let mut bytes = *self.inode.i_block();
                let direct = indirect::numbers_mut(&mut bytes)
                    .get_mut(path.slot..DIRECT_SLOTS)
                    .unwrap_or_default();
                let done = set_numbers(self.inode, direct, number, left)?;
                self.inode.set_i_block(&bytes);
                done
            } else {
                let (leaf, slot) = self.make_indirect_blocks(&path, FsBlock(u64::from(number)))?;
                self.handle.update(leaf, ino, |bytes| {
                    let numbers = indirect::numbers_mut(bytes).get_mut(slot..);
                    set_numbers(self.inode, numbers.unwrap_or_default(), number, left)
                })?
            };
            number += done;
            left -= done;
            if left > 0 {
                at = at.checked_add(done).ok_or(Error::FileTooLarge(ino))?;
            }
        }
        Ok(())
    }

    /// Returns the indirect block that contains the last number of `path`, and the index of that
    /// number. Allocates the indirect blocks of the path that do not exist.
    fn make_indirect_blocks(&mut self, path: &Path, near: FsBlock) -> Result<(FsBlock, usize)> {
        let mut parent = None;
        let mut slot = path.slot;
        for level in (1..=path.levels).rev() {
            let present = match parent {
                None => number_at(self.inode.i_block(), slot),
                Some(parent) => number_at(
                    &self
                        .fs
                        .metadata_block(parent, self.inode.ino(), |_| Ok(()))?,
                    slot,
                ),
            };
            let block = if present == 0 {
                let block = self.allocate_mapping_block(near)?;
                let number = u32::try_from(block.0).map_err(|_| Error::NoSpace)?;
                self.handle.create(block, self.inode.ino(), |_| Ok(()))?;
                self.set_number(parent, slot, number)?;
                block
            } else {
                FsBlock(u64::from(present))
            };
            parent = Some(block);
            slot = path.index(level, self.fs.numbers_log2());
        }
        let Some(block) = parent.filter(|&block| self.fs.superblock().contains_blocks(block, 1))
        else {
            return Err(self
                .inode
                .place()
                .corrupt("indirect block is outside the file system"));
        };
        Ok((block, slot))
    }

    /// Implements [`Filesystem::unmap`] for indirect blocks.
    pub(super) fn unmap_indirect(&mut self, blocks: FileBlocks) -> Result<FileBlocks> {
        let log2 = self.fs.numbers_log2();
        let end = blocks.end.min(indirect::blocks_max(log2));
        if end <= blocks.start {
            return Ok(blocks.start..blocks.start);
        }
        let mut unmapping = Unmapping {
            start: blocks.start,
            end,
            runs: 0,
            has_stopped: false,
        };
        for level in (1..=LEVELS).rev() {
            let first = DIRECT_BLOCKS + (1..level).map(|below| 1 << (log2 * below)).sum::<u64>();
            // The slots after the direct blocks, one for each level.
            let slot = DIRECT_SLOTS + level as usize - 1;
            let block = FsBlock(u64::from(number_at(self.inode.i_block(), slot)));
            if unmapping.end <= first || unmapping.has_stopped {
                continue;
            }
            if block.0 != 0 {
                let top = IndirectBlock {
                    block,
                    level,
                    first,
                };
                if self.unmap_below(&mut unmapping, top)? {
                    self.set_number(None, slot, 0)?;
                }
            }
            if !unmapping.has_stopped {
                unmapping.end = first.max(unmapping.start);
            }
        }
        if !unmapping.has_stopped && unmapping.start < DIRECT_BLOCKS {
            let mut bytes = *self.inode.i_block();
            let numbers = indirect::numbers_mut(&mut bytes);
            let direct = numbers.get_mut(..DIRECT_SLOTS).unwrap_or_default();
            self.unmap_runs(&mut unmapping, direct, 0)?;
            self.inode.set_i_block(&bytes);
        }
        if !unmapping.has_stopped {
            unmapping.end = unmapping.start;
        }
        Ok(unmapping.start..unmapping.end)
    }

    /// Unmaps the file blocks that the indirect block `of` maps, as far as the credits allow. If
    /// the block is then empty, frees it and returns true.
    fn unmap_below(&mut self, unmapping: &mut Unmapping, of: IndirectBlock) -> Result<bool> {
        if !self.may_free(unmapping.runs) {
            unmapping.has_stopped = true;
            return Ok(false);
        }
        let is_empty = self.unmap_in_block(unmapping, of)?;
        if is_empty {
            unmapping.runs += 1;
            self.free_mapping_block(of.block)?;
        }
        Ok(is_empty)
    }

    /// Unmaps the file blocks that the indirect block `of` maps, starting at the end. Returns
    /// whether the block is then empty.
    fn unmap_in_block(&mut self, unmapping: &mut Unmapping, of: IndirectBlock) -> Result<bool> {
        let before = self.fs.numbers_in(of.block, self.inode)?;
        let mut numbers = before.clone();
        if of.level == 1 {
            self.unmap_runs(unmapping, &mut numbers, of.first)?;
        } else {
            let below_log2 = self.fs.numbers_log2() * (of.level - 1);
            for (index, number) in numbers.iter_mut().enumerate().rev() {
                let first = of.first + ((index as u64) << below_log2);
                if unmapping.end <= first {
                    continue;
                }
                if unmapping.has_stopped || first + (1 << below_log2) <= unmapping.start {
                    break;
                }
                if *number != U32::ZERO {
                    let child = IndirectBlock {
                        block: FsBlock((*number).into()),
                        level: of.level - 1,
                        first,
                    };
                    if self.unmap_below(unmapping, child)? {
                        *number = U32::ZERO;
                    }
                }
                if !unmapping.has_stopped {
                    unmapping.end = first.max(unmapping.start);
                }
            }
        }
        if numbers.iter().all(|&number| number == U32::ZERO) {
            return Ok(true);
        }
        if numbers != before {
            self.handle.update(of.block, self.inode.ino(), |bytes| {
                indirect::numbers_mut(bytes).copy_from_slice(&numbers);
                Ok(())
            })?;
        }
        Ok(false)
    }

    /// Unmaps and frees the data blocks in `numbers`, which map the file from `first` on, if they
    /// are in the range of `unmapping` and the credits allow.
    fn unmap_runs(
        &mut self,
        unmapping: &mut Unmapping,
        numbers: &mut [U32],
        first: u64,
    ) -> Result<()> {
        let index_of = |file_block: u64| {
            usize::try_from(file_block.saturating_sub(first))
                .map_or(numbers.len(), |index| index.min(numbers.len()))
        };
        let wanted = index_of(unmapping.start)..index_of(unmapping.end);
        let mut end = wanted.end;
        let longest = usize::try_from(self.fs.superblock().blocks_per_group).unwrap_or(usize::MAX);
        while let Some(run) = last_run(numbers, wanted.start..end, longest) {
            if !self.may_free(unmapping.runs) {
                unmapping.end = first + end as u64;
                unmapping.has_stopped = true;
                return Ok(());
            }
            unmapping.runs += 1;
            let block = FsBlock(numbers[run.start].into());
            let freed = (first + run.start as u64, block, run.len() as u64);
            self.free_content(freed, |_| Ok(false))?;
            numbers[run.clone()].fill(U32::ZERO);
            end = run.start;
        }
        unmapping.end = unmapping.start.max(first);
        Ok(())
    }

    /// Sets the number `slot` in the indirect `block`, or in the inode if `block` is `None`.
    fn set_number(&mut self, block: Option<FsBlock>, slot: usize, number: u32) -> Result<()> {
        let set = |bytes: &mut [u8]| {
            if let Some(place) = indirect::numbers_mut(bytes).get_mut(slot) {
                place.set(number);
            }
        };
        if let Some(block) = block {
            return self.handle.update(block, self.inode.ino(), |bytes| {
                set(bytes);
                Ok(())
            });
        }
        let mut bytes = *self.inode.i_block();
        set(&mut bytes);
        self.inode.set_i_block(&bytes);
        Ok(())
    }
}

/// Returns the last run of consecutive numbers in `wanted`. If it is longer than `longest`, returns
/// its last `longest` numbers.
fn last_run(numbers: &[U32], wanted: Range<usize>, longest: usize) -> Option<Range<usize>> {
    let inside = numbers.get(wanted.clone())?;
    let last = inside.iter().rposition(|&number| number != U32::ZERO)?;
    let follows = |at: &usize| {
        let before = inside[at - 1].get();
        before != 0 && before.checked_add(1) == Some(inside[*at].get())
    };
    let before = (1..=last)
        .rev()
        .take(longest.saturating_sub(1))
        .take_while(follows);
    let start = last - before.count();
    Some(wanted.start + start..wanted.start + last + 1)
}

/// Sets the first `count` of `numbers`, or all if there are fewer, to consecutive values starting
/// at `first`. Before the call, these numbers must be 0. Returns how many were set.
fn set_numbers(inode: &Inode, numbers: &mut [U32], first: u32, count: u32) -> Result<u32> {
    let mut done = 0;
    for (place, number) in numbers.iter_mut().zip(first..first + count) {
        if place.get() != 0 {
            return Err(Error::Invalid(inode.ino(), "blocks are already mapped"));
        }
        place.set(number);
        done += 1;
    }
    Ok(done)
}

fn number_at(bytes: &[u8], slot: usize) -> u32 {
    indirect::numbers(bytes)
        .get(slot)
        .map_or(0, |number| number.get())
}
