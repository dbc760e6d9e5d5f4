//! Changes of an inode in memory, which [`Filesystem::write_inode`](crate::Filesystem::write_inode)
//! writes to the image.

use super::Inode;
use crate::ondisk::fields::{halves16, halves32, join32};
use crate::ondisk::inode::{InodeFlags, RawInode};
use crate::ondisk::time::Timestamp;
use crate::{DeviceNumber, FileKind, FsBlock};
use zerocopy::little_endian::U32;
use zerocopy::transmute_mut;

impl Inode {
    fn raw_mut(&mut self) -> &mut RawInode {
        transmute_mut!(&mut self.raw)
    }

    /// Sets the type and the permissions.
    pub fn set_mode(&mut self, mode: u16) {
        self.raw_mut().i_mode.set(mode);
    }

    /// Sets the owner.
    pub fn set_uid(&mut self, uid: u32) {
        let raw = self.raw_mut();
        (raw.i_uid, raw.i_uid_high) = halves16(uid);
    }

    /// Sets the owning group.
    pub fn set_gid(&mut self, gid: u32) {
        let raw = self.raw_mut();
        (raw.i_gid, raw.i_gid_high) = halves16(gid);
    }

    /// Sets the size of the content in bytes.
    pub fn set_size_bytes(&mut self, size_bytes: u64) {
        let raw = self.raw_mut();
        (raw.i_size_lo, raw.i_size_high) = halves32(size_bytes);
    }

    /// Sets the number of hard links.
    pub fn set_links(&mut self, links: u16) {
        self.raw_mut().i_links_count.set(links);
    }

    /// Returns the two on-disk words of `time`. `end` is the offset in the inode at which the
    /// second word ends. If the extra fields of the inode end before `end`, the second word is
    /// zero. The time in memory therefore equals the time that is later read from the image.
    fn stored_time(&self, time: Timestamp, end: u16) -> (U32, U32) {
        let has_extra = self.extra_isize() + 0x80 >= end;
        let (seconds, extra) = time.to_inode();
        if has_extra {
            return (seconds.into(), extra.into());
        }
        let seconds = time.seconds.clamp(i32::MIN.into(), i32::MAX.into());
        (halves32(seconds.cast_unsigned()).0, U32::ZERO)
    }

    /// Sets the time of the last access.
    pub fn set_atime(&mut self, time: Timestamp) {
        let stored = self.stored_time(time, 0x90);
        let raw = self.raw_mut();
        (raw.i_atime, raw.i_atime_extra) = stored;
    }

    /// Sets the time of the last change of the content.
    pub fn set_mtime(&mut self, time: Timestamp) {
        let stored = self.stored_time(time, 0x8C);
        let raw = self.raw_mut();
        (raw.i_mtime, raw.i_mtime_extra) = stored;
    }

    /// Sets the time of the last change of the inode.
    pub fn set_ctime(&mut self, time: Timestamp) {
        let stored = self.stored_time(time, 0x88);
        let raw = self.raw_mut();
        (raw.i_ctime, raw.i_ctime_extra) = stored;
    }

    /// Sets the time of creation. An inode that is too small for this field does not store the
    /// time.
    pub fn set_crtime(&mut self, time: Timestamp) {
        let stored = self.stored_time(time, 0x98);
        let raw = self.raw_mut();
        (raw.i_crtime, raw.i_crtime_extra) = stored;
    }

    /// Sets the field that contains the time of deletion, in seconds since 1970, or for an orphan,
    /// the number of the next orphan of the list.
    pub fn set_dtime(&mut self, dtime: u32) {
        self.raw_mut().i_dtime.set(dtime);
    }

    /// Sets the generation, which distinguishes the files that have had this number.
    pub fn set_generation(&mut self, generation: u32) {
        self.raw_mut().i_generation.set(generation);
    }

    /// Sets the flags.
    pub fn set_flags(&mut self, flags: InodeFlags) {
        self.raw_mut().i_flags.set(flags.bits());
    }

    /// Sets the count of changes.
    pub fn set_version(&mut self, version: u64) {
        let raw = self.raw_mut();
        (raw.i_version, raw.i_version_hi) = halves32(version);
    }

    /// Sets the project.
    pub fn set_project_id(&mut self, project_id: u32) {
        self.raw_mut().i_projid.set(project_id);
    }

    /// Sets the 60 bytes of block numbers, or of the data stored in their place.
    pub fn set_i_block(&mut self, bytes: &[u8; 60]) {
        self.raw_mut().i_block = *bytes;
    }

    /// Sets the block of extended attributes.
    pub fn set_file_acl(&mut self, block: Option<FsBlock>) {
        let (low, high) = halves32(block.map_or(0, |block| block.0));
        let raw = self.raw_mut();
        raw.i_file_acl_lo = low;
        raw.i_file_acl_high = halves16(high.get()).0;
    }

    /// Sets the size in bytes of the fixed fields after the first 128 bytes.
    pub fn set_extra_isize(&mut self, bytes: u16) {
        self.raw_mut().i_extra_isize.set(bytes);
    }

    /// Sets the device number of a device special file. As in Linux, uses the old format if both
    /// numbers fit into a byte.
    pub fn set_device(&mut self, device: DeviceNumber) {
        let DeviceNumber { major, minor } = device;
        let mut bytes = [0; 60];
        if major < 256 && minor < 256 {
            bytes[..4].copy_from_slice(&((major << 8) | minor).to_le_bytes());
        } else {
            let new = (minor & 0xFF) | (major << 8) | ((minor & !0xFF) << 12);
            bytes[4..8].copy_from_slice(&new.to_le_bytes());
        }
        self.set_i_block(&bytes);
    }

    /// Adds `blocks` file-system blocks, which may be negative, to the space that the inode uses.
    /// The count is stored in sectors, or in blocks if the number of sectors does not fit and
    /// `may_be_huge` is true.
    pub fn add_blocks(&mut self, blocks: i64, block_size_bytes: u32, may_be_huge: bool) {
        let sectors_per_block = u64::from(block_size_bytes / 512);
        let is_huge = self.flags().contains(InodeFlags::HUGE_FILE);
        let raw = self.raw_mut();
        let stored = join32(raw.i_blocks_lo, raw.i_blocks_high);
        let sectors = if is_huge {
            stored * sectors_per_block
        } else {
            stored
        };
        let more = blocks.saturating_mul(i64::try_from(sectors_per_block).unwrap_or(1));
        let sectors = sectors.saturating_add_signed(more);
        let now_huge = may_be_huge && sectors >= 1 << 48;
        let (low, high) = halves32(if now_huge {
            sectors / sectors_per_block
        } else {
            sectors
        });
        raw.i_blocks_lo = low;
        raw.i_blocks_high = halves16(high.get()).0;
        let mut flags = self.flags();
        flags.set(InodeFlags::HUGE_FILE, now_huge);
        self.set_flags(flags);
    }

    /// Creates the inode of a new file, in which all fields are zero except for the number, the
    /// mode and the size of the extra fields.
    #[must_use]
    pub fn new(ino: crate::Ino, kind: FileKind, permissions: u16, extra_isize: u16) -> Self {
        let mut inode = Self {
            ino,
            raw: [0; super::INODE_BYTES],
        };
        inode.set_mode(kind.mode_bits() | (permissions & 0o7777));
        inode.set_extra_isize(extra_isize);
        inode
    }
}
