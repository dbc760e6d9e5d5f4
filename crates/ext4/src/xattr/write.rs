//! Setting and removing extended attributes, in every place where they can be stored.
//!
//! If a function here fails, it may have changed something. The caller must drop the handle, which undoes
//! the changes.

use super::MAX_VALUE_BYTES;
use super::places::Attributes;
use super::share::XattrOffer;
use super::store::Change;
use crate::journal::Handle;
use crate::ondisk::acl::Acl;
use crate::ondisk::features::Incompat;
use crate::ondisk::xattr::{
    NameIndex, StoredValue, StoredXattr, ValuePlace, block_room_bytes, inode_value_hash,
    space_bytes,
};
use crate::{Error, Filesystem, Inode, Result};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Whether an attribute may, must, or must not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Set it whether or not it exists.
    Any,
    /// It must not exist: `XATTR_CREATE`.
    Create,
    /// It must exist: `XATTR_REPLACE`.
    Replace,
}

/// A planned change of an inode's attributes, to be made by [`Filesystem::change_xattrs`].
#[derive(Debug)]
pub struct XattrChange<'a>(Planned<'a>);

#[derive(Debug)]
enum Planned<'a> {
    /// The change is complete, and has to be written.
    Change(Change),
    /// The value will be stored in a separate inode.
    InValueInode {
        before: Attributes,
        after: Attributes,
        name: (NameIndex, &'a [u8]),
        value: Cow<'a, [u8]>,
    },
}

/// The maximum length of a name without its prefix.
const MAX_NAME_BYTES: usize = 255;

/// Blocks that a change of attributes modifies, in addition to those of value inodes: the inode, two
/// attribute blocks, the bitmap and descriptor of each, and the superblock.
const CREDITS: u32 = 8;

/// Blocks that creating or deleting a value inode modifies, in addition to its content: bitmaps and
/// descriptors of the inode and the blocks, the inode, and nodes of its mapping.
const VALUE_INODE_CREDITS: u32 = 16;

impl Filesystem {
    /// Returns the credits that a handle needs to set or remove an attribute of `inode`, whose lock is
    /// held. If its block is replaced, the references of all values in it change.
    #[must_use]
    pub fn xattr_credits(&self, inode: &Inode) -> u32 {
        if self.has_value_inodes() {
            let content = MAX_VALUE_BYTES.div_ceil(self.superblock().block_size_bytes());
            // One value is created, another deleted.
            CREDITS + 2 * VALUE_INODE_CREDITS + content + self.value_table_blocks(inode)
        } else {
            CREDITS
        }
    }

    /// Returns the number of inode table blocks with the value inodes of `inode`. Attributes that cannot
    /// be read are ignored, because a change of them fails.
    fn value_table_blocks(&self, inode: &Inode) -> u32 {
        let mut blocks = BTreeSet::new();
        let _ = self.for_each_xattr(inode, XattrOffer::Nothing, &mut |entry, _| {
            if let ValuePlace::Inode { ino, .. } = entry.value {
                blocks.insert(self.inode_place(ino)?.0);
            }
            Ok(ControlFlow::Continue(()))
        });
        u32::try_from(blocks.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn has_value_inodes(&self) -> bool {
        self.superblock().incompat.contains(Incompat::EA_INODE)
    }

    /// Sets the attribute `name` (full name) of `inode` to a value in the form for programs. If it is an
    /// access control list, the caller must change the mode. Changes the inode in memory and writes it.
    /// Writes nothing if the value does not change.
    ///
    /// # Errors
    /// As for [`Filesystem::plan_set_xattr`] and [`Filesystem::change_xattrs`].
    pub fn set_xattr(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        match self.plan_set_xattr(inode, name, value, mode)? {
            Some(change) => self.change_xattrs(handle, inode, change),
            None => Ok(()),
        }
    }

    /// Plans setting the attribute `name` of `inode`. Returns `None` if it has that value already. Needs
    /// no handle, but needs the inode's lock until the change is made. Inline data, which is also an
    /// attribute, must not change in between.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoAttribute`], [`Error::AttributeTooLarge`], [`Error::NotSupported`],
    /// [`Error::Invalid`], or the error for a damaged image.
    pub fn plan_set_xattr<'a>(
        &self,
        inode: &Inode,
        name: &'a [u8],
        value: &'a [u8],
        mode: XattrMode,
    ) -> Result<Option<XattrChange<'a>>> {
        let (index, name) = split_name(inode, name)?;
        let before = self.attributes(inode)?;
        let old = before.find(index, name);
        match (old, mode) {
            (Some(_), XattrMode::Create) => return Err(Error::Exists(inode.ino())),
            (None, XattrMode::Replace) => return Err(Error::NoAttribute(inode.ino())),
            _ => {}
        }
        let value = disk_form(inode, index, value)?;
        if value.len() > MAX_VALUE_BYTES as usize {
            return Err(Error::AttributeTooLarge(inode.ino()));
        }
        if let Some(old) = old
            && self.is_value(inode, old, &value)?
        {
            return Ok(None);
        }
        let mut after = before.clone();
        after.remove(index, name);
        let planned = if self.put_beside_entry(&mut after, (index, name), &value) {
            Planned::Change(self.change_of(inode.ino(), before, after)?)
        } else {
            Planned::InValueInode {
                before,
                after,
                name: (index, name),
                value,
            }
        };
        Ok(Some(XattrChange(planned)))
    }

