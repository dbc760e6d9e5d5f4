//! Orphans: files without names that are still in use, and files that are being cut.

use crate::journal::Handle;
use crate::{Filesystem, Ino, Inode, Result};

impl Filesystem {
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
