//! The superblock in its on-disk form, and the validation of its numbers.

use super::decoded::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET_BYTES, State, Superblock};
use crate::error::Place;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::features::{Compat, Incompat, RoCompat};
use crate::ondisk::fields::{join32, until_nul};
use crate::ondisk::time::Timestamp;
use crate::{Error, FsBlock, GroupNo, Ino, Result};
use larder_block::BlockDevice;
use uuid::Uuid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub(super) const MAGIC: u16 = 0xEF53;
const CHECKSUM_TYPE_CRC32C: u8 = 1;
/// The number of bytes that the superblock's checksum covers, which are all bytes before the
/// checksum.
pub(super) const CHECKSUMMED_BYTES: usize = 0x3FC;
/// The maximum number of blocks, because block numbers in extents have 48 bits.
const BLOCKS_MAX: u64 = 1 << 48;
/// The maximum size of a device, so that byte offsets of blocks do not overflow.
const SIZE_MAX_BYTES: u64 = i64::MAX.cast_unsigned();

impl Superblock {
    /// Reads and parses the superblock of `device`.
    ///
    /// # Errors
    /// As for [`Superblock::parse`], or the device's error.
    pub fn read(device: &dyn BlockDevice) -> Result<Self> {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        if device.size_bytes() < SUPERBLOCK_OFFSET_BYTES + SUPERBLOCK_BYTES as u64 {
            return Err(Error::NotExt);
        }
        device.read_at(&mut bytes, SUPERBLOCK_OFFSET_BYTES)?;
        Self::parse(&bytes)
    }

    /// Parses a superblock and checks that its numbers are consistent.
    ///
    /// # Errors
    /// [`Error::NotExt`] without the magic number; [`Error::UnsupportedFeature`];
    /// [`Error::Corrupt`].
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let raw = readable(bytes)?;
        raw.verify_checksum()?;
        raw.decoded()
    }
}

/// Parses a superblock like [`Superblock::parse`], but ignores the checksum.
pub(super) fn parse_unverified(bytes: &[u8]) -> Result<Superblock> {
    readable(bytes)?.decoded()
}

/// Returns whether `bytes` are a superblock whose checksum, if it has one, is correct.
pub(super) fn has_valid_checksum(bytes: &[u8]) -> bool {
    raw(bytes).is_ok_and(|raw| raw.verify_checksum().is_ok())
}

/// Returns the UUID if the bytes have the magic number of a superblock. Does not validate other
/// fields.
pub(super) fn uuid(bytes: &[u8]) -> Option<Uuid> {
    Some(Uuid::from_bytes(raw(bytes).ok()?.s_uuid))
}

fn raw(bytes: &[u8]) -> Result<&RawSuperblock> {
    match RawSuperblock::ref_from_prefix(bytes) {
        Ok((raw, _)) if raw.s_magic.get() == MAGIC => Ok(raw),
        _ => Err(Error::NotExt),
    }
}

fn readable(bytes: &[u8]) -> Result<&RawSuperblock> {
    let raw = raw(bytes)?;
    let (_, incompat, _) = raw.features();
    incompat.check_readable()?;
    Ok(raw)
}

fn check(holds: bool, what: &'static str) -> Result<()> {
    Place::Superblock.ensure(holds, what)
}

/// The validated sizes of a superblock.
struct Geometry {
    block_size_log2: u8,
    cluster_blocks_log2: u8,
    blocks_count: u64,
    groups_count: u32,
    inode_size_bytes: u16,
    descriptor_size_bytes: u16,
}

