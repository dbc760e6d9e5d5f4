//! Operations on names: removing them, and the files that have none left.
//!
//! Model: `vfs_unlink`, `vfs_rmdir` and `ext4_evict_inode`. A file that lost its last name is an
//! orphan of the image until it is deleted: at once if nobody holds it, or when the last one
//! releases it, or at the next mount. Deleting takes as many handles as it has blocks for.

use super::names::{
    FIXED, IS_FIXED, NAME_CREDITS, check_changeable, check_name, invalid, remove_subdirectory,
};
use crate::live::{Live, lock_exclusively};
use crate::read::Reader;
use crate::{Error, Ino, Result, Volume};
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::{FileBlocks, Handle, Inode};

/// Blocks that one of the handles that delete or cut a file may change.
const DELETE_CREDITS: u32 = 128;

/// All blocks that a file can have.
const ALL_BLOCKS: FileBlocks = 0..1 << 32;

impl Volume {
    /// Removes a name of what is no directory. The file itself goes with its last name, or
    /// when nobody [holds](Volume::hold) it any more. Returns its inode.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `EPERM`, `EROFS`, …, or what is wrong with the image.
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<Ino> {
        self.remove(parent, name, false)
    }

    /// Removes an empty directory. Returns its inode.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, `EPERM`, `EROFS`, …, or what is wrong with the image.
    pub fn remove_dir(&self, parent: Ino, name: &[u8]) -> Result<Ino> {
        match name {
            b"." => Err(invalid(parent, "a directory is not removed from within")),
            b".." => Err(larder_ext4::Error::NotEmpty(parent).into()),
            _ => self.remove(parent, name, true),
        }
    }

    fn remove(&self, parent: Ino, name: &[u8], directory: bool) -> Result<Ino> {
        self.change(|| {
            check_name(parent, name)?;
            let dir_live = self.live(parent)?;
            loop {
                // Not locked yet: looked up again with the locks.
                let live = self.live(self.lookup(parent, name)?)?;
                let _locked = lock_exclusively([&dir_live, &live]);
                let (ino, _) = self.existing_entry(&dir_live.inode()?, name)?;
                if ino == live.ino() {
                    self.remove_locked(&dir_live, name, &live, directory)?;
                    return Ok(ino);
                }
            }
        })
    }

