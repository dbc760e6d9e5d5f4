//! Changing inline data: content that lies in the inode.

use crate::journal::Handle;
use crate::{Filesystem, Inode, Result};

impl Filesystem {
    /// The bytes of inline data that `inode` could hold, with the attributes that it has.
    pub fn inline_capacity(&self, inode: &Inode) -> Result<usize> {
        let _ = inode;
        todo!()
    }

    /// Makes `data`, no more than [`Filesystem::inline_capacity`], the inline data of `inode`, and
    /// its length the size; an inode that has none (and no blocks) gets it. Writes the inode.
    pub fn set_inline_data(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        data: &[u8],
    ) -> Result<()> {
        let _ = (handle, inode, data);
        todo!()
    }

    /// Takes the inline data out of `inode`, which has blocks from now on, none of them mapped.
    /// Returns what it held; the size stays. Writes the inode.
    pub fn remove_inline_data(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
    ) -> Result<Vec<u8>> {
        let _ = (handle, inode);
        todo!()
    }
}
