//! Access control lists that new files inherit from their directory.

use super::share::XattrOffer;
use crate::error::DamageAt;
use crate::journal::Handle;
use crate::ondisk::acl::Acl;
use crate::ondisk::xattr::{NameIndex, StoredValue};
use crate::{FileKind, Filesystem, Inode, Result};

/// The permission bits that a umask can take away.
const PERMISSIONS: u16 = 0o777;

impl Filesystem {
    /// Sets the access control lists that `child`, which is new, inherits from the default list
    /// of `parent`, and its mode after them; `umask` counts where there is no such list. Writes
    /// the inode.
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
        if child.kind() == FileKind::Directory {
            let value = list.to_disk();
            self.put(
                handle,
                child,
                &mut after,
                (NameIndex::ACL_DEFAULT, b""),
                &value,
            )?;
        }
        child.set_mode(list.inherit(child.mode()));
        if !list.is_mode() {
            let value = list.to_disk();
            self.put(
                handle,
                child,
                &mut after,
                (NameIndex::ACL_ACCESS, b""),
                &value,
            )?;
        }
        let change = self.change_of(child.ino(), before, after)?;
        self.store_attributes(handle, child, change)
    }

    /// The access list of `inode`, if it has one.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged, or the device's.
    pub fn access_acl(&self, inode: &Inode) -> Result<Option<Acl>> {
        self.stored_acl(inode, NameIndex::ACL_ACCESS)
    }

    fn stored_acl(&self, inode: &Inode, index: NameIndex) -> Result<Option<Acl>> {
        let place = inode.place();
        let attributes = self.attributes(inode)?;
        let Some(attribute) = attributes.find(index, b"") else {
            return Ok(None);
        };
        match &attribute.value {
            StoredValue::Here(value) => Acl::from_disk(value).map(Some).at(place),
            StoredValue::Inode {
                ino, size_bytes, ..
            } => {
                let value =
                    self.xattr_inode_value(inode, *ino, *size_bytes, XattrOffer::Nothing)?;
                Acl::from_disk(&value).map(Some).at(place)
            }
        }
    }
}
