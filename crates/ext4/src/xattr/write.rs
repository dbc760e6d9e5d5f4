//! Setting and removing extended attributes, wherever they live.
//!
//! A handle that fails here has changed something: it is to be dropped, which takes that back.

use super::MAX_VALUE_BYTES;
use super::places::Attributes;
use crate::journal::Handle;
use crate::ondisk::acl::Acl;
use crate::ondisk::features::Incompat;
use crate::ondisk::xattr::{
    NameIndex, StoredValue, StoredXattr, block_room_bytes, inode_value_hash, space_bytes,
};
use crate::{Error, Filesystem, Inode, Result};

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

/// The longest name, without its prefix.
const MAX_NAME_BYTES: usize = 255;

/// Blocks that a change of attributes changes, beside those of values in inodes: the inode,
/// two attribute blocks, bitmap and descriptor of each, the superblock.
const CREDITS: u32 = 8;

/// Blocks that making or deleting an inode for a value changes, beside its content: bitmaps and
/// descriptors of inode and blocks, the inode, nodes of its mapping.
const VALUE_INODE_CREDITS: u32 = 16;

impl Filesystem {
    /// The credits that a handle needs to set or remove an attribute.
    #[must_use]
    pub fn xattr_credits(&self) -> u32 {
        if self.has_value_inodes() {
            let content = MAX_VALUE_BYTES.div_ceil(self.superblock().block_size_bytes());
            // One value is made, another deleted.
            CREDITS + 2 * VALUE_INODE_CREDITS + content
        } else {
            CREDITS
        }
    }

    pub(super) fn has_value_inodes(&self) -> bool {
        self.superblock().incompat.contains(Incompat::EA_INODE)
    }

    /// Sets the attribute `name` (full name, programs' form) of `inode`. Where that makes an
    /// access control list, the mode is the caller's to change. Changes the inode in memory and
    /// writes it; if the value is the same as before, nothing is written.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoAttribute`], [`Error::AttributeTooLarge`],
    /// [`Error::NoSpace`], [`Error::NotSupported`], [`Error::Invalid`], or what is wrong with the
    /// image.
    pub fn set_xattr(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        let (index, name) = split_name(inode, name)?;
        let before = self.attributes(inode)?;
        match (before.find(index, name), mode) {
            (Some(_), XattrMode::Create) => return Err(Error::Exists(inode.ino())),
            (None, XattrMode::Replace) => return Err(Error::NoAttribute(inode.ino())),
            _ => {}
        }
        let disk_form;
        let value = if matches!(index, NameIndex::ACL_ACCESS | NameIndex::ACL_DEFAULT) {
            let invalid = |what| Error::Invalid(inode.ino(), what);
            let empty = invalid("access control list has no entries");
            let list = Acl::from_user(value).map_err(|error| error.of(inode.ino()))?;
            let list = list.ok_or(empty)?;
            list.check().map_err(invalid)?;
            disk_form = list.to_disk();
            &disk_form
        } else {
            value
        };
        if value.len() > MAX_VALUE_BYTES as usize {
            return Err(Error::AttributeTooLarge(inode.ino()));
        }
        if let Some(old) = before.find(index, name)
            && self.has_value(inode, old, value)?
        {
            return Ok(());
        }
        let mut after = before.clone();
        after.remove(index, name);
        self.put(handle, inode, &mut after, (index, name), value)?;
        self.store_attributes(handle, inode, &before, after)
    }

    /// Whether the value of `attribute` is `value`.
    fn has_value(&self, inode: &Inode, attribute: &StoredXattr, value: &[u8]) -> Result<bool> {
        match &attribute.value {
            StoredValue::Here(old) => Ok(old == value),
            StoredValue::Inode {
                ino, size_bytes, ..
            } => Ok(*size_bytes as usize == value.len()
                && self.xattr_inode_value(inode, *ino, *size_bytes)? == value),
        }
    }

    /// Adds an attribute, whose name is not there, to those of `inode`: with its value in an
    /// inode if it is large, or fits nowhere else.
    pub(super) fn put(
        &self,
        handle: &mut Handle<'_>,
        inode: &Inode,
        attributes: &mut Attributes,
        (index, name): (NameIndex, &[u8]),
        value: &[u8],
    ) -> Result<()> {
        let too_large = Error::AttributeTooLarge(inode.ino());
        let new = |value| StoredXattr {
            index,
            name: name.to_vec(),
            value,
        };
        // Beside the shortest name.
        let room_bytes = block_room_bytes(self.buffers().block_size_bytes());
        let fits_block = space_bytes(1, value.len()) <= room_bytes;
        if fits_block && attributes.add(new(StoredValue::Here(value.to_vec()))) {
            return Ok(());
        }
        if !self.has_value_inodes() || value.is_empty() {
            return Err(too_large);
        }
        let (ino, checksum) = self.create_value_inode(handle, inode, value)?;
        let outside = StoredValue::Inode {
            ino,
            size_bytes: u32::try_from(value.len()).unwrap_or(u32::MAX),
            entry_hash: inode_value_hash(name, checksum),
        };
        attributes.add(new(outside)).then_some(()).ok_or(too_large)
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
        self.store_attributes(handle, inode, &before, after)
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
            self.store_attributes(handle, inode, &before, after)?;
            if is_last {
                return Ok(true);
            }
        }
    }
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