/// The superblock in its on-disk form.
#[derive(Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawSuperblock {
    pub(super) s_inodes_count: U32,
    pub(super) s_blocks_count_lo: U32,
    pub(super) s_r_blocks_count_lo: U32,
    pub(super) s_free_blocks_count_lo: U32,
    pub(super) s_free_inodes_count: U32,
    pub(super) s_first_data_block: U32,
    pub(super) s_log_block_size: U32,
    pub(super) s_log_cluster_size: U32,
    pub(super) s_blocks_per_group: U32,
    pub(super) s_clusters_per_group: U32,
    pub(super) s_inodes_per_group: U32,
    pub(super) s_mtime: U32,
    pub(super) s_wtime: U32,
    pub(super) s_mnt_count: U16,
    pub(super) s_max_mnt_count: U16,
    pub(super) s_magic: U16,
    pub(super) s_state: U16,
    pub(super) s_errors: U16,
    pub(super) s_minor_rev_level: U16,
    pub(super) s_lastcheck: U32,
    pub(super) s_checkinterval: U32,
    pub(super) s_creator_os: U32,
    pub(super) s_rev_level: U32,
    pub(super) s_def_resuid: U16,
    pub(super) s_def_resgid: U16,
    pub(super) s_first_ino: U32,
    pub(super) s_inode_size: U16,
    pub(super) s_block_group_nr: U16,
    pub(super) s_feature_compat: U32,
    pub(super) s_feature_incompat: U32,
    pub(super) s_feature_ro_compat: U32,
    pub(super) s_uuid: [u8; 16],
    pub(super) s_volume_name: [u8; 16],
    pub(super) s_last_mounted: [u8; 64],
    pub(super) s_algorithm_usage_bitmap: U32,
    pub(super) s_prealloc_blocks: u8,
    pub(super) s_prealloc_dir_blocks: u8,
    pub(super) s_reserved_gdt_blocks: U16,
    pub(super) s_journal_uuid: [u8; 16],
    pub(super) s_journal_inum: U32,
    pub(super) s_journal_dev: U32,
    pub(super) s_last_orphan: U32,
    pub(super) s_hash_seed: [U32; 4],
    pub(super) s_def_hash_version: u8,
    pub(super) s_jnl_backup_type: u8,
    pub(super) s_desc_size: U16,
    pub(super) s_default_mount_opts: U32,
    pub(super) s_first_meta_bg: U32,
    pub(super) s_mkfs_time: U32,
    pub(super) s_jnl_blocks: [U32; 17],
    pub(super) s_blocks_count_hi: U32,
    pub(super) s_r_blocks_count_hi: U32,
    pub(super) s_free_blocks_count_hi: U32,
    pub(super) s_min_extra_isize: U16,
    pub(super) s_want_extra_isize: U16,
    pub(super) s_flags: U32,
    pub(super) s_raid_stride: U16,
    pub(super) s_mmp_interval: U16,
    pub(super) s_mmp_block: U64,
    pub(super) s_raid_stripe_width: U32,
    pub(super) s_log_groups_per_flex: u8,
    pub(super) s_checksum_type: u8,
    pub(super) s_encryption_level: u8,
    pub(super) s_reserved_pad: u8,
    pub(super) s_kbytes_written: U64,
    pub(super) s_snapshot: [u8; 20],
    pub(super) s_error_count: U32,
    pub(super) s_first_error_time: U32,
    pub(super) s_first_error: [u8; 48],
    pub(super) s_last_error_time: U32,
    pub(super) s_last_error: [u8; 48],
    pub(super) s_mount_opts: [u8; 64],
    pub(super) s_usr_quota_inum: U32,
    pub(super) s_grp_quota_inum: U32,
    pub(super) s_overhead_clusters: U32,
    pub(super) s_backup_bgs: [U32; 2],
    pub(super) s_encrypt_algos: [u8; 4],
    pub(super) s_encrypt_pw_salt: [u8; 16],
    pub(super) s_lpf_ino: U32,
    pub(super) s_prj_quota_inum: U32,
    pub(super) s_checksum_seed: U32,
    pub(super) s_wtime_hi: u8,
    pub(super) s_mtime_hi: u8,
    pub(super) s_mkfs_time_hi: u8,
    pub(super) s_lastcheck_hi: u8,
    pub(super) s_first_error_time_hi: u8,
    pub(super) s_last_error_time_hi: u8,
    pub(super) s_error_codes: [u8; 2],
    pub(super) s_encoding: U16,
    pub(super) s_encoding_flags: U16,
    pub(super) s_orphan_file_inum: U32,
    pub(super) s_reserved: [u8; 0x178],
    pub(super) s_checksum: U32,
}

const _: () = assert!(size_of::<RawSuperblock>() == SUPERBLOCK_BYTES);

impl RawSuperblock {
    const FLAG_UNSIGNED_HASH: u32 = 0x2;

