//! Operations on what is known of a file: attributes of all kinds, flags; and the label.

use super::{SetAttributes, XattrMode};
use crate::{Ino, Metadata, Result, Volume};

impl Volume {
    /// Sets what `set` names. The rules on set-id bits that depend on the caller are the
    /// caller's; those that do not (chown by anyone, a write) are kept here.
    ///
    /// # Errors
    /// `EROFS`, `EPERM` on an immutable file, …, or what is wrong with the image.
    pub fn set_attributes(&self, ino: Ino, set: &SetAttributes) -> Result<Metadata> {
        let _ = (ino, set);
        todo!()
    }

    /// Takes the set-id bits off a file that somebody without privileges wrote to or owns now.
    ///
    /// # Errors
    /// As [`Volume::set_attributes`].
    pub fn clear_set_id(&self, ino: Ino) -> Result<()> {
        let _ = ino;
        todo!()
    }

    /// Sets the attribute `name` (with its prefix). An access control list changes the mode too.
    ///
    /// # Errors
    /// `EEXIST`, `ENODATA`, `ENOSPC`, …, or what is wrong with the image.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let _ = (ino, name, value, mode);
        todo!()
    }

    /// Removes the attribute `name`.
    ///
    /// # Errors
    /// `ENODATA`, …, or what is wrong with the image.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let _ = (ino, name);
        todo!()
    }

    /// Sets the flags that chattr(1) can set (`FS_IOC_SETFLAGS`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` for flags that cannot be set, …, or what is wrong with the image.
    pub fn set_flags(&self, ino: Ino, flags: u32) -> Result<()> {
        let _ = (ino, flags);
        todo!()
    }

    /// Sets the label, at most 16 bytes.
    ///
    /// # Errors
    /// `EINVAL`, `EROFS`, or what is wrong with the image.
    pub fn set_label(&self, label: &[u8]) -> Result<()> {
        let _ = label;
        todo!()
    }
}
