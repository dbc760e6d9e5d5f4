//! The attributes of an inode in memory, and their distribution among the inode, its block, and value
//! inodes.
//!
//! Model: the kernel's `ext4_xattr_set_handle` tries to store an attribute in the inode, then in
//! the block, and then its value in a value inode. Larder does the same, with two differences. If
//! an attribute fits neither in the inode nor in the block, all attributes are placed again, the
//! largest first. A fast symbolic link with a value inode always has an attribute block
//! ([`Attributes::keep_block`]).

use crate::FsBlock;
use crate::ondisk::xattr::{
    NameIndex, StoredXattr, block_room_bytes, inode_room_bytes, total_bytes,
};

/// The name of the attribute that stores inline data, without its prefix.
pub(super) const INLINE_DATA_NAME: &[u8] = b"data";

/// The attribute block of an inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttributeBlock {
    pub block: FsBlock,
    /// The number of inodes that use the block, at least 1.
    pub references: u32,
}

/// The attributes of an inode.
#[derive(Clone, Debug)]
pub(super) struct Attributes {
    pub in_inode: Vec<StoredXattr>,
    pub in_block: Vec<StoredXattr>,
    /// The current attribute block on the image; `None` if there is none.
    pub block: Option<AttributeBlock>,
    /// Whether the inode is a fast symbolic link, whose target is in `i_block`.
    pub is_fast_symlink: bool,
    inode_room_bytes: usize,
    block_room_bytes: usize,
}

impl Attributes {
    /// Creates an empty set of attributes for an inode with `rest_bytes` bytes after its fixed
    /// fields, in a file system with blocks of `block_bytes` bytes.
    pub fn none(rest_bytes: usize, block_bytes: usize) -> Self {
        Self {
            in_inode: Vec::new(),
            in_block: Vec::new(),
            block: None,
            is_fast_symlink: false,
            inode_room_bytes: inode_room_bytes(rest_bytes),
            block_room_bytes: block_room_bytes(block_bytes),
        }
    }

    /// Returns whether the attributes that were read fit into the available space. Attributes of a
    /// damaged image may not fit, if their values overlap.
    pub fn fit(&self) -> bool {
        total_bytes(&self.in_inode) <= self.inode_room_bytes
            && total_bytes(&self.in_block) <= self.block_room_bytes
    }

    pub fn find(&self, index: NameIndex, name: &[u8]) -> Option<&StoredXattr> {
        let mut all = self.in_inode.iter().chain(&self.in_block);
        all.find(|attribute| attribute.index == index && attribute.name == name)
    }

    /// Removes the attribute from the inode or the block, wherever it is stored.
    pub fn remove(&mut self, index: NameIndex, name: &[u8]) {
        let others = |attribute: &StoredXattr| attribute.index != index || attribute.name != name;
        self.in_inode.retain(others);
        self.in_block.retain(others);
    }

    /// Returns the free space in the inode in bytes.
    pub fn inode_left_bytes(&self) -> usize {
        self.inode_room_bytes
            .saturating_sub(total_bytes(&self.in_inode))
    }

    /// Adds `new`, whose name must not exist yet, to the inode, or to the block if `new` does not fit
    /// into the inode. If it fits into neither, places all attributes again, the largest first.
    /// Returns false, and changes nothing, if they do not fit. Inline data is stored only in the
    /// inode.
    #[must_use]
    pub fn add(&mut self, new: StoredXattr) -> bool {
        let size_bytes = new.space_bytes();
        if size_bytes <= self.inode_left_bytes() {
            self.in_inode.push(new);
            return true;
        }
        if is_inline_data(new.index, &new.name) {
            return false;
        }
        if total_bytes(&self.in_block) + size_bytes <= self.block_room_bytes {
            self.in_block.push(new);
            return true;
        }
        self.add_by_size(new)
    }

