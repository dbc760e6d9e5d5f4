//! Changes of trees of indirect blocks.
//!
//! A block of numbers is made when the first of them is set, and freed when the last is cleared.

use super::FileBlocks;
use crate::journal::Handle;
use crate::ondisk::indirect::{self, DIRECT_BLOCKS, LEVELS, Path};
use crate::{Error, FileBlock, Filesystem, FsBlock, Inode, MappingKind, Result};
use std::ops::Range;
use zerocopy::little_endian::U32;

/// Numbers in the inode that lead to data blocks.
const DIRECT_SLOTS: usize = 12;

/// A hole being made, from its end on.
struct Cut {
    /// First block to be unmapped.
    start: u64,
    /// From here on it is done.
    end: u64,
    /// Runs that were freed, and blocks of numbers.
    runs: u32,
    /// The handle can free no more.
    has_stopped: bool,
}

/// A block of numbers: where it lies, its level (1: numbers of data blocks), and the
/// first block of the file below it.
#[derive(Clone, Copy)]
struct Numbers {
    block: FsBlock,
    level: u32,
    first: u64,
}

impl Filesystem {
    /// Numbers in a block, as a binary logarithm.
    pub(super) fn numbers_log2(&self) -> u32 {
        u32::from(self.superblock().block_size_log2) - 2
    }

