//! Group descriptors, which contain the locations of a block group's inode table and bitmaps.
//!
//! A descriptor has 32 bytes, or at least 64 with `64bit`. The second 32 bytes hold the high halves
//! of fields. With `uninit_bg`, a descriptor has a CRC-16, and with `metadata_csum`, the low half
//! of a CRC-32C.

use super::checksum::crc16;
use super::features::Incompat;
use super::fields::{halves16, join16, join32, put16};
use super::superblock::Superblock;
use crate::error::Place;
use crate::{FsBlock, GroupNo, Result};
use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

bitflags! {
    /// Which parts of a group are initialized. Valid only with a descriptor checksum.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct GroupFlags: u16 {
        /// No inode is in use; the inode bitmap and table may be garbage.
        const INODE_UNINIT = 0x1;
        /// The block bitmap may be garbage.
        const BLOCK_UNINIT = 0x2;
        /// The unused part of the inode table is zeroed.
        const INODE_ZEROED = 0x4;
    }
}

/// The descriptor of a block group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupDesc {
    /// The block of the block bitmap.
    pub block_bitmap: FsBlock,
    /// The block of the inode bitmap.
    pub inode_bitmap: FsBlock,
    /// The first block of the inode table.
    pub inode_table: FsBlock,
    /// The number of free clusters (blocks without bigalloc).
    pub free_clusters: u32,
    /// The number of free inodes.
    pub free_inodes: u32,
    /// The number of inodes that are directories.
    pub used_directories: u32,
    /// The number of inodes at the end of the table that were never used.
    pub unused_inodes: u32,
    /// Checksum of the block bitmap, with `metadata_csum`. Only the low half if descriptors have 32
    /// bytes.
    pub block_bitmap_checksum: u32,
    /// Checksum of the inode bitmap, with `metadata_csum`. Only the low half if descriptors have 32
    /// bytes.
    pub inode_bitmap_checksum: u32,
    /// Which parts are initialized; empty if descriptors have no checksum.
    pub flags: GroupFlags,
}

/// The location of a group's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorPlace {
    /// The block that contains the descriptor.
    pub block: FsBlock,
    /// The offset of the descriptor in the block, in bytes.
    pub offset_bytes: usize,
}

impl DescriptorPlace {
    /// Returns the location of the descriptor of `group`. Without `meta_bg`, all descriptors follow
    /// the superblock. With `meta_bg`, this applies only to the first `first_meta_bg` blocks of
    /// descriptors. Each further block is at the start of the first group that it describes.
    #[must_use]
    pub fn of(sb: &Superblock, group: GroupNo) -> Self {
        let size_bytes = u32::from(sb.descriptor_size_bytes);
        let per_block = sb.block_size_bytes() / size_bytes;
        let table_block = group.0 / per_block;
        let offset_bytes = (group.0 % per_block) * size_bytes;
        Self {
            block: Self::table_block(sb, table_block, per_block),
            offset_bytes: usize::try_from(offset_bytes).unwrap_or(usize::MAX),
        }
    }

    fn table_block(sb: &Superblock, table_block: u32, per_block: u32) -> FsBlock {
        let is_small = sb.block_size_log2 == 10;
        if !sb.incompat.contains(Incompat::META_BG) || table_block < sb.first_meta_bg {
            // The superblock starts at byte 1024, which is in block 1 if blocks have 1 KiB.
            return FsBlock(u64::from(is_small) + 1 + u64::from(table_block));
        }
        let first = GroupNo(table_block.saturating_mul(per_block));
        let mut skip = u64::from(sb.group_has_superblock(first));
        if is_small && table_block == 0 && sb.first_data_block == 0 {
            skip += 1;
        }
        FsBlock(sb.group_first_block(first).0 + skip)
    }
}

impl GroupDesc {
    /// Parses and checks the descriptor of `group` at the start of `bytes`.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if the checksum is wrong, the inode table is outside the file
    /// system, or `bytes` is too short.
    pub fn parse(sb: &Superblock, group: GroupNo, bytes: &[u8]) -> Result<Self> {
        let place = Place::Group(group);
        let size_bytes = usize::from(sb.descriptor_size_bytes);
        let bytes = bytes
            .get(..size_bytes)
            .ok_or_else(|| place.corrupt("descriptor is truncated"))?;
        let (low, rest) =
            RawLow::ref_from_prefix(bytes).map_err(|_| place.corrupt("descriptor is truncated"))?;
        if sb.has_descriptor_checksums() && checksum(sb, group, bytes) != low.bg_checksum.get() {
            return Err(place.corrupt("checksum of the descriptor is wrong"));
        }
        let zero = RawHigh::default();
        let high = RawHigh::ref_from_prefix(rest).map_or(&zero, |(high, _)| high);
        let desc = Self::decode(sb, low, high);
        if !sb.contains_blocks(desc.inode_table, u64::from(sb.inode_table_blocks())) {
            return Err(place.corrupt("inode table is outside the file system"));
        }
        Ok(desc)
    }

