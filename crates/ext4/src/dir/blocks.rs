//! Reading the blocks of a directory: location, verification and readahead.

use crate::error::{DamageAt, Place};
use crate::ondisk::dir::split_tail;
use crate::ondisk::dx::{DxKind, DxNode};
use crate::{FileBlock, Filesystem, FsBlock, Inode, MappingKind, Result};
use larder_cache::buffer::Buffer;

/// The number of directory blocks in the first readahead.
const FIRST_READAHEAD_BLOCKS: u32 = 4;
/// The maximum number of directory blocks that are read ahead together.
const MAX_READAHEAD_BLOCKS: u32 = 64;

impl Filesystem {
    /// Returns the block `index` of the directory `dir`, or `None` if it is a hole.
    pub(crate) fn dir_block(
        &self,
        dir: &Inode,
        index: u32,
        verify: impl FnOnce(&[u8], Place) -> Result<()>,
    ) -> Result<Option<(FsBlock, Buffer<'_>)>> {
        match self.map(dir, FileBlock(index), 1)?.kind {
            MappingKind::Written(block) => {
                let place = Place::Block(block, dir.ino());
                let buffer = self.metadata_block(block, dir.ino(), |bytes| verify(bytes, place))?;
                Ok(Some((block, buffer)))
            }
            MappingKind::Hole | MappingKind::Unwritten(_) => Ok(None),
        }
    }

    /// Returns the block `index` of the directory `dir` after verifying its checksum, or `None` if
    /// it is a hole.
    pub(crate) fn checked_dir_block(
        &self,
        dir: &Inode,
        index: u32,
    ) -> Result<Option<(FsBlock, Buffer<'_>)>> {
        self.dir_block(dir, index, |bytes, place| {
            self.verify_dir_block(dir, bytes, place)
        })
    }

    /// Verifies the checksum of a block of `dir`, which contains either entries or a node of the
    /// hash tree.
    fn verify_dir_block(&self, dir: &Inode, block: &[u8], place: Place) -> Result<()> {
        let Some(seed) = self.inode_seed(dir) else {
            return Ok(());
        };
        let Some(kind) = DxKind::of(block) else {
            let Some((covered, checksum)) = split_tail(block) else {
                return Err(place.corrupt("directory block has no checksum"));
            };
            return check(seed.bytes(covered).0, checksum, place);
        };
        let node = DxNode::parse(block, kind, true).at(place)?;
        self.verify_dx_node(dir, &node, place)
    }

    /// Verifies the checksum of a node of `dir`'s hash tree, and the order of its entries.
    pub(crate) fn verify_dx_node(
        &self,
        dir: &Inode,
        node: &DxNode<'_>,
        place: Place,
    ) -> Result<()> {
        if let Some(seed) = self.inode_seed(dir) {
            let Some((computed, stored)) = node.checksum(seed) else {
                return Err(place.corrupt("node of the hash tree has no checksum"));
            };
            check(computed, stored, place)?;
        }
        place.ensure(node.is_sorted(), "hashes of the hash tree are out of order")?;
        Ok(())
    }
}

fn check(computed: u32, stored: u32, place: Place) -> Result<()> {
    if computed == stored {
        Ok(())
    } else {
        Err(place.corrupt("checksum of the directory block is wrong"))
    }
}

/// An iterator over the blocks of a directory, in order, which skips holes and reads ahead.
///
/// After an error of the mapping, the iterator ends, because the locations of the following blocks
/// are unknown. After an error of a block, it continues with the next block.
pub(super) struct DirBlocks<'f> {
    fs: &'f Filesystem,
    dir: Inode,
    next: u64,
    end: u64,
    /// The mapping of the next run of blocks, if it is known: the number of blocks from `next` on,
    /// and the location of the first block.
    run: Option<(u32, FsBlock)>,
    /// The number of blocks from `next` on that have already been read ahead.
    ahead: u32,
    /// The number of blocks of the next readahead.
    ahead_window: u32,
}

impl<'f> DirBlocks<'f> {
    pub(super) fn new(fs: &'f Filesystem, dir: Inode, first: u64) -> Self {
        let block_size_bytes = u64::from(fs.superblock().block_size_bytes());
        Self {
            fs,
            dir,
            next: first,
            end: dir.size_bytes().div_ceil(block_size_bytes),
            run: None,
            ahead: 0,
            ahead_window: FIRST_READAHEAD_BLOCKS,
        }
    }

    /// Advances `next` to the next mapped block, and returns the run of blocks that starts there,
    /// or `None` at the end of the directory.
    fn find_run(&mut self) -> Result<Option<(u32, FsBlock)>> {
        while self.next < self.end {
            if let Some(run) = self.run {
                return Ok(Some(run));
            }
            let Ok(start) = u32::try_from(self.next) else {
                break;
            };
            let left = u32::try_from(self.end - self.next).unwrap_or(u32::MAX);
            let mapping = self.fs.map(&self.dir, FileBlock(start), left)?;
            match mapping.kind {
                MappingKind::Written(block) => {
                    self.run = Some((mapping.blocks, block));
                    self.ahead = 0;
                }
                MappingKind::Hole | MappingKind::Unwritten(_) => {
                    self.next += u64::from(mapping.blocks.max(1));
                }
            }
        }
        Ok(None)
    }

    /// Returns the next block: its number in the directory, its location and its contents.
    pub(super) fn next(&mut self) -> Option<(u64, Result<(FsBlock, Buffer<'f>)>)> {
        let index = self.next;
        let (blocks, block) = match self.find_run() {
            Ok(Some(run)) => run,
            Ok(None) => return None,
            Err(error) => {
                self.next = self.end;
                return Some((index, Err(error)));
            }
        };
        let index = self.next;
        if self.ahead == 0 {
            self.ahead = blocks.min(self.ahead_window);
            self.ahead_window = (self.ahead_window * 2).min(MAX_READAHEAD_BLOCKS);
            if self.ahead > 1 {
                self.fs.prefetch(block, self.ahead);
            }
        }
        self.ahead -= 1;
        self.next += 1;
        self.run = (blocks > 1).then(|| (blocks - 1, FsBlock(block.0 + 1)));
        let (fs, dir) = (self.fs, self.dir);
        let buffer = fs.metadata_block(block, dir.ino(), |bytes| {
            fs.verify_dir_block(&dir, bytes, Place::Block(block, dir.ino()))
        });
        Some((index, buffer.map(|buffer| (block, buffer))))
    }
}
