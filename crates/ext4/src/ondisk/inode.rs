//! The on-disk form of an inode: 128 bytes of fixed fields. In larger inodes, `i_extra_isize` bytes
//! of further fixed fields follow, and then attributes.

use super::checksum::Crc32c;
use super::fields::{halves16, le16, le32, put16, put32};
use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The length in bytes of the fixed fields that every inode has.
pub const BASE_INODE_BYTES: usize = 128;

bitflags! {
    /// Flags of an inode (`i_flags`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct InodeFlags: u32 {
        /// To be overwritten on deletion.
        const SECRM = 0x1;
        /// To be recoverable after deletion.
        const UNRM = 0x2;
        /// To be compressed.
        const COMPR = 0x4;
        /// Written synchronously.
        const SYNC = 0x8;
        /// Cannot be changed.
        const IMMUTABLE = 0x10;
        /// Can only be appended to.
        const APPEND = 0x20;
        /// Excluded by dump(8).
        const NODUMP = 0x40;
        /// The access time is not updated.
        const NOATIME = 0x80;
        /// Encrypted.
        const ENCRYPT = 0x800;
        /// A directory with a hash index.
        const INDEX = 0x1000;
        /// An AFS directory.
        const IMAGIC = 0x2000;
        /// Data is written through the journal.
        const JOURNAL_DATA = 0x4000;
        /// The tail is not merged.
        const NOTAIL = 0x8000;
        /// A directory written synchronously.
        const DIRSYNC = 0x1_0000;
        /// The top of a hierarchy of directories.
        const TOPDIR = 0x2_0000;
        /// Blocks are counted in blocks, not in sectors.
        const HUGE_FILE = 0x4_0000;
        /// Mapped by extents.
        const EXTENTS = 0x8_0000;
        /// Has a Merkle tree after its content.
        const VERITY = 0x10_0000;
        /// Holds an attribute's value.
        const EA_INODE = 0x20_0000;
        /// Has blocks past its end.
        const EOFBLOCKS = 0x40_0000;
        /// Accessed directly, without the page cache.
        const DAX = 0x200_0000;
        /// Content is stored in the inode.
        const INLINE_DATA = 0x1000_0000;
        /// New entries of the directory inherit its project.
        const PROJINHERIT = 0x2000_0000;
        /// A directory that ignores case.
        const CASEFOLD = 0x4000_0000;
    }
}

/// The fixed fields in their on-disk form.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawInode {
    pub i_mode: U16,
    pub i_uid: U16,
    pub i_size_lo: U32,
    pub i_atime: U32,
    pub i_ctime: U32,
    pub i_mtime: U32,
    pub i_dtime: U32,
    pub i_gid: U16,
    pub i_links_count: U16,
    pub i_blocks_lo: U32,
    pub i_flags: U32,
    pub i_version: U32,
    pub i_block: [u8; 60],
    pub i_generation: U32,
    pub i_file_acl_lo: U32,
    pub i_size_high: U32,
    pub i_obso_faddr: U32,
    pub i_blocks_high: U16,
    pub i_file_acl_high: U16,
    pub i_uid_high: U16,
    pub i_gid_high: U16,
    pub i_checksum_lo: U16,
    pub i_reserved: U16,
    pub i_extra_isize: U16,
    pub i_checksum_hi: U16,
    pub i_ctime_extra: U32,
    pub i_mtime_extra: U32,
    pub i_atime_extra: U32,
    pub i_crtime: U32,
    pub i_crtime_extra: U32,
    pub i_version_hi: U32,
    pub i_projid: U32,
}

/// The end of the field `i_extra_isize`, which every inode of more than 128 bytes has.
pub(crate) const EXTRA_ISIZE_END: usize = BASE_INODE_BYTES + 2;

const DTIME_AT: usize = 0x14;
const GENERATION_AT: usize = 0x64;
const CHECKSUM_LO_AT: usize = 0x7C;
const CHECKSUM_HI_AT: usize = 0x82;
/// The smallest `i_extra_isize` with which an inode contains the high half of the checksum.
const EXTRA_WITH_CHECKSUM_HI: u16 = 4;

/// Returns the checksum of the inode `bytes`, computed with zeroed checksum fields, and whether the
/// inode stores the high half. Returns `None` if `bytes` is too short.
///
/// `bytes` is the whole inode, with the length from the superblock. `seed` is the seed of the inode: the seed
/// of the file system, continued with the inode number and the generation.
fn checksum(bytes: &[u8], extra_isize: u16, seed: Crc32c) -> Option<(u32, bool)> {
    let (before, rest) = bytes.split_at_checked(CHECKSUM_LO_AT)?;
    let crc = seed.bytes(before).bytes(&[0, 0]);
    let has_high = bytes.len() > BASE_INODE_BYTES && extra_isize >= EXTRA_WITH_CHECKSUM_HI;
    // The offset of the high half in `rest`.
    let high_at = CHECKSUM_HI_AT - CHECKSUM_LO_AT;
    if has_high {
        let crc = crc.bytes(rest.get(2..high_at)?).bytes(&[0, 0]);
        return Some((crc.bytes(rest.get(high_at + 2..)?).0, true));
    }
    Some((crc.bytes(rest.get(2..).unwrap_or_default()).0, false))
}

/// Returns whether the checksum in the inode `bytes` is correct.
///
/// `bytes` is the whole inode, with the length from the superblock. `seed` is the seed of the inode: the seed
/// of the file system, continued with the inode number and the generation.
#[must_use]
pub fn checksum_is_right(bytes: &[u8], extra_isize: u16, seed: Crc32c) -> bool {
    let half = |at: usize| u32::from(le16(bytes, at).unwrap_or(0));
    let low = half(CHECKSUM_LO_AT);
    match checksum(bytes, extra_isize, seed) {
        Some((crc, true)) => crc == low | (half(CHECKSUM_HI_AT) << 16),
        Some((crc, false)) => crc & 0xFFFF == low,
        None => false,
    }
}

/// Sets the checksum that [`checksum_is_right`] checks.
pub(crate) fn set_checksum(bytes: &mut [u8], seed: Crc32c) {
    let Some((crc, has_high)) = checksum(bytes, extra_isize(bytes), seed) else {
        return;
    };
    let (low, high) = halves16(crc);
    put16(bytes, CHECKSUM_LO_AT, low.get());
    if has_high {
        put16(bytes, CHECKSUM_HI_AT, high.get());
    }
}

/// Returns the size in bytes of the fixed fields after the first 128 bytes of an on-disk inode.
pub(crate) fn extra_isize(bytes: &[u8]) -> u16 {
    le16(bytes, BASE_INODE_BYTES).unwrap_or(0)
}

/// Returns the time of deletion, or the next orphan, of the inode `bytes`; 0 if `bytes` is too
/// short.
pub(crate) fn dtime(bytes: &[u8]) -> u32 {
    le32(bytes, DTIME_AT).unwrap_or(0)
}

/// Returns the generation of the inode `bytes`, which distinguishes files that have had the same
/// inode number.
pub(crate) fn generation(bytes: &[u8]) -> u32 {
    le32(bytes, GENERATION_AT).unwrap_or(0)
}

/// Sets the field that [`dtime`] reads.
pub(crate) fn set_dtime(bytes: &mut [u8], dtime: u32) {
    if bytes.len() >= DTIME_AT + 4 {
        put32(bytes, DTIME_AT, dtime);
    }
}
