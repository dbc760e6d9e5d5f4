//! Creation of inodes.
//!
//! Model: `ext4_new_inode`.

use crate::journal::Handle;
use crate::ondisk::features::{Incompat, RoCompat};
use crate::ondisk::inode::{self as raw, BASE_INODE_BYTES, InodeFlags};
use crate::ondisk::time::Timestamp;
use crate::{DeviceNumber, FileKind, Filesystem, Ino, Inode, Result};

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
}