    /// Maps a hole of the file from `start` on.
    pub(super) fn insert_numbers(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        start: FileBlock,
        (block, blocks): (FsBlock, u32),
    ) -> Result<()> {
        let ino = inode.ino();
        let mut number = u32::try_from(block.0).map_err(|_| Error::NoSpace)?;
        if number.checked_add(blocks).is_none() {
            return Err(Error::NoSpace);
        }
        let (mut at, mut left) = (start.0, blocks);
        while left > 0 {
            let path =
                Path::to(FileBlock(at), self.numbers_log2()).ok_or(Error::FileTooLarge(ino))?;
            let done = if path.levels == 0 {
                let mut bytes = *inode.i_block();
                let direct = indirect::numbers_mut(&mut bytes)
                    .get_mut(path.slot..DIRECT_SLOTS)
                    .unwrap_or_default();
                let done = set_numbers(inode, direct, number, left)?;
                inode.set_i_block(&bytes);
                done
            } else {
                let (leaf, slot) =
                    self.make_numbers(handle, inode, &path, FsBlock(u64::from(number)))?;
                handle.update(leaf, ino, |bytes| {
                    let numbers = indirect::numbers_mut(bytes).get_mut(slot..);
                    set_numbers(inode, numbers.unwrap_or_default(), number, left)
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

    /// The block that holds the number that `path` leads to, and which of its numbers that is.
    /// Blocks on the way that are missing are made.
    fn make_numbers(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        path: &Path,
        near: FsBlock,
    ) -> Result<(FsBlock, usize)> {
        let mut parent = None;
        let mut slot = path.slot;
        for level in (1..=path.levels).rev() {
            let present = match parent {
                None => number_at(inode.i_block(), slot),
                Some(parent) => {
                    number_at(&self.metadata_block(parent, inode.ino(), |_| Ok(()))?, slot)
                }
            };
            let block = if present == 0 {
                let block = self.allocate_mapping_block(handle, inode, near)?;
                let number = u32::try_from(block.0).map_err(|_| Error::NoSpace)?;
                handle.create(block, inode.ino(), |_| Ok(()))?;
                set_number(handle, inode, parent, slot, number)?;
                block
            } else {
                FsBlock(u64::from(present))
            };
            parent = Some(block);
            let index = path.offset >> (self.numbers_log2() * (level - 1));
            let mask = (1 << self.numbers_log2()) - 1;
            slot = usize::try_from(index & mask).unwrap_or(usize::MAX);
        }
        let Some(block) = parent.filter(|&block| self.superblock().contains_blocks(block, 1))
        else {
            return Err(inode
                .place()
                .corrupt("block of numbers lies outside the file system"));
        };
        Ok((block, slot))
    }

    /// [`Filesystem::unmap`] of indirect blocks.
    pub(super) fn unmap_numbers(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        blocks: FileBlocks,
    ) -> Result<FileBlocks> {
        let log2 = self.numbers_log2();
        let end = blocks.end.min(indirect::blocks_max(log2));
        if end <= blocks.start {
            return Ok(blocks.start..blocks.start);
        }
        let mut cut = Cut {
            start: blocks.start,
            end,
            runs: 0,
            has_stopped: false,
        };
        for level in (1..=LEVELS).rev() {
            let first = DIRECT_BLOCKS + (1..level).map(|below| 1 << (log2 * below)).sum::<u64>();
            // The slots behind the direct blocks, one for each level.
            let slot = DIRECT_SLOTS + level as usize - 1;
            let block = FsBlock(u64::from(number_at(inode.i_block(), slot)));
            if cut.end <= first || cut.has_stopped {
                continue;
            }
            if block.0 != 0 {
                let top = Numbers {
                    block,
                    level,
                    first,
                };
                if self.cut_below(handle, inode, &mut cut, top)? {
                    set_number(handle, inode, None, slot, 0)?;
                }
            }
            if !cut.has_stopped {
                cut.end = first.max(cut.start);
            }
        }
        if !cut.has_stopped && cut.start < DIRECT_BLOCKS {
            let mut numbers = decode(inode.i_block());
            let direct = numbers.get_mut(..DIRECT_SLOTS).unwrap_or_default();
            self.cut_runs(handle, inode, &mut cut, direct, 0)?;
            let mut bytes = *inode.i_block();
            encode(&mut bytes, &numbers);
            inode.set_i_block(&bytes);
        }
        if !cut.has_stopped {
            cut.end = cut.start;
        }
        Ok(cut.start..cut.end)
    }

    /// Cuts what is below a block of numbers, and frees the block if it is empty then, which is
    /// true; as far as credits reach.
    fn cut_below(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        cut: &mut Cut,
        of: Numbers,
    ) -> Result<bool> {
        if !self.may_free(handle, inode, cut.runs) {
            cut.has_stopped = true;
            return Ok(false);
        }
        let is_empty = self.cut_numbers(handle, inode, cut, of)?;
        if is_empty {
            cut.runs += 1;
            self.free_mapping_block(handle, inode, of.block)?;
        }
        Ok(is_empty)
    }

    /// Cuts what is below a block of numbers, from the end on. True if the block is empty then.
    fn cut_numbers(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        cut: &mut Cut,
        of: Numbers,
    ) -> Result<bool> {
        let before = decode(&self.metadata_block(of.block, inode.ino(), |_| Ok(()))?);
        let mut numbers = before.clone();
        if of.level == 1 {
            self.cut_runs(handle, inode, cut, &mut numbers, of.first)?;
        } else {
            let below_log2 = self.numbers_log2() * (of.level - 1);
            for (index, number) in numbers.iter_mut().enumerate().rev() {
                let first = of.first + ((index as u64) << below_log2);
                if cut.end <= first {
                    continue;
                }
                if cut.has_stopped || first + (1 << below_log2) <= cut.start {
                    break;
                }
                if *number != 0 {
                    let block = FsBlock(u64::from(*number));
                    let child = Numbers {
                        block,
                        level: of.level - 1,
                        first,
                    };
                    if self.cut_below(handle, inode, cut, child)? {
                        *number = 0;
                    }
                }
                if !cut.has_stopped {
                    cut.end = first.max(cut.start);
                }
            }
        }
        if numbers.iter().all(|&number| number == 0) {
            return Ok(true);
        }
        if numbers != before {
            handle.update(of.block, inode.ino(), |bytes| {
                encode(bytes, &numbers);
                Ok(())
            })?;
        }
        Ok(false)
    }

    /// Frees the data blocks in `numbers`, those of the file from `first` on, as far as they
    /// are to be cut and credits reach.
    fn cut_runs(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        cut: &mut Cut,
        numbers: &mut [u32],
        first: u64,
    ) -> Result<()> {
        let index_of = |file_block: u64| {
            usize::try_from(file_block.saturating_sub(first))
                .map_or(numbers.len(), |index| index.min(numbers.len()))
        };
        let wanted = index_of(cut.start)..index_of(cut.end);
        let mut end = wanted.end;
        let longest = usize::try_from(self.superblock().blocks_per_group).unwrap_or(usize::MAX);
        while let Some(run) = last_run(numbers, wanted.start..end, longest) {
            if !self.may_free(handle, inode, cut.runs) {
                cut.end = first + end as u64;
                cut.has_stopped = true;
                return Ok(());
            }
            cut.runs += 1;
            let Some(block) = numbers
                .get(run.start)
                .map(|&number| FsBlock(u64::from(number)))
            else {
                break;
            };
            let freed = (first + run.start as u64, block, run.len() as u64);
            self.free_content(handle, inode, freed, |_| Ok(false))?;
            numbers.get_mut(run.clone()).unwrap_or_default().fill(0);
            end = run.start;
        }
        cut.end = cut.start.max(first);
        Ok(())
    }

    /// Where the block of the file at `start` should lie, by what is mapped before it.
    pub(super) fn goal_by_numbers(
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
        let (mut numbers, mut slot) = (decode(inode.i_block()), path.slot);
        for level in (1..=path.levels).rev() {
            match numbers.get(slot).copied().unwrap_or(0) {
                0 => break,
                block => {
                    let block = FsBlock(u64::from(block));
                    numbers = decode(&self.metadata_block(block, inode.ino(), |_| Ok(()))?);
                    let index = path.offset >> (self.numbers_log2() * (level - 1));
                    let mask = (1 << self.numbers_log2()) - 1;
                    slot = usize::try_from(index & mask).unwrap_or(0);
                }
            }
        }
        let before = numbers.get(..slot).unwrap_or_default();
        let last = before.iter().rposition(|&number| number != 0);
        Ok(last.and_then(|last| {
            let distance = (slot - last) as u64;
            let number = u64::from(*before.get(last)?);
            Some(FsBlock(number + distance))
        }))
    }
}

/// Sets a number in `block`, or in the inode.
fn set_number(
    handle: &mut Handle<'_>,
    inode: &mut Inode,
    block: Option<FsBlock>,
    slot: usize,
    number: u32,
) -> Result<()> {
    let set = |bytes: &mut [u8]| {
        if let Some(place) = indirect::numbers_mut(bytes).get_mut(slot) {
            place.set(number);
        }
    };
    if let Some(block) = block {
        return handle.update(block, inode.ino(), |bytes| {
            set(bytes);
            Ok(())
        });
    }
    let mut bytes = *inode.i_block();
    set(&mut bytes);
    inode.set_i_block(&bytes);
    Ok(())
}

/// The last run in `wanted` of numbers that follow each other, cut off from the front
/// at `longest`.
fn last_run(numbers: &[u32], wanted: Range<usize>, longest: usize) -> Option<Range<usize>> {
    let inside = numbers.get(wanted.clone())?;
    let last = wanted.start + inside.iter().rposition(|&number| number != 0)?;
    let mut start = last;
    while start > wanted.start && last - start + 1 < longest {
        let (Some(&before), Some(&here)) = (numbers.get(start - 1), numbers.get(start)) else {
            break;
        };
        if before == 0 || before.checked_add(1) != Some(here) {
            break;
        }
        start -= 1;
    }
    Some(start..last + 1)
}

/// Sets `numbers`, all zero before, from the first on to those from `first` on; at most `count`.
/// Returns how many.
fn set_numbers(inode: &Inode, numbers: &mut [U32], first: u32, count: u32) -> Result<u32> {
    let mut done = 0;
    for (place, number) in numbers.iter_mut().zip(first..first + count) {
        if place.get() != 0 {
            return Err(Error::Invalid(inode.ino(), "blocks are mapped already"));
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

fn decode(bytes: &[u8]) -> Vec<u32> {
    indirect::numbers(bytes)
        .iter()
        .map(|number| number.get())
        .collect()
}

fn encode(bytes: &mut [u8], numbers: &[u32]) {
    for (place, number) in indirect::numbers_mut(bytes).iter_mut().zip(numbers) {
        place.set(*number);
    }
}
