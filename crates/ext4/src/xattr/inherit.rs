//! Access control lists that new files inherit from their directory.

use super::share::XattrOffer;
use crate::error::DamageAt;
use crate::journal::Handle;
use crate::ondisk::acl::Acl;
use crate::ondisk::xattr::{NameIndex, StoredValue};
use crate::{FileKind, Filesystem, Inode, Result};
use std::borrow::Cow;

/// The permission bits that a umask can clear.
const PERMISSIONS: u16 = 0o777;

impl Filesystem {
    /// Sets the access control lists of the new file `child` from the default list of `parent`, and
    /// adjusts the mode of `child`. If `parent` has no default list, applies `umask` instead.
    /// Writes the inode. Does nothing if `child` is a symbolic link.
    pub fn inherit_acl(
        &self,
        handle: &mut Handle<'_>,
        parent: &Inode,
        child: &mut Inode,
        umask: u16,
    ) -> Result<()> {
        if child.kind() == FileKind::Symlink {
            return Ok(());
        }
        let Some(mut list) = self.stored_acl(parent, NameIndex::ACL_DEFAULT)? else {
            child.set_mode(child.mode() & !(umask & PERMISSIONS));
            return self.write_inode(handle, child);
        };
        let before = self.attributes(child)?;
        let mut after = before.clone();
        let mut lists = Vec::new();
        if child.kind() == FileKind::Directory {
            lists.push((NameIndex::ACL_DEFAULT, list.to_disk()));
        }
        child.set_mode(list.inherit(child.mode()));
        if !list.is_mode() {
            lists.push((NameIndex::ACL_ACCESS, list.to_disk()));
        }
        for (index, value) in lists {
            self.put(handle, child, &mut after, (index, b""), &value)?;
        }
        let change = self.change_of(child.ino(), before, after)?;
        self.store_attributes(handle, child, change)
    }

    /// Returns the access list of `inode`, if it has one.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if the list is damaged, or the device's error.
    pub fn access_acl(&self, inode: &Inode) -> Result<Option<Acl>> {
        self.stored_acl(inode, NameIndex::ACL_ACCESS)
    }

    fn stored_acl(&self, inode: &Inode, index: NameIndex) -> Result<Option<Acl>> {
        let attributes = self.attributes(inode)?;
        let Some(attribute) = attributes.find(index, b"") else {
            return Ok(None);
        };
        let value = match &attribute.value {
            StoredValue::Inline(value) => Cow::Borrowed(value),
            &StoredValue::Inode {
                ino, size_bytes, ..
            } => Cow::Owned(self.xattr_inode_value(inode, ino, size_bytes, XattrOffer::Nothing)?),
        };
        Acl::from_disk(&value).map(Some).at(inode.place())
    }
}
