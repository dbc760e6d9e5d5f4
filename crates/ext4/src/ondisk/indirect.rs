//! Indirect blocks, which map files without extents.
//!
//! The inode has 15 block numbers: those of 12 data blocks, and of one indirect, one double-indirect and one
//! triple-indirect block. The number 0 means a hole.

use crate::{FileBlock, FsBlock};
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

/// The number of data blocks whose numbers are stored in the inode.
pub const DIRECT_BLOCKS: u64 = 12;

/// The number of levels of indirect blocks below the inode.
pub const LEVELS: u32 = 3;

/// The path from the inode to the number of the block to which a file block is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The index of the first number on the path, among the inode's 15 numbers.
    pub slot: usize,
    /// The number of indirect blocks on the path: 0 for a data block whose number is in the inode.
    pub levels: u32,
    /// The file block, counted from the first file block that the number in `slot` maps.
    pub offset: u64,
}

impl Path {
    /// Returns the path to `target` if indirect blocks hold `1 << numbers_log2` numbers. Returns
    /// `None` if `target` is past the last file block that can be mapped.
    #[must_use]
    pub fn to(target: FileBlock, numbers_log2: u32) -> Option<Self> {
        let target = u64::from(target.0);
        if target < DIRECT_BLOCKS {
            return Some(Self {
                slot: usize::try_from(target).ok()?,
                levels: 0,
                offset: 0,
            });
        }
        let mut offset = target - DIRECT_BLOCKS;
        for levels in 1..=LEVELS {
            let span = 1 << (numbers_log2 * levels);
            if offset < span {
                let slot = DIRECT_BLOCKS + u64::from(levels) - 1;
                return Some(Self {
                    slot: usize::try_from(slot).ok()?,
                    levels,
                    offset,
                });
            }
            offset -= span;
        }
        None
    }

    /// Returns the index of the path's number in the indirect block that is `level` levels above
    /// the data.
    pub(crate) fn index(&self, level: u32, numbers_log2: u32) -> usize {
        let index = self.offset >> (numbers_log2 * (level - 1));
        usize::try_from(index & ((1 << numbers_log2) - 1)).unwrap_or(usize::MAX)
    }
}

/// Returns the block numbers in `bytes`, which are an indirect block or the inode's numbers.
#[must_use]
pub fn numbers(bytes: &[u8]) -> &[U32] {
    let count = bytes.len() / size_of::<U32>();
    <[U32]>::ref_from_prefix_with_elems(bytes, count).map_or(&[], |(numbers, _)| numbers)
}

/// Returns the block numbers in `bytes` for modification.
pub(crate) fn numbers_mut(bytes: &mut [u8]) -> &mut [U32] {
    let count = bytes.len() / size_of::<U32>();
    <[U32]>::mut_from_prefix_with_elems(bytes, count).map_or(&mut [], |(numbers, _)| numbers)
}

/// Returns how many file blocks can be mapped if indirect blocks hold `1 << numbers_log2` numbers.
pub(crate) fn blocks_max(numbers_log2: u32) -> u64 {
    DIRECT_BLOCKS
        + (1..=LEVELS)
            .map(|levels| 1 << (numbers_log2 * levels))
            .sum::<u64>()
}

/// Returns the number of indirect blocks of a file whose first `blocks` file blocks are mapped.
pub(crate) fn mapping_blocks(blocks: u64, numbers_log2: u32) -> u64 {
    let mut left = blocks.saturating_sub(DIRECT_BLOCKS);
    let mut count = 0;
    for levels in 1..=LEVELS {
        let below = left.min(1 << (numbers_log2 * levels));
        count += (1..=levels)
            .map(|level| below.div_ceil(1 << (numbers_log2 * level)))
            .sum::<u64>();
        left -= below;
    }
    count
}

/// Returns the run at the start of `numbers`: its first block, or `None` for a hole, and its length
/// in blocks.
#[must_use]
pub fn run(numbers: &[U32]) -> (Option<FsBlock>, usize) {
    let Some(first) = numbers.first().map(|number| number.get()) else {
        return (None, 0);
    };
    if first == 0 {
        let holes = numbers.iter().take_while(|number| number.get() == 0);
        return (None, holes.count());
    }
    let expected = u64::from(first)..;
    let followers = numbers.iter().zip(expected);
    let run = followers.take_while(|(number, block)| u64::from(number.get()) == *block);
    (Some(FsBlock(u64::from(first))), run.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_at_the_bounds_of_each_level_is_exact() {
        // 256 numbers per block: blocks of 1 KiB.
        let table = [
            (0, Some((0, 0, 0))),
            (11, Some((11, 0, 0))),
            (12, Some((12, 1, 0))),
            (267, Some((12, 1, 255))),
            (268, Some((13, 2, 0))),
            (65803, Some((13, 2, 65535))),
            (65804, Some((14, 3, 0))),
            (16_843_019, Some((14, 3, 16_777_215))),
            (16_843_020, None),
        ];
        for (target, expected) in table {
            let path = Path::to(FileBlock(target), 8);
            let found = path.map(|path| (path.slot, path.levels, path.offset));
            assert_eq!(found, expected, "block {target}");
        }
        assert!(Path::to(FileBlock(u32::MAX), 14).is_some());
    }

    #[test]
    fn blocks_of_a_full_tree_are_counted() {
        assert_eq!(blocks_max(8), 16_843_020);
        let all = 1 + (1 + 256) + (1 + 256 + 65_536);
        assert_eq!(mapping_blocks(blocks_max(8), 8), all);
        let table = [(0, 0), (12, 0), (13, 1), (268, 1), (269, 3), (525, 4)];
        for (blocks, count) in table {
            assert_eq!(mapping_blocks(blocks, 8), count, "{blocks} blocks");
        }
    }

    #[test]
    fn run_of_holes_and_of_consecutive_blocks_is_counted() {
        let of = |values: &[u32]| {
            let values: Vec<U32> = values.iter().map(|&value| U32::new(value)).collect();
            run(&values)
        };
        assert_eq!(of(&[]), (None, 0));
        assert_eq!(of(&[0, 0, 5]), (None, 2));
        assert_eq!(of(&[5, 6, 7, 9]), (Some(FsBlock(5)), 3));
        assert_eq!(of(&[u32::MAX, 0]), (Some(FsBlock(u64::from(u32::MAX))), 1));
    }
}
