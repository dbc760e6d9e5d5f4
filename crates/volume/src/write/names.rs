//! Operations on names: creating, linking, renaming, removing.

use super::{DeviceNumber, FileKind, NewFile, RenameFlags};
use crate::{Ino, Metadata, Result, Volume};

impl Volume {
    /// Creates a regular file. Its name must not be there.
    ///
    /// # Errors
    /// `EEXIST`, `ENOSPC`, `EROFS`, …, or what is wrong with the image.
    pub fn create(&self, parent: Ino, name: &[u8], new: &NewFile) -> Result<Metadata> {
        self.make_node(parent, name, FileKind::Regular, None, new)
    }

    /// Creates a file of any type but a directory or a link, as mknod(2).
    ///
    /// # Errors
    /// As [`Volume::create`].
    pub fn make_node(
        &self,
        parent: Ino,
        name: &[u8],
        kind: FileKind,
        device: Option<DeviceNumber>,
        new: &NewFile,
    ) -> Result<Metadata> {
        let _ = (parent, name, kind, device, new);
        todo!()
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// As [`Volume::create`].
    pub fn make_dir(&self, parent: Ino, name: &[u8], new: &NewFile) -> Result<Metadata> {
        let _ = (parent, name, new);
        todo!()
    }

    /// Creates a symbolic link; its permissions are 0777 whatever `new` says.
    ///
    /// # Errors
    /// As [`Volume::create`].
    pub fn symlink(
        &self,
        parent: Ino,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Result<Metadata> {
        let _ = (parent, name, target, new);
        todo!()
    }

    /// Creates a regular file that has no name, as `O_TMPFILE`: [`Volume::link`] can give it one.
    /// It is deleted when nobody [holds](Volume::hold) it any more.
    ///
    /// # Errors
    /// As [`Volume::create`].
    pub fn make_unnamed(&self, parent: Ino, new: &NewFile) -> Result<Metadata> {
        let _ = (parent, new);
        todo!()
    }

    /// Gives `ino`, no directory, one more name.
    ///
    /// # Errors
    /// As [`Volume::create`], `EMLINK`, `EPERM`.
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Metadata> {
        let _ = (ino, parent, name);
        todo!()
    }

    /// Removes a name of what is no directory. The file itself goes with its last name, or
    /// when nobody [holds](Volume::hold) it any more. Returns its inode.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `EPERM`, `EROFS`, …, or what is wrong with the image.
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<Ino> {
        let _ = (parent, name);
        todo!()
    }

    /// Removes an empty directory. Returns its inode.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, `EPERM`, `EROFS`, …, or what is wrong with the image.
    pub fn remove_dir(&self, parent: Ino, name: &[u8]) -> Result<Ino> {
        let _ = (parent, name);
        todo!()
    }

    /// Renames, as renameat2(2).
    ///
    /// # Errors
    /// As rename(2), or what is wrong with the image.
    pub fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        let _ = (parent, name, new_parent, new_name, flags);
        todo!()
    }

    /// Somebody uses `ino`: it stays, names or not, until as many [releases](Volume::release).
    pub fn hold(&self, ino: Ino) {
        let _ = ino;
        todo!()
    }

    /// Ends `count` uses of `ino`; without names and uses, it is deleted.
    ///
    /// # Errors
    /// What is wrong with the image.
    pub fn release(&self, ino: Ino, count: u64) -> Result<()> {
        let _ = (ino, count);
        todo!()
    }
}
