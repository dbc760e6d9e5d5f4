//! The extended attributes that contain access control lists.

use crate::Result;
use larder_ext4::{FileKind, Inode};

/// The list that applies to a file.
pub(crate) const ACCESS: &str = "system.posix_acl_access";
/// The default list of a directory, which new files in it inherit.
pub(crate) const DEFAULT: &str = "system.posix_acl_default";
/// The names of all lists.
pub(crate) const NAMES: [&str; 2] = [ACCESS, DEFAULT];

/// Returns whether `name` is the name of a list.
pub(crate) fn is_list(name: &[u8]) -> bool {
    NAMES.iter().any(|list| list.as_bytes() == name)
}

/// Returns an error if `name` is the name of a list and the file is a symbolic link, which cannot have
/// one.
pub(crate) fn check(inode: &Inode, name: &[u8]) -> Result<()> {
    if is_list(name) && inode.kind() == FileKind::Symlink {
        let what = "an access control list on a symbolic link";
        return Err(larder_ext4::Error::NotSupported(inode.ino(), what).into());
    }
    Ok(())
}
