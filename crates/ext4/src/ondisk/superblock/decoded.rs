//! A superblock with consistent numbers.

use crate::ondisk::checksum::{Crc32c, crc16};
use crate::ondisk::features::{Compat, Incompat, RoCompat};
use crate::ondisk::time::Timestamp;
use crate::{FsBlock, GroupNo, Ino};
use bitflags::bitflags;
use uuid::Uuid;

/// The offset of the superblock in bytes, for every block size.
pub const SUPERBLOCK_OFFSET_BYTES: u64 = 1024;
/// The length of a superblock in bytes.
pub const SUPERBLOCK_BYTES: usize = 1024;

bitflags! {
    /// The state of the file system (`s_state`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct State: u16 {
        /// Unmounted cleanly.
        const VALID = 0x1;
        /// Errors were found.
        const ERROR = 0x2;
        /// Orphans are being cleaned up.
        const ORPHAN = 0x4;
        /// Fast commits are being replayed.
        const FC_REPLAY = 0x20;
    }
}

/// A superblock with consistent numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Superblock {
    /// The number of inodes, used and free.
    pub inodes_count: u32,
    /// The number of blocks, used and free.
    pub blocks_count: u64,
    /// The number of blocks reserved for the super-user.
    pub reserved_blocks_count: u64,
    /// The action when damage is found: 1 continue, 2 remount read-only, 3 panic.
    pub errors: u16,
    /// The number of free blocks in the superblock. It may be less current than the counts in the
    /// group descriptors.
    pub free_blocks_count: u64,
    /// The number of free inodes in the superblock. It may be less current than the counts in the
    /// group descriptors.
    pub free_inodes_count: u32,
    /// The first block of group 0: usually 1 with blocks of 1 KiB, otherwise 0.
    pub first_data_block: u32,
    /// The binary logarithm of the block size in bytes: 10 to 16.
    pub block_size_log2: u8,
    /// The binary logarithm of the number of blocks in a cluster; 0 without bigalloc.
    pub cluster_blocks_log2: u8,
    /// The number of blocks in each group except the last.
    pub blocks_per_group: u32,
    /// The number of inodes in each group.
    pub inodes_per_group: u32,
    /// Number of block groups.
    pub groups_count: u32,
    /// The revision. Revision 0 has fixed sizes and no features.
    pub revision: u32,
    /// The state of the file system.
    pub state: State,
    /// The size of an inode in the inode tables, in bytes.
    pub inode_size_bytes: u16,
    /// The size of a group descriptor in bytes: 32, or at least 64 with 64bit.
    pub descriptor_size_bytes: u16,
    /// First inode that is not reserved.
    pub first_ino: Ino,
    /// Compatible features.
    pub compat: Compat,
    /// Incompatible features.
    pub incompat: Incompat,
    /// Read-only compatible features.
    pub ro_compat: RoCompat,
    /// The UUID of the file system.
    pub uuid: Uuid,
    /// The label, up to the first NUL.
    pub label: Vec<u8>,
    /// The mount point of the last mount, up to the first NUL.
    pub last_mounted: Vec<u8>,
    /// Time of creation.
    pub created: Timestamp,
    /// Time of the last mount.
    pub mounted: Timestamp,
    /// Time of the last write.
    pub written: Timestamp,
    /// Time of the last check.
    pub checked: Timestamp,
    /// The number of mounts since the last check.
    pub mount_count: u16,
    /// The number of errors that were found since the last check.
    pub error_count: u32,
    /// Time of the first of these errors.
    pub first_error: Timestamp,
    /// Time of the last of these errors.
    pub last_error: Timestamp,
    /// The inode of the journal; 0 if the journal is on another device or does not exist.
    pub journal_ino: Ino,
    /// The UUID of the journal's superblock if the journal is on another device.
    pub journal_uuid: Uuid,
    /// The first inode of the list of orphans.
    pub last_orphan: Ino,
    /// The inode of the orphan file; 0 without the feature.
    pub orphan_file_ino: Ino,
    /// Seed of directory hashes.
    pub hash_seed: [u32; 4],
    /// Hash version of new directories.
    pub default_hash_version: u8,
    /// Whether directory hashes treat the bytes of a name as unsigned.
    pub hash_unsigned: bool,
    /// With `meta_bg`, the index of the first block of descriptors that is stored in the groups
    /// that it describes. Earlier blocks follow the superblock.
    pub first_meta_bg: u32,
    /// The binary logarithm of the number of groups whose bitmaps and inode tables are stored
    /// together.
    pub flex_bg_groups_log2: u8,
    /// Blocks reserved after the descriptors for further descriptors.
    pub reserved_descriptor_blocks: u16,
    /// The two groups that hold backups with `sparse_super2`; 0 means none.
    pub backup_groups: [GroupNo; 2],
    /// The block for multiple-mount protection.
    pub mmp_block: FsBlock,
    /// The interval in seconds between updates of the block for multiple-mount protection.
    pub mmp_interval_seconds: u16,
    /// Clusters of metadata as counted when the file system was created; 0 if unknown.
    pub overhead_clusters: u32,
    /// Character encoding of names that ignore case.
    pub encoding: u16,
    /// Flags of the character encoding.
    pub encoding_flags: u16,
    /// The hidden inodes of user, group and project quota; 0 if there is none.
    pub quota_inos: [Ino; 3],
    /// The initial value of every metadata checksum except the superblock's own.
    pub checksum_seed: Crc32c,
}