    /// Makes a change that was planned for `inode`, and writes it.
    ///
    /// # Errors
    /// [`Error::AttributeTooLarge`], [`Error::NoSpace`], or the error for a damaged image.
    pub fn change_xattrs(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        change: XattrChange<'_>,
    ) -> Result<()> {
        let change = match change.0 {
            Planned::Change(change) => change,
            Planned::InValueInode {
                before,
                mut after,
                name,
                value,
            } => {
                self.put_in_value_inode(handle, inode, &mut after, name, &value)?;
                self.change_of(inode.ino(), before, after)?
            }
        };
        self.store_attributes(handle, inode, change)
    }

    /// Returns whether the value of `attribute` is `value`.
    fn is_value(&self, inode: &Inode, attribute: &StoredXattr, value: &[u8]) -> Result<bool> {
        match &attribute.value {
            StoredValue::Inline(old) => Ok(old == value),
            StoredValue::Inode {
                ino, size_bytes, ..
            } => Ok(*size_bytes as usize == value.len()
                && self.xattr_inode_value(inode, *ino, *size_bytes, XattrOffer::Nothing)? == value),
        }
    }

    /// Adds an attribute, whose name must not exist yet, to those of `inode`. Stores the value in an
    /// inode if it is large, or fits nowhere else.
    pub(super) fn put(
        &self,
        handle: &mut Handle<'_>,
        inode: &Inode,
        attributes: &mut Attributes,
        name: (NameIndex, &[u8]),
        value: &[u8],
    ) -> Result<()> {
        if self.put_beside_entry(attributes, name, value) {
            return Ok(());
        }
        self.put_in_value_inode(handle, inode, attributes, name, value)
    }

    /// Adds an attribute and stores its value with the entry. Returns false and changes nothing if it
    /// does not fit.
    fn put_beside_entry(
        &self,
        attributes: &mut Attributes,
        (index, name): (NameIndex, &[u8]),
        value: &[u8],
    ) -> bool {
        // The room with the shortest name.
        let room_bytes = block_room_bytes(self.buffers().block_size_bytes());
        space_bytes(1, value.len()) <= room_bytes
            && attributes.add(StoredXattr {
                index,
                name: name.to_vec(),
                value: StoredValue::Inline(value.to_vec()),
            })
    }

