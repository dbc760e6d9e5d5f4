//! Extent trees: loading the path to a leaf into memory, and writing it back.
//!
//! To change a tree, a caller loads a leaf with [`Filesystem::walk_to`], changes its extents in
//! memory ([`super::leaf`]), and writes it back with [`MapChange::store`]. `store` splits a leaf
//! that has grown too large, and removes an empty leaf. Then it updates the index nodes above in
//! the same way. If the entries do not fit into the root, the tree grows by a level.
//! [`MapChange::shrink_root`] removes a level if the root's only child fits into the root.
//!
//! # Invariants
//! 1. The key of an index entry is the key of the first entry in its child node.
//! 2. After a node is written, the capacity in its header is the number of entries that fit into
//!    its block, whatever the header contained before.
//! 3. No node except for the root is empty.

use super::change::MapChange;
use crate::error::{DamageAt, Place};
use crate::ondisk::extent::{self, DEPTH_MAX, Entry, Extent, FILE_BLOCKS, Index, Node, OUTSIDE};
use crate::{Filesystem, FsBlock, Inode, Result};
use std::ops::Range;

/// A leaf in memory, and the path to it.
#[derive(Debug)]
pub(super) struct Walk {
    /// The index nodes, from the root on.
    above: Vec<IndexNode>,
    /// The block of the leaf; `None` if the leaf is the root, in the inode.
    pub(super) block: Option<FsBlock>,
    /// The extents of the leaf.
    pub(super) extents: Vec<Extent>,
    /// The file blocks that the leaf may map.
    pub(super) file_blocks: Range<u64>,
}

#[derive(Debug)]
struct IndexNode {
    /// The block of the node; `None` for the root, in the inode.
    block: Option<FsBlock>,
    entries: Vec<Index>,
    /// The index of the entry that refers to the next node on the path.
    at: usize,
}

impl Filesystem {
    /// Returns the leaf that maps the file block `target`, or to which its mapping would be added.
    /// Returns [`Error::Corrupt`](crate::Error::Corrupt) if the leaf maps blocks outside the file
    /// system.
    pub(super) fn walk_to(&self, inode: &Inode, target: u64) -> Result<Walk> {
        let walk = self.walk_unchecked(inode, target)?;
        for extent in &walk.extents {
            let is_inside = self
                .superblock()
                .contains_blocks(extent.block, extent.blocks());
            let place = inode.place();
            place.ensure(is_inside, "extent is outside the file system")?;
        }
        Ok(walk)
    }

    /// Returns the same leaf as [`Filesystem::walk_to`], even if it maps blocks outside the file
    /// system.
    pub(super) fn walk_unchecked(&self, inode: &Inode, target: u64) -> Result<Walk> {
        let root_place = inode.place();
        let root = Node::parse_sorted(inode.i_block()).at(root_place)?;
        let mut depth = root.depth();
        let mut indexes = root.indexes();
        let mut extents = root.extents();
        let mut block = None;
        let mut file_blocks = 0..FILE_BLOCKS;
        let mut above = Vec::new();
        while depth > 0 {
            let at = indexes
                .partition_point(|index| index.start <= target)
                .saturating_sub(1);
            let Some(child) = indexes.get(at).copied() else {
                return Err(root_place.corrupt("index node of an extent tree is empty"));
            };
            let start = if at == 0 {
                file_blocks.start
            } else {
                child.start
            };
            let end = indexes
                .get(at + 1)
                .map_or(file_blocks.end, |next| next.start);
            above.push(IndexNode {
                block,
                entries: indexes,
                at,
            });
            file_blocks = start..end;
            depth -= 1;
            (indexes, extents) = self.child_node(inode, child, depth, end)?;
            block = Some(child.block);
        }
        Ok(Walk {
            above,
            block,
            extents,
            file_blocks,
        })
    }

    /// Returns the entries of the child node of `index`. Returns
    /// [`Error::Corrupt`](crate::Error::Corrupt) if the node does not have the depth `depth`, or
    /// maps file blocks before the key of `index` or from `end` on.
    fn child_node(
        &self,
        inode: &Inode,
        index: Index,
        depth: u16,
        end: u64,
    ) -> Result<(Vec<Index>, Vec<Extent>)> {
        let place = Place::Block(index.block, inode.ino());
        let buffer = self.extent_block(inode, index.block)?;
        // The node is verified again, because on a damaged image another inode may also refer to
        // the block, and may have changed it.
        let node = Node::parse_sorted(&buffer).at(place)?;
        place.ensure(node.depth() == depth, "extent node has the wrong depth")?;
        let (indexes, extents) = (node.indexes(), node.extents());
        let first = indexes
            .first()
            .map(Entry::start)
            .or(extents.first().map(Entry::start));
        let last_end = indexes
            .last()
            .map(|last| last.start + 1)
            .or(extents.last().map(|last| last.file_blocks.end));
        if first.is_some_and(|first| first < index.start) || last_end.is_some_and(|last| last > end)
        {
            return Err(place.corrupt(OUTSIDE));
        }
        Ok((indexes, extents))
    }