    fn decode(sb: &Superblock, low: &RawLow, high: &RawHigh) -> Self {
        let block = |low: U32, high: U32| FsBlock(join32(low, high));
        let flags = if sb.has_descriptor_checksums() {
            GroupFlags::from_bits_retain(low.bg_flags.get())
        } else {
            GroupFlags::empty()
        };
        Self {
            block_bitmap: block(low.bg_block_bitmap, high.bg_block_bitmap),
            inode_bitmap: block(low.bg_inode_bitmap, high.bg_inode_bitmap),
            inode_table: block(low.bg_inode_table, high.bg_inode_table),
            free_clusters: join16(low.bg_free_blocks_count, high.bg_free_blocks_count),
            free_inodes: join16(low.bg_free_inodes_count, high.bg_free_inodes_count),
            used_directories: join16(low.bg_used_dirs_count, high.bg_used_dirs_count),
            unused_inodes: join16(low.bg_itable_unused, high.bg_itable_unused),
            block_bitmap_checksum: join16(low.bg_block_bitmap_csum, high.bg_block_bitmap_csum),
            inode_bitmap_checksum: join16(low.bg_inode_bitmap_csum, high.bg_inode_bitmap_csum),
            flags,
        }
    }

    /// Updates the descriptor of `group` at the start of `bytes` with the fields that change during
    /// use (counts, flags, bitmap checksums), and with the new checksum of the descriptor.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if `bytes` is too short, or a count does not fit in the
    /// descriptor.
    pub fn write(&self, sb: &Superblock, group: GroupNo, bytes: &mut [u8]) -> Result<()> {
        let place = Place::Group(group);
        let bytes = bytes
            .get_mut(..usize::from(sb.descriptor_size_bytes))
            .ok_or_else(|| place.corrupt("descriptor is truncated"))?;
        let (low, rest) =
            RawLow::mut_from_prefix(bytes).map_err(|_| place.corrupt("descriptor is truncated"))?;
        let mut none = RawHigh::default();
        let (high, has_high) = match RawHigh::mut_from_prefix(rest) {
            Ok((high, _)) => (high, true),
            Err(_) => (&mut none, false),
        };
        let counts = [
            self.free_clusters,
            self.free_inodes,
            self.used_directories,
            self.unused_inodes,
        ];
        if !has_high && counts.iter().any(|&count| count > u32::from(u16::MAX)) {
            return Err(place.corrupt("a count does not fit into the descriptor"));
        }
        (low.bg_free_blocks_count, high.bg_free_blocks_count) = halves16(self.free_clusters);
        (low.bg_free_inodes_count, high.bg_free_inodes_count) = halves16(self.free_inodes);
        (low.bg_used_dirs_count, high.bg_used_dirs_count) = halves16(self.used_directories);
        if sb.has_descriptor_checksums() {
            (low.bg_itable_unused, high.bg_itable_unused) = halves16(self.unused_inodes);
            low.bg_flags.set(self.flags.bits());
        }
        if sb.has_metadata_checksums() {
            (low.bg_block_bitmap_csum, high.bg_block_bitmap_csum) =
                halves16(self.block_bitmap_checksum);
            (low.bg_inode_bitmap_csum, high.bg_inode_bitmap_csum) =
                halves16(self.inode_bitmap_checksum);
        }
        if sb.has_descriptor_checksums() {
            let checksum = checksum(sb, group, bytes);
            put16(bytes, CHECKSUM_AT, checksum);
        }
        Ok(())
    }

    /// Returns whether `stored`, a bitmap checksum from a descriptor, equals `checksum` in the bits
    /// that descriptors of this size can store.
    pub(crate) fn is_checksum(sb: &Superblock, stored: u32, checksum: u32) -> bool {
        let is_wide =
            usize::from(sb.descriptor_size_bytes) >= size_of::<RawLow>() + size_of::<RawHigh>();
        let mask = if is_wide { u32::MAX } else { 0xFFFF };
        stored & mask == checksum & mask
    }
}

/// The offset of `bg_checksum` in a descriptor.
const CHECKSUM_AT: usize = 0x1E;

fn checksum(sb: &Superblock, group: GroupNo, bytes: &[u8]) -> u16 {
    let (before, rest) = bytes.split_at(CHECKSUM_AT);
    let after = &rest[2..];
    if sb.has_metadata_checksums() {
        let crc = sb.checksum_seed.u32(group.0);
        let crc = crc.bytes(before).bytes(&[0, 0]).bytes(after);
        return halves16(crc.0).0.get();
    }
    let crc = crc16(sb.descriptor_crc16_seed(), &group.0.to_le_bytes());
    crc16(crc16(crc, before), after)
}

/// The first 32 bytes of a descriptor.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawLow {
    bg_block_bitmap: U32,
    bg_inode_bitmap: U32,
    bg_inode_table: U32,
    bg_free_blocks_count: U16,
    bg_free_inodes_count: U16,
    bg_used_dirs_count: U16,
    bg_flags: U16,
    bg_exclude_bitmap: U32,
    bg_block_bitmap_csum: U16,
    bg_inode_bitmap_csum: U16,
    bg_itable_unused: U16,
    bg_checksum: U16,
}

/// The next 32 bytes, with the high halves of fields.
#[derive(Default, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHigh {
    bg_block_bitmap: U32,
    bg_inode_bitmap: U32,
    bg_inode_table: U32,
    bg_free_blocks_count: U16,
    bg_free_inodes_count: U16,
    bg_used_dirs_count: U16,
    bg_itable_unused: U16,
    bg_exclude_bitmap: U32,
    bg_block_bitmap_csum: U16,
    bg_inode_bitmap_csum: U16,
    bg_reserved: U32,
}

const _: () = assert!(size_of::<RawLow>() == 32 && size_of::<RawHigh>() == 32);
