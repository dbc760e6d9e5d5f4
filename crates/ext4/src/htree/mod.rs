//! Lookup through a directory's hash tree.
//!
//! Model: the kernel's `ext4_dx_find_entry`. The path from the root to a leaf has at most four
//! blocks. If the leaf does not contain the name, and the next leaf can also contain names with
//! the same hash, the search continues in the next leaf.
//!
//! Cost: a lookup reads one node for each level and one leaf, and more leaves only if hashes
//! collide. Even if the index is damaged, a lookup reads at most as many leaves as the directory
//! has blocks.

mod insert;
mod listing;

use crate::dir::{Block, Target};
use crate::error::{DamageAt, Place};
use crate::ondisk::dx::{DxInfo, DxKind, DxNode};
use crate::ondisk::features::{Compat, Incompat};
use crate::ondisk::hash::HashVersion;
use crate::ondisk::inode::InodeFlags;
use crate::{Filesystem, FsBlock, Inode, Result};
use larder_cache::buffer::Buffer;

/// The maximum number of levels of nodes between the root and the leaves, if the file system does
/// not have the feature `large_dir`.
const MAX_INDIRECT_LEVELS: u8 = 1;
/// The maximum number of levels of nodes with the feature `large_dir`.
const MAX_INDIRECT_LEVELS_LARGE_DIR: u8 = 2;

/// The result of a lookup in the index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Indexed {
    /// The block and the target of the name, or `None` if it does not exist.
    Answer(Option<(Block, Target)>),
    /// The index has an unsupported kind, so the whole directory must be searched.
    Unusable,
}

/// A node on the path to a leaf, and the index of the node's entry that leads to the leaf.
struct Frame<'f> {
    buffer: Buffer<'f>,
    block: FsBlock,
    kind: DxKind,
    index: usize,
}

/// A search in the tree of one directory.
struct Search<'f> {
    fs: &'f Filesystem,
    dir: Inode,
    hash: u32,
    version: HashVersion,
    indirect_levels: usize,
    /// The nodes on the path, starting at the root.
    path: Vec<Frame<'f>>,
}

impl Filesystem {
    /// Returns whether `dir` has a hash tree.
    pub(crate) fn is_indexed(&self, dir: &Inode) -> bool {
        dir.flags().contains(InodeFlags::INDEX)
            && self.superblock().compat.contains(Compat::DIR_INDEX)
    }

    /// Looks up `name` through the hash tree of `dir`.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if the tree is damaged, or the device's error.
    pub(crate) fn find_indexed(&self, dir: &Inode, name: &[u8]) -> Result<Indexed> {
        let place = dir.place();
        let Some(mut search) = self.search_index(dir, name)? else {
            return Ok(Indexed::Unusable);
        };
        let block_size_bytes = u64::from(self.superblock().block_size_bytes());
        for _ in 0..dir.size_bytes().div_ceil(block_size_bytes) {
            let number = search.leaf()?;
            let (at, buffer) = self.index_leaf(dir, number)?;
            let found = self.search_block(&buffer, name, Place::Block(at, dir.ino()))?;
            if let Some(target) = found {
                return Ok(Indexed::Answer(Some((Block { number, at }, target))));
            }
            if !search.advance()? {
                return Ok(Indexed::Answer(None));
            }
        }
        Err(place.corrupt("hash tree has more leaves than the directory has blocks"))
    }

