//! Backups of the superblock: their locations, and the repair of a damaged first superblock.
//!
//! A superblock uses two sectors, the second of which contains the checksum. A power cut during a
//! write may leave one sector of the old version and one of the new version. Fields that change
//! while a file system is in use are valid in either version. All other fields are compared with a
//! backup.
//!
//! A restored superblock passes the same checks as any other superblock. If the file system has a
//! journal, the restored superblock states that the journal needs recovery, because the original
//! value of that flag is unknown.

use super::decoded::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET_BYTES, Superblock};
use super::edit::SuperblockEdit;
use super::raw::{self, RawSuperblock};
use crate::ondisk::features::{Compat, Incompat, RoCompat};
use crate::{Error, GroupNo, Result};
use bitflags::Flags;
use larder_block::BlockDevice;
use zerocopy::FromBytes;

/// The groups that contain a backup in most file systems.
const LIKELY_GROUPS: [GroupNo; 5] = [GroupNo(1), GroupNo(3), GroupNo(5), GroupNo(7), GroupNo(9)];

/// The binary logarithms of mke2fs's default number of blocks in a cluster: without bigalloc, and
/// with bigalloc.
const USUAL_CLUSTERS_LOG2: [u32; 2] = [0, 4];

/// The maximum number of clusters in a group in mke2fs, even if the bitmap is larger.
const MAX_CLUSTERS_PER_GROUP: u64 = 65_528;

/// The bytes of a superblock.
type Bytes = [u8; SUPERBLOCK_BYTES];

/// The kind of damage of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// Only one of the two sectors was written.
    Torn,
    /// The superblock contradicts the backup.
    Wrong,
    /// The location contains other data, or a superblock with another UUID.
    Lost,
}

/// The replacement of a damaged superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperblockRepair {
    bytes: Box<Bytes>,
    damage: Damage,
    backup: GroupNo,
}

impl std::fmt::Display for SuperblockRepair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (damage, verdict) = match self.damage {
            Damage::Torn => ("partly written", "matches it"),
            Damage::Wrong => ("damaged", "is used instead"),
            Damage::Lost => ("lost", "is used instead"),
        };
        let backup = self.backup;
        write!(f, "{damage}; the backup in block group {backup} {verdict}")
    }
}

impl SuperblockRepair {
    /// Returns the bytes of the new superblock.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns an error if the first superblock is lost. The device may now contain another file
    /// system, and the backup may be a remnant of an older one.
    ///
    /// # Errors
    /// [`Error::NotWritable`].
    pub fn check_writable(&self) -> Result<()> {
        match self.damage {
            Damage::Torn | Damage::Wrong => Ok(()),
            Damage::Lost => Err(Error::NotWritable(
                "its superblock is lost, and the backup may belong to an older file system; \
                 if it does not, run e2fsck first"
                    .to_owned(),
            )),
        }
    }

    /// Writes the superblock and flushes the device.
    pub(crate) fn write(&self, device: &dyn BlockDevice) -> Result<()> {
        self.check_writable()?;
        device.write_at(&*self.bytes, SUPERBLOCK_OFFSET_BYTES)?;
        Ok(device.flush()?)
    }
}

impl Superblock {
    /// Reads the superblock like [`Superblock::read`]. If the checksum is wrong or the magic number
    /// is missing, reads a backup instead, and also returns the replacement of the superblock.
    ///
    /// # Errors
    /// As for [`Superblock::read`] of the first superblock, if no backup can be used.
    pub fn read_or_restore(device: &dyn BlockDevice) -> Result<(Self, Option<SuperblockRepair>)> {
        let error = match Self::read(device) {
            Ok(superblock) => return Ok((superblock, None)),
            Err(error @ Error::Device(_)) => return Err(error),
            Err(error) => error,
        };
        let Some(first) = read_at(device, SUPERBLOCK_OFFSET_BYTES) else {
            return Err(error);
        };
        if raw::has_valid_checksum(&first) {
            return Err(error);
        }
        let places = first_places(&first).into_iter().chain(usual_places());
        let restored = places
            .filter_map(|place| Backup::read(device, place))
            .find_map(|backup| restore(&first, &backup));
        match restored {
            Some((superblock, repair)) => Ok((superblock, Some(repair))),
            None => Err(error),
        }
    }
}

/// A possible location of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BackupPlace {
    group: GroupNo,
    offset_bytes: u64,
}

/// A backup with a correct checksum.
struct Backup {
    group: GroupNo,
    bytes: Bytes,
    superblock: Superblock,
}

/// Reads the bytes at `offset_bytes`, or returns `None` if the device does not have them.
fn read_at(device: &dyn BlockDevice, offset_bytes: u64) -> Option<Bytes> {
    let end_bytes = offset_bytes.checked_add(SUPERBLOCK_BYTES as u64)?;
    let mut bytes = [0; SUPERBLOCK_BYTES];
    let is_inside = end_bytes <= device.size_bytes();
    (is_inside && device.read_at(&mut bytes, offset_bytes).is_ok()).then_some(bytes)
}

/// Returns the locations of backups according to the damaged first superblock.
fn first_places(first: &Bytes) -> Vec<BackupPlace> {
    let Ok(sb) = raw::parse_unverified(first) else {
        return Vec::new();
    };
    let groups = sb.backup_groups.into_iter().chain(LIKELY_GROUPS);
    groups
        .filter(|&group| holds_backup(&sb, group))
        .map(|group| BackupPlace {
            group,
            offset_bytes: backup_offset_bytes(&sb, group),
        })
        .collect()
}

