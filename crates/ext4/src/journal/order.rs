//! The order in which a transaction's blocks are written home if there is no journal.
//!
//! # Model
//! Soft updates, with a coarse order: the blocks are written in classes, with a flush after each. A
//! durable block therefore never refers to a block that is not written yet. An entry that moves
//! from one block to another is durable in the new block, and reachable there, before it is removed
//! from the old one:
//!
//! | class | blocks | because |
//! |---|---|---|
//! | 0 | allocated in this transaction | no block that is in use refers to them yet |
//! | 1 | inode tables | they refer to class 0, and names refer to them |
//! | 2 to 7 | nodes of extent trees, the higher ones first | a split takes entries out of the lower one |
//! | 8, 9 | roots and nodes of directories' indexes | as above |
//! | 10 | all others: names, attributes, bitmaps, descriptors | e2fsck recounts what is used |
//!
//! The kind of a block is guessed from its contents if nothing else is known. A wrong guess costs a
//! flush, or changes the order of two blocks, and has no other effect.
//!
//! The allocator cooperates: blocks that a transaction frees are not used again before the
//! transaction is durable, and neither are inode numbers while others are free.
//!
//! # Cost
//! A flush for each class that has blocks: two or three for most transactions.

use super::block_map::BlockSet;
use super::home::Version;
use crate::ondisk::fields::le16;
use crate::{FsBlock, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The information about a transaction's changes that determines their order.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Blocks that were allocated.
    taken: Vec<Range<u64>>,
    /// Blocks of inode tables.
    inodes: BlockSet,
    /// Inode numbers that were freed.
    freed: BTreeSet<Ino>,
}

impl Order {
    /// Records that these blocks were allocated.
    pub(super) fn take(&mut self, blocks: Range<u64>) {
        match self.taken.last_mut() {
            Some(last) if last.end == blocks.start => last.end = blocks.end,
            _ => self.taken.push(blocks),
        }
    }

    /// Records that `block` is part of an inode table.
    pub(super) fn add_inodes(&mut self, block: FsBlock) {
        self.inodes.insert(block);
    }

    /// Records that these inode numbers were freed.
    pub(super) fn free(&mut self, inos: impl Iterator<Item = Ino>) {
        self.freed.extend(inos);
    }

    /// Returns the last of `numbers` that was freed.
    pub(super) fn last_freed(&self, numbers: Range<Ino>) -> Option<Ino> {
        self.freed.range(numbers).next_back().copied()
    }

    /// Returns the classes of `blocks`, which are sorted, in order.
    pub(super) fn classes(mut self, blocks: &[Version]) -> impl Iterator<Item = Vec<Version>> {
        self.taken.sort_unstable_by_key(|range| range.start);
        let mut classes: BTreeMap<u8, Vec<Version>> = BTreeMap::new();
        for (block, contents) in blocks {
            let class = self.class(*block, contents);
            let version = (*block, contents.clone());
            classes.entry(class).or_default().push(version);
        }
        classes.into_values()
    }

    fn class(&self, block: FsBlock, contents: &[u8]) -> u8 {
        let after = self.taken.partition_point(|range| range.start <= block.0);
        let before = after.checked_sub(1).map(|at| &self.taken[at]);
        if before.is_some_and(|range| range.contains(&block.0)) {
            0
        } else if self.inodes.contains(&block) {
            1
        } else if let Some(depth) = extent_depth(contents) {
            7 - depth
        } else {
            index_class(contents).unwrap_or(10)
        }
    }
}

/// Returns the depth of a block that looks like a node of an extent tree.
fn extent_depth(contents: &[u8]) -> Option<u8> {
    let (magic, depth) = (contents.get(..2)?, contents.get(6..8)?);
    (magic == [0x0a, 0xf3] && depth[0] <= 5 && depth[1] == 0).then_some(depth[0])
}

/// Returns the class of a block that looks like part of a directory's index. A root begins with two
/// entries that fill the block, a node with one entry that is not in use.
fn index_class(contents: &[u8]) -> Option<u8> {
    let word = |at: usize| le16(contents, at).map(usize::from);
    // 65,536 does not fit, and is written as 0 or 65,535.
    let fills = |len: usize, from: usize| len == contents.len() - from || matches!(len, 0 | 65_535);
    let is_root = contents.get(8..9)? == b"." && word(4)? == 12 && fills(word(16)?, 12);
    let is_node = contents.get(..4)? == [0; 4] && fills(word(4)?, 0) && contents[6] == 0;
    if is_root {
        Some(8)
    } else {
        is_node.then_some(9)
    }
}
