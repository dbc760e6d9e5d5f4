//! The superblock: 1,024 bytes at byte 1,024 of the image.
//!
//! Parsing checks everything that later arithmetic relies on, so that no number
//! in a [`Superblock`] can make a division by zero, an overflow or an unbounded
//! loop further up. The fields are the decoded ones: sizes in bytes, 64-bit
//! counts put together, features that change a field's meaning applied.

use super::checksum::{Crc32c, crc16};
use super::features::{Compat, Incompat, RoCompat};
use super::time::Timestamp;
use crate::error::Place;
use crate::{Error, FsBlock, GroupNo, Ino, Result};
use bitflags::bitflags;
use larder_block::BlockDevice;
use uuid::Uuid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Where the superblock starts, in bytes, whatever the block size.
pub const SUPERBLOCK_OFFSET_BYTES: u64 = 1024;
/// Bytes of a superblock.
pub const SUPERBLOCK_BYTES: usize = 1024;

const MAGIC: u16 = 0xEF53;
const CHECKSUM_TYPE_CRC32C: u8 = 1;
/// Bytes of the superblock that its checksum covers: all before it.
const CHECKSUMMED_BYTES: usize = 0x3FC;
/// Physical block numbers in extents have 48 bits.
const BLOCKS_MAX: u64 = 1 << 48;

bitflags! {
    /// How the file system was left (`s_state`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct State: u16 {
        /// Unmounted cleanly.
        const VALID = 0x1;
        /// The kernel found errors.
        const ERROR = 0x2;
        /// Orphans are being cleaned up.
        const ORPHAN = 0x4;
        /// Fast commits are being replayed.
        const FC_REPLAY = 0x20;
    }
}

/// A superblock whose numbers fit each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Superblock {
    /// Inodes, used and free.
    pub inodes_count: u32,
    /// Blocks, used and free.
    pub blocks_count: u64,
    /// Blocks that only the super-user may fill.
    pub reserved_blocks_count: u64,
    /// Free blocks by the superblock, which may be behind the group descriptors.
    pub free_blocks_count: u64,
    /// Free inodes by the superblock, which may be behind the group descriptors.
    pub free_inodes_count: u32,
    /// First block of group 0: 1 where blocks have 1 KiB, else 0.
    pub first_data_block: u32,
    /// Binary logarithm of the block size: 10 to 16.
    pub block_size_log2: u8,
    /// Blocks in a cluster, as a binary logarithm; 0 without bigalloc.
    pub cluster_blocks_log2: u8,
    /// Blocks in each group but the last.
    pub blocks_per_group: u32,
    /// Inodes in each group.
    pub inodes_per_group: u32,
    /// Number of block groups.
    pub groups_count: u32,
    /// Revision: 0 has fixed sizes and no features.
    pub revision: u32,
    /// How the file system was left.
    pub state: State,
    /// Bytes of an inode in the inode tables.
    pub inode_size_bytes: u16,
    /// Bytes of a group descriptor: 32, or 64 and more with 64bit.
    pub descriptor_size_bytes: u16,
    /// First inode that is not reserved.
    pub first_ino: Ino,
    /// Compatible features.
    pub compat: Compat,
    /// Incompatible features.
    pub incompat: Incompat,
    /// Read-only compatible features.
    pub ro_compat: RoCompat,
    /// Identifies the file system.
    pub uuid: Uuid,
    /// The label, up to the first NUL.
    pub label: Vec<u8>,
    /// Where the file system was mounted last, up to the first NUL.
    pub last_mounted: Vec<u8>,
    /// When it was made.
    pub created: Timestamp,
    /// When it was mounted last.
    pub mounted: Timestamp,
    /// When it was written last.
    pub written: Timestamp,
    /// When it was checked last.
    pub checked: Timestamp,
    /// Mounts since the last check.
    pub mount_count: u16,
    /// Errors that the kernel has found since the last check.
    pub error_count: u32,
    /// When the kernel found the first of them.
    pub first_error: Timestamp,
    /// When the kernel found the last of them.
    pub last_error: Timestamp,
    /// The inode of the journal; 0 if it is on another device or there is none.
    pub journal_ino: Ino,
    /// The UUID of the journal's superblock if it is on another device.
    pub journal_uuid: Uuid,
    /// First of the list of inodes that are to be deleted.
    pub last_orphan: Ino,
    /// The inode of the orphan file; 0 without the feature.
    pub orphan_file_ino: Ino,
    /// Seed of directory hashes.
    pub hash_seed: [u32; 4],
    /// Hash version of new directories.
    pub default_hash_version: u8,
    /// Whether directory hashes take the bytes of a name as unsigned.
    pub hash_unsigned: bool,
    /// First block group of descriptors that lie in their own groups.
    pub first_meta_bg: u32,
    /// Groups whose bitmaps and inode tables lie together, as a binary logarithm.
    pub flex_bg_groups_log2: u8,
    /// Blocks kept after the descriptors for more of them.
    pub reserved_descriptor_blocks: u16,
    /// The two groups that hold backups with `sparse_super2`; 0 means none.
    pub backup_groups: [GroupNo; 2],
    /// The block that guards against being mounted twice.
    pub mmp_block: FsBlock,
    /// Seconds between updates of that block.
    pub mmp_interval_seconds: u16,
    /// Clusters of metadata as counted when the file system was made; 0: unknown.
    pub overhead_clusters: u32,
    /// Character encoding of names that ignore case.
    pub encoding: u16,
    /// Flags of that encoding.
    pub encoding_flags: u16,
    /// Hidden inodes of user, group and project quota; 0 for none.
    pub quota_inos: [Ino; 3],
    /// Start of every checksum but the superblock's own.
    pub checksum_seed: Crc32c,
}

