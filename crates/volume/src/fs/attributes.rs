//! The attributes and extended attributes of files.
//!
//! A function whose name ends in `_nofollow` accesses a symbolic link itself, not its target. So
//! do [`Fs::symlink_metadata`] and [`Fs::lchown`], which have their names from the standard library.

use super::path::{Fs, Last, Pinned};
use crate::{Metadata, SetAttributes, SetTime, XattrMode};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

impl Fs {
    /// Returns the attributes of the file at `path`.
    ///
    /// # Errors
    /// The same as for [`std::fs::metadata`].
    pub fn metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        self.metadata_at(path.as_ref(), Last::Follow)
    }

    /// Returns the attributes of the file at `path`. If it is a symbolic link, returns those of the
    /// link itself.
    ///
    /// # Errors
    /// The same as for [`std::fs::symlink_metadata`].
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        self.metadata_at(path.as_ref(), Last::Keep)
    }

    #[inline]
    fn metadata_at(&self, path: &Path, last: Last) -> io::Result<Metadata> {
        let pinned = self.pin(path, last)?;
        // Convert the error here, before the attributes are computed. A conversion of the final result would copy them.
        let inode = self.volume().inode(pinned.ino())?;
        Ok(self.volume().metadata_of(&inode))
    }

    /// Returns whether `path` exists. A symbolic link exists if its target does.
    ///
    /// # Errors
    /// The same as for [`std::fs::exists`].
    pub fn exists(&self, path: impl AsRef<Path>) -> io::Result<bool> {
        match self.pin(path.as_ref(), Last::Follow) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sets the permission, set-id and sticky bits of the file at `path`.
    ///
    /// # Errors
    /// The same as for [`std::fs::set_permissions`].
    pub fn set_permissions(&self, path: impl AsRef<Path>, permissions: u16) -> io::Result<()> {
        let set = SetAttributes {
            permissions: Some(permissions),
            ..SetAttributes::default()
        };
        self.set(path.as_ref(), Last::Follow, &set)
    }

    /// Sets the owner and the group of the file at `path`. `None` leaves a value unchanged.
    ///
    /// # Errors
    /// The same as for [`std::os::unix::fs::chown`].
    pub fn chown(
        &self,
        path: impl AsRef<Path>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> io::Result<()> {
        self.set(path.as_ref(), Last::Follow, &owner(uid, gid))
    }

    /// Sets the owner and the group like [`Fs::chown`]. If `path` is a symbolic link, sets those of
    /// the link itself.
    ///
    /// # Errors
    /// The same as for [`std::os::unix::fs::lchown`].
    pub fn lchown(
        &self,
        path: impl AsRef<Path>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> io::Result<()> {
        self.set(path.as_ref(), Last::Keep, &owner(uid, gid))
    }

    /// Sets the times of the last access and of the last change of the content. `None` leaves a time
    /// unchanged. A [`SystemTime`](std::time::SystemTime) is converted with `SetTime::from`.
    ///
    /// # Errors
    /// The same as for [`std::fs::set_permissions`].
    pub fn set_times(
        &self,
        path: impl AsRef<Path>,
        accessed: Option<SetTime>,
        modified: Option<SetTime>,
    ) -> io::Result<()> {
        self.set(path.as_ref(), Last::Follow, &times(accessed, modified))
    }

    /// Sets the times like [`Fs::set_times`]. If `path` is a symbolic link, sets those of the link
    /// itself.
    ///
    /// # Errors
    /// The same as for [`Fs::set_times`].
    pub fn set_times_nofollow(
        &self,
        path: impl AsRef<Path>,
        accessed: Option<SetTime>,
        modified: Option<SetTime>,
    ) -> io::Result<()> {
        self.set(path.as_ref(), Last::Keep, &times(accessed, modified))
    }

    fn set(&self, path: &Path, last: Last, set: &SetAttributes) -> io::Result<()> {
        let pinned = self.pin(path, last)?;
        self.volume().set_attributes(pinned.ino(), set)?;
        Ok(())
    }

    /// Returns the value of the extended attribute `name` of the file at `path`, or `None` if the
    /// file has no such attribute. The name includes the prefix, as in `user.tag`.
    ///
    /// # Errors
    /// The same as for getxattr(2), except `ENODATA`.
    pub fn xattr(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
    ) -> io::Result<Option<Vec<u8>>> {
        self.xattr_at(path.as_ref(), Last::Follow, name.as_ref())
    }

    /// Returns the value like [`Fs::xattr`]. If `path` is a symbolic link, returns that of the link
    /// itself.
    ///
    /// # Errors
    /// The same as for [`Fs::xattr`].
    pub fn xattr_nofollow(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
    ) -> io::Result<Option<Vec<u8>>> {
        self.xattr_at(path.as_ref(), Last::Keep, name.as_ref())
    }

    fn xattr_at(&self, path: &Path, last: Last, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
        let pinned = self.pin(path, last)?;
        Ok(self.volume().xattr(pinned.ino(), name.as_bytes())?)
    }

    /// Returns the names of all extended attributes of the file at `path`.
    ///
    /// # Errors
    /// The same as for listxattr(2).
    pub fn xattrs(&self, path: impl AsRef<Path>) -> io::Result<Vec<OsString>> {
        self.xattrs_at(path.as_ref(), Last::Follow)
    }

    /// Returns the names like [`Fs::xattrs`]. If `path` is a symbolic link, returns those of the
    /// link itself.
    ///
    /// # Errors
    /// The same as for [`Fs::xattrs`].
    pub fn xattrs_nofollow(&self, path: impl AsRef<Path>) -> io::Result<Vec<OsString>> {
        self.xattrs_at(path.as_ref(), Last::Keep)
    }

    fn xattrs_at(&self, path: &Path, last: Last) -> io::Result<Vec<OsString>> {
        let pinned = self.pin(path, last)?;
        let names = self.volume().xattrs(pinned.ino())?;
        Ok(names.into_iter().map(OsString::from_vec).collect())
    }

    /// Sets the extended attribute `name` of the file at `path`.
    ///
    /// # Errors
    /// The same as for setxattr(2).
    pub fn set_xattr(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: impl AsRef<[u8]>,
    ) -> io::Result<()> {
        self.set_xattr_with(path, name, value, XattrMode::Any)
    }

    /// Sets the attribute like [`Fs::set_xattr`]. If `path` is a symbolic link, sets that of the
    /// link itself.
    ///
    /// # Errors
    /// The same as for [`Fs::set_xattr`]. A link cannot have `user.` attributes.
    pub fn set_xattr_nofollow(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: impl AsRef<[u8]>,
    ) -> io::Result<()> {
        self.set_xattr_with_nofollow(path, name, value, XattrMode::Any)
    }

    /// Sets the attribute like [`Fs::set_xattr`]. `mode` can require that the attribute exists, or that it does not
    /// exist.
    ///
    /// # Errors
    /// `EEXIST` or `ENODATA` if the requirement of `mode` is not met, or an error of [`Fs::set_xattr`].
    pub fn set_xattr_with(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: impl AsRef<[u8]>,
        mode: XattrMode,
    ) -> io::Result<()> {
        let pinned = self.pin(path.as_ref(), Last::Follow)?;
        self.set_xattr_of(&pinned, name.as_ref(), value.as_ref(), mode)
    }

    /// Sets the attribute like [`Fs::set_xattr_with`]. If `path` is a symbolic link, sets that of the
    /// link itself.
    ///
    /// # Errors
    /// The same as for [`Fs::set_xattr_with`] and [`Fs::set_xattr_nofollow`].
    pub fn set_xattr_with_nofollow(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: impl AsRef<[u8]>,
        mode: XattrMode,
    ) -> io::Result<()> {
        let pinned = self.pin(path.as_ref(), Last::Keep)?;
        self.set_xattr_of(&pinned, name.as_ref(), value.as_ref(), mode)
    }

    fn set_xattr_of(
        &self,
        pinned: &Pinned,
        name: &OsStr,
        value: &[u8],
        mode: XattrMode,
    ) -> io::Result<()> {
        let (ino, name) = (pinned.ino(), name.as_bytes());
        Ok(self.volume().set_xattr(ino, name, value, mode)?)
    }

    /// Removes the extended attribute `name` of the file at `path`.
    ///
    /// # Errors
    /// The same as for removexattr(2).
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.remove_xattr_at(path.as_ref(), Last::Follow, name.as_ref())
    }

    /// Removes the attribute like [`Fs::remove_xattr`]. If `path` is a symbolic link, removes that
    /// of the link itself.
    ///
    /// # Errors
    /// The same as for [`Fs::remove_xattr`].
    pub fn remove_xattr_nofollow(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        self.remove_xattr_at(path.as_ref(), Last::Keep, name.as_ref())
    }

    fn remove_xattr_at(&self, path: &Path, last: Last, name: &OsStr) -> io::Result<()> {
        let pinned = self.pin(path, last)?;
        Ok(self.volume().remove_xattr(pinned.ino(), name.as_bytes())?)
    }
}

fn times(accessed: Option<SetTime>, modified: Option<SetTime>) -> SetAttributes {
    SetAttributes {
        atime: accessed,
        mtime: modified,
        ..SetAttributes::default()
    }
}

fn owner(uid: Option<u32>, gid: Option<u32>) -> SetAttributes {
    SetAttributes {
        uid,
        gid,
        ..SetAttributes::default()
    }
}
