//! Partition tables in the master boot record.
//!
//! # Model
//! The first sector has four entries: the primary partitions, 1 to 4. One of them can be extended. It then contains a
//! chain of sectors with tables of their own. One entry of each is a logical partition, and another one is the place of
//! the next table. The logical partitions are numbered from 5. Sectors have 512 bytes. As in the kernel, an entry is a
//! partition if it has sectors, whatever its type is.

use crate::table::{LINUX_RAID, MAX_PARTITIONS, Partition, PartitionTable, TableKind};
use larder_block::{BlockDevice, Result};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const SECTOR_BYTES: u64 = 512;
const SECTOR_LEN: usize = 512;
const TABLE: std::ops::Range<usize> = 446..510;
const SIGNATURE: [u8; 2] = [0x55, 0xAA];
/// The number of the first logical partition.
const FIRST_LOGICAL: u32 = 5;
/// The type of the only partition in the boot record of a device with a GPT.
const PROTECTIVE: u8 = 0xEE;
/// The types of extended partitions.
const EXTENDED: [u8; 3] = [0x05, 0x0F, 0x85];
/// The values of the first byte of an entry: not bootable and bootable.
const STATUSES: [u8; 2] = [0x00, 0x80];

#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Entry {
    status: u8,
    first_chs: [u8; 3],
    kind: u8,
    last_chs: [u8; 3],
    first_sector: U32,
    sectors: U32,
}

impl Entry {
    fn is_extended(&self) -> bool {
        EXTENDED.contains(&self.kind) && self.sectors.get() > 0
    }
}

/// Returns the table of `device`, or `None` if it has no valid table. `start` has the first bytes of the device.
pub(crate) fn read(device: &dyn BlockDevice, start: &[u8]) -> Result<Option<PartitionTable>> {
    let Some(entries) = start.get(..SECTOR_LEN).and_then(entries_of) else {
        return Ok(None);
    };
    // Code of a boot loader can be at the place of the table.
    if entries
        .iter()
        .any(|entry| !STATUSES.contains(&entry.status))
    {
        return Ok(None);
    }
    let device_bytes = device.size_bytes();
    let primary = (1..).zip(&entries).filter_map(|(number, entry)| {
        (!entry.is_extended()).then(|| partition(number, entry, 0, device_bytes))?
    });
    let mut partitions: Vec<Partition> = primary.collect();
    let mut number = FIRST_LOGICAL;
    for extended in entries.iter().filter(|entry| entry.is_extended()) {
        read_logical(device, extended, &mut number, &mut partitions)?;
    }
    Ok((!partitions.is_empty()).then_some(PartitionTable {
        kind: TableKind::Mbr,
        partitions,
    }))
}

/// Returns whether `start` has a boot record that protects a GPT.
pub(crate) fn is_protective(start: &[u8]) -> bool {
    let entries = start.get(..SECTOR_LEN).and_then(entries_of);
    entries.is_some_and(|entries| entries.iter().any(|entry| entry.kind == PROTECTIVE))
}

/// Adds the logical partitions of the extended partition of `extended`. The next logical partition has `number`.
fn read_logical(
    device: &dyn BlockDevice,
    extended: &Entry,
    number: &mut u32,
    partitions: &mut Vec<Partition>,
) -> Result<()> {
    let first = u64::from(extended.first_sector.get());
    let mut at = first;
    // The limit also ends a chain that forms a loop.
    for _ in partitions.len()..MAX_PARTITIONS {
        let offset_bytes = at * SECTOR_BYTES;
        if offset_bytes + SECTOR_BYTES > device.size_bytes() {
            break;
        }
        let mut sector = [0; SECTOR_LEN];
        device.read_at(&mut sector, offset_bytes)?;
        let Some(entries) = entries_of(&sector) else {
            break;
        };
        // Usual tables have one logical partition, and then the place of the next table.
        for logical in &entries[..2] {
            if !logical.is_extended()
                && logical.sectors.get() > 0
                && partitions.len() < MAX_PARTITIONS
            {
                partitions.extend(partition(*number, logical, at, device.size_bytes()));
                *number += 1;
            }
        }
        let next = entries.iter().find(|entry| entry.is_extended());
        match next.map(|next| u64::from(next.first_sector.get())) {
            Some(distance) if distance > 0 => at = first + distance,
            _ => break,
        }
    }
    Ok(())
}

/// Returns the entries in `sector`, or `None` if it does not end with the signature.
fn entries_of(sector: &[u8]) -> Option<[Entry; 4]> {
    if sector.get(TABLE.end..)? != SIGNATURE {
        return None;
    }
    <[Entry; 4]>::read_from_bytes(sector.get(TABLE)?).ok()
}

/// Returns the partition of `entry`, whose first sector is counted from sector `origin`. Returns `None` if the entry is
/// unused or begins outside the device.
fn partition(number: u32, entry: &Entry, origin: u64, device_bytes: u64) -> Option<Partition> {
    let (first, sectors) = (entry.first_sector.get(), entry.sectors.get());
    if sectors == 0 {
        return None;
    }
    let offset_bytes = (origin + u64::from(first)) * SECTOR_BYTES;
    let size_bytes = u64::from(sectors) * SECTOR_BYTES;
    // If the image is truncated, the partition ends with the device.
    let end_bytes = device_bytes.min(offset_bytes + size_bytes);
    (offset_bytes < end_bytes).then(|| Partition {
        number,
        offset_bytes,
        size_bytes: end_bytes - offset_bytes,
        type_name: type_name(entry.kind),
        name: String::new(),
        is_ext: false,
        format: None,
    })
}

/// Returns a short name of a type.
fn type_name(kind: u8) -> String {
    let name = match kind {
        0x01 | 0x04 | 0x06 | 0x0B | 0x0C | 0x0E => "FAT",
        0x07 => "HPFS/NTFS/exFAT",
        0x82 => "Linux swap",
        0x83 => "Linux",
        0x8E => "Linux LVM",
        PROTECTIVE => "GPT",
        0xEF => "EFI System",
        0xFD => LINUX_RAID,
        _ => return format!("type {kind:#04x}"),
    };
    name.to_owned()
}
