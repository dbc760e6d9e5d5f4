//! Setting and removing extended attributes, in the inode, in its attribute block, and in value
//! inodes.
//!
//! If a function of this module fails, it may already have made changes. The caller must then drop
//! the handle, which undoes the changes of blocks, and discard `inode`, which may have been changed
//! in memory.

use super::places::Attributes;
use super::share::XattrOffer;
use super::store::Change;
use super::{MAX_VALUE_BYTES, split_name};
use crate::journal::Handle;
use crate::ondisk::acl::Acl;
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
    /// The attribute may exist or not.
    Any,
    /// The attribute must not exist, as with `XATTR_CREATE`.
    Create,
    /// The attribute must exist, as with `XATTR_REPLACE`.
    Replace,
}

/// A planned change of an inode's attributes, to be made by [`Filesystem::change_xattrs`].
#[derive(Clone, Debug)]
pub struct XattrChange<'a>(Planned<'a>);

#[derive(Clone, Debug)]
enum Planned<'a> {
    /// The new attributes are prepared and need only be written.
    Change(Change),
    /// The value must be stored in a value inode. Creating or sharing one requires the handle.
    InValueInode {
        before: Attributes,
        after: Attributes,
        name: (NameIndex, &'a [u8]),
        value: Cow<'a, [u8]>,
    },
}

/// The number of blocks that a change of attributes modifies, without those of value inodes. These
/// are the blocks of the inode and the superblock, two attribute blocks, and the bitmap and the
/// descriptor of each attribute block's group.
const CREDITS: u32 = 8;

/// The number of blocks that creating or deleting a value inode modifies, without its content.
/// These are the inode, the nodes of its mapping, the inode bitmap and the group descriptor of its
/// inode number, and the block bitmaps and the group descriptors of its blocks.
const VALUE_INODE_CREDITS: u32 = 16;

impl Filesystem {
    /// Returns the number of credits that a handle needs to set or remove an attribute of `inode`.
    /// They include the value inodes of all attributes, because replacing the attribute block
    /// changes their reference counts. The caller must hold the lock of `inode`.
    #[must_use]
    pub fn xattr_credits(&self, inode: &Inode) -> u32 {
        if self.has_value_inodes() {
            let content = MAX_VALUE_BYTES.div_ceil(self.superblock().block_size_bytes());
            // The change may create one value inode and delete another one.
            CREDITS + 2 * VALUE_INODE_CREDITS + content + self.value_table_blocks(inode)
        } else {
            CREDITS
        }
    }

    /// Returns the number of inode-table blocks that contain value inodes of `inode`. Stops at an
    /// attribute that cannot be read: every change first reads all attributes, so it fails before
    /// it uses the credits.
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

    /// Sets the attribute `name` of `inode` to `value`. `name` includes the prefix, and `value` has
    /// the format of the system calls. Changes the inode in memory and writes it. If the attribute
    /// already has this value, writes nothing. After setting `system.posix_acl_access`, the caller
    /// must also change the mode.
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

    /// Prepares setting the attribute `name` of `inode`. Returns `None` if the attribute already
    /// has this value. Needs no open handle. Until the change is made, the caller must hold the
    /// inode's lock, and must not change the inode's inline data, which is stored in an attribute.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoAttribute`], [`Error::AttributeTooLarge`],
    /// [`Error::AttributeName`], [`Error::NotSupported`], [`Error::Invalid`], or the error for a
    /// damaged image.
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

    /// Makes a change that [`Filesystem::plan_set_xattr`] prepared for `inode`, and writes the
    /// inode.
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

    /// Returns whether `value` is the value of `attribute`, which may be stored in a value inode.
    fn is_value(&self, inode: &Inode, attribute: &StoredXattr, value: &[u8]) -> Result<bool> {
        match &attribute.value {
            StoredValue::Inline(old) => Ok(old == value),
            StoredValue::Inode {
                ino, size_bytes, ..
            } => Ok(*size_bytes as usize == value.len()
                && self.xattr_inode_value(inode, *ino, *size_bytes, XattrOffer::Nothing)? == value),
        }
    }

    /// Adds an attribute, whose name must not exist yet, to the attributes of `inode`. Stores the
    /// value in a value inode if the value is large or fits nowhere else.
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

    /// Adds an attribute to the inode or the block, together with its value. Returns false and
    /// changes nothing if it does not fit.
    fn put_beside_entry(
        &self,
        attributes: &mut Attributes,
        (index, name): (NameIndex, &[u8]),
        value: &[u8],
    ) -> bool {
        // A value that does not fit into an empty block, even with a name of one byte, needs a value
        // inode.
        let room_bytes = block_room_bytes(self.buffers().block_size_bytes());
        space_bytes(1, value.len()) <= room_bytes
            && attributes.add(StoredXattr {
                index,
                name: name.to_vec(),
                value: StoredValue::Inline(value.to_vec()),
            })
    }

    /// Adds an attribute whose value is stored in a value inode.
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
    /// [`Error::NoAttribute`], [`Error::AttributeName`], [`Error::NotSupported`],
    /// [`Error::Invalid`], [`Error::NoSpace`], or the error for a damaged image.
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

    /// Removes all attributes of an inode that is being deleted, and releases its attribute block
    /// and value inodes. Returns false if the handle had too few credits to finish: the caller must
    /// then call this function again with another handle.
    pub fn drop_xattrs(&self, handle: &mut Handle<'_>, inode: &mut Inode) -> Result<bool> {
        loop {
            let before = self.attributes(inode)?;
            let mut after = before.clone();
            // If the block is shared, its value inodes are still used by the other users of the
            // block.
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

/// Converts `value` of an attribute of class `index` from the format of the system calls to the
/// stored format.
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
