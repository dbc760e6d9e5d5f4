//! Lookup through a directory's hash tree.
//!
//! Model: the kernel's `ext4_dx_find_entry`. The path from the root to a leaf is at most four
//! blocks. If the name is not in its leaf and the next entry continues the same hash, the search
//! continues there.
//!
//! Cost: one block per level and one leaf; more leaves only if hashes collide. Even with a damaged
//! index, the number of leaves read is at most the number of blocks of the directory.

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

/// The maximum number of node levels between root and leaves, without and with `large_dir`.
const MAX_INDIRECT_LEVELS: u8 = 1;
const MAX_INDIRECT_LEVELS_LARGE_DIR: u8 = 2;

/// The result of a lookup in the index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Indexed {
    /// The block and the target of the name, or `None` if it does not exist.
    Answer(Option<(Block, Target)>),
    /// The index has an unsupported kind: the whole directory must be searched.
    Unusable,
}

/// A node on the path to a leaf, and the index of its entry on the path.
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
    /// The frames, starting at the root.
    path: Vec<Frame<'f>>,
}

impl Filesystem {
    /// Returns whether `dir` has a hash tree.
    pub(crate) fn is_indexed(&self, dir: &Inode) -> bool {
        dir.flags().contains(InodeFlags::INDEX)
            && self.superblock().compat.contains(Compat::DIR_INDEX)
    }

    /// Looks `name` up through the hash tree of `dir`.
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

    /// Returns the path through the hash tree of `dir` for the hash of `name`, or `None` if the
    /// tree has an unsupported kind.
    fn search_index(&self, dir: &Inode, name: &[u8]) -> Result<Option<Search<'_>>> {
        let seed = self.superblock().hash_seed;
        self.search_hash(dir, |version| version.hash(seed, name))
    }

    /// Like [`Filesystem::search_index`], with the hash that `hash` computes with the tree's
    /// function.
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

    /// Returns the maximum number of node levels between the root and the leaves of a directory's
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

    /// Returns the node of the tree in block `index` of the directory. Block 0 is the root.
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

    /// Returns the block to which the deepest frame's entry points.
    fn target(&self) -> Result<u32> {
        let Some(frame) = self.path.last() else {
            return Ok(0);
        };
        let node = self.node(frame)?;
        // The index was returned by this node, or is 0, which every node has.
        let block = node.block(frame.index.min(node.count() - 1));
        Place::Block(frame.block, self.dir.ino())
            .ensure(block != 0, "hash tree refers to its own root")?;
        Ok(block)
    }

    /// Descends from the root, using the hash at each node.
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

    /// Descends to the leaf of the path, and returns its block.
    fn leaf(&mut self) -> Result<u32> {
        while self.path.len() <= self.indirect_levels {
            let frame = self.fs.dx_node_block(&self.dir, self.target()?)?;
            self.path.push(frame);
        }
        self.target()
    }

    /// Moves to the next leaf. Returns whether it continues the hash.
    fn advance(&mut self) -> Result<bool> {
        Ok(self.next_leaf()?.is_some_and(|hash| hash & !1 == self.hash))
    }

    /// Moves to the next leaf. Returns the lower bound of its hashes; if its lowest bit is set, the
    /// preceding leaf also has names with that hash. Returns `None` if there is no next leaf.
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
