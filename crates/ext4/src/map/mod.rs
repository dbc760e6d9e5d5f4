//! Mapping of file blocks to blocks of the file system, by extent trees or indirect blocks, and by
//! the mappings that fast commits logged.
//!
//! Model: the kernel's `ext4_map_blocks`, without its extent status tree. Mapping a run costs one
//! lookup in the buffer cache for each level of the tree, and callers map a whole readahead window
//! at once.
//!
//! Cost: no memory allocation; at most five metadata blocks are read for each run.

mod blocks;
mod change;
mod claim;
mod extents;
mod freeing;
mod leaf;
mod mapping;
mod tree;
pub(crate) mod write;

pub use mapping::{FileBlocks, Mapping, MappingKind};

use crate::error::{DamageAt, Place};
use crate::ondisk::extent::{self, Found, Node};
use crate::ondisk::indirect::{self, Path};
use crate::ondisk::inode::InodeFlags;
use crate::{Error, FileBlock, Filesystem, FsBlock, Inode, Result};
use larder_cache::buffer::Buffer;
use std::ops::Range;

/// The mapping of a run, and the number of its blocks before any limit is applied.
type Run = (MappingKind, u64);

impl Filesystem {
    /// Returns the mapping of a run of file blocks from `start` on, which has at most `max_blocks`
    /// blocks (0 is treated as 1). A hole extends to the next mapped block. A run of content may be
    /// shorter than the contiguous content from `start` on.
    ///
    /// # Errors
    /// [`Error::InlineData`] if the content is stored in the inode,
    /// [`Error::Corrupt`] with the damaged block, or the device's error.
    pub fn map(&self, inode: &Inode, start: FileBlock, max_blocks: u32) -> Result<Mapping> {
        let max_blocks = max_blocks.max(1);
        let first = self.map_once(inode, start, max_blocks)?;
        let mut mapping = Mapping {
            start,
            blocks: first.1,
            kind: first.0,
        };
        // A hole may continue in the next node. If the next node is corrupt, the hole ends there,
        // and the error is returned when a caller requests the blocks of that node.
        while mapping.kind == MappingKind::Hole && mapping.blocks < max_blocks {
            let Some(next) = start.0.checked_add(mapping.blocks) else {
                break;
            };
            let rest = max_blocks - mapping.blocks;
            match self.map_once(inode, FileBlock(next), rest) {
                Ok((MappingKind::Hole, blocks)) => mapping.blocks += blocks,
                _ => break,
            }
        }
        Ok(mapping)
    }

    /// Returns the mapping of a run like [`Filesystem::map`], except that a hole may end at the end
    /// of its node. Returns 1 to `max` blocks.
    fn map_once(&self, inode: &Inode, start: FileBlock, max: u32) -> Result<(MappingKind, u32)> {
        let (logged, max) = match self.overlay() {
            Some(overlay) => overlay.range(inode.ino(), start, max),
            None => (None, max),
        };
        let Some(kind) = logged else {
            let (kind, blocks) = self.map_on_disk(inode, start)?;
            let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
            return Ok((kind, blocks.clamp(1, max.max(1))));
        };
        if let Some((block, _)) = kind.block()
            && !self.superblock().contains_blocks(block, u64::from(max))
        {
            return Err(inode
                .place()
                .corrupt("fast commit maps blocks outside the file system"));
        }
        Ok((kind, max.max(1)))
    }

    fn map_on_disk(&self, inode: &Inode, start: FileBlock) -> Result<Run> {
        if inode.has_inline_data() {
            return Err(Error::InlineData(inode.ino()));
        }
        let has_blocks = inode.kind().has_blocks();
        if !has_blocks {
            return Ok((MappingKind::Hole, extent::FILE_BLOCKS));
        }
        if inode.flags().contains(InodeFlags::EXTENTS) {
            self.map_extents(inode, start)
        } else {
            self.map_indirect(inode, start)
        }
    }

    fn map_extents(&self, inode: &Inode, start: FileBlock) -> Result<Run> {
        let place = inode.place();
        let root = Node::parse_sorted(inode.i_block()).at(place)?;
        let whole = 0..extent::FILE_BLOCKS;
        let mut found = root.find(start, &whole).at(place)?;
        while let Found::Child(child) = found {
            let place = Place::Block(child.block, inode.ino());
            let buffer = self.extent_block(inode, child.block)?;
            let node = Node::parse(&buffer).at(place)?;
            if node.depth() != child.depth {
                return Err(place.corrupt("extent node has the wrong depth"));
            }
            found = node.find(start, &child.file_blocks).at(place)?;
        }
        let start = u64::from(start.0);
        match found {
            Found::Child(_) => Ok((MappingKind::Hole, 0)),
            Found::Hole(end) => Ok((MappingKind::Hole, end.saturating_sub(start))),
            Found::Extent(extent) => {
                let Range { start: first, end } = extent.file_blocks;
                if !self.superblock().contains_blocks(extent.block, end - first) {
                    return Err(place.corrupt("extent is outside the file system"));
                }
                let block = FsBlock(extent.block.0 + (start - first));
                Ok((MappingKind::mapped(block, extent.is_written), end - start))
            }
        }
    }

