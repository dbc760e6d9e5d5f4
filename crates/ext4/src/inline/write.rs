//! Changing inline data: content that lies in the inode.
//!
//! Model: the kernel's `ext4_prepare_inline_data` and `ext4_destroy_inline_data`. An inode
//! with inline data always has the attribute that holds what goes beyond the first 60 bytes,
//! though it may be empty. Attributes that are there already stay where they are: content
//! that does not fit beside them moves out to blocks.

use crate::journal::Handle;
use crate::ondisk::inode::InodeFlags;
use crate::{Filesystem, Inode, Result};

/// Bytes of content in `i_block`.
const I_BLOCK_BYTES: usize = 60;

impl Filesystem {
    /// The bytes of inline data that `inode` could hold, with the attributes that it has: 0 if
    /// it could have none at all.
    pub fn inline_capacity(&self, inode: &Inode) -> Result<usize> {
        let behind = self.inline_attribute_room(inode)?;
        Ok(behind.map_or(0, |behind| I_BLOCK_BYTES + behind))
    }

    /// Makes `data`, no more than [`Filesystem::inline_capacity`], the inline data of `inode`, and
    /// its length the size; an inode that has none (and no blocks) gets it. Writes the inode.
    ///
    /// # Errors
    /// [`crate::Error::AttributeTooLarge`], or what is wrong with the image.
    pub fn set_inline_data(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        data: &[u8],
    ) -> Result<()> {
        let (first, behind) = data.split_at(data.len().min(I_BLOCK_BYTES));
        let mut i_block = [0; I_BLOCK_BYTES];
        i_block[..first.len()].copy_from_slice(first);
        inode.set_i_block(&i_block);
        inode.set_size_bytes(data.len() as u64);
        let flags = inode.flags() - InodeFlags::EXTENTS;
        inode.set_flags(flags | InodeFlags::INLINE_DATA);
        self.set_inline_attribute(handle, inode, Some(behind))
    }

    /// Takes the inline data out of `inode`, which has blocks from now on, none of them mapped.
    /// Returns what it held; the size stays. Writes the inode.
    ///
    /// # Errors
    /// What is wrong with the image.
    pub fn remove_inline_data(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
    ) -> Result<Vec<u8>> {
        let data = self.inline_data(inode)?;
        inode.set_i_block(&[0; I_BLOCK_BYTES]);
        inode.set_flags(inode.flags() - InodeFlags::INLINE_DATA);
        self.make_empty(inode);
        self.set_inline_attribute(handle, inode, None)?;
        Ok(data)
    }
}
