//! The order in which a commit writes a transaction's blocks if there is no journal.
//!
//! # Model
//! Soft updates, with a coarse order: the blocks are written in classes, with a flush after each class.
//! Therefore a block that can be reached after a power cut refers only to durable blocks. There is one
//! exception: a name can become reachable before the inode of its file is durable. This can happen if the
//! name is in a new block of the directory (class 0), and the inodes of the directory and of the file are in
//! different blocks. Both of these blocks have class 1, so they are written in any order. If the inode of the
//! directory is written first, it makes the new block reachable, and with it the name.
//!
//! An entry that moves to another block is durable and reachable there before it is removed from the old
//! block. There are two exceptions, in which the old block can be written first: a rename whose old and new
//! names are in different blocks, and a split of an index node whose parent is not the root (feature
//! `large_dir`).
//!
//! | class | blocks | reason |
//! |---|---|---|
//! | 0 | blocks allocated in this transaction | no durable block refers to them yet |
//! | 1 | blocks of inode tables | they refer to blocks of class 0, and names refer to them |
//! | 2 to 7 | nodes of extent trees, nodes nearer to the root first | a split moves entries to a new node; the upper node must refer to it before the lower node loses them |
//! | 8 | roots of directory indexes | as for extent trees |
//! | 9 | nodes of directory indexes | as for extent trees, with leaves as the lower nodes |
//! | 10 | all other blocks: names, attributes, indirect blocks, bitmaps and descriptors | names refer to inodes; indirect blocks refer to blocks of class 0; e2fsck can rebuild bitmaps and descriptors |
//!
//! Classes 2 to 10 are guessed from the contents of the blocks. A node never gets a later class than the
//! table says. A block that only resembles a node may get an earlier class. For example, without
//! `metadata_csum`, a leaf whose only entry was removed gets class 9. The block is then written earlier. This
//! may cost a flush. If a rename removed the entry, the old name may be removed on the device before the new name is
//! written.
//!
//! Until a transaction is durable, the allocator does not reuse the blocks that the transaction freed. In each
//! group, it skips all inode numbers up to the highest one that the running transaction freed. It uses them only
//! if no group has another free number.
//!
//! # Cost
//! Each class that has blocks costs a flush: most transactions need two or three flushes.

use super::block_map::BlockSet;
use super::home::Version;
use crate::ondisk::fields::le16;
use crate::{FsBlock, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Information about a transaction's changes: for the order of its writes, and for the choice of inode
/// numbers.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The blocks that the transaction allocated.
    taken: Vec<Range<u64>>,
    /// The changed blocks of inode tables.
    inodes: BlockSet,
    /// The inode numbers that the transaction freed.
    freed: BTreeSet<Ino>,
}

impl Order {
    /// Records that the transaction allocated `blocks`.
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

    /// Records that the transaction freed these inode numbers.
    pub(super) fn free(&mut self, inos: impl Iterator<Item = Ino>) {
        self.freed.extend(inos);
    }

    /// Returns the highest of `numbers` that the transaction freed.
    pub(super) fn last_freed(&self, numbers: Range<Ino>) -> Option<Ino> {
        self.freed.range(numbers).next_back().copied()
    }

    /// Divides `blocks`, which must be sorted, into classes, and returns the classes in the order
    /// of writing.
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

/// Returns the depth in the header of a block that looks like a node of an extent tree, else
/// `None`.
fn extent_depth(contents: &[u8]) -> Option<u8> {
    let (magic, depth) = (contents.get(..2)?, contents.get(6..8)?);
    (magic == [0x0a, 0xf3] && depth[0] <= 5 && depth[1] == 0).then_some(depth[0])
}

/// Returns the class of a block that looks like part of a directory's index, else `None`. A root
/// begins with two entries, which together have the length of the block. A node begins with one
/// unused entry of that length.
fn index_class(contents: &[u8]) -> Option<u8> {
    let word = |at: usize| le16(contents, at).map(usize::from);
    // The length of an entry that fills a block of 65,536 bytes is stored as 0 or 65,535.
    let fills = |len: usize, from: usize| len == contents.len() - from || matches!(len, 0 | 65_535);
    let is_root = contents.get(8..9)? == b"." && word(4)? == 12 && fills(word(16)?, 12);
    let is_node = contents.get(..4)? == [0; 4] && fills(word(4)?, 0) && contents[6] == 0;
    if is_root {
        Some(8)
    } else {
        is_node.then_some(9)
    }
}
