//! Inodes on the image: writing, creation and deletion.
//!
//! # Model
//! `ext4_mark_inode_dirty`, `ext4_new_inode` and `ext4_free_inode`. An [`Inode`] in memory is the
//! fixed part of the inode on the image. Writing an inode leaves the attributes after the fixed
//! part unchanged.
//!
//! # Time of deletion
//! The time of deletion is not written with the other fields. In an orphan, the field of this time
//! contains the number of the next orphan of the list, and operations on other inodes may change
//! that number. Only [`crate::inode::orphan`] and [`Filesystem::delete_inode`] write this field.

use crate::journal::Handle;
use crate::ondisk::features::{Incompat, RoCompat};
use crate::ondisk::inode::{self as raw, BASE_INODE_BYTES, EXTRA_ISIZE_END, InodeFlags};
use crate::ondisk::time::Timestamp;
use crate::{DeviceNumber, FileKind, Filesystem, Ino, Inode, Result};
use std::ops::Range;

/// The initial fields of a new inode.
#[derive(Clone, Copy, Debug)]
pub struct NewInode {
    /// The type of the file.
    pub kind: FileKind,
    /// Permissions and set-id bits: the lower 12 bits of the mode.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The owning group.
    pub gid: u32,
    /// The device number of a device special file; `None` for other types.
    pub device: Option<DeviceNumber>,
    /// The current time, which is stored in all four time fields.
    pub now: Timestamp,
}

/// The size in bytes of the fixed fields after the first 128 bytes in new inodes. It includes all
/// fields that Larder knows.
const NEW_EXTRA_ISIZE: u16 = 32;

/// The start of `i_block` in a file without blocks that is mapped by extents: the header of an
/// extent node with a magic number, no entries, and space for 4. All other bytes are zeros.
const EMPTY_EXTENTS: [u8; 8] = [0x0A, 0xF3, 0, 0, 4, 0, 0, 0];

/// Returns the flags that a file of type `kind` inherits from its directory.
fn inherited_flags(parent: InodeFlags, kind: FileKind) -> InodeFlags {
    /// The historic flag of files that must not be compressed.
    const NOCOMP: InodeFlags = InodeFlags::from_bits_retain(0x400);
    let for_all = InodeFlags::NODUMP | InodeFlags::NOATIME;
    let for_files = for_all
        | InodeFlags::SECRM
        | InodeFlags::UNRM
        | InodeFlags::COMPR
        | NOCOMP
        | InodeFlags::SYNC
        | InodeFlags::JOURNAL_DATA
        | InodeFlags::NOTAIL
        | InodeFlags::DAX;
    let for_directories = for_files | InodeFlags::DIRSYNC | InodeFlags::PROJINHERIT;
    parent
        & match kind {
            FileKind::Directory => for_directories,
            FileKind::Regular => for_files,
            _ => for_all,
        }
}

/// Returns the generation of a new inode, which distinguishes it from earlier inodes with the same
/// number.
fn generation(sb_seed: [u32; 4], ino: Ino, now: Timestamp) -> u32 {
    // The finalizer of splitmix64, applied to all inputs.
    let mut mixed = u64::from(ino.0) << 32 | u64::from(now.nanoseconds);
    mixed ^= now.seconds.cast_unsigned().rotate_left(17);
    for word in sb_seed {
        mixed = (mixed ^ u64::from(word)).wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    }
    let [a, b, c, d, ..] = (mixed ^ (mixed >> 31)).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

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
    fn encode_inode(&self, inode: &Inode, bytes: &mut [u8]) {
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

    /// Creates and writes an inode for a new file in the directory `parent`. The inode inherits
    /// flags from `parent`. It is empty: it has inline data or an empty extent tree, if the file
    /// system has these features. It has no attributes, and has 1 link, or 2 if it is a directory.
    /// The caller must add the directory entry.
    pub fn create_inode(
        &self,
        handle: &mut Handle<'_>,
        parent: &Inode,
        new: &NewInode,
    ) -> Result<Inode> {
        let sb = self.superblock();
        let is_directory = new.kind == FileKind::Directory;
        let ino = self.allocate_inode(handle, parent, is_directory)?;
        let extra_isize = if usize::from(sb.inode_size_bytes) > BASE_INODE_BYTES {
            NEW_EXTRA_ISIZE
        } else {
            0
        };
        let mut inode = Inode::new(ino, new.kind, new.permissions, extra_isize);
        inode.set_uid(new.uid);
        inode.set_gid(new.gid);
        inode.set_links(if is_directory { 2 } else { 1 });
        inode.set_atime(new.now);
        inode.set_mtime(new.now);
        inode.set_ctime(new.now);
        inode.set_crtime(new.now);
        inode.set_generation(generation(sb.hash_seed, ino, new.now));
        inode.set_flags(inherited_flags(parent.flags(), new.kind));
        if sb.ro_compat.contains(RoCompat::PROJECT)
            && parent.flags().contains(InodeFlags::PROJINHERIT)
        {
            inode.set_project_id(parent.project_id());
        }
        if let Some(device) = new.device {
            inode.set_device(device);
        }
        self.make_empty(&mut inode);
        self.edit_inode(handle, ino, |fs, bytes| {
            if raw::generation(bytes) == inode.generation() {
                // An earlier inode with this number was created at the same time.
                inode.set_generation(inode.generation().wrapping_add(1));
            }
            // Clears the attributes and the time of deletion of the previous inode with this
            // number.
            bytes.fill(0);
            fs.encode_inode(&inode, bytes);
        })?;
        let has_inline_data = sb.incompat.contains(Incompat::INLINE_DATA);
        if has_inline_data && new.kind == FileKind::Regular {
            self.set_inline_data(handle, &mut inode, &[])?;
        }
        Ok(inode)
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