    /// Returns a search in the hash tree of `dir`, positioned at the leaf for the hash of `name`,
    /// or `None` if the tree has an unsupported kind.
    fn search_index(&self, dir: &Inode, name: &[u8]) -> Result<Option<Search<'_>>> {
        let seed = self.superblock().hash_seed;
        self.search_hash(dir, |version| version.hash(seed, name))
    }

    /// Returns a search in the hash tree of `dir`, positioned at the leaf for a hash, or `None` if
    /// the tree has an unsupported kind. Calls `hash` with the tree's hash version to get the hash.
    fn search_hash(
        &self,
        dir: &Inode,
        hash: impl FnOnce(HashVersion) -> u32,
    ) -> Result<Option<Search<'_>>> {
        let root = self.dx_node_block(dir, 0)?;
        let place = Place::Block(root.block, dir.ino());
        let info = DxInfo::parse(&root.buffer).at(place)?;
        let sb = self.superblock();
        let Some(version) = HashVersion::from_disk(info.hash_version, sb.hash_unsigned) else {
            return Ok(None);
        };
        if info.indirect_levels > self.max_indirect_levels() || info.unused_flags & 1 != 0 {
            return Ok(None);
        }
        let mut search = Search {
            fs: self,
            dir: *dir,
            hash: hash(version),
            version,
            indirect_levels: usize::from(info.indirect_levels),
            path: vec![root],
        };
        search.descend_to_hash()?;
        Ok(Some(search))
    }

    /// Returns the maximum number of levels of nodes between the root and the leaves of a hash
    /// tree.
    fn max_indirect_levels(&self) -> u8 {
        if self.superblock().incompat.contains(Incompat::LARGE_DIR) {
            MAX_INDIRECT_LEVELS_LARGE_DIR
        } else {
            MAX_INDIRECT_LEVELS
        }
    }

    /// Returns the leaf in block `number` of the directory `dir`.
    fn index_leaf(&self, dir: &Inode, number: u32) -> Result<(FsBlock, Buffer<'_>)> {
        let leaf = self.checked_dir_block(dir, number)?;
        let place = dir.place();
        leaf.ok_or_else(|| place.corrupt("hash tree refers to a hole"))
    }

    /// Returns the node of the tree in block `index` of the directory. The root is in block 0.
    fn dx_node_block(&self, dir: &Inode, index: u32) -> Result<Frame<'_>> {
        let kind = if index == 0 {
            DxKind::Root
        } else {
            DxKind::Inner
        };
        let read = self.dir_block(dir, index, |bytes, place| {
            let node = self.dx_node(bytes, kind, place)?;
            self.verify_dx_node(dir, &node, place)
        })?;
        let Some((block, buffer)) = read else {
            return Err(dir.place().corrupt("hash tree refers to a hole"));
        };
        Ok(Frame {
            buffer,
            block,
            kind,
            index: 0,
        })
    }

    fn dx_node<'b>(&self, bytes: &'b [u8], kind: DxKind, place: Place) -> Result<DxNode<'b>> {
        let has_tail = self.superblock().has_metadata_checksums();
        DxNode::parse(bytes, kind, has_tail).at(place)
    }
}

impl<'f> Search<'f> {
    fn node<'s>(&'s self, frame: &'s Frame<'f>) -> Result<DxNode<'s>> {
        let place = Place::Block(frame.block, self.dir.ino());
        self.fs.dx_node(&frame.buffer, frame.kind, place)
    }

    /// Returns the block of the directory to which the path leads: the target of the current entry
    /// of the last node.
    fn target(&self) -> Result<u32> {
        let Some(frame) = self.path.last() else {
            return Ok(0);
        };
        let node = self.node(frame)?;
        // The index is valid: this node returned it, or it is 0, and every node has an entry 0.
        let block = node.block(frame.index.min(node.count() - 1));
        Place::Block(frame.block, self.dir.ino())
            .ensure(block != 0, "hash tree refers to its own root")?;
        Ok(block)
    }

    /// Descends from the root to the lowest node, using `hash` at each node.
    fn descend_to_hash(&mut self) -> Result<()> {
        loop {
            if let Some(frame) = self.path.last() {
                let index = self.node(frame)?.search(self.hash);
                if let Some(frame) = self.path.last_mut() {
                    frame.index = index;
                }
            }
            if self.path.len() > self.indirect_levels {
                return Ok(());
            }
            let frame = self.fs.dx_node_block(&self.dir, self.target()?)?;
            self.path.push(frame);
        }
    }

    /// Descends to the leaf of the path, and returns the block of the leaf.
    fn leaf(&mut self) -> Result<u32> {
        while self.path.len() <= self.indirect_levels {
            let frame = self.fs.dx_node_block(&self.dir, self.target()?)?;
            self.path.push(frame);
        }
        self.target()
    }

    /// Moves to the next leaf. Returns whether that leaf can also contain names with the current
    /// hash.
    fn advance(&mut self) -> Result<bool> {
        Ok(self.next_leaf()?.is_some_and(|hash| hash & !1 == self.hash))
    }

    /// Moves to the next leaf. Returns the lower bound of the hashes in this leaf, or `None` if
    /// this is the last one. The lowest bit of the bound is a flag: if it is set, names with the hash of the
    /// bound can also be in the preceding leaf.
    fn next_leaf(&mut self) -> Result<Option<u32>> {
        while let Some(mut frame) = self.path.pop() {
            let node = self.node(&frame)?;
            if frame.index + 1 < node.count() {
                let hash = node.hash(frame.index + 1);
                frame.index += 1;
                self.path.push(frame);
                return Ok(Some(hash));
            }
        }
        Ok(None)
    }
}