impl Superblock {
    /// Reads and parses the superblock of `device`.
    ///
    /// # Errors
    /// As [`Superblock::parse`], or the device's error.
    pub fn read(device: &dyn BlockDevice) -> Result<Self> {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        if device.size_bytes() < SUPERBLOCK_OFFSET_BYTES + SUPERBLOCK_BYTES as u64 {
            return Err(Error::NotExt);
        }
        device.read_at(&mut bytes, SUPERBLOCK_OFFSET_BYTES)?;
        Self::parse(&bytes)
    }

    /// Parses a superblock and checks that its numbers fit each other.
    ///
    /// # Errors
    /// [`Error::NotExt`] without the magic number, [`Error::UnsupportedFeature`],
    /// or [`Error::Corrupt`].
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let Ok((raw, _)) = RawSuperblock::ref_from_prefix(bytes) else {
            return Err(Error::NotExt);
        };
        if raw.s_magic.get() != MAGIC {
            return Err(Error::NotExt);
        }
        let revision = raw.s_rev_level.get();
        let (compat, incompat, ro_compat) = raw.features();
        incompat.check_readable()?;
        let has_checksums = ro_compat.contains(RoCompat::METADATA_CSUM);
        if has_checksums {
            check(
                raw.s_checksum_type == CHECKSUM_TYPE_CRC32C,
                "unknown checksum type",
            )?;
            let computed = Crc32c::START.bytes(&bytes[..CHECKSUMMED_BYTES]);
            check(computed.0 == raw.s_checksum.get(), "checksum is wrong")?;
        }
        let geometry = raw.geometry()?;
        Ok(raw.decode(revision, (compat, incompat, ro_compat), &geometry))
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_size_bytes(&self) -> u32 {
        1 << self.block_size_log2
    }

    /// Bytes of a cluster: of a block, without bigalloc.
    #[must_use]
    pub fn cluster_size_bytes(&self) -> u64 {
        u64::from(self.block_size_bytes()) << self.cluster_blocks_log2
    }