/// Returns the locations of backups in a file system with mke2fs's default layout.
fn usual_places() -> impl Iterator<Item = BackupPlace> {
    let sizes = (10..=16_u32).flat_map(|block_log2| {
        USUAL_CLUSTERS_LOG2.map(|cluster_log2| {
            let clusters = (8_u64 << block_log2).min(MAX_CLUSTERS_PER_GROUP);
            let first_block = u64::from(block_log2 == 10 && cluster_log2 == 0);
            (block_log2, clusters << cluster_log2, first_block)
        })
    });
    sizes.flat_map(|(block_log2, blocks_per_group, first_block)| {
        LIKELY_GROUPS.map(|group| BackupPlace {
            group,
            offset_bytes: (first_block + u64::from(group.0) * blocks_per_group) << block_log2,
        })
    })
}

fn holds_backup(sb: &Superblock, group: GroupNo) -> bool {
    group.0 != 0 && group.0 < sb.groups_count && sb.group_has_superblock(group)
}

fn backup_offset_bytes(sb: &Superblock, group: GroupNo) -> u64 {
    sb.group_first_block(group).0 << sb.block_size_log2
}

impl Backup {
    /// Reads the backup at `place`. Returns `None` if there is no valid backup that belongs there.
    fn read(device: &dyn BlockDevice, place: BackupPlace) -> Option<Self> {
        let bytes = read_at(device, place.offset_bytes)?;
        let superblock = Superblock::parse(&bytes).ok()?;
        let (raw, _) = RawSuperblock::ref_from_prefix(&bytes).ok()?;
        // The field has 16 bits.
        let is_its_group = u32::from(raw.s_block_group_nr.get()) == place.group.0 & 0xFFFF;
        let belongs = is_its_group
            && holds_backup(&superblock, place.group)
            && backup_offset_bytes(&superblock, place.group) == place.offset_bytes;
        belongs.then_some(Self {
            group: place.group,
            bytes,
            superblock,
        })
    }
}

/// Restores the superblock. If the damaged first superblock `first` differs from `backup` only in
/// fields that may differ, restores its checksum. Otherwise, uses the contents of `backup`.
fn restore(first: &Bytes, backup: &Backup) -> Option<(Superblock, SuperblockRepair)> {
    let damage = damage(first, &backup.superblock);
    let mut bytes = Box::new(match damage {
        Damage::Torn => *first,
        Damage::Wrong | Damage::Lost => backup.bytes,
    });
    let (raw, _) = RawSuperblock::mut_from_prefix(&mut *bytes).ok()?;
    raw.s_block_group_nr.set(0);
    let has_journal = raw.features().0.contains(Compat::HAS_JOURNAL);
    let mut edit = SuperblockEdit::new(&mut *bytes).ok()?;
    if has_journal {
        edit.set_needs_recovery(true);
    }
    edit.finish();
    let superblock = Superblock::parse(&*bytes).ok()?;
    let repair = SuperblockRepair {
        bytes,
        damage,
        backup: backup.group,
    };
    Some((superblock, repair))
}

fn damage(first: &Bytes, backup: &Superblock) -> Damage {
    if raw::parse_unverified(first).is_ok_and(|first| is_same_file_system(&first, backup)) {
        return Damage::Torn;
    }
    if raw::uuid(first) == Some(backup.uuid) {
        Damage::Wrong
    } else {
        Damage::Lost
    }
}

/// Returns whether the two superblocks differ only in fields that change during use or by tuning.
/// Such changes do not update the backups.
fn is_same_file_system(first: &Superblock, backup: &Superblock) -> bool {
    let with_run_time_fields = Superblock {
        reserved_blocks_count: first.reserved_blocks_count,
        errors: first.errors,
        free_blocks_count: first.free_blocks_count,
        free_inodes_count: first.free_inodes_count,
        state: first.state,
        compat: with_bits(
            backup.compat,
            first.compat,
            Compat::EXT_ATTR | Compat::DIR_INDEX,
        ),
        incompat: with_bits(backup.incompat, first.incompat, Incompat::RECOVER),
        ro_compat: with_bits(
            backup.ro_compat,
            first.ro_compat,
            RoCompat::LARGE_FILE
                | RoCompat::HUGE_FILE
                | RoCompat::DIR_NLINK
                | RoCompat::EXTRA_ISIZE
                | RoCompat::ORPHAN_PRESENT,
        ),
        label: first.label.clone(),
        last_mounted: first.last_mounted.clone(),
        mounted: first.mounted,
        written: first.written,
        checked: first.checked,
        mount_count: first.mount_count,
        error_count: first.error_count,
        first_error: first.first_error,
        last_error: first.last_error,
        last_orphan: first.last_orphan,
        hash_unsigned: first.hash_unsigned,
        mmp_interval_seconds: first.mmp_interval_seconds,
        overhead_clusters: first.overhead_clusters,
        ..backup.clone()
    };
    with_run_time_fields == *first
}

/// Returns `backup` with the bits in `changing` taken from `first`.
fn with_bits<F: Flags + Copy>(backup: F, first: F, changing: F) -> F {
    backup
        .difference(changing)
        .union(first.intersection(changing))
}