impl Superblock {
    /// Returns the size of a block in bytes.
    #[must_use]
    pub fn block_size_bytes(&self) -> u32 {
        1 << self.block_size_log2
    }

    /// Returns the size of a cluster in bytes. Without bigalloc, a cluster is a block.
    #[must_use]
    pub fn cluster_size_bytes(&self) -> u64 {
        u64::from(self.block_size_bytes()) << self.cluster_blocks_log2
    }

    /// Returns the size of the file system in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.blocks_count << self.block_size_log2
    }

    /// Returns the number of bytes of the file system that are past the end of a device of
    /// `device_size_bytes` bytes. The number is not zero if the image was truncated. A truncated
    /// image can be read up to its end.
    #[must_use]
    pub fn missing_bytes(&self, device_size_bytes: u64) -> u64 {
        self.size_bytes().saturating_sub(device_size_bytes)
    }

    /// Returns the number of blocks of one group's inode table.
    #[must_use]
    pub fn inode_table_blocks(&self) -> u32 {
        let bytes = u64::from(self.inodes_per_group) * u64::from(self.inode_size_bytes);
        let blocks = bytes.div_ceil(u64::from(self.block_size_bytes()));
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// Returns whether `ino` is at least 1 and at most the number of inodes.
    pub(crate) fn has_ino(&self, ino: Ino) -> bool {
        (1..=self.inodes_count).contains(&ino.0)
    }

    /// Returns whether `ino` is a number that files may use: it exists and is not reserved.
    pub(crate) fn is_file_ino(&self, ino: Ino) -> bool {
        ino >= self.first_ino && ino.0 <= self.inodes_count
    }

    /// Returns the group of inode `ino`, and its index in that group.
    pub(crate) fn inode_location(&self, ino: Ino) -> (GroupNo, u32) {
        let index = ino.0.saturating_sub(1);
        (
            GroupNo(index / self.inodes_per_group),
            index % self.inodes_per_group,
        )
    }

    /// Returns whether metadata has a CRC-32C.
    #[must_use]
    pub fn has_metadata_checksums(&self) -> bool {
        self.ro_compat.contains(RoCompat::METADATA_CSUM)
    }

    /// Returns whether group descriptors have a checksum of either kind.
    pub(crate) fn has_descriptor_checksums(&self) -> bool {
        self.ro_compat
            .intersects(RoCompat::METADATA_CSUM | RoCompat::GDT_CSUM)
    }

    /// Returns the seed for the checksums of an inode and of the blocks that belong to it. Returns
    /// `None` if metadata has no checksums.
    pub(crate) fn inode_checksum_seed(&self, ino: Ino, generation: u32) -> Option<Crc32c> {
        self.has_metadata_checksums()
            .then(|| self.checksum_seed.u32(ino.0).u32(generation))
    }

    /// Returns the CRC-16 of the UUID, with which a descriptor's CRC-16 starts.
    pub(crate) fn descriptor_crc16_seed(&self) -> u16 {
        crc16(!0, self.uuid.as_bytes())
    }

    /// Returns whether the `blocks` blocks from `start` on may belong to a file or an inode table:
    /// they must be after the superblock and inside the file system.
    #[must_use]
    pub fn contains_blocks(&self, start: FsBlock, blocks: u64) -> bool {
        start.0 > u64::from(self.first_data_block)
            && start
                .0
                .checked_add(blocks)
                .is_some_and(|end| end <= self.blocks_count)
    }

    /// Returns the first block of `group`.
    #[must_use]
    pub fn group_first_block(&self, group: GroupNo) -> FsBlock {
        let offset = u64::from(group.0) * u64::from(self.blocks_per_group);
        FsBlock(u64::from(self.first_data_block) + offset)
    }

    /// Returns whether `group` starts with the superblock or a backup of it.
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

/// Returns whether `number` is a power of `base`, 1 included.
fn is_power_of(base: u32, number: u32) -> bool {
    let mut rest = number;
    while rest > 1 && rest.is_multiple_of(base) {
        rest /= base;
    }
    rest == 1
}

#[cfg(test)]
mod tests {
    use super::super::raw::MAGIC;
    use super::*;
    use crate::Error;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    /// Returns the superblock of a file system of 8 MiB with blocks of 1 KiB.
    fn small() -> Vec<u8> {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        for (at, value) in [
            (0x00, 64_u32), // inodes
            (0x04, 8192),   // blocks
            (0x14, 1),      // first data block
            (0x20, 8192),   // blocks in a group
            (0x24, 8192),   // clusters in a group
            (0x28, 64),     // inodes in a group
            (0x4C, 1),      // revision
            (0x54, 11),     // first inode
            (0x58, 256),    // inode size
        ] {
            put(&mut bytes, at, value);
        }
        bytes[0x38..0x3A].copy_from_slice(&MAGIC.to_le_bytes());
        bytes
    }

    fn put(bytes: &mut [u8], at: usize, value: u32) {
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    #[test]
    fn superblock_small_is_accepted() {
        let sb = Superblock::parse(&small()).unwrap();
        assert_eq!(sb.groups_count, 1);
        assert_eq!(sb.inode_table_blocks(), 16);
        assert_eq!(sb.size_bytes(), 8 << 20);
        assert_eq!(sb.missing_bytes(1 << 20), 7 << 20);
    }

    #[test]
    fn superblock_with_inconsistent_numbers_is_refused() {
        let bit64 = Incompat::BIT64.bits();
        let bigalloc = RoCompat::BIGALLOC.bits();
        let table: &[(&str, &[(usize, u32)])] = &[
            ("no inodes", &[(0x00, 0)]),
            ("more inodes than the groups have", &[(0x00, 65)]),
            ("no blocks", &[(0x04, 0)]),
            ("too many groups", &[(0x04, u32::MAX), (0x20, 0)]),
            ("first block after the last", &[(0x14, 9000)]),
            ("first block 1 in blocks of 4 KiB", &[(0x18, 2)]),
            ("blocks of 128 KiB", &[(0x18, 7), (0x14, 0)]),
            ("blocks of 2^32 KiB", &[(0x18, u32::MAX), (0x14, 0)]),
            (
                "more blocks in a group than bits in a block",
                &[(0x20, 8193)],
            ),
            ("no inodes in a group", &[(0x28, 0)]),
            (
                "more inodes in a group than bits in a block",
                &[(0x28, 8193)],
            ),
            ("inodes of 64 bytes", &[(0x58, 64)]),
            ("inodes of 192 bytes", &[(0x58, 192)]),
            ("inodes larger than a block", &[(0x58, 2048)]),
            ("descriptors of 0 bytes", &[(0x60, bit64)]),
            (
                "descriptors of 96 bytes",
                &[(0x60, bit64), (0xFC, 96 << 16)],
            ),
            (
                "2^63 blocks",
                &[(0x60, bit64), (0xFC, 64 << 16), (0x150, 1 << 31)],
            ),
            (
                "clusters smaller than a block",
                &[(0x64, bigalloc), (0x18, 1), (0x14, 0)],
            ),
            ("clusters of 2^42 bytes", &[(0x64, bigalloc), (0x1C, 32)]),
            (
                "clusters that do not match the blocks",
                &[(0x64, bigalloc), (0x1C, 2)],
            ),
            (
                "unknown checksum type",
                &[(0x64, RoCompat::METADATA_CSUM.bits())],
            ),
        ];
        for (what, changes) in table {
            let mut bytes = small();
            for &(at, value) in *changes {
                put(&mut bytes, at, value);
            }
            let result = Superblock::parse(&bytes);
            assert!(
                matches!(result, Err(Error::Corrupt(_))),
                "{what}: {result:?}"
            );
        }
    }

    #[test]
    fn superblock_truncated_or_without_magic_is_refused() {
        let mut bytes = small();
        assert!(matches!(
            Superblock::parse(&bytes[..1023]),
            Err(Error::NotExt)
        ));
        bytes[0x38] = 0;
        assert!(matches!(Superblock::parse(&bytes), Err(Error::NotExt)));
    }

    #[test]
    fn group_backups_follow_the_sparse_rules() {
        let mut bytes = small();
        put(&mut bytes, 0x64, RoCompat::SPARSE_SUPER.bits());
        let sb = Superblock::parse(&bytes).unwrap();
        let with: Vec<u32> = (0..130)
            .filter(|&group| sb.group_has_superblock(GroupNo(group)))
            .collect();
        assert_eq!(with, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);

        put(&mut bytes, 0x5C, Compat::SPARSE_SUPER2.bits());
        put(&mut bytes, 0x24C, 1);
        put(&mut bytes, 0x250, 99);
        let sb = Superblock::parse(&bytes).unwrap();
        let with: Vec<u32> = (0..130)
            .filter(|&group| sb.group_has_superblock(GroupNo(group)))
            .collect();
        assert_eq!(with, [0, 1, 99]);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(0),
            ..ProptestConfig::default()
        })]

        #[test]
        fn superblock_of_arbitrary_fields_does_not_panic(
            changes in proptest::collection::vec((0_usize..255, any::<u32>(), 0_u32..32), 1..6),
        ) {
            let mut bytes = small();
            for (word, value, shift) in changes {
                put(&mut bytes, word * 4, value >> shift);
            }
            bytes[0x38..0x3A].copy_from_slice(&MAGIC.to_le_bytes());
            if let Ok(sb) = Superblock::parse(&bytes) {
                let last = GroupNo(sb.groups_count - 1);
                prop_assert!(sb.group_first_block(last).0 < sb.blocks_count);
                prop_assert!(sb.inode_table_blocks() <= sb.blocks_per_group);
                prop_assert!(u64::from(sb.inodes_count)
                    <= u64::from(sb.groups_count) * u64::from(sb.inodes_per_group));
                prop_assert_eq!(sb.size_bytes() >> sb.block_size_log2, sb.blocks_count);
                let _ = (sb.cluster_size_bytes(), sb.group_has_superblock(last));
                let desc = [0xFF; 1024];
                let _ = crate::ondisk::group::GroupDesc::parse(&sb, last, &desc);
                let place = crate::ondisk::group::DescriptorPlace::of(&sb, last);
                prop_assert!(place.offset_bytes < 65536);
            }
        }

        #[test]
        fn superblock_of_arbitrary_bytes_does_not_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..1100),
        ) {
            if let Some(magic) = bytes.get_mut(0x38..0x3A) {
                magic.copy_from_slice(&MAGIC.to_le_bytes());
            }
            let _ = Superblock::parse(&bytes);
        }
    }
}