    /// Bytes of the file system.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.blocks_count << self.block_size_log2
    }

    /// Bytes of the file system that a device of `device_size_bytes` lacks: not
    /// zero if the image was cut off. Such an image can be read up to the cut.
    #[must_use]
    pub fn missing_bytes(&self, device_size_bytes: u64) -> u64 {
        self.size_bytes().saturating_sub(device_size_bytes)
    }

    /// Blocks of one group's inode table.
    #[must_use]
    pub fn inode_table_blocks(&self) -> u32 {
        let bytes = u64::from(self.inodes_per_group) * u64::from(self.inode_size_bytes);
        let blocks = bytes.div_ceil(u64::from(self.block_size_bytes()));
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// Whether metadata carries a CRC-32C.
    #[must_use]
    pub fn has_metadata_checksums(&self) -> bool {
        self.ro_compat.contains(RoCompat::METADATA_CSUM)
    }

    /// Whether group descriptors carry a checksum, of either kind.
    #[must_use]
    pub fn has_descriptor_checksums(&self) -> bool {
        self.ro_compat
            .intersects(RoCompat::METADATA_CSUM | RoCompat::GDT_CSUM)
    }

    /// The start of the checksum of an inode and of the blocks that belong to it.
    #[must_use]
    pub fn inode_checksum_seed(&self, ino: Ino, generation: u32) -> Crc32c {
        self.checksum_seed.u32(ino.0).u32(generation)
    }

    /// The CRC-16 of the UUID, with which a descriptor's CRC-16 starts.
    pub(crate) fn descriptor_crc16_seed(&self) -> u16 {
        crc16(!0, self.uuid.as_bytes())
    }

    /// Whether the `blocks` blocks from `start` on can be what a file or an
    /// inode table is made of: behind the superblock, and inside the file system.
    #[must_use]
    pub fn contains_blocks(&self, start: FsBlock, blocks: u64) -> bool {
        start.0 > u64::from(self.first_data_block)
            && start
                .0
                .checked_add(blocks)
                .is_some_and(|end| end <= self.blocks_count)
    }

    /// First block of `group`.
    #[must_use]
    pub fn group_first_block(&self, group: GroupNo) -> FsBlock {
        let offset = u64::from(group.0) * u64::from(self.blocks_per_group);
        FsBlock(u64::from(self.first_data_block) + offset)
    }

    /// Whether `group` starts with a superblock: the first one or a backup.
    #[must_use]
    pub fn group_has_superblock(&self, group: GroupNo) -> bool {
        if group.0 == 0 {
            return true;
        }
        if self.compat.contains(Compat::SPARSE_SUPER2) {
            return self.backup_groups.contains(&group);
        }
        if group.0 == 1 || !self.ro_compat.contains(RoCompat::SPARSE_SUPER) {
            return true;
        }
        [3, 5, 7].iter().any(|&base| is_power_of(base, group.0))
    }
}

/// Whether `number` is a power of `base`, 1 included.
fn is_power_of(base: u32, number: u32) -> bool {
    let mut rest = number;
    while rest > 1 && rest.is_multiple_of(base) {
        rest /= base;
    }
    rest == 1
}

fn check(holds: bool, what: &'static str) -> Result<()> {
    if holds {
        Ok(())
    } else {
        Err(Error::corrupt(Place::Superblock, what))
    }
}

/// The checked sizes of a superblock.
struct Geometry {
    block_size_log2: u8,
    cluster_blocks_log2: u8,
    blocks_count: u64,
    groups_count: u32,
    inode_size_bytes: u16,
    descriptor_size_bytes: u16,
}