    /// Returns the features. Revision 0 did not define any features. If feature bits are set
    /// nevertheless, these features are in use, as in the kernel and e2fsprogs.
    pub(super) fn features(&self) -> (Compat, Incompat, RoCompat) {
        (
            Compat::from_bits_retain(self.s_feature_compat.get()),
            Incompat::from_bits_retain(self.s_feature_incompat.get()),
            RoCompat::from_bits_retain(self.s_feature_ro_compat.get()),
        )
    }

    /// Verifies the checksum, if there is one.
    fn verify_checksum(&self) -> Result<()> {
        let (_, _, ro_compat) = self.features();
        if !ro_compat.contains(RoCompat::METADATA_CSUM) {
            return Ok(());
        }
        check(
            self.s_checksum_type == CHECKSUM_TYPE_CRC32C,
            "unknown checksum type",
        )?;
        let computed = Crc32c::START.bytes(&self.as_bytes()[..CHECKSUMMED_BYTES]);
        check(computed.0 == self.s_checksum.get(), "checksum is wrong")
    }

    fn decoded(&self) -> Result<Superblock> {
        let geometry = self.geometry()?;
        Ok(self.decode(self.features(), &geometry))
    }

    /// Validates the sizes, partly against each other, and returns them.
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
                "clusters of a group do not fit into its bitmap",
            )?;
            check(
                u64::from(clusters_per_group) << cluster_blocks_log2 == u64::from(blocks_per_group),
                "numbers of blocks and clusters in a group do not match",
            )?;
        } else {
            check(
                (1..=bits_per_block).contains(&blocks_per_group),
                "blocks of a group do not fit into its bitmap",
            )?;
        }

        let blocks_count = Self::wide(incompat, self.s_blocks_count_lo, self.s_blocks_count_hi);
        let first_data_block = u64::from(self.s_first_data_block.get());
        check(
            blocks_count <= BLOCKS_MAX && blocks_count <= SIZE_MAX_BYTES >> (log_block_size + 10),
            "block count is too large",
        )?;
        check(
            first_data_block < blocks_count && first_data_block <= 1,
            "first data block is out of range",
        )?;
        check(
            first_data_block == 0 || log_block_size == 0,
            "first data block does not match the block size",
        )?;
        let groups = (blocks_count - first_data_block).div_ceil(u64::from(blocks_per_group));
        let Ok(groups_count) = u32::try_from(groups) else {
            return Err(Place::Superblock.corrupt("too many block groups"));
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
            "inodes of a group do not fit into its bitmap",
        )?;
        let table_bytes = u64::from(inodes_per_group) * u64::from(inode_bytes);
        check(
            table_bytes.div_ceil(u64::from(block_bytes))
                <= u64::from(self.s_blocks_per_group.get()),
            "inode table of a group does not fit into the group",
        )?;
        let inodes_count = u64::from(self.s_inodes_count.get());
        check(
            (1..=groups * u64::from(inodes_per_group)).contains(&inodes_count),
            "inode count does not match the number of block groups",
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

    /// Joins a count of blocks. The high half is valid only with 64bit.
    fn wide(incompat: Incompat, low: U32, high: U32) -> u64 {
        let has_high = incompat.contains(Incompat::BIT64);
        join32(low, if has_high { high.get() } else { 0 })
    }

    fn checksum_seed(&self, incompat: Incompat) -> Crc32c {
        if incompat.contains(Incompat::CSUM_SEED) {
            Crc32c(self.s_checksum_seed.get())
        } else {
            Crc32c::START.bytes(&self.s_uuid)
        }
    }

    /// Decodes the fields, one per line.
    fn decode(
        &self,
        (compat, incompat, ro_compat): (Compat, Incompat, RoCompat),
        geometry: &Geometry,
    ) -> Superblock {
        let revision = self.s_rev_level.get();
        let first_ino = self.s_first_ino.get();
        Superblock {
            inodes_count: self.s_inodes_count.get(),
            blocks_count: geometry.blocks_count,
            reserved_blocks_count: Self::wide(
                incompat,
                self.s_r_blocks_count_lo,
                self.s_r_blocks_count_hi,
            ),
            errors: self.s_errors.get(),
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
            first_ino: Ino(if revision == 0 { 11 } else { first_ino }),
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

/// Converts a logarithm that was checked to be small.
fn to_u8(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
