//! The content of a device, found from its first bytes.
//!
//! # Remains
//! Programs that write a partition table or make a file system often leave parts of an earlier content. Therefore the
//! content is decided in this order:
//!
//! 1. a GPT, because its checksums are correct and its entries are at the place of an ext superblock;
//! 2. an ext file system. If there is also an MBR with partitions, neither is chosen: the result is
//!    [`Contents::ExtAndPartitions`];
//! 3. an MBR with a partition whose content is known;
//! 4. another format;
//! 5. any other MBR.

use crate::format::START_BYTES;
use crate::{Format, PartitionTable, gpt, mbr};
use larder_block::{BlockDevice, Result};

/// The number of bytes at the start of a device that a partition table and an ext superblock take.
const HEAD_BYTES: usize = 8 << 10;
/// The offset of the superblock in an ext file system, in bytes.
const SUPERBLOCK: usize = 1024;
/// The magic number of ext2, ext3 and ext4, and its offset in the superblock.
const EXT_MAGIC: [u8; 2] = [0x53, 0xEF];
const MAGIC_OFFSET: usize = 56;
/// The offset of the log2 of the block size in the superblock, counted from 1 KiB, and its maximum, for 64 KiB.
const BLOCK_SIZE_OFFSET: usize = 24;
const MAX_BLOCK_SIZE: u32 = 6;

/// The content of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// An ext2, ext3 or ext4 file system.
    Ext,
    /// Partitions.
    Partitions(PartitionTable),
    /// Both an ext file system and an MBR. One of them is a remainder of an earlier content.
    ExtAndPartitions(PartitionTable),
    /// A boot record that protects a GPT, but neither copy of the GPT is valid.
    DamagedGpt,
    /// Another format.
    Other(Format),
    /// Only zeros at the start, or no bytes at all.
    Empty,
    /// None of the above.
    Unknown,
}

impl Contents {
    /// Returns the partition table, if there is one.
    #[must_use]
    pub fn table(&self) -> Option<&PartitionTable> {
        match self {
            Self::Partitions(table) | Self::ExtAndPartitions(table) => Some(table),
            _ => None,
        }
    }
}

/// Examines the content of `device`: reads its start, its partition table if there is one, and the start of each
/// partition. If `number` is given, reads the start of this partition only.
///
/// # Errors
/// The errors of the device. A partition whose start cannot be read has unknown content.
pub fn examine(device: &dyn BlockDevice, number: Option<u32>) -> Result<Contents> {
    let size_bytes = device.size_bytes();
    let head = start_of(device, 0, size_bytes, HEAD_BYTES)?;
    let is_protected = mbr::is_protective(&head);
    if is_protected {
        let table = match gpt::read(device, &head)? {
            Some(table) => Some(table),
            None => gpt::read_backup(device)?,
        };
        if let Some(table) = table {
            return Ok(Contents::Partitions(probed(device, table, number)));
        }
    }
    let table = mbr::read(device, &head)?.map(|table| probed(device, table, number));
    match table {
        Some(table) if is_ext(&head) => return Ok(Contents::ExtAndPartitions(table)),
        None if is_ext(&head) => return Ok(Contents::Ext),
        Some(table) if table.partitions.iter().any(|one| one.is_ext) => {
            return Ok(Contents::Partitions(table));
        }
        Some(_) if is_protected => return Ok(Contents::DamagedGpt),
        _ => {}
    }
    let start = start_of(device, 0, size_bytes, START_BYTES)?;
    let iso = Format::iso_9660(&start);
    Ok(match table {
        Some(table) if table.partitions.iter().any(|one| one.format.is_some()) && iso.is_none() => {
            Contents::Partitions(table)
        }
        table => match (Format::of(&start).or(iso), table) {
            (Some(format), _) => Contents::Other(format),
            (None, Some(table)) => Contents::Partitions(table),
            (None, None) if start.iter().all(|&byte| byte == 0) => Contents::Empty,
            (None, None) => Contents::Unknown,
        },
    })
}

/// Returns `table` with the contents of its partitions, or only of partition `number`.
fn probed(
    device: &dyn BlockDevice,
    mut table: PartitionTable,
    number: Option<u32>,
) -> PartitionTable {
    // If there is no such partition, the failure lists all of them.
    let number = number.filter(|number| table.partitions.iter().any(|one| one.number == *number));
    for partition in &mut table.partitions {
        if number.is_some_and(|number| number != partition.number) {
            continue;
        }
        let start = |len| start_of(device, partition.offset_bytes, partition.size_bytes, len);
        // If a sector is damaged, the superblock may still be readable.
        let start = start(START_BYTES).or_else(|_| start(HEAD_BYTES));
        let start = start.unwrap_or_default();
        // An ext file system at offset 0 is that of the whole device, not of a partition that begins there.
        partition.is_ext = partition.offset_bytes > 0 && is_ext(&start);
        if !partition.is_ext {
            partition.format = Format::of(&start).or_else(|| Format::iso_9660(&start));
        }
    }
    table
}

/// Returns the first `len` bytes of the range of `size_bytes` at `offset_bytes` of `device`, or the whole range if it is
/// shorter.
fn start_of(
    device: &dyn BlockDevice,
    offset_bytes: u64,
    size_bytes: u64,
    len: usize,
) -> Result<Vec<u8>> {
    let len = usize::try_from(size_bytes).map_or(len, |size| size.min(len));
    let mut start = vec![0; len];
    device.read_at(&mut start, offset_bytes)?;
    Ok(start)
}

/// Returns whether `head` has an ext superblock: the magic number, and a possible block size.
fn is_ext(head: &[u8]) -> bool {
    let Some(superblock) = head.get(SUPERBLOCK..) else {
        return false;
    };
    let block_size = superblock
        .get(BLOCK_SIZE_OFFSET..)
        .and_then(<[u8]>::first_chunk);
    superblock.get(MAGIC_OFFSET..MAGIC_OFFSET + EXT_MAGIC.len()) == Some(&EXT_MAGIC)
        && block_size.is_some_and(|bytes| u32::from_le_bytes(*bytes) <= MAX_BLOCK_SIZE)
}