/// The superblock as it lies on the disk.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    s_inodes_count: U32,
    s_blocks_count_lo: U32,
    s_r_blocks_count_lo: U32,
    s_free_blocks_count_lo: U32,
    s_free_inodes_count: U32,
    s_first_data_block: U32,
    s_log_block_size: U32,
    s_log_cluster_size: U32,
    s_blocks_per_group: U32,
    s_clusters_per_group: U32,
    s_inodes_per_group: U32,
    s_mtime: U32,
    s_wtime: U32,
    s_mnt_count: U16,
    s_max_mnt_count: U16,
    s_magic: U16,
    s_state: U16,
    s_errors: U16,
    s_minor_rev_level: U16,
    s_lastcheck: U32,
    s_checkinterval: U32,
    s_creator_os: U32,
    s_rev_level: U32,
    s_def_resuid: U16,
    s_def_resgid: U16,
    s_first_ino: U32,
    s_inode_size: U16,
    s_block_group_nr: U16,
    s_feature_compat: U32,
    s_feature_incompat: U32,
    s_feature_ro_compat: U32,
    s_uuid: [u8; 16],
    s_volume_name: [u8; 16],
    s_last_mounted: [u8; 64],
    s_algorithm_usage_bitmap: U32,
    s_prealloc_blocks: u8,
    s_prealloc_dir_blocks: u8,
    s_reserved_gdt_blocks: U16,
    s_journal_uuid: [u8; 16],
    s_journal_inum: U32,
    s_journal_dev: U32,
    s_last_orphan: U32,
    s_hash_seed: [U32; 4],
    s_def_hash_version: u8,
    s_jnl_backup_type: u8,
    s_desc_size: U16,
    s_default_mount_opts: U32,
    s_first_meta_bg: U32,
    s_mkfs_time: U32,
    s_jnl_blocks: [U32; 17],
    s_blocks_count_hi: U32,
    s_r_blocks_count_hi: U32,
    s_free_blocks_count_hi: U32,
    s_min_extra_isize: U16,
    s_want_extra_isize: U16,
    s_flags: U32,
    s_raid_stride: U16,
    s_mmp_interval: U16,
    s_mmp_block: U64,
    s_raid_stripe_width: U32,
    s_log_groups_per_flex: u8,
    s_checksum_type: u8,
    s_encryption_level: u8,
    s_reserved_pad: u8,
    s_kbytes_written: U64,
    s_snapshot: [u8; 20],
    s_error_count: U32,
    s_first_error_time: U32,
    s_first_error: [u8; 48],
    s_last_error_time: U32,
    s_last_error: [u8; 48],
    s_mount_opts: [u8; 64],
    s_usr_quota_inum: U32,
    s_grp_quota_inum: U32,
    s_overhead_clusters: U32,
    s_backup_bgs: [U32; 2],
    s_encrypt_algos: [u8; 4],
    s_encrypt_pw_salt: [u8; 16],
    s_lpf_ino: U32,
    s_prj_quota_inum: U32,
    s_checksum_seed: U32,
    s_wtime_hi: u8,
    s_mtime_hi: u8,
    s_mkfs_time_hi: u8,
    s_lastcheck_hi: u8,
    s_first_error_time_hi: u8,
    s_last_error_time_hi: u8,
    s_error_codes: [u8; 2],
    s_encoding: U16,
    s_encoding_flags: U16,
    s_orphan_file_inum: U32,
    s_reserved: [u8; 0x178],
    s_checksum: U32,
}

const _: () = assert!(size_of::<RawSuperblock>() == SUPERBLOCK_BYTES);

impl RawSuperblock {
    const FLAG_UNSIGNED_HASH: u32 = 0x2;

    fn features(&self) -> (Compat, Incompat, RoCompat) {
        if self.s_rev_level.get() == 0 {
            return Default::default();
        }
        (
            Compat::from_bits_retain(self.s_feature_compat.get()),
            Incompat::from_bits_retain(self.s_feature_incompat.get()),
            RoCompat::from_bits_retain(self.s_feature_ro_compat.get()),
        )
    }