    /// Ensures that a fast symbolic link with a value inode has an attribute block. If the block
    /// would be empty, moves the entry that refers to the value inode to the block.
    ///
    /// This is necessary because the value inode adds to the link's `i_blocks`. If `i_blocks` is
    /// not zero and there is no attribute block, e2fsck 1.47 treats the target in `i_block` as
    /// block numbers. The kernel considers only the size of the target.
    pub fn keep_block(&mut self) {
        if !self.is_fast_symlink || !self.in_block.is_empty() {
            return;
        }
        let holds_value = |attribute: &StoredXattr| attribute.value_inode().is_some();
        if let Some(at) = self.in_inode.iter().position(holds_value) {
            self.in_block.push(self.in_inode.remove(at));
        }
    }

    /// Adds `new` like [`Attributes::add`], but places all attributes again, the largest first.
    fn add_by_size(&mut self, new: StoredXattr) -> bool {
        let all = self.in_inode.iter().chain(&self.in_block).cloned();
        let (in_inode, mut others): (Vec<_>, Vec<_>) =
            all.partition(|attribute| is_inline_data(attribute.index, &attribute.name));
        others.push(new);
        others.sort_by_key(|attribute| std::cmp::Reverse(attribute.space_bytes()));
        let mut placed = Self {
            in_inode,
            in_block: Vec::new(),
            ..*self
        };
        for attribute in others {
            let size_bytes = attribute.space_bytes();
            if size_bytes <= placed.inode_left_bytes() {
                placed.in_inode.push(attribute);
            } else {
                placed.in_block.push(attribute);
            }
        }
        let fits = placed.fit();
        if fits {
            *self = placed;
        }
        fits
    }
}

/// Returns whether an attribute stores inline data.
pub(super) fn is_inline_data(index: NameIndex, name: &[u8]) -> bool {
    index == NameIndex::SYSTEM && name == INLINE_DATA_NAME
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::xattr::StoredValue;

    fn attribute(name: &str, value_bytes: usize) -> StoredXattr {
        StoredXattr {
            index: NameIndex(1),
            name: name.into(),
            value: StoredValue::Inline(vec![1; value_bytes]),
        }
    }

    #[test]
    fn attribute_is_stored_in_the_inode_then_in_the_block() {
        let mut attributes = Attributes::none(96, 1024);
        assert!(attributes.add(attribute("a", 40)));
        assert!(attributes.add(attribute("b", 40)));
        assert!(!attributes.add(attribute("c", 960)));
        assert_eq!(
            (attributes.in_inode.len(), attributes.in_block.len()),
            (1, 1)
        );
    }

    #[test]
    fn value_inode_entry_moves_to_the_block_only_for_a_fast_symlink_without_block() {
        let in_value_inode = StoredXattr {
            value: StoredValue::Inode {
                ino: crate::Ino(12),
                size_bytes: 900,
                entry_hash: 0,
            },
            ..attribute("apart", 0)
        };
        let places = |is_fast_symlink, in_block: &[StoredXattr]| {
            let mut attributes = Attributes {
                is_fast_symlink,
                in_inode: vec![attribute("here", 4), in_value_inode.clone()],
                in_block: in_block.to_vec(),
                ..Attributes::none(96, 1024)
            };
            attributes.keep_block();
            (attributes.in_inode.len(), attributes.in_block.len())
        };
        assert_eq!(places(true, &[]), (1, 1));
        assert_eq!(places(false, &[]), (2, 0));
        assert_eq!(places(true, &[attribute("more", 80)]), (2, 1));
    }

    #[test]
    fn attributes_are_placed_by_size_if_a_new_one_does_not_fit() {
        let mut attributes = Attributes::none(96, 1024);
        assert!(attributes.add(attribute("small", 4)));
        assert!(attributes.add(attribute("medium", 44)));
        assert!(attributes.add(attribute("large", 800)));
        assert_eq!(attributes.in_inode.len(), 1);
        assert!(attributes.add(attribute("more", 80)));
        assert!(attributes.find(NameIndex(1), b"small").is_some());
        assert!(attributes.fit());
    }
}
