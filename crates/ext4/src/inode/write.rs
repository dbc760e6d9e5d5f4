//! Inodes on the image: writing and deletion.
//!
//! # Model
//! `ext4_mark_inode_dirty` and `ext4_free_inode`. An [`Inode`] in memory is the
//! fixed part of the inode on the image. Writing an inode leaves the attributes after the fixed
//! part unchanged.
//!
//! # Time of deletion
//! The time of deletion is not written with the other fields. In an orphan, the field of this time
//! contains the number of the next orphan of the list, and operations on other inodes may change
//! that number. Only [`crate::inode::orphan`] and [`Filesystem::delete_inode`] write this field.

use crate::journal::Handle;
use crate::ondisk::features::Incompat;
use crate::ondisk::inode::{self as raw, BASE_INODE_BYTES, EXTRA_ISIZE_END, InodeFlags};
use crate::ondisk::time::Timestamp;
use crate::{Filesystem, Ino, Inode, Result};
use std::ops::Range;

/// The start of `i_block` in a file without blocks that is mapped by extents: the header of an
/// extent node with a magic number, no entries, and space for 4. All other bytes are zeros.
const EMPTY_EXTENTS: [u8; 8] = [0x0A, 0xF3, 0, 0, 4, 0, 0, 0];

impl Filesystem {
    /// Writes `inode` to its inode table, with its checksum. Attributes and inline data after the
    /// fixed fields, and the time of deletion, do not change.
    pub fn write_inode(&self, handle: &mut Handle<'_>, inode: &Inode) -> Result<()> {
        self.edit_inode(handle, inode.ino(), |fs, bytes| {
            fs.encode_inode(inode, bytes);
        })
    }

    /// Changes the bytes of inode `ino` in the inode table with `edit`, which must also update the
    /// checksum.
    pub(crate) fn edit_inode<R>(
        &self,
        handle: &mut Handle<'_>,
        ino: Ino,
        edit: impl FnOnce(&Self, &mut [u8]) -> R,
    ) -> Result<R> {
        let (block, start, _) = self.inode_place(ino)?;
        let range = start..start.saturating_add(usize::from(self.superblock().inode_size_bytes));
        handle.note_inodes(block);
        handle.update_part(block, ino, range, |bytes| Ok(edit(self, bytes)))
    }

    /// Writes the fixed fields of `inode` to `bytes`, except for the time of deletion.
    pub(super) fn encode_inode(&self, inode: &Inode, bytes: &mut [u8]) {
        let dtime = raw::dtime(bytes);
        let fixed = inode.fixed_bytes(bytes.len());
        bytes[fixed.clone()].copy_from_slice(&inode.raw[fixed]);
        raw::set_dtime(bytes, dtime);
        self.set_inode_checksum(inode.ino(), bytes);
    }

    /// Sets the checksum of inode `ino` in `bytes`, the bytes of the inode, if inodes have
    /// checksums.
    pub(crate) fn set_inode_checksum(&self, ino: Ino, bytes: &mut [u8]) {
        let seed = self
            .superblock()
            .inode_checksum_seed(ino, raw::generation(bytes));
        if let Some(seed) = seed {
            raw::set_checksum(bytes, seed);
        }
    }

    /// Gives the new file `inode` an empty extent tree, if files of its type have blocks and the
    /// file system has extents.
    pub(crate) fn make_empty(&self, inode: &mut Inode) {
        let has_blocks = inode.kind().has_blocks();
        if has_blocks && self.superblock().incompat.contains(Incompat::EXTENTS) {
            let mut i_block = [0; 60];
            i_block[..EMPTY_EXTENTS.len()].copy_from_slice(&EMPTY_EXTENTS);
            inode.set_i_block(&i_block);
            inode.set_flags(inode.flags() | InodeFlags::EXTENTS);
        }
    }

    /// Frees `inode`. Its blocks and attributes must already be freed, and it must not be an
    /// orphan.
    pub fn delete_inode(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        now: Timestamp,
    ) -> Result<()> {
        inode.set_links(0);
        // The value 0 would mean that the inode was never deleted.
        let dtime = u32::try_from(now.seconds.max(1)).unwrap_or(u32::MAX);
        inode.set_dtime(dtime);
        self.edit_inode(handle, inode.ino(), |fs, bytes| {
            raw::set_dtime(bytes, dtime);
            fs.encode_inode(inode, bytes);
        })?;
        self.free_inode(handle, inode.ino(), inode.is_directory())
    }
}

impl Inode {
    /// Returns the range of the fixed fields in an on-disk inode that has a size of `inode_bytes`
    /// bytes.
    fn fixed_bytes(&self, inode_bytes: usize) -> Range<usize> {
        let known = BASE_INODE_BYTES + usize::from(self.extra_isize());
        let end = known.max(EXTRA_ISIZE_END).min(self.raw.len());
        0..end.min(inode_bytes)
    }
}