    /// The sizes, each checked against those that it must fit.
    fn geometry(&self) -> Result<Geometry> {
        let (_, incompat, ro_compat) = self.features();
        let log_block_size = self.s_log_block_size.get();
        check(log_block_size <= 6, "block size is not 1 KiB to 64 KiB")?;
        let block_size_bytes = 1024_u32 << log_block_size;
        let bits_per_block = block_size_bytes * 8;

        let mut cluster_blocks_log2 = 0;
        let blocks_per_group = self.s_blocks_per_group.get();
        if ro_compat.contains(RoCompat::BIGALLOC) {
            let log_cluster_size = self.s_log_cluster_size.get();
            check(
                (log_block_size..=20).contains(&log_cluster_size),
                "cluster size is smaller than a block or larger than 1 GiB",
            )?;
            cluster_blocks_log2 = log_cluster_size - log_block_size;
            let clusters_per_group = self.s_clusters_per_group.get();
            check(
                (1..=bits_per_block).contains(&clusters_per_group),
                "a group's clusters do not fit its bitmap",
            )?;
            check(
                u64::from(clusters_per_group) << cluster_blocks_log2 == u64::from(blocks_per_group),
                "blocks and clusters of a group do not match",
            )?;
        } else {
            check(
                (1..=bits_per_block).contains(&blocks_per_group),
                "a group's blocks do not fit its bitmap",
            )?;
        }

        let blocks_count = Self::wide(incompat, self.s_blocks_count_lo, self.s_blocks_count_hi);
        let first_data_block = u64::from(self.s_first_data_block.get());
        check(blocks_count <= BLOCKS_MAX, "block count is too large")?;
        check(
            first_data_block < blocks_count && first_data_block <= 1,
            "first data block is out of range",
        )?;
        check(
            first_data_block == 0 || log_block_size == 0,
            "first data block does not fit the block size",
        )?;
        let groups = (blocks_count - first_data_block).div_ceil(u64::from(blocks_per_group));
        let Ok(groups_count) = u32::try_from(groups) else {
            return Err(Error::corrupt(Place::Superblock, "too many block groups"));
        };

        let inode_size_bytes = self.inode_size(block_size_bytes)?;
        self.check_inodes(groups, block_size_bytes, inode_size_bytes)?;
        let descriptor_size_bytes = self.descriptor_size(incompat)?;
        Ok(Geometry {
            block_size_log2: to_u8(log_block_size + 10),
            cluster_blocks_log2: to_u8(cluster_blocks_log2),
            blocks_count,
            groups_count,
            inode_size_bytes,
            descriptor_size_bytes,
        })
    }

    fn inode_size(&self, block_size_bytes: u32) -> Result<u16> {
        if self.s_rev_level.get() == 0 {
            return Ok(128);
        }
        let size = self.s_inode_size.get();
        check(
            size >= 128 && size.is_power_of_two() && u32::from(size) <= block_size_bytes,
            "inode size is not a power of two from 128 to the block size",
        )?;
        Ok(size)
    }

    fn check_inodes(&self, groups: u64, block_bytes: u32, inode_bytes: u16) -> Result<()> {
        let inodes_per_group = self.s_inodes_per_group.get();
        check(
            (1..=block_bytes * 8).contains(&inodes_per_group),
            "a group's inodes do not fit its bitmap",
        )?;
        let table_bytes = u64::from(inodes_per_group) * u64::from(inode_bytes);
        check(
            table_bytes.div_ceil(u64::from(block_bytes))
                <= u64::from(self.s_blocks_per_group.get()),
            "a group's inode table does not fit the group",
        )?;
        let inodes_count = u64::from(self.s_inodes_count.get());
        check(
            (1..=groups * u64::from(inodes_per_group)).contains(&inodes_count),
            "inode count does not fit the block groups",
        )
    }

    fn descriptor_size(&self, incompat: Incompat) -> Result<u16> {
        if !incompat.contains(Incompat::BIT64) {
            return Ok(32);
        }
        let size = self.s_desc_size.get();
        check(
            (64..=1024).contains(&size) && size.is_power_of_two(),
            "descriptor size is not a power of two from 64 to 1024",
        )?;
        Ok(size)
    }

    /// A count of blocks; its high half counts only with 64bit.
    fn wide(incompat: Incompat, low: U32, high: U32) -> u64 {
        let high = if incompat.contains(Incompat::BIT64) {
            high.get()
        } else {
            0
        };
        u64::from(low.get()) | (u64::from(high) << 32)
    }

    fn checksum_seed(&self, incompat: Incompat) -> Crc32c {
        if incompat.contains(Incompat::CSUM_SEED) {
            Crc32c(self.s_checksum_seed.get())
        } else {
            Crc32c::START.bytes(&self.s_uuid)
        }
    }

