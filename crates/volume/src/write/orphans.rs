//! Holds, and orphans: files that have no names and are not deleted yet.
//!
//! Model: `ext4_evict_inode` and `ext4_orphan_cleanup`. A file that loses its last name is recorded
//! as an orphan on the image until it is deleted. It is deleted immediately if it has no holds
//! (references from open files and the kernel). Otherwise it is deleted when the last hold is
//! released or, after a crash, at the next mount. A deletion uses as many handles as the blocks of
//! the file require.

use super::Writer;
use super::truncate::FILE_BLOCKS;
use crate::live::Live;
use crate::{Error, Ino, Result};
use larder_ext4::{Handle, Inode, MemoryOnly};

/// The credits of each handle of a deletion: the maximum number of blocks that the handle may
/// change.
const DELETE_CREDITS: u32 = 128;

impl Writer {
    /// Decrements the link count of `inode` after one of its names was removed, and writes the
    /// inode. The count of a directory becomes 0. If no names remain, makes the inode an orphan.
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

    /// Deletes `inode` if it has neither names nor holds. The caller must hold `rw` of the inode
    /// exclusively. An error is logged and not returned, because the name was already removed: the
    /// file stays an orphan, which the next mount or e2fsck deletes.
    pub(super) fn delete_if_unused(&self, live: &Live<'_>, inode: &Inode) {
        if inode.links() > 0 || !live.begin_deletion() {
            return;
        }
        if let Err(error) = self.change_once(|| self.delete(live)) {
            let ino = live.ino();
            tracing::error!(%ino, %error, "cannot delete an unlinked file; it stays an orphan");
        }
    }

