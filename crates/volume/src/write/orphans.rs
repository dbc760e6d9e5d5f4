//! Files without names, until they are deleted.
//!
//! Model: `ext4_evict_inode` and `ext4_orphan_cleanup`. A file that lost its last name is an orphan
//! of the image until it is deleted: at once if it is not held, when its last hold is released, or
//! at the next mount. A deletion takes as many handles as the number of blocks requires.

use super::Writer;
use super::truncate::FILE_BLOCKS;
use crate::live::Live;
use crate::{Error, Ino, Result};
use larder_ext4::{Handle, Inode};

/// The number of blocks that each handle of a deletion may change.
const DELETE_CREDITS: u32 = 128;

impl Writer {
    /// Removes one from the link count of `inode`, and writes the inode. Without names, it becomes
    /// an orphan.
    pub(super) fn drop_name(&self, handle: &mut Handle<'_>, inode: &mut Inode) -> Result<()> {
        let left = if inode.is_directory() {
            0
        } else {
            inode.links().saturating_sub(1)
        };
        inode.set_links(left);
        inode.set_ctime(self.now());
        if left == 0 {
            self.fs().add_orphan(handle, inode)?;
        }
        Ok(self.fs().write_inode(handle, inode)?)
    }

    /// Deletes `inode` if it has neither names nor holds. The caller holds its `rw` exclusively. An
    /// error is not an error of the operation that removed the name: the file stays an orphan, for
    /// the next mount or e2fsck.
    pub(super) fn delete_if_unused(&self, live: &Live<'_>, inode: &Inode) {
        if inode.links() > 0 || !live.begin_deletion() {
            return;
        }
        if let Err(error) = self.change_once(|| self.delete(live)) {
            let ino = live.ino();
            tracing::error!(%ino, %error, "cannot delete an unlinked file; it stays an orphan");
        }
    }

    /// Finishes the deletions and truncations that a crash interrupted. Called before any other
    /// operation on a volume that was opened for writing.
    ///
    /// A damaged orphan stays an orphan, and its blocks stay in use, so that e2fsck finds it in the
    /// list. Otherwise they would be lost. If the volume becomes read-only because of it, the other
    /// orphans stay too.
    ///
    /// # Errors
    /// An error of the device, or damage of the list of orphans.
    pub(crate) fn finish_orphans(&self) -> Result<()> {
        for ino in self.fs().orphans()? {
            if let Err(error) = self.change_once(|| self.finish_orphan(ino)) {
                if !is_damage(&error) {
                    return Err(error);
                }
                tracing::warn!(%ino, %error, "cannot process a damaged orphan; run e2fsck");
                if !self.fs().is_writable() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn finish_orphan(&self, ino: Ino) -> Result<()> {
        let inode = self.fs().orphan_inode(ino)?;
        // A live inode that has not been loaded yet is loaded from the inode cache.
        let cached = &self.inodes.caches.inodes;
        cached.insert(ino.0, &inode.words());
        let live = self.inodes.live(ino)?;
        let _exclusive = live.rw.write();
        if inode.links() == 0 {
            return self.delete(&live);
        }
        // A truncation was interrupted.
        let _map = live.map.write();
        let end = inode.size_bytes().div_ceil(self.inodes.block_bytes());
        self.unmap_rest(&live, end.min(FILE_BLOCKS)..FILE_BLOCKS)
    }

    /// Holds the inode like [`Volume::hold`](crate::Volume::hold).
    pub(crate) fn hold(&self, ino: Ino) -> Result<()> {
        let Some(table) = &self.inodes.live else {
            // On a volume that is only read, no inode is deleted.
            return Ok(());
        };
        if !table.hold(ino) {
            return Err(larder_ext4::Error::StaleInode(ino).into());
        }
        // Check whether the inode was deleted before it was held. Other damage is reported to the
        // operation that uses it.
        match self.inodes.inode(ino) {
            Err(Error::Ext4(stale @ larder_ext4::Error::StaleInode(_))) => {
                // Another file may have got the number in the meantime, and lost its names.
                let _ = self.release(ino, 1);
                Err(stale.into())
            }
            _ => Ok(()),
        }
    }

    /// Releases holds like [`Volume::release`](crate::Volume::release).
    pub(crate) fn release(&self, ino: Ino, count: u64) -> Result<()> {
        let Some(table) = &self.inodes.live else {
            return Ok(());
        };
        if !table.release(ino, count) {
            return Ok(());
        }
        self.fs().release_preallocation(ino);
        if self.inodes.inode(ino)?.links() > 0 {
            return Ok(());
        }
        let live = self.inodes.live(ino)?;
        let _exclusive = live.rw.write();
        let released = self.change_once(|| {
            // In the meantime the inode may have got a name, or a hold.
            if live.inode()?.links() == 0 && live.begin_deletion() {
                self.delete(&live)?;
            }
            Ok(())
        });
        match released {
            Err(Error::Ext4(larder_ext4::Error::ReadOnly(_))) => Ok(()),
            released => released,
        }
    }

    /// Deletes a file that is an orphan. The caller holds its `rw` exclusively.
    fn delete(&self, live: &Live<'_>) -> Result<()> {
        live.discard_content();
        let _no_write_back = live.writeback.lock();
        let _mapping = live.map.write();
        let deleted = self.delete_discarded(live);
        if deleted.is_err() {
            live.drop_state();
        }
        deleted
    }

    /// Deletes a file that is an orphan and has no pages. The caller holds all locks of the inode.
    fn delete_discarded(&self, live: &Live<'_>) -> Result<()> {
        let mut blocks = 0..FILE_BLOCKS;
        let fs = self.fs();
        loop {
            let mut handle = fs.start(DELETE_CREDITS)?;
            let mut inode = live.inode()?;
            blocks = self.unmap_some(&mut handle, &mut inode, blocks)?;
            let is_empty = blocks.is_empty() && fs.drop_xattrs(&mut handle, &mut inode)?;
            if is_empty {
                fs.remove_orphan(&mut handle, &mut inode)?;
                fs.delete_inode(&mut handle, &mut inode, self.now())?;
                live.drop_state();
                handle.stop();
                return Ok(());
            }
            fs.write_inode(&mut handle, &inode)?;
            live.publish(&handle, &inode);
            handle.stop();
        }
    }
}

/// Returns whether `error` concerns one file only, so that others can still be written.
fn is_damage(error: &Error) -> bool {
    use larder_ext4::Error as Ext4;
    !matches!(
        error,
        Error::Ext4(Ext4::Device(_) | Ext4::Aborted(_) | Ext4::ReadOnly(_)) | Error::Cache(_)
    )
}
