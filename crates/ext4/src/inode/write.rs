//! Inodes on the image: written, made, deleted.
//!
//! # Model
//! `ext4_mark_inode_dirty`, `ext4_new_inode` and `ext4_free_inode`. An [`Inode`] in memory is
//! the fixed part of the one on the image; writing puts it back in front of the attributes.
//!
//! # The time of deletion
//! is not written with the rest: for an orphan the field holds the next one of the list, which
//! changes without the inode's owner knowing. [`crate::inode::orphan`] and
//! [`Filesystem::delete_inode`] write it.

use crate::journal::Handle;
use crate::ondisk::features::{Incompat, RoCompat};
use crate::ondisk::inode::{self as raw, BASE_INODE_BYTES, EXTRA_ISIZE_END, InodeFlags};
use crate::ondisk::time::Timestamp;
use crate::{DeviceNumber, FileKind, Filesystem, Ino, Inode, Result};
use std::ops::Range;

/// What a new inode starts with.
#[derive(Clone, Copy, Debug)]
pub struct NewInode {
    /// The type.
    pub kind: FileKind,
    /// Permissions and set-id bits: the lower 12 bits of the mode.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The owning group.
    pub gid: u32,
    /// What a device special file stands for.
    pub device: Option<DeviceNumber>,
    /// Now: all four times.
    pub now: Timestamp,
}

/// Bytes of fixed fields behind the first 128 in new inodes: all that are known here.
const NEW_EXTRA_ISIZE: u16 = 32;

/// `i_block` of a file without blocks that is mapped by extents: a header (magic number, no
/// entries, room for 4) and nothing behind it.
const EMPTY_EXTENTS: [u8; 8] = [0x0A, 0xF3, 0, 0, 4, 0, 0, 0];

/// The flags that a file gets from its directory: those of its kind.
fn inherited_flags(parent: InodeFlags, kind: FileKind) -> InodeFlags {
    /// Not compressed, though the file system compresses (historic).
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

/// A number that tells a new inode from those that had its number before.
fn generation(sb_seed: [u32; 4], ino: Ino, now: Timestamp) -> u32 {
    // The finaliser of splitmix64, over all that is known.
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
    /// Writes `inode` to its inode table, checksum and all. Attributes and inline data behind
    /// the fixed fields, and the time of deletion, stay as they are.
    pub fn write_inode(&self, handle: &mut Handle<'_>, inode: &Inode) -> Result<()> {
        self.edit_inode(handle, inode.ino(), |fs, bytes| {
            fs.encode_inode(inode, bytes);
        })
    }

    /// Changes the bytes of inode `ino` in its inode table. Its checksum is `edit`'s.
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

    /// Puts the fixed fields of `inode` into `bytes`, all but the time of deletion.
    fn encode_inode(&self, inode: &Inode, bytes: &mut [u8]) {
        let dtime = raw::dtime(bytes);
        let fixed = inode.fixed_bytes(bytes.len());
        bytes[fixed.clone()].copy_from_slice(&inode.raw[fixed]);
        raw::set_dtime(bytes, dtime);
        self.seal_inode(inode.ino(), bytes);
    }

    /// Stores the checksum of inode `ino` in its `bytes`, if there is to be one.
    pub(crate) fn seal_inode(&self, ino: Ino, bytes: &mut [u8]) {
        let seed = self
            .superblock()
            .inode_checksum_seed(ino, raw::generation(bytes));
        if let Some(seed) = seed {
            raw::set_checksum(bytes, seed);
        }
    }

    /// Makes an inode for a new file in the directory `parent`: allocated, flags inherited,
    /// empty (with inline data or an empty extent tree where the file system has them), with no
    /// attributes, 1 link (a directory 2), and written. No entry leads to it yet.
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
                // The number was used before at the same time.
                inode.set_generation(inode.generation().wrapping_add(1));
            }
            // Whoever had the number before left attributes, and a time of deletion.
            bytes.fill(0);
            fs.encode_inode(&inode, bytes);
        })?;
        let has_inline_data = sb.incompat.contains(Incompat::INLINE_DATA);
        if has_inline_data && new.kind == FileKind::Regular {
            self.set_inline_data(handle, &mut inode, &[])?;
        }
        Ok(inode)
    }

    /// Gives a new file that can have blocks an empty extent tree, where there are such trees.
    pub(crate) fn make_empty(&self, inode: &mut Inode) {
        let has_blocks = inode.kind().has_blocks();
        if has_blocks && self.superblock().incompat.contains(Incompat::EXTENTS) {
            let mut i_block = [0; 60];
            i_block[..EMPTY_EXTENTS.len()].copy_from_slice(&EMPTY_EXTENTS);
            inode.set_i_block(&i_block);
            inode.set_flags(inode.flags() | InodeFlags::EXTENTS);
        }
    }

    /// Frees an inode whose blocks and attributes are gone and that no orphan list has.
    pub fn delete_inode(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        now: Timestamp,
    ) -> Result<()> {
        inode.set_links(0);
        // 0 would say that it was never deleted.
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
    /// Which of the fixed fields an inode of `inode_bytes` on the image has.
    fn fixed_bytes(&self, inode_bytes: usize) -> Range<usize> {
        let known = BASE_INODE_BYTES + usize::from(self.extra_isize());
        let end = known.max(EXTRA_ISIZE_END).min(self.raw.len());
        0..end.min(inode_bytes)
    }
}