    /// Finishes the deletions and truncations that a crash interrupted. Called when a volume is
    /// opened for writing, before any other operation.
    ///
    /// A damaged orphan stays in the list of orphans, and its blocks stay allocated. e2fsck finds
    /// the orphan in the list, so its blocks are not lost. If the volume becomes read-only because
    /// of the damage, the remaining orphans also stay in the list.
    ///
    /// # Errors
    /// An error of the device, or corruption of the list of orphans.
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
        // The live inode is loaded from the inode cache. Insert the orphan into the cache, because
        // a normal lookup would refuse an inode without names.
        let cached = &self.inodes.caches.inodes;
        cached.insert(ino.0, &inode.words());
        let live = self.inodes.live(ino)?;
        let _exclusive = live.rw.write();
        if inode.links() == 0 {
            return self.delete(&live);
        }
        // The file has names, so a truncation was interrupted.
        let _map = live.change_mapping()?;
        let end = inode.size_bytes().div_ceil(self.inodes.block_bytes());
        self.unmap_rest(&live, end.min(FILE_BLOCKS)..FILE_BLOCKS)
    }

    /// Adds a hold to the inode, as described at [`Volume::hold`](crate::Volume::hold).
    pub(crate) fn hold(&self, ino: Ino) -> Result<()> {
        let Some(table) = &self.inodes.live else {
            // On a volume that is opened for reading, no inode is ever deleted.
            return Ok(());
        };
        if !table.hold(ino) {
            return Err(larder_ext4::Error::StaleInode(ino).into());
        }
        // Check whether the inode was deleted before it got the hold. Other errors are ignored here,
        // because the operation that uses the inode returns them.
        match self.inodes.inode(ino) {
            Err(Error::Ext4(stale @ larder_ext4::Error::StaleInode(_))) => {
                // The number may belong to a new file now. If that file lost its last name during
                // this hold, `release` deletes the file.
                let _ = self.release(ino, 1);
                Err(stale.into())
            }
            _ => Ok(()),
        }
    }

    /// Releases `count` holds of the inode, as described at
    /// [`Volume::release`](crate::Volume::release).
    pub(crate) fn release(&self, ino: Ino, count: u64) -> Result<()> {
        let Some(table) = &self.inodes.live else {
            return Ok(());
        };
        if !table.release(ino, count) {
            return Ok(());
        }
        self.fs().release_preallocation(ino);
        self.delete_unnamed(&self.inodes.in_use(table, ino))
    }

    /// Releases a hold of the inode without waiting, as described at
    /// [`Volume::try_release`](crate::Volume::try_release).
    pub(crate) fn try_release(&self, ino: Ino) -> Result<bool> {
        let _outer = MemoryOnly::suspend();
        let _part = MemoryOnly::begin();
        let released = self.release(ino, 1);
        if !MemoryOnly::has_missed() && !would_wait(&released) {
            return released.map(|()| true);
        }
        // If the inode cannot be held, another thread has begun to delete it.
        let is_held = self
            .inodes
            .live
            .as_ref()
            .is_some_and(|table| table.hold(ino));
        Ok(!is_held)
    }

    /// Deletes the inode if it has neither names nor holds. Does not read the inode from the device: an inode whose
    /// state is not loaded has names.
    fn delete_unnamed(&self, live: &Live<'_>) -> Result<()> {
        // The state of an inode without names stays loaded until the inode is deleted.
        let loaded = live.state().loaded();
        if loaded.is_none_or(|inode| inode.links() > 0) {
            return Ok(());
        }
        let _exclusive = live.lock()?;
        let deleted = self.change_once(|| {
            // The inode may have received a name or a hold before `rw` was locked.
            if live.inode()?.links() == 0 && live.begin_deletion() {
                self.delete(live)?;
            }
            Ok(())
        });
        match deleted {
            Err(Error::Ext4(larder_ext4::Error::ReadOnly(_))) => Ok(()),
            deleted => deleted,
        }
    }

    /// Discards the content of an orphan, and deletes the file. The caller must hold `rw`
    /// exclusively, and must have begun the deletion.
    fn delete(&self, live: &Live<'_>) -> Result<()> {
        let deleted = self.delete_locked(live);
        if MemoryOnly::has_missed() || would_wait(&deleted) {
            // The caller deletes the file later. Until then, its state must be kept.
            live.end_deletion();
        } else if deleted.is_err() {
            live.drop_state();
        }
        deleted
    }

    fn delete_locked(&self, live: &Live<'_>) -> Result<()> {
        live.discard_content()?;
        let _no_write_back = live.lock_write_back()?;
        let _map = live.change_mapping()?;
        self.delete_discarded(live)
    }

    /// Deletes an orphan that has no cached pages. The caller must hold `rw`, `writeback` and `map`
    /// of the inode exclusively.
    fn delete_discarded(&self, live: &Live<'_>) -> Result<()> {
        let mut blocks = 0..FILE_BLOCKS;
        let fs = self.fs();
        // Stopping the first handle ends the memory-only part, so a second handle could wait.
        let is_memory_only = MemoryOnly::is_active();
        loop {
            let (handle, (left, inode)) = fs.change(DELETE_CREDITS, |handle| -> Result<_> {
                let mut inode = live.inode()?;
                let left = self.unmap_some(handle, &mut inode, blocks.clone())?;
                let is_empty = left.is_empty() && fs.drop_xattrs(handle, &mut inode)?;
                if is_empty {
                    fs.remove_orphan(handle, &mut inode)?;
                    fs.delete_inode(handle, &mut inode, self.now())?;
                    return Ok((left, None));
                }
                fs.write_inode(handle, &inode)?;
                Ok((left, Some(inode)))
            })?;
            let Some(inode) = inode else {
                live.drop_state();
                handle.stop();
                return Ok(());
            };
            live.publish(&handle, &inode);
            handle.stop();
            if is_memory_only {
                return Err(larder_ext4::Error::WouldWait.into());
            }
            blocks = left;
        }
    }
}

/// Returns whether an operation failed because it would have had to wait.
fn would_wait<T>(result: &Result<T>) -> bool {
    use larder_ext4::Error as Ext4;
    matches!(
        result,
        Err(Error::Ext4(Ext4::WouldWait | Ext4::NotInMemory(_)))
    )
}

/// Returns whether `error` affects only one orphan, so that the remaining orphans can be processed.
fn is_damage(error: &Error) -> bool {
    use larder_ext4::Error as Ext4;
    !matches!(
        error,
        Error::Ext4(Ext4::Device(_) | Ext4::Aborted(_) | Ext4::ReadOnly(_)) | Error::Cache(_)
    )
}
