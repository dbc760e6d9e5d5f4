//! Inodes on the image: written, made, deleted, and kept as orphans.

use crate::journal::Handle;
use crate::ondisk::time::Timestamp;
use crate::{DeviceNumber, FileKind, Filesystem, Ino, Inode, Result};

/// What a new inode starts with.
#[derive(Clone, Copy, Debug)]
pub struct NewInode {
    /// The type.
    pub kind: FileKind,
    /// Permissions and set-id bits: the lower 12 bits of the mode.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The owning group.
    pub gid: u32,
    /// What a device special file stands for.
    pub device: Option<DeviceNumber>,
    /// Now: all four times.
    pub now: Timestamp,
}

impl Filesystem {
    /// Writes `inode` to its inode table, checksum and all. Attributes and inline data behind
    /// the fixed fields stay as they are.
    pub fn write_inode(&self, handle: &mut Handle<'_>, inode: &Inode) -> Result<()> {
        let _ = (handle, inode);
        todo!()
    }

    /// Makes an inode for a new file in the directory `parent`: allocated, flags inherited,
    /// empty (with inline data or an empty extent tree where the file system has them), with no
    /// attributes, 1 link (a directory 2), and written. No entry leads to it yet.
    pub fn create_inode(
        &self,
        handle: &mut Handle<'_>,
        parent: &Inode,
        new: &NewInode,
    ) -> Result<Inode> {
        let _ = (handle, parent, new);
        todo!()
    }

    /// Frees an inode whose blocks and attributes are gone and that no orphan list has.
    pub fn delete_inode(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        now: Timestamp,
    ) -> Result<()> {
        let _ = (handle, inode, now);
        todo!()
    }

    /// Enters `inode` into the orphan file or list, so that its deletion (no links) or
    /// truncation (else, to its size) is finished at the next mount. Does nothing if it is in.
    /// The caller writes the inode in the same handle.
    pub fn add_orphan(&self, handle: &mut Handle<'_>, inode: &mut Inode) -> Result<()> {
        let _ = (handle, inode);
        todo!()
    }

    /// Takes `inode` out of the orphan file or list; nothing if it is not in.
    pub fn remove_orphan(&self, handle: &mut Handle<'_>, inode: &mut Inode) -> Result<()> {
        let _ = (handle, inode);
        todo!()
    }

    /// The orphans that the image has: what is to be finished at mount.
    pub fn orphans(&self) -> Result<Vec<Ino>> {
        todo!()
    }
}