    /// Removes `name` in `dir_live`, which stands for `live`. Both are locked exclusively.
    fn remove_locked(
        &self,
        dir_live: &Live<'_>,
        name: &[u8],
        live: &Live<'_>,
        directory: bool,
    ) -> Result<()> {
        let (dir, inode) = (dir_live.inode()?, live.inode()?);
        match (directory, inode.is_directory()) {
            (true, false) => return Err(larder_ext4::Error::NotDirectory(live.ino()).into()),
            (false, true) => return Err(Error::IsDirectory(live.ino())),
            _ => {}
        }
        check_removable(&dir, name, &inode)?;
        let fs = self.fs();
        if directory && !fs.is_empty_directory(&inode)? {
            return Err(larder_ext4::Error::NotEmpty(live.ino()).into());
        }
        let mut handle = fs.start(NAME_CREDITS)?;
        let (mut dir, mut inode) = (dir_live.inode()?, live.inode()?);
        fs.remove_entry(&mut handle, &mut dir, name)?;
        if directory {
            remove_subdirectory(&mut dir);
        }
        self.stamp_names(&mut dir);
        fs.write_inode(&mut handle, &dir)?;
        self.drop_name(&mut handle, &mut inode)?;
        live.publish_attributes(&handle, &inode);
        dir_live.publish(&handle, &dir);
        handle.stop();
        self.remember(dir_live.ino(), name, None);
        self.delete_if_unused(live, &inode);
        Ok(())
    }

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
        if let Err(error) = self.change_once(|| self.reader.delete(live)) {
            let ino = live.ino();
            tracing::error!(%ino, %error, "a file without names is not deleted and stays an orphan");
        }
    }

    /// Somebody keeps the number `ino`: until as many [releases](Volume::release), it is this
    /// inode's, which stays, names or not. A number that nobody holds may be stale, or another
    /// file's, by the next call; [`Metadata::generation`](crate::Metadata::generation) tells files
    /// apart that had the same number.
    ///
    /// # Errors
    /// `ESTALE` if the inode is deleted; it is not held then.
    pub fn hold(&self, ino: Ino) -> Result<()> {
        self.reader.hold(ino)
    }

    /// Ends `count` uses of `ino`; without names and uses, it is deleted. Where the volume is closed
    /// or turned read-only, the next one that is opened for writing deletes it.
    ///
    /// # Errors
    /// What is wrong with the image.
    pub fn release(&self, ino: Ino, count: u64) -> Result<()> {
        self.reader.release(ino, count)
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
        self.reader
            .inodes
            .caches
            .inodes
            .insert(ino.0, &inode.words());
        let live = self.live(ino)?;
        let _alone = live.rw.write();
        if inode.links() == 0 {
            self.reader.delete(&live)
        } else {
            self.finish_cut(&live)
        }
    }

    /// Gives up the blocks behind the end of a file that was being cut.
    fn finish_cut(&self, live: &Live<'_>) -> Result<()> {
        let _mapping = live.map.write();
        let fs = self.fs();
        let block_size_bytes = u64::from(fs.superblock().block_size_bytes());
        let end = live.inode()?.size_bytes().div_ceil(block_size_bytes);
        let mut blocks = end.min(ALL_BLOCKS.end)..ALL_BLOCKS.end;
        loop {
            let mut handle = fs.start(DELETE_CREDITS)?;
            let mut inode = live.inode()?;
            blocks = self.reader.cut_blocks(&mut handle, &mut inode, blocks)?;
            if blocks.is_empty() {
                fs.remove_orphan(&mut handle, &mut inode)?;
            }
            fs.write_inode(&mut handle, &inode)?;
            live.publish(&handle, &inode);
            handle.stop();
            if blocks.is_empty() {
                return Ok(());
            }
        }
    }
}

impl Reader {
    /// As [`Volume::hold`].
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

    /// As [`Volume::release`].
    pub(crate) fn release(&self, ino: Ino, count: u64) -> Result<()> {
        let Some(table) = &self.inodes.live else {
            return Ok(());
        };
        if !table.release(ino, count) {
            return Ok(());
        }
        self.inodes.fs.release_preallocation(ino);
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
        let mut blocks = ALL_BLOCKS;
        let fs = &self.inodes.fs;
        loop {
            let mut handle = fs.start(DELETE_CREDITS)?;
            let mut inode = live.inode()?;
            blocks = self.cut_blocks(&mut handle, &mut inode, blocks)?;
            let is_empty = blocks.is_empty() && fs.drop_xattrs(&mut handle, &mut inode)?;
            if is_empty {
                fs.remove_orphan(&mut handle, &mut inode)?;
                fs.delete_inode(&mut handle, &mut inode, self.clock.now())?;
                live.forget();
                handle.stop();
                return Ok(());
            }
            fs.write_inode(&mut handle, &inode)?;
            live.publish(&handle, &inode);
            handle.stop();
        }
    }

    /// Gives up as many of the blocks of `inode` in `blocks` as fit into the handle; returns which
    /// are left.
    fn cut_blocks(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        blocks: FileBlocks,
    ) -> Result<FileBlocks> {
        if blocks.is_empty() || !self.inodes.fs.has_blocks(inode) {
            return Ok(0..0);
        }
        let left = self.inodes.fs.unmap(handle, inode, blocks.clone())?;
        if left == blocks {
            return Err(larder_ext4::Error::HandleTooLarge.into());
        }
        Ok(left)
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

/// Refuses to remove `inode`, which is `name` in `dir`, where one of both forbids that.
pub(super) fn check_removable(dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
    check_changeable(dir, name)?;
    if dir.flags().contains(InodeFlags::APPEND) {
        let what = "the directory is append-only";
        return Err(Error::NotPermitted(dir.ino(), what));
    }
    if inode.flags().intersects(FIXED) {
        return Err(Error::NotPermitted(inode.ino(), IS_FIXED));
    }
    Ok(())
}
