//! The attribute that stores inline data after the first 60 bytes, which are in `i_block`. The
//! attribute is always stored in the inode. It is empty if there are at most 60 bytes of inline
//! data.

use super::places::{INLINE_DATA_NAME, is_inline_data};
use crate::error::Place;
use crate::journal::Handle;
use crate::ondisk::xattr::{NameIndex, StoredValue, StoredXattr, ValuePlace, space_bytes};
use crate::{Error, Filesystem, Inode, Result};
use std::ops::ControlFlow;

impl Filesystem {
    /// Returns the inline data that is stored in the attribute.
    pub(crate) fn inline_attribute(&self, inode: &Inode) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        let _ = self.for_each_xattr_in_inode(inode, &mut |entry, place: Place| {
            if !is_inline_data(entry.index, entry.name) {
                return Ok(ControlFlow::Continue(()));
            }
            let ValuePlace::Inline(value) = entry.value else {
                return Err(place.corrupt("inline data is not stored in the inode"));
            };
            found = Some(value.to_vec());
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    /// Returns the maximum length in bytes of the attribute's value in `inode`, beside the other
    /// attributes, or `None` if not even an empty attribute fits.
    pub(crate) fn inline_attribute_room(&self, inode: &Inode) -> Result<Option<usize>> {
        let mut attributes = self.attributes(inode)?;
        attributes.remove(NameIndex::SYSTEM, INLINE_DATA_NAME);
        let entry_bytes = space_bytes(INLINE_DATA_NAME.len(), 0);
        let left = attributes.inode_left_bytes().checked_sub(entry_bytes);
        // A value uses a whole number of 4-byte words.
        Ok(left.map(|left| left & !3))
    }

    /// Sets the attribute to `value`, or removes the attribute if `value` is `None`. Writes
    /// `inode`.
    pub(crate) fn set_inline_attribute(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        value: Option<&[u8]>,
    ) -> Result<()> {
        let before = self.attributes(inode)?;
        let mut after = before.clone();
        after.remove(NameIndex::SYSTEM, INLINE_DATA_NAME);
        if let Some(value) = value {
            let attribute = StoredXattr {
                index: NameIndex::SYSTEM,
                name: INLINE_DATA_NAME.to_vec(),
                value: StoredValue::Inline(value.to_vec()),
            };
            if !after.add(attribute) {
                return Err(Error::AttributeTooLarge(inode.ino()));
            }
        }
        let change = self.change_of(inode.ino(), before, after)?;
        self.store_attributes(handle, inode, change)
    }
}
