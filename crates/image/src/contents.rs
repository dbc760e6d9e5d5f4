//! The content of a device, found from its first bytes.
//!
//! # Remains
//! Programs that write a partition table or make a file system often leave parts of an earlier content. Therefore the
//! content is decided in this order:
//!
//! 1. a valid GPT: its checksums rule out a remainder, and its entries usually overwrite the ext superblock;
//! 2. an ext file system. If there is also an MBR with partitions, neither is chosen: the result is
//!    [`Contents::ExtAndPartitions`];
//! 3. an MBR with a partition that has an ext file system;
//! 4. an MBR that protects a GPT: the result is [`Contents::DamagedGpt`];
//! 5. an MBR with a partition that has another known format, unless the device is an ISO 9660 image, which may
//!    contain an MBR for booting;
//! 6. another format;
//! 7. any other MBR.

use crate::format::START_BYTES;
use crate::table::SECTOR_BYTES;
use crate::{Format, Partition, PartitionTable, gpt, mbr};
use larder_block::{BlockDevice, Error as DeviceError, Request, Result};
use std::sync::mpsc;

/// The number of bytes at the start of a device that a partition table and an ext superblock take.
const HEAD_BYTES: usize = 8 << 10;
/// The number of partitions whose starts are in memory at once.
const BATCH: usize = 16;
/// The offset of the superblock in an ext file system, in bytes.
const SUPERBLOCK: usize = 1024;
/// The magic number of ext2, ext3 and ext4, and its offset in the superblock.
const EXT_MAGIC: [u8; 2] = [0x53, 0xEF];
const MAGIC_OFFSET: usize = 56;
/// The offset in the superblock of the log2 of the block size in KiB, and the maximum of this log2, for 64 KiB.
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
    /// The start or a partition table cannot be read, for this reason.
    Unreadable(String),
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
/// partition. If `number` is given, and this partition has an ext file system, does not read the starts of the others.
///
/// # Errors
/// The errors of the device, unless the backup of a GPT replaces what cannot be read. If the start of a partition cannot be
/// read, the result has [the reason](Partition::error), unless the device does not answer in time.
pub fn examine(device: &dyn BlockDevice, number: Option<u32>) -> Result<Contents> {
    let (head, failure) = match start_of(device, HEAD_BYTES) {
        Ok(head) => (head, None),
        // The boot record may be readable, and a backup of what follows it.
        Err(error @ DeviceError::Io { .. }) => (start_of(device, mbr::RECORD_LEN)?, Some(error)),
        Err(error) => return Err(error),
    };
    let is_protected = mbr::is_protective(&head);
    if is_protected {
        let table = match gpt::read(device, &head) {
            first @ (Ok(None) | Err(DeviceError::Io { .. })) => match gpt::read_backup(device)? {
                None => first?,
                backup => backup,
            },
            first => first?,
        };
        if let Some(table) = table {
            return Ok(Contents::Partitions(probed(device, table, number)?));
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    let table = probed_mbr(device, &head, number)?;
    match table {
        Some(table) if is_ext(&head) => return Ok(Contents::ExtAndPartitions(table)),
        None if is_ext(&head) => return Ok(Contents::Ext),
        Some(table) if table.has_ext() => return Ok(Contents::Partitions(table)),
        Some(_) if is_protected => return Ok(Contents::DamagedGpt),
        _ => {}
    }
    let start = start_of(device, START_BYTES)?;
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

/// Returns the MBR of `device`, with the contents of its partitions as in [`probed`]. `head` has the first bytes of
/// the device.
///
/// An MBR counts sectors, and does not contain their size. A disk defines this size, and an image file does not. Other
/// tools assume 512 bytes for a file. This function chooses 4096 bytes if a partition has an ext file system with this
/// size, and none has one with 512 bytes.
fn probed_mbr(
    device: &dyn BlockDevice,
    head: &[u8],
    number: Option<u32>,
) -> Result<Option<PartitionTable>> {
    let mut first = None;
    for sector_bytes in SECTOR_BYTES {
        let Some(table) = mbr::read(device, head, sector_bytes as u64)? else {
            continue;
        };
        let table = probed(device, table, number)?;
        if table.has_ext() {
            return Ok(Some(table));
        }
        first = first.or(Some(table));
    }
    Ok(first)
}

/// Returns `table` with the contents of its partitions. If partition `number` has an ext file system, the contents of
/// the others stay unknown.
fn probed(
    device: &dyn BlockDevice,
    mut table: PartitionTable,
    number: Option<u32>,
) -> Result<PartitionTable> {
    let is_requested = |one: &Partition| Some(one.number) == number;
    let all = table.partitions.iter_mut();
    probe(device, all.filter(|one| is_requested(one)).collect())?;
    if !table.has_ext() {
        let all = table.partitions.iter_mut();
        probe(device, all.filter(|one| !is_requested(one)).collect())?;
    }
    Ok(table)
}

/// Finds the contents of `partitions`. The starts of [`BATCH`] partitions are requested at once, because each read of a
/// device on a server takes a round trip.
fn probe(device: &dyn BlockDevice, mut partitions: Vec<&mut Partition>) -> Result<()> {
    // If a sector is damaged, the superblock may still be readable.
    for len in [START_BYTES, HEAD_BYTES] {
        let mut unread = Vec::new();
        while !partitions.is_empty() {
            let batch: Vec<_> = partitions.drain(..partitions.len().min(BATCH)).collect();
            let starts = starts_of(device, &batch, len)?;
            for (partition, start) in batch.into_iter().zip(starts) {
                match start {
                    Ok(start) => recognize(partition, &start),
                    Err(error) => {
                        partition.error = Some(error.to_string());
                        unread.push(partition);
                    }
                }
            }
        }
        partitions = unread;
    }
    Ok(())
}

/// Reads the first `len` bytes of each of `partitions`, or all of a shorter partition.
///
/// # Errors
/// If the device does not complete the requests.
fn starts_of(
    device: &dyn BlockDevice,
    partitions: &[&mut Partition],
    len: usize,
) -> Result<Vec<Result<Vec<u8>>>> {
    let (sender, receiver) = mpsc::channel();
    let requests = (0_usize..).zip(partitions).map(|(index, partition)| {
        let sender = sender.clone();
        let start = vec![0_u8; len_within(partition.size_bytes, len)];
        Request::read(start, partition.offset_bytes, move |start, result| {
            // If the device has answered too late, the result is not needed.
            let _ = sender.send((index, result.map(|()| start)));
        })
    });
    device.perform(requests.collect(), device.timeout())?;
    let mut starts: Vec<_> = receiver.try_iter().collect();
    starts.sort_by_key(|(index, _)| *index);
    Ok(starts.into_iter().map(|(_, start)| start).collect())
}

/// Sets the content of `partition`, whose first bytes are `start`.
fn recognize(partition: &mut Partition, start: &[u8]) {
    partition.error = None;
    // An ext file system at offset 0 is that of the whole device, not of a partition that begins there.
    partition.is_ext = partition.offset_bytes > 0 && is_ext(start);
    if !partition.is_ext {
        partition.format = Format::of(start).or_else(|| Format::iso_9660(start));
    }
}

/// Returns the first `len` bytes of `device`, or all of a shorter device.
pub(crate) fn start_of(device: &dyn BlockDevice, len: usize) -> Result<Vec<u8>> {
    let mut start = vec![0; len_within(device.size_bytes(), len)];
    device.read_at(&mut start, 0)?;
    Ok(start)
}

/// Returns `len`, or `size_bytes` if that is less.
fn len_within(size_bytes: u64, len: usize) -> usize {
    usize::try_from(size_bytes).map_or(len, |size| size.min(len))
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
