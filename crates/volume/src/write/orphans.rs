//! Files without names, until they are deleted.
//!
//! Model: `ext4_evict_inode` and `ext4_orphan_cleanup`. A file that lost its last name is an orphan
//! of the image until it is deleted: at once if nobody holds it, or when the last one releases
//! it, or at the next mount. Deleting takes as many handles as it has blocks for.

use super::Writer;
use super::cut::FILE_BLOCKS;
use crate::live::Live;
use crate::{Error, Ino, Result};
use larder_ext4::{Handle, Inode};

/// Blocks that one of the handles that delete a file may change.
const DELETE_CREDITS: u32 = 128;

impl Writer {
    /// `inode` has one name less: without any, it is an orphan. Writes it.
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

    /// Deletes `inode` if it has neither names nor users. Its `rw` is held exclusively. An error is
    /// not one of the operation that removed the name: the file stays an orphan, for the next mount
    /// or e2fsck.
    pub(super) fn delete_if_unused(&self, live: &Live<'_>, inode: &Inode) {
        if inode.links() > 0 || !live.begin_deletion() {
            return;
        }
        if let Err(error) = self.change_once(|| self.delete(live)) {
            let ino = live.ino();
            tracing::error!(%ino, %error, "a file without names is not deleted and stays an orphan");
        }
    }

    /// Deletes and cuts what a crash left to be: to be called before anything else is done with a
    /// volume that was opened for writing.
    ///
    /// One that is damaged stays an orphan, and what it has stays used: e2fsck finds it there,
    /// which nobody would who looked for it later. If the volume turns read-only because of it, the
    /// others stay too.
    ///
    /// # Errors
    /// The device's, or what is wrong with the list of orphans.
    pub(crate) fn finish_orphans(&self) -> Result<()> {
        for ino in self.fs().orphans()? {
            if let Err(error) = self.change_once(|| self.finish_orphan(ino)) {
                if !is_damage(&error) {
                    return Err(error);
                }
                tracing::warn!(%ino, %error, "a damaged orphan is left to e2fsck");
                if !self.fs().is_writable() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn finish_orphan(&self, ino: Ino) -> Result<()> {
        let inode = self.fs().orphan_inode(ino)?;
        // Where a live inode that nobody has asked for yet is loaded from.
        let cached = &self.inodes.caches.inodes;
        cached.insert(ino.0, &inode.words());
        let live = self.inodes.live(ino)?;
        let _alone = live.rw.write();
        if inode.links() == 0 {
            return self.delete(&live);
        }
        // It was being cut.
        let _map = live.map.write();
        let end = inode.size_bytes().div_ceil(self.inodes.block_bytes());
        self.unmap_rest(&live, end.min(FILE_BLOCKS)..FILE_BLOCKS)
    }

    /// As [`Volume::hold`](crate::Volume::hold).
    pub(crate) fn hold(&self, ino: Ino) -> Result<()> {
        let Some(table) = &self.inodes.live else {
            // On a volume that is only read, everything stays.
            return Ok(());
        };
        if !table.hold(ino) {
            return Err(larder_ext4::Error::StaleInode(ino).into());
        }
        // Deleted before it was held? What is damaged otherwise is for whoever uses it.
        match self.inodes.inode(ino) {
            Err(Error::Ext4(stale @ larder_ext4::Error::StaleInode(_))) => {
                // Another file may have got the number meanwhile, and lost its names.
                let _ = self.release(ino, 1);
                Err(stale.into())
            }
            _ => Ok(()),
        }
    }

    /// As [`Volume::release`](crate::Volume::release).
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
        let _alone = live.rw.write();
        let released = self.change_once(|| {
            // Meanwhile it may have got a name, or a user.
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

    /// Deletes a file that is an orphan. Its `rw` is held exclusively.
    fn delete(&self, live: &Live<'_>) -> Result<()> {
        live.discard_content();
        let _no_write_back = live.writeback.lock();
        let _mapping = live.map.write();
        let deleted = self.delete_discarded(live);
        if deleted.is_err() {
            live.forget();
        }
        deleted
    }

    /// Deletes a file that is an orphan and has no pages, with everything of it locked.
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
                live.forget();
                handle.stop();
                return Ok(());
            }
            fs.write_inode(&mut handle, &inode)?;
            live.publish(&handle, &inode);
            handle.stop();
        }
    }
}

/// Whether `error` is about one file, and others can be written to nevertheless.
fn is_damage(error: &Error) -> bool {
    use larder_ext4::Error as Ext4;
    !matches!(
        error,
        Error::Ext4(Ext4::Device(_) | Ext4::Aborted(_) | Ext4::ReadOnly(_)) | Error::Cache(_)
    )
}
