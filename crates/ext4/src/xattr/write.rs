//! Setting and removing extended attributes, wherever they live.
//!
//! A handle that fails here has changed something: it is to be dropped, which takes that back.

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

/// Whether an attribute may, or must, be there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Set it in any case.
    Any,
    /// It must not be there: `XATTR_CREATE`.
    Create,
    /// It must be there: `XATTR_REPLACE`.
    Replace,
}

/// A change of an inode's attributes that is worked out, and remains to be made by
/// [`Filesystem::change_xattrs`].
#[derive(Debug)]
pub struct XattrChange<'a>(Planned<'a>);

#[derive(Debug)]
enum Planned<'a> {
    /// Nothing remains but to write it.
    Change(Change),
    /// The value goes into an inode of its own.
    Apart {
        before: Attributes,
        after: Attributes,
        name: (NameIndex, &'a [u8]),
        value: Cow<'a, [u8]>,
    },
}

/// The longest name, without its prefix.
const MAX_NAME_BYTES: usize = 255;

/// Blocks that a change of attributes changes, beside those of inodes that hold values: the inode,
/// two attribute blocks, bitmap and descriptor of each, the superblock.
const CREDITS: u32 = 8;

/// Blocks that making or deleting an inode for a value changes, beside its content: bitmaps and
/// descriptors of inode and blocks, the inode, nodes of its mapping.
const VALUE_INODE_CREDITS: u32 = 16;

impl Filesystem {
    /// The credits that a handle needs to set or remove an attribute of `inode`, whose lock is held:
    /// if its block becomes another, all values that this leads to are counted.
    #[must_use]
    pub fn xattr_credits(&self, inode: &Inode) -> u32 {
        if self.has_value_inodes() {
            let content = MAX_VALUE_BYTES.div_ceil(self.superblock().block_size_bytes());
            // One value is made, another deleted.
            CREDITS + 2 * VALUE_INODE_CREDITS + content + self.value_table_blocks(inode)
        } else {
            CREDITS
        }
    }

    /// Blocks of the inode table that hold the inodes of the values of `inode`. What cannot be read does
    /// not count: no change gets past it.
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

    /// Sets the attribute `name` (full name, programs' form) of `inode`. Where that makes an
    /// access control list, the mode is the caller's to change. Changes the inode in memory and
    /// writes it; if the value is the same as before, nothing is written.
    ///
    /// # Errors
    /// As [`Filesystem::plan_set_xattr`] and [`Filesystem::change_xattrs`].
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

    /// Works out how to set the attribute `name` of `inode`; `None` if it has that value already. Needs
    /// no handle, but the inode's lock, held until the change is made: inline data, which is an attribute
    /// too, stays as it is as well.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoAttribute`], [`Error::AttributeTooLarge`],
    /// [`Error::NotSupported`], [`Error::Invalid`], or what is wrong with the image.
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
        let planned = if self.put_here(&mut after, (index, name), &value) {
            Planned::Change(self.change_of(inode.ino(), before, after)?)
        } else {
            Planned::Apart {
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
    /// [`Error::AttributeTooLarge`], [`Error::NoSpace`], or what is wrong with the image.
    pub fn change_xattrs(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        change: XattrChange<'_>,
    ) -> Result<()> {
        let change = match change.0 {
            Planned::Change(change) => change,
            Planned::Apart {
                before,
                mut after,
                name,
                value,
            } => {
                self.put_apart(handle, inode, &mut after, name, &value)?;
                self.change_of(inode.ino(), before, after)?
            }
        };
        self.store_attributes(handle, inode, change)
    }

    /// Whether the value of `attribute` is `value`.
    fn is_value(&self, inode: &Inode, attribute: &StoredXattr, value: &[u8]) -> Result<bool> {
        match &attribute.value {
            StoredValue::Here(old) => Ok(old == value),
            StoredValue::Inode {
                ino, size_bytes, ..
            } => Ok(*size_bytes as usize == value.len()
                && self.xattr_inode_value(inode, *ino, *size_bytes, XattrOffer::Nothing)? == value),
        }
    }

    /// Adds an attribute, whose name is not there, to those of `inode`: with its value in an
    /// inode if it is large, or fits nowhere else.
    pub(super) fn put(
        &self,
        handle: &mut Handle<'_>,
        inode: &Inode,
        attributes: &mut Attributes,
        name: (NameIndex, &[u8]),
        value: &[u8],
    ) -> Result<()> {
        if self.put_here(attributes, name, value) {
            return Ok(());
        }
        self.put_apart(handle, inode, attributes, name, value)
    }

    /// Adds an attribute with its value beside it; false, with nothing done, if that does not fit.
    fn put_here(
        &self,
        attributes: &mut Attributes,
        (index, name): (NameIndex, &[u8]),
        value: &[u8],
    ) -> bool {
        // Beside the shortest name.
        let room_bytes = block_room_bytes(self.buffers().block_size_bytes());
        space_bytes(1, value.len()) <= room_bytes
            && attributes.add(StoredXattr {
                index,
                name: name.to_vec(),
                value: StoredValue::Here(value.to_vec()),
            })
    }

    /// Adds an attribute with its value in an inode.
    fn put_apart(
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
        let apart = StoredXattr {
            index,
            name: name.to_vec(),
            value: StoredValue::Inode {
                ino,
                size_bytes: u32::try_from(value.len()).unwrap_or(u32::MAX),
                entry_hash: inode_value_hash(name, checksum),
            },
        };
        attributes.add(apart).then_some(()).ok_or(too_large)
    }

    /// Removes the attribute `name` of `inode`, and writes the inode.
    ///
    /// # Errors
    /// [`Error::NoAttribute`], [`Error::NotSupported`], or what is wrong with the image.
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

    /// Gives up all attributes of an inode that is deleted: blocks and inodes that hold values.
    /// False if the handle's credits did not suffice: call again in another one.
    pub fn drop_xattrs(&self, handle: &mut Handle<'_>, inode: &mut Inode) -> Result<bool> {
        loop {
            let before = self.attributes(inode)?;
            let mut after = before.clone();
            // One that shares its block leaves the values in it to the others.
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
            let change = self.parting_change_of(inode.ino(), before, after)?;
            self.store_attributes(handle, inode, change)?;
            if is_last {
                return Ok(true);
            }
        }
    }
}

/// How `value` of an attribute of that class, in the form that programs give, is stored.
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

/// The class of a full name and the rest of it, which programs can set.
fn split_name<'n>(inode: &Inode, name: &'n [u8]) -> Result<(NameIndex, &'n [u8])> {
    let not_supported = "attributes of this class of names";
    let (index, name) = NameIndex::split(name)
        .filter(|(index, _)| !matches!(*index, NameIndex::SYSTEM | NameIndex::RICHACL))
        .ok_or(Error::NotSupported(inode.ino(), not_supported))?;
    if name.len() > MAX_NAME_BYTES {
        let what = "attribute's name is longer than 255 bytes";
        return Err(Error::Invalid(inode.ino(), what));
    }
    Ok((index, name))
}