    /// Splits the entries into one part for each block that they need. If the tree grows at its
    /// end, all parts except the last are full. Otherwise, the parts have equal sizes, so that each
    /// block has room for more entries.
    fn split<'e, E>(&self, entries: &'e [E], is_at_end: bool) -> std::slice::Chunks<'e, E> {
        let capacity = extent::capacity(self.buffers().block_size_bytes());
        let parts = entries.len().div_ceil(capacity).max(1);
        let size = if is_at_end {
            capacity
        } else {
            entries.len().div_ceil(parts)
        };
        entries.chunks(size.max(1))
    }
}

impl MapChange<'_, '_> {
    /// Writes back the leaf of `walk`, whose extents were changed at the file block `changed`, and
    /// updates the index nodes above.
    pub(super) fn store(&mut self, walk: Walk, changed: u64) -> Result<()> {
        let is_at_end = walk
            .extents
            .last()
            .is_none_or(|last| last.file_blocks.start <= changed);
        let Some(block) = walk.block else {
            return self.store_root(0, &walk.extents, is_at_end);
        };
        let mut depth = 0;
        let mut parts = self.store_node(block, depth, &walk.extents, is_at_end)?;
        for mut node in walk.above.into_iter().rev() {
            depth += 1;
            if node.entries.get(node.at..=node.at) == Some(parts.as_slice()) {
                return Ok(());
            }
            let is_at_end = node.at + 1 == node.entries.len();
            node.entries.splice(node.at..=node.at, parts);
            let Some(block) = node.block else {
                return self.store_root(depth, &node.entries, is_at_end);
            };
            parts = self.store_node(block, depth, &node.entries, is_at_end)?;
        }
        Ok(())
    }

    /// Writes a node's entries to `block`, and the entries that do not fit there to new blocks. If
    /// there are no entries, frees the block. Returns the index entries for the written blocks.
    fn store_node<E: Entry>(
        &mut self,
        block: FsBlock,
        depth: u16,
        entries: &[E],
        is_at_end: bool,
    ) -> Result<Vec<Index>> {
        if entries.is_empty() {
            self.free_mapping_block(block)?;
            return Ok(Vec::new());
        }
        let seed = self.fs.inode_seed(self.inode);
        let mut indexes = Vec::new();
        for part in self.fs.split(entries, is_at_end) {
            let write = |bytes: &mut [u8]| {
                extent::encode_node(bytes, depth, part, seed);
                Ok(())
            };
            let block = if indexes.is_empty() {
                self.handle.update(block, self.inode.ino(), write)?;
                block
            } else {
                let new = self.allocate_mapping_block(block)?;
                self.handle.create(new, self.inode.ino(), write)?;
                new
            };
            let start = part.first().map_or(0, Entry::start);
            indexes.push(Index { start, block });
        }
        Ok(indexes)
    }

    /// Writes the root's entries to the inode. If they do not fit, adds a level to the tree.
    fn store_root<E: Entry>(&mut self, depth: u16, entries: &[E], is_at_end: bool) -> Result<()> {
        let mut bytes = *self.inode.i_block();
        if entries.len() <= extent::capacity(bytes.len()) {
            // An empty tree has no levels.
            let depth = if entries.is_empty() { 0 } else { depth };
            extent::encode_node(&mut bytes, depth, entries, None);
            self.inode.set_i_block(&bytes);
            return Ok(());
        }
        if depth >= DEPTH_MAX {
            return Err(self
                .inode
                .place()
                .corrupt("extent tree is full at its maximum depth"));
        }
        let seed = self.fs.inode_seed(self.inode);
        let mut near = self.fs.home_goal(self.inode);
        let mut indexes = Vec::new();
        for part in self.fs.split(entries, is_at_end) {
            let block = self.allocate_mapping_block(near)?;
            self.handle.create(block, self.inode.ino(), |bytes| {
                extent::encode_node(bytes, depth, part, seed);
                Ok(())
            })?;
            let start = part.first().map_or(0, Entry::start);
            indexes.push(Index { start, block });
            near = block;
        }
        extent::encode_node(&mut bytes, depth + 1, &indexes, None);
        self.inode.set_i_block(&bytes);
        Ok(())
    }

    /// Removes levels as long as the root has only one child, which fits into the root.
    pub(super) fn shrink_root(&mut self) -> Result<()> {
        loop {
            let mut bytes = *self.inode.i_block();
            let place = self.inode.place();
            let root = Node::parse(&bytes).at(place)?;
            let [child] = root.indexes()[..] else {
                return Ok(());
            };
            let depth = root.depth() - 1;
            let (indexes, extents) = self.fs.child_node(self.inode, child, depth, FILE_BLOCKS)?;
            if indexes.len().max(extents.len()) > extent::capacity(bytes.len()) {
                return Ok(());
            }
            if depth == 0 {
                extent::encode_node(&mut bytes, depth, &extents, None);
            } else {
                extent::encode_node(&mut bytes, depth, &indexes, None);
            }
            self.inode.set_i_block(&bytes);
            self.free_mapping_block(child.block)?;
        }
    }
}