    fn decode(
        &self,
        revision: u32,
        (compat, incompat, ro_compat): (Compat, Incompat, RoCompat),
        geometry: &Geometry,
    ) -> Superblock {
        let first_ino = if revision == 0 {
            11
        } else {
            self.s_first_ino.get()
        };
        Superblock {
            inodes_count: self.s_inodes_count.get(),
            blocks_count: geometry.blocks_count,
            reserved_blocks_count: Self::wide(
                incompat,
                self.s_r_blocks_count_lo,
                self.s_r_blocks_count_hi,
            ),
            free_blocks_count: Self::wide(
                incompat,
                self.s_free_blocks_count_lo,
                self.s_free_blocks_count_hi,
            ),
            free_inodes_count: self.s_free_inodes_count.get(),
            first_data_block: self.s_first_data_block.get(),
            block_size_log2: geometry.block_size_log2,
            cluster_blocks_log2: geometry.cluster_blocks_log2,
            blocks_per_group: self.s_blocks_per_group.get(),
            inodes_per_group: self.s_inodes_per_group.get(),
            groups_count: geometry.groups_count,
            revision,
            state: State::from_bits_retain(self.s_state.get()),
            inode_size_bytes: geometry.inode_size_bytes,
            descriptor_size_bytes: geometry.descriptor_size_bytes,
            first_ino: Ino(first_ino),
            compat,
            incompat,
            ro_compat,
            uuid: Uuid::from_bytes(self.s_uuid),
            label: until_nul(&self.s_volume_name),
            last_mounted: until_nul(&self.s_last_mounted),
            created: Timestamp::from_superblock(self.s_mkfs_time.get(), self.s_mkfs_time_hi),
            mounted: Timestamp::from_superblock(self.s_mtime.get(), self.s_mtime_hi),
            written: Timestamp::from_superblock(self.s_wtime.get(), self.s_wtime_hi),
            checked: Timestamp::from_superblock(self.s_lastcheck.get(), self.s_lastcheck_hi),
            mount_count: self.s_mnt_count.get(),
            error_count: self.s_error_count.get(),
            first_error: Timestamp::from_superblock(
                self.s_first_error_time.get(),
                self.s_first_error_time_hi,
            ),
            last_error: Timestamp::from_superblock(
                self.s_last_error_time.get(),
                self.s_last_error_time_hi,
            ),
            journal_ino: Ino(self.s_journal_inum.get()),
            journal_uuid: Uuid::from_bytes(self.s_journal_uuid),
            last_orphan: Ino(self.s_last_orphan.get()),
            orphan_file_ino: Ino(self.s_orphan_file_inum.get()),
            hash_seed: self.s_hash_seed.map(U32::get),
            default_hash_version: self.s_def_hash_version,
            hash_unsigned: self.s_flags.get() & Self::FLAG_UNSIGNED_HASH != 0,
            first_meta_bg: self.s_first_meta_bg.get(),
            flex_bg_groups_log2: self.s_log_groups_per_flex,
            reserved_descriptor_blocks: self.s_reserved_gdt_blocks.get(),
            backup_groups: self.s_backup_bgs.map(|group| GroupNo(group.get())),
            mmp_block: FsBlock(self.s_mmp_block.get()),
            mmp_interval_seconds: self.s_mmp_interval.get(),
            overhead_clusters: self.s_overhead_clusters.get(),
            encoding: self.s_encoding.get(),
            encoding_flags: self.s_encoding_flags.get(),
            quota_inos: [
                Ino(self.s_usr_quota_inum.get()),
                Ino(self.s_grp_quota_inum.get()),
                Ino(self.s_prj_quota_inum.get()),
            ],
            checksum_seed: self.checksum_seed(incompat),
        }
    }
}

fn until_nul(bytes: &[u8]) -> Vec<u8> {
    bytes
        .split(|&byte| byte == 0)
        .next()
        .unwrap_or_default()
        .to_vec()
}

/// A logarithm that was checked to be small.
fn to_u8(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
