//! Modification of inline data: content that is stored in the inode.
//!
//! Model: the kernel's `ext4_prepare_inline_data` and `ext4_destroy_inline_data`. An inode with
//! inline data always has the attribute for the content after the first 60 bytes, even if that
//! attribute is empty. Existing attributes are not moved: content that does not fit beside them is
//! moved to blocks.

use crate::journal::Handle;
use crate::ondisk::inode::InodeFlags;
use crate::{Filesystem, Inode, Result};

/// The number of bytes of content in `i_block`.
const I_BLOCK_BYTES: usize = 60;

impl Filesystem {
    /// Returns the maximum length of inline data of `inode` with its current attributes; 0 if the
    /// inode cannot have inline data.
    pub fn inline_capacity(&self, inode: &Inode) -> Result<usize> {
        let rest = self.inline_attribute_room(inode)?;
        Ok(rest.map_or(0, |rest| I_BLOCK_BYTES + rest))
    }

    /// Sets the inline data of `inode` to `data`, and the size of the file to the length of `data`,
    /// which must not exceed [`Filesystem::inline_capacity`]. If the inode has no inline data yet,
    /// it must have no blocks. Writes the inode.
    ///
    /// # Errors
    /// [`crate::Error::AttributeTooLarge`], or the error for a damaged image.
    pub fn set_inline_data(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        data: &[u8],
    ) -> Result<()> {
        let (first, rest) = data.split_at(data.len().min(I_BLOCK_BYTES));
        let mut i_block = [0; I_BLOCK_BYTES];
        i_block[..first.len()].copy_from_slice(first);
        inode.set_i_block(&i_block);
        inode.set_size_bytes(data.len() as u64);
        let flags = inode.flags() - InodeFlags::EXTENTS;
        inode.set_flags(flags | InodeFlags::INLINE_DATA);
        self.set_inline_attribute(handle, inode, Some(rest))
    }

    /// Removes the inline data of `inode`, and returns it. Afterwards, content is stored in blocks,
    /// but the file has no block yet. The size does not change. Writes the inode.
    ///
    /// # Errors
    /// The error for a damaged image.
    pub fn remove_inline_data(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
    ) -> Result<Vec<u8>> {
        let data = self.inline_data(inode)?;
        *inode = self.without_inline_data(inode);
        self.set_inline_attribute(handle, inode, None)?;
        Ok(data)
    }

    /// Returns `inode` as it will be after [`Filesystem::remove_inline_data`], so that its blocks
    /// can be claimed before the inline data is removed.
    #[must_use]
    pub fn without_inline_data(&self, inode: &Inode) -> Inode {
        let mut inode = *inode;
        inode.set_i_block(&[0; I_BLOCK_BYTES]);
        inode.set_flags(inode.flags() - InodeFlags::INLINE_DATA);
        self.make_empty(&mut inode);
        inode
    }
}
