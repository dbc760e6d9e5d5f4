//! Reading of attributes where they are stored: in the inode after its fixed fields, and in a block.

use crate::error::{DamageAt, Place};
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::inode::BASE_INODE_BYTES;
use crate::ondisk::xattr::{XattrEntries, XattrEntry, split_checksum};
use crate::{Filesystem, FsBlock, Inode, Result};
use larder_cache::buffer::Buffer;
use std::ops::ControlFlow;

impl Filesystem {
    /// Calls `visit` with each attribute that is stored in `inode`, until it returns
    /// [`ControlFlow::Break`].
    pub(super) fn for_each_xattr_in_inode(
        &self,
        inode: &Inode,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>> {
        // If `i_extra_isize` is 0, the space after the fixed fields is never used for attributes.
        if inode.extra_isize() == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        let bytes = self.inode_bytes(inode.ino())?;
        let start = BASE_INODE_BYTES + usize::from(inode.extra_isize());
        let entries = XattrEntries::in_inode(bytes.get(start..).unwrap_or_default());
        visit_all(entries, inode.place(), visit)
    }

    /// Returns the attribute block `block` of `inode`, after a check of its checksum.
    pub(super) fn xattr_block(&self, inode: &Inode, block: FsBlock) -> Result<Buffer<'_>> {
        let place = Place::Block(block, inode.ino());
        self.metadata_block(block, inode.ino(), |bytes| {
            let sb = self.superblock();
            if !sb.has_metadata_checksums() {
                return Ok(());
            }
            let Some((before, stored, after)) = split_checksum(bytes) else {
                return Err(place.corrupt("attribute block is too short"));
            };
            let seed = self.attribute_block_seed(block);
            if seed.bytes(before).u32(0).bytes(after).0 == stored {
                Ok(())
            } else {
                Err(place.corrupt("checksum of the attribute block is wrong"))
            }
        })
    }

    /// Returns the seed of the checksum of an attribute block.
    pub(super) fn attribute_block_seed(&self, block: FsBlock) -> Crc32c {
        self.superblock()
            .checksum_seed
            .bytes(&block.0.to_le_bytes())
    }
}

/// A function that is called with each attribute and its place.
pub(super) type Visit<'v> = dyn FnMut(XattrEntry<'_>, Place) -> Result<ControlFlow<()>> + 'v;

/// Calls `visit` with each of `entries`, which are stored at `place`, until it returns
/// [`ControlFlow::Break`].
pub(super) fn visit_all(
    entries: XattrEntries<'_>,
    place: Place,
    visit: &mut Visit<'_>,
) -> Result<ControlFlow<()>> {
    for entry in entries {
        let entry = entry.at(place)?;
        if visit(entry, place)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
