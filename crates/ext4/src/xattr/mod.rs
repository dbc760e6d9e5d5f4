//! Extended attributes of an inode.
//!
//! Model: the kernel's `ext4_xattr_get` and `ext4_xattr_list`. Attributes are stored in the inode
//! after its fixed fields and in one block, which several inodes may share. A long value is stored
//! as the content of a separate inode, the value inode. Names in this interface include the prefix,
//! for example `user.`. Access control lists are converted to and from the format of the system
//! calls. Attributes that only the file system uses, such as inline data, are hidden.
//!
//! A caller must hold the lock of the inode: in shared mode to read attributes, and in exclusive
//! mode to change them.

mod block;
mod inherit;
mod inline_data;
mod new_value;
mod places;
mod share;
mod store;
mod stored;
mod value_inode;
pub(crate) mod write;

pub use share::{ShareCounts, XattrOffer};
pub(crate) use share::{Sharing, SharingChanges};
pub use value_inode::MAX_VALUE_BYTES;

use crate::error::{DamageAt, Place};
use crate::ondisk::acl::Acl;
use crate::ondisk::xattr::{NameIndex, ValuePlace, XattrEntries};
use crate::{Error, Filesystem, Ino, Inode, Result};
use std::ops::ControlFlow;
use stored::{Visit, visit_all};
use value_inode::low_half;

/// The maximum length in bytes of a name with its prefix: the limit of Linux's system calls.
const MAX_NAME_BYTES: usize = 255;

impl Filesystem {
    /// Returns the value of the attribute `name` of `inode`, or `None` if the attribute does not
    /// exist. `offer` determines whether the contents that are read are offered for sharing.
    ///
    /// # Errors
    /// [`Error::AttributeName`], [`Error::NotSupported`] if the name has no known prefix,
    /// [`Error::Invalid`] if it has only the prefix, [`Error::Corrupt`] if the attributes or the
    /// value are damaged, or the device's error.
    pub fn xattr(&self, inode: &Inode, name: &[u8], offer: XattrOffer) -> Result<Option<Vec<u8>>> {
        let (index, name) = split_name(inode, name)?;
        let mut found = None;
        self.for_each_xattr(inode, offer, &mut |entry, place| {
            if entry.index != index || entry.name != name {
                return Ok(ControlFlow::Continue(()));
            }
            let value = self.xattr_value(inode, entry.value, offer)?;
            found = Some(
                if matches!(index, NameIndex::ACL_ACCESS | NameIndex::ACL_DEFAULT) {
                    Acl::from_disk(&value).at(place)?.to_user()
                } else {
                    value
                },
            );
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    /// Returns the names of the attributes of `inode`: those in the inode, and then those in the
    /// block, in stored order. `offer` determines whether the contents that are read are offered
    /// for sharing.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the attributes are damaged, or the device's error.
    pub fn xattrs(&self, inode: &Inode, offer: XattrOffer) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        self.for_each_xattr(inode, offer, &mut |entry, _| {
            if let Some(prefix) = entry.index.prefix() {
                names.push([prefix, entry.name].concat());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(names)
    }

    fn for_each_xattr(
        &self,
        inode: &Inode,
        offer: XattrOffer,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        if self.for_each_xattr_in_inode(inode, visit)?.is_break() {
            return Ok(());
        }
        if let Some(block) = inode.file_acl() {
            let place = Place::Block(block, inode.ino());
            let buffer = self.xattr_block(inode, block)?;
            let entries = XattrEntries::in_block(&buffer);
            let entries = entries.at(place)?;
            if offer == XattrOffer::UnderLock {
                self.offer_block(block, &buffer);
            }
            let _ = visit_all(entries, place, visit)?;
        }
        Ok(())
    }

    fn xattr_value(
        &self,
        inode: &Inode,
        value: ValuePlace<'_>,
        offer: XattrOffer,
    ) -> Result<Vec<u8>> {
        match value {
            ValuePlace::Inline(value) => Ok(value.to_vec()),
            ValuePlace::Inode { ino, size_bytes } => {
                self.xattr_inode_value(inode, ino, size_bytes, offer)
            }
        }
    }

    /// Returns the value of an attribute of `owner` that is stored in the value inode `ino`.
    fn xattr_inode_value(
        &self,
        owner: &Inode,
        ino: Ino,
        size_bytes: u32,
        offer: XattrOffer,
    ) -> Result<Vec<u8>> {
        let place = Place::Inode(ino);
        let inode = self.value_inode(ino)?;
        if inode.size_bytes() != u64::from(size_bytes) {
            return Err(place.corrupt("length of the attribute value differs from its entry"));
        }
        let value = self.small_content(&inode, size_bytes)?;
        // The field of the access time contains the hash of the content. In the older format of
        // Lustre, there is no hash, but the inode identifies its owner.
        let (seconds, owner_seconds) = (inode.atime().seconds, inode.mtime().seconds);
        let has_hash = low_half(seconds) == self.value_checksum(&value).0;
        let names_owner =
            low_half(owner_seconds) == owner.ino().0 && inode.generation() == owner.generation();
        if has_hash && offer == XattrOffer::UnderLock {
            self.offer_value(&inode);
        }
        if has_hash || names_owner {
            Ok(value)
        } else {
            Err(place.corrupt("hash of the attribute value is wrong"))
        }
    }
}

/// Returns an error if `name`, which includes the prefix, is empty or too long to be the name of an
/// attribute. Linux checks this first, before it finds the file `ino`.
///
/// # Errors
/// [`Error::AttributeName`].
pub fn check_name_length(ino: Ino, name: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(Error::AttributeName(ino));
    }
    Ok(())
}

/// Splits the name of an attribute that a program uses into the class that its prefix represents
/// and the name without the prefix.
fn split_name<'n>(inode: &Inode, name: &'n [u8]) -> Result<(NameIndex, &'n [u8])> {
    let ino = inode.ino();
    check_name_length(ino, name)?;
    let not_supported = "extended attributes in this namespace";
    let (index, name) = NameIndex::split(name).ok_or(Error::NotSupported(ino, not_supported))?;
    if name.is_empty() && !index.is_whole_name() {
        let what = "the name of the extended attribute consists of the prefix alone";
        return Err(Error::Invalid(ino, what));
    }
    Ok((index, name))
}
