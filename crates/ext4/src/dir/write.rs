//! Changing directories: entries in inline, linear and indexed directories.
//!
//! All change the inode in memory where the directory grows or turns into another kind: the
//! caller writes it in the same handle. Link counts are the caller's too.

use crate::journal::Handle;
use crate::{FileTypeByte, Filesystem, Ino, Inode, Result};

impl Filesystem {
    /// Adds `name`, which is not there, to the directory `dir`.
    ///
    /// # Errors
    /// [`crate::Error::NameTooLong`], [`crate::Error::NoSpace`], or what is wrong with the image.
    pub fn add_entry(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        name: &[u8],
        target: (Ino, FileTypeByte),
    ) -> Result<()> {
        let _ = (handle, dir, name, target);
        todo!()
    }

    /// Makes `name`, which is there (".." too), lead to `target`.
    pub fn set_entry(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        name: &[u8],
        target: (Ino, FileTypeByte),
    ) -> Result<()> {
        let _ = (handle, dir, name, target);
        todo!()
    }

    /// Removes `name`, which is there.
    pub fn remove_entry(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        name: &[u8],
    ) -> Result<()> {
        let _ = (handle, dir, name);
        todo!()
    }

    /// Makes `dir`, which is new, an empty directory below `parent`.
    pub fn init_directory(
        &self,
        handle: &mut Handle<'_>,
        dir: &mut Inode,
        parent: Ino,
    ) -> Result<()> {
        let _ = (handle, dir, parent);
        todo!()
    }

    /// Whether the directory holds nothing but "." and "..".
    pub fn is_empty_directory(&self, dir: &Inode) -> Result<bool> {
        let _ = dir;
        todo!()
    }
}