    /// Adds an attribute and stores its value in an inode.
    fn put_in_value_inode(
        &self,
        handle: &mut Handle<'_>,
        inode: &Inode,
        attributes: &mut Attributes,
        (index, name): (NameIndex, &[u8]),
        value: &[u8],
    ) -> Result<()> {
        let too_large = Error::AttributeTooLarge(inode.ino());
        if !self.has_value_inodes() || value.is_empty() {
            return Err(too_large);
        }
        let (ino, checksum) = self.provide_value_inode(handle, inode, value)?;
        let in_value_inode = StoredXattr {
            index,
            name: name.to_vec(),
            value: StoredValue::Inode {
                ino,
                size_bytes: u32::try_from(value.len()).unwrap_or(u32::MAX),
                entry_hash: inode_value_hash(name, checksum),
            },
        };
        attributes
            .add(in_value_inode)
            .then_some(())
            .ok_or(too_large)
    }

    /// Removes the attribute `name` of `inode`, and writes the inode.
    ///
    /// # Errors
    /// [`Error::NoAttribute`], [`Error::NotSupported`], or the error for a damaged image.
    pub fn remove_xattr(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        name: &[u8],
    ) -> Result<()> {
        let (index, name) = split_name(inode, name)?;
        let before = self.attributes(inode)?;
        if before.find(index, name).is_none() {
            return Err(Error::NoAttribute(inode.ino()));
        }
        let mut after = before.clone();
        after.remove(index, name);
        let change = self.change_of(inode.ino(), before, after)?;
        self.store_attributes(handle, inode, change)
    }

    /// Removes all attributes of an inode that is being deleted, with their blocks and value inodes.
    /// Returns false if the handle has too few credits: the caller must call it again with another
    /// handle.
    pub fn drop_xattrs(&self, handle: &mut Handle<'_>, inode: &mut Inode) -> Result<bool> {
        loop {
            let before = self.attributes(inode)?;
            let mut after = before.clone();
            // An inode that shares its block leaves the values in it to the other users.
            let shares = before.block.is_some_and(|block| block.references > 1);
            if shares {
                after.in_block.clear();
            }
            let holds_value = |attribute: &StoredXattr| attribute.value_inode().is_some();
            let (in_inode, in_block) = (&mut after.in_inode, &mut after.in_block);
            let found = if let Some(at) = in_inode.iter().position(holds_value) {
                Some(in_inode.swap_remove(at))
            } else {
                let at = in_block.iter().position(holds_value);
                at.map(|at| in_block.remove(at))
            };
            let is_last = found.is_none();
            let needed = if !is_last && self.has_value_inodes() {
                CREDITS + VALUE_INODE_CREDITS
            } else {
                CREDITS
            };
            if handle.credits() < needed {
                return Ok(false);
            }
            if is_last {
                in_inode.clear();
                in_block.clear();
            }
            let change = self.final_change_of(inode.ino(), before, after)?;
            self.store_attributes(handle, inode, change)?;
            if is_last {
                return Ok(true);
            }
        }
    }
}

/// Converts `value` of an attribute of class `index` from the form for programs to the stored form.
fn disk_form<'v>(inode: &Inode, index: NameIndex, value: &'v [u8]) -> Result<Cow<'v, [u8]>> {
    if !matches!(index, NameIndex::ACL_ACCESS | NameIndex::ACL_DEFAULT) {
        return Ok(Cow::Borrowed(value));
    }
    let invalid = |what| Error::Invalid(inode.ino(), what);
    let list = Acl::from_user(inode.ino(), value)?;
    let list = list.ok_or(invalid("access control list has no entries"))?;
    list.check().map_err(invalid)?;
    Ok(Cow::Owned(list.to_disk()))
}

/// Splits a full name into its class and the rest. Returns an error if programs cannot set it.
fn split_name<'n>(inode: &Inode, name: &'n [u8]) -> Result<(NameIndex, &'n [u8])> {
    let not_supported = "extended attributes in this namespace";
    let (index, name) = NameIndex::split(name)
        .filter(|(index, _)| !matches!(*index, NameIndex::SYSTEM | NameIndex::RICHACL))
        .ok_or(Error::NotSupported(inode.ino(), not_supported))?;
    if name.len() > MAX_NAME_BYTES {
        let what = "name of the extended attribute is longer than 255 bytes";
        return Err(Error::Invalid(inode.ino(), what));
    }
    Ok((index, name))
}
