//! Reading metadata ahead: inodes, and blocks of directories.
//!
//! Model: `inode_readahead_blks` of ext4, for many inodes at once. The kernel reads blocks of an inode table
//! ahead when one of them is missing. Here a caller names the inodes and the directories that a program will
//! probably need, and all their blocks are in flight at once. This is useful for a device with a long latency,
//! such as a server.
//!
//! The functions of this module do not wait for the blocks that they read ahead, with two exceptions. If the
//! device has only blocking calls, all requests are complete before the function returns. A request that includes
//! a repaired superblock is also complete before the function returns. To locate the blocks, a function may wait
//! for group descriptors, and for the extent nodes or indirect blocks of a directory. Errors are ignored here: a later
//! read of the block reports them.

use crate::ondisk::group::GroupFlags;
use crate::{FileBlock, Filesystem, FsBlock, Ino, Inode, MappingKind};
use larder_block::Priority;
use std::collections::BTreeSet;
use std::ops::Range;

/// Inode tables are read in aligned pieces of this size. If the image is on a server, a smaller request would
/// also fetch 64 KiB.
const PIECE_BYTES: u64 = 64 << 10;
/// The maximum number of blocks of a directory that are read ahead.
const MAX_DIR_BLOCKS: u64 = 256;

impl Filesystem {
    /// Starts to read the blocks of the inode tables that contain `inos`, and the neighboring blocks in the
    /// same pieces. Reads at most `budget` frames, and subtracts the number of frames from `budget`, as
    /// [`BufferCache::start_prefetch`](larder_cache::buffer::BufferCache::start_prefetch) does.
    pub fn start_reading_inodes(
        &self,
        inos: impl IntoIterator<Item = Ino>,
        priority: Priority,
        budget: &mut usize,
    ) {
        let piece_blocks = (PIECE_BYTES >> self.superblock().block_size_log2).max(1);
        let blocks = inos.into_iter().filter_map(|ino| self.inode_block(ino));
        let pieces: BTreeSet<u64> = blocks.map(|block| block / piece_blocks).collect();
        let ranges = ranges(pieces, piece_blocks);
        self.buffers().start_prefetch(&ranges, priority, budget);
    }

    /// Returns the block that contains inode `ino`. Returns `None` if the flags of its group
    /// state that no inode is in use, if `ino` is invalid, or if the group descriptor cannot be read.
    fn inode_block(&self, ino: Ino) -> Option<u64> {
        let (desc, offset_bytes) = self.inode_table_place(ino).ok()?;
        let is_in_use = !desc.flags.contains(GroupFlags::INODE_UNINIT);
        is_in_use.then(|| desc.inode_table.0 + (offset_bytes >> self.superblock().block_size_log2))
    }

    /// Starts to read the first blocks of the directory `dir`. Reads at most `budget` frames, and subtracts the
    /// number of frames from `budget`, as
    /// [`BufferCache::start_prefetch`](larder_cache::buffer::BufferCache::start_prefetch) does. Does nothing if
    /// the first block is cached or being read.
    pub fn start_reading_dir(&self, dir: &Inode, priority: Priority, budget: &mut usize) {
        if !dir.is_directory() || dir.has_inline_data() {
            return;
        }
        let block_bytes = u64::from(self.superblock().block_size_bytes());
        let end = dir.size_bytes().div_ceil(block_bytes).min(MAX_DIR_BLOCKS);
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        let mut ranges = Vec::new();
        let mut next = 0;
        while next < end {
            let Ok(mapping) = self.map(dir, FileBlock(next), end - next) else {
                break;
            };
            if let MappingKind::Written(block) = mapping.kind {
                if next == 0 && self.buffers().contains(block.0) {
                    return;
                }
                ranges.extend(self.inside(block, mapping.blocks));
            }
            next = next.saturating_add(mapping.blocks.max(1));
        }
        self.buffers().start_prefetch(&ranges, priority, budget);
    }

    /// Returns `count` blocks from `block` on, or `None` if they are not inside the file system.
    fn inside(&self, block: FsBlock, count: u32) -> Option<Range<u64>> {
        let is_inside = self.superblock().contains_blocks(block, count.into());
        is_inside.then(|| block.0..block.0 + u64::from(count))
    }
}

/// Returns the blocks of `pieces`, which have `piece_blocks` blocks each. Adjacent pieces are one range.
fn ranges(pieces: BTreeSet<u64>, piece_blocks: u64) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for piece in pieces {
        let start = piece * piece_blocks;
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end = start + piece_blocks,
            _ => ranges.push(start..start + piece_blocks),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_pieces_are_one_range() {
        assert_eq!(ranges(BTreeSet::from([0, 2, 3]), 16), [0..16, 32..64]);
        assert_eq!(ranges(BTreeSet::new(), 16), []);
    }
}
