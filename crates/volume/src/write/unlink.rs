//! Public operations that remove names, and that add and release holds.
//!
//! Model: `vfs_unlink` and `vfs_rmdir`.

use super::names::{
    FIXED, NAME_CREDITS, check_changeable, check_flags, check_name, invalid, remove_subdirectory,
};
use crate::live::{Live, lock_exclusively};
use crate::{Error, Ino, Result, Volume};
use larder_ext4::Inode;
use larder_ext4::ondisk::inode::InodeFlags;

impl Volume {
    /// Removes a name of a file that is not a directory, and returns the inode number of the file.
    /// The file is deleted when it has neither names nor [holds](Volume::hold).
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `EPERM`, `EROFS`, …, or an error of the image.
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<Ino> {
        self.remove(parent, name, false)
    }

    /// Removes an empty directory, and returns its inode number.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, `EPERM`, `EROFS`, …, or an error of the image.
    pub fn remove_dir(&self, parent: Ino, name: &[u8]) -> Result<Ino> {
        match name {
            b"." => Err(invalid(parent, "the entry . cannot be removed")),
            b".." => Err(larder_ext4::Error::NotEmpty(parent).into()),
            _ => self.remove(parent, name, true),
        }
    }

    fn remove(&self, parent: Ino, name: &[u8], directory: bool) -> Result<Ino> {
        self.writer.change(|| {
            check_name(parent, name)?;
            let dir_live = self.live(parent)?;
            loop {
                // The name is looked up here without locks, and again below with the locks held.
                let live = self.live(self.lookup(parent, name)?)?;
                let _locked = lock_exclusively([&dir_live, &live])?;
                let (ino, _) = self.inodes.existing_entry(&dir_live.inode()?, name)?;
                if ino == live.ino() {
                    self.remove_locked(&dir_live, name, &live, directory)?;
                    return Ok(ino);
                }
            }
        })
    }

    /// Removes `name`, which refers to `live`, from `dir_live`. `rw` of both inodes must be held
    /// exclusively.
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
        let (handle, (dir, inode)) = fs.change(NAME_CREDITS, |handle| -> Result<_> {
            let (mut dir, mut inode) = (dir_live.inode()?, live.inode()?);
            fs.remove_entry(handle, &mut dir, name)?;
            if directory {
                remove_subdirectory(&mut dir);
            }
            self.writer.stamp(&mut dir);
            fs.write_inode(handle, &dir)?;
            self.writer.drop_name(handle, &mut inode)?;
            Ok((dir, inode))
        })?;
        live.publish_attributes(&handle, &inode);
        dir_live.publish(&handle, &dir);
        handle.stop();
        self.inodes.insert_dentry(dir_live.ino(), name, None);
        self.writer.delete_if_unused(live, &inode);
        Ok(())
    }

    /// Adds a hold to the inode `ino`. A hold prevents the deletion of the inode, even after all
    /// its names are removed. The inode keeps its number until each hold is
    /// [released](Volume::release). Without a hold, the inode may be deleted before the next call,
    /// and the number may then belong to another file.
    /// [`Metadata::generation`](crate::Metadata::generation) distinguishes files that had the same
    /// number.
    ///
    /// # Errors
    /// `ESTALE` if the inode was deleted. No hold is then added.
    pub fn hold(&self, ino: Ino) -> Result<()> {
        self.writer.hold(ino)
    }

    /// Releases `count` holds of `ino`. If the inode then has neither names nor holds, deletes it.
    /// If the volume is closed or has become read-only, the inode is deleted when the image is next
    /// opened for writing.
    ///
    /// # Errors
    /// An error of the image.
    pub fn release(&self, ino: Ino, count: u64) -> Result<()> {
        self.writer.release(ino, count)
    }

    /// Releases a hold of `ino` like [`Volume::release`], and returns true. If the deletion of the inode
    /// would have to wait for a device or a lock, keeps the hold and returns false. A part of the
    /// content may then already be freed.
    ///
    /// # Errors
    /// The same as for [`Volume::release`].
    pub fn try_release(&self, ino: Ino) -> Result<bool> {
        self.writer.try_release(ino)
    }
}

/// Returns an error if `name` of `inode` cannot be removed from `dir`, because the directory cannot
/// be changed, or because of the flags of `dir` or `inode`.
pub(super) fn check_removable(dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
    check_changeable(dir, name)?;
    if dir.flags().contains(InodeFlags::APPEND) {
        let what = "the directory is append-only";
        return Err(Error::NotPermitted(dir.ino(), what));
    }
    check_flags(inode, FIXED)
}
