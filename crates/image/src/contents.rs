//! The content of a device, found from its first bytes.

use crate::format::START_BYTES;
use crate::{Format, PartitionTable, gpt, mbr};
use larder_block::{BlockDevice, Result};

/// The offset of the magic number in an ext file system, in bytes.
const EXT_MAGIC_OFFSET_BYTES: usize = 1024 + 56;
/// The magic number of ext2, ext3 and ext4.
const EXT_MAGIC: [u8; 2] = [0x53, 0xEF];

/// The content of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// An ext2, ext3 or ext4 file system.
    Ext,
    /// Partitions.
    Partitions(PartitionTable),
    /// Another format.
    Other(Format),
    /// Only zeros at the start, or no bytes at all.
    Empty,
    /// None of the above.
    Unknown,
}

/// Examines the content of `device`: reads its start, its partition table if there is one, and the start of each
/// partition.
///
/// # Errors
/// The errors of the device.
pub fn examine(device: &dyn BlockDevice) -> Result<Contents> {
    let start = start_of(device, 0, device.size_bytes())?;
    if is_ext(&start) {
        return Ok(Contents::Ext);
    }
    // The boot record of a FAT or NTFS file system ends with the same signature as a partition table.
    if let Some(format) = Format::of(&start) {
        return Ok(Contents::Other(format));
    }
    if let Some(mut table) = table_of(device, &start)? {
        for partition in &mut table.partitions {
            let start = start_of(device, partition.offset_bytes, partition.size_bytes)?;
            partition.is_ext = is_ext(&start);
            if !partition.is_ext {
                partition.format = Format::of(&start).or_else(|| Format::iso_9660(&start));
            }
        }
        return Ok(Contents::Partitions(table));
    }
    Ok(match Format::iso_9660(&start) {
        Some(format) => Contents::Other(format),
        None if start.iter().all(|&byte| byte == 0) => Contents::Empty,
        None => Contents::Unknown,
    })
}

/// Returns the partition table of `device`, which begins with `start`.
fn table_of(device: &dyn BlockDevice, start: &[u8]) -> Result<Option<PartitionTable>> {
    if let Some(table) = gpt::read(device, start)? {
        return Ok(Some(table));
    }
    // The GPT is invalid, but a protective boot record shows that there was one. The backup may be intact.
    if mbr::is_protective(start)
        && let Some(table) = gpt::read_backup(device)?
    {
        return Ok(Some(table));
    }
    mbr::read(device, start)
}

/// Returns the first [`START_BYTES`] of the range of `size_bytes` at `offset_bytes` of `device`, or the whole range if it is
/// shorter.
fn start_of(device: &dyn BlockDevice, offset_bytes: u64, size_bytes: u64) -> Result<Vec<u8>> {
    let len_bytes = usize::try_from(size_bytes).map_or(START_BYTES, |size| size.min(START_BYTES));
    let mut start = vec![0; len_bytes];
    device.read_at(&mut start, offset_bytes)?;
    Ok(start)
}

fn is_ext(start: &[u8]) -> bool {
    start.get(EXT_MAGIC_OFFSET_BYTES..EXT_MAGIC_OFFSET_BYTES + EXT_MAGIC.len()) == Some(&EXT_MAGIC)
}