    /// Returns the extent node in `block`, after verifying its checksum and the order of its
    /// entries.
    fn extent_block(&self, inode: &Inode, block: FsBlock) -> Result<Buffer<'_>> {
        self.metadata_block(block, inode.ino(), |bytes| {
            let place = Place::Block(block, inode.ino());
            Node::parse_sorted(bytes).at(place)?;
            let seed = self.inode_seed(inode);
            let is_right = seed.is_none_or(|seed| extent::checksum_is_right(bytes, seed));
            place.ensure(is_right, "checksum of the extent node is wrong")
        })
    }

    fn map_indirect(&self, inode: &Inode, start: FileBlock) -> Result<Run> {
        let numbers_log2 = u32::from(self.superblock().block_size_log2) - 2;
        let Some(path) = Path::to(start, numbers_log2) else {
            return Ok((MappingKind::Hole, extent::FILE_BLOCKS));
        };
        let in_inode = indirect::numbers(inode.i_block());
        if path.levels == 0 {
            let direct = in_inode.get(path.slot..12).unwrap_or_default();
            return self.indirect_run(inode, indirect::run(direct));
        }
        let mut block = in_inode.get(path.slot).map_or(0, |number| number.get());
        for level in (1..=path.levels).rev() {
            // `block` maps `1 << span_log2` file blocks, `before` of which precede `start`.
            let span_log2 = numbers_log2 * level;
            let before = path.offset & ((1 << span_log2) - 1);
            if block == 0 {
                return Ok((MappingKind::Hole, (1 << span_log2) - before));
            }
            let fs_block = FsBlock(u64::from(block));
            let buffer = self.metadata_block(fs_block, inode.ino(), |_| Ok(()))?;
            let index = usize::try_from(before >> (span_log2 - numbers_log2)).unwrap_or(usize::MAX);
            let numbers = indirect::numbers(&buffer).get(index..).unwrap_or_default();
            if level == 1 {
                return self.indirect_run(inode, indirect::run(numbers));
            }
            block = numbers.first().map_or(0, |number| number.get());
        }
        Ok((MappingKind::Hole, 1))
    }

    /// Returns the run, truncated at the end of the file system.
    fn indirect_run(
        &self,
        inode: &Inode,
        (block, blocks): (Option<FsBlock>, usize),
    ) -> Result<Run> {
        let blocks = blocks as u64;
        let Some(block) = block else {
            return Ok((MappingKind::Hole, blocks));
        };
        let sb = self.superblock();
        Place::Block(block, inode.ino())
            .ensure(sb.contains_blocks(block, 1), "outside the file system")?;
        let blocks = blocks.min(sb.blocks_count - block.0);
        Ok((MappingKind::Written(block), blocks))
    }

    /// Returns the offset at which the hole of a file with inline data starts: the size of the file, but
    /// at most one block. Inline content is shorter than an inode, and an inode is not larger than a block. In a
    /// hostile image, the size can be larger.
    fn inline_end(&self, inode: &Inode) -> u64 {
        let block_bytes = self.superblock().block_size_bytes();
        inode.size_bytes().min(block_bytes.into())
    }

    /// Returns the offset of the first byte of content at or after `offset_bytes`; `None` if only a
    /// hole follows. Unwritten blocks count as a hole.
    ///
    /// # Errors
    /// As [`Filesystem::map`].
    pub fn seek_data(&self, inode: &Inode, offset_bytes: u64) -> Result<Option<u64>> {
        if inode.has_inline_data() {
            return Ok((offset_bytes < self.inline_end(inode)).then_some(offset_bytes));
        }
        self.seek(inode, offset_bytes, |kind| {
            matches!(kind, MappingKind::Written(_))
        })
    }

    /// Returns the offset of the first byte of a hole at or after `offset_bytes`; `None` if
    /// `offset_bytes` is at or past the end of the file. The end of the file counts as a hole.
    ///
    /// # Errors
    /// As [`Filesystem::map`].
    pub fn seek_hole(&self, inode: &Inode, offset_bytes: u64) -> Result<Option<u64>> {
        let size_bytes = inode.size_bytes();
        if offset_bytes >= size_bytes {
            return Ok(None);
        }
        if inode.has_inline_data() {
            return Ok(Some(offset_bytes.max(self.inline_end(inode))));
        }
        let hole = self.seek(inode, offset_bytes, |kind| {
            !matches!(kind, MappingKind::Written(_))
        })?;
        Ok(Some(hole.unwrap_or(size_bytes)))
    }

    /// Searches from `offset_bytes` to the end of the file. Returns the offset of the first byte for
    /// which `wanted` accepts the kind of mapping; `None` if there is no such byte.
    fn seek(
        &self,
        inode: &Inode,
        offset_bytes: u64,
        wanted: impl Fn(MappingKind) -> bool,
    ) -> Result<Option<u64>> {
        let size_bytes = inode.size_bytes();
        if offset_bytes >= size_bytes {
            return Ok(None);
        }
        let sb = self.superblock();
        let end = size_bytes.div_ceil(u64::from(sb.block_size_bytes()));
        let mut block = offset_bytes >> sb.block_size_log2;
        // Each run of content has at least one block, and at most one hole follows it. So the number
        // of runs and holes of a valid file is at most about twice the number of blocks of the file
        // system.
        let mut runs_left = self.present_blocks().saturating_mul(2).saturating_add(2);
        while block < end {
            runs_left = runs_left.checked_sub(1).ok_or_else(|| {
                let place = inode.place();
                place.corrupt("file has more runs of blocks than the file system has blocks")
            })?;
            let Ok(start) = u32::try_from(block) else {
                // Blocks past the size limit of a file are a hole.
                return Ok(wanted(MappingKind::Hole).then_some(block << sb.block_size_log2));
            };
            let max_blocks = u32::try_from(end - block).unwrap_or(u32::MAX);
            let mapping = self.map(inode, FileBlock(start), max_blocks)?;
            if wanted(mapping.kind) {
                return Ok(Some(offset_bytes.max(block << sb.block_size_log2)));
            }
            block += u64::from(mapping.blocks);
        }
        Ok(None)
    }
}
