//! Setting and removing extended attributes, wherever they live.

use crate::journal::Handle;
use crate::{Filesystem, Inode, Result};

/// Whether an attribute may, or must, be there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Set it in any case.
    Any,
    /// It must not be there: `XATTR_CREATE`.
    Create,
    /// It must be there: `XATTR_REPLACE`.
    Replace,
}

impl Filesystem {
    /// Sets the attribute `name` (full name, programs' form) of `inode`. Where that makes an
    /// access control list, the mode is the caller's to change. Changes the inode in memory and
    /// writes it.
    ///
    /// # Errors
    /// [`crate::Error::Exists`], [`crate::Error::NoAttribute`], [`crate::Error::AttributeTooLarge`],
    /// [`crate::Error::NoSpace`], or what is wrong with the image.
    pub fn set_xattr(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        let _ = (handle, inode, name, value, mode);
        todo!()
    }

    /// Removes the attribute `name` of `inode`, and writes the inode.
    ///
    /// # Errors
    /// [`crate::Error::NoAttribute`], or what is wrong with the image.
    pub fn remove_xattr(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        name: &[u8],
    ) -> Result<()> {
        let _ = (handle, inode, name);
        todo!()
    }

    /// Gives up all attributes of an inode that is deleted: blocks and inodes that hold values.
    /// False if the handle's credits did not suffice: call again in another one.
    pub fn drop_xattrs(&self, handle: &mut Handle<'_>, inode: &mut Inode) -> Result<bool> {
        let _ = (handle, inode);
        todo!()
    }

    /// Sets the access control lists that `child`, which is new, inherits from the default list
    /// of `parent`, and its mode after them; `umask` counts where there is no such list. Writes
    /// the inode.
    pub fn inherit_acl(
        &self,
        handle: &mut Handle<'_>,
        parent: &Inode,
        child: &mut Inode,
        umask: u16,
    ) -> Result<()> {
        let _ = (handle, parent, child, umask);
        todo!()
    }
}
