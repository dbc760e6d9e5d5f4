//! Partition tables in the master boot record.
//!
//! # Model
//! The first sector contains a table with four entries, which describe the primary partitions 1 to 4. A primary
//! partition can be extended: it then contains logical partitions, which are numbered from 5. Each logical partition is
//! described by a table in a sector of its own. The tables form a chain: another entry in each table has the location
//! of the next table.
//!
//! As in the kernel, an entry is unused if its number of sectors is 0, regardless of its type. Unlike in the kernel,
//! extended partitions themselves are not listed.
//!
//! # Sectors
//! Locations and sizes in a table are in units of sectors. The table does not contain the sector size. With any sector
//! size, a table is in the first [`RECORD_LEN`] bytes of its sector.

use crate::table::{LINUX_RAID, MAX_PARTITIONS, Partition, PartitionTable, TableKind};
use larder_block::{BlockDevice, Result};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The length of a boot record in bytes.
pub(crate) const RECORD_LEN: usize = 512;
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

/// Returns the table of `device`, which has sectors of `sector_bytes`, or `None` if it has no valid table. `start`
/// contains the first bytes of the device.
pub(crate) fn read(
    device: &dyn BlockDevice,
    start: &[u8],
    sector_bytes: u64,
) -> Result<Option<PartitionTable>> {
    let Some(entries) = start.get(..RECORD_LEN).and_then(entries_of) else {
        return Ok(None);
    };
    // If a status is invalid, the bytes are not a table. They can be code of a boot loader.
    if entries
        .iter()
        .any(|entry| !STATUSES.contains(&entry.status))
    {
        return Ok(None);
    }
    let disk = Disk {
        device,
        sector_bytes,
    };
    let primary = (1..).zip(&entries).filter_map(|(number, entry)| {
        (!entry.is_extended()).then(|| disk.partition(number, entry, 0))?
    });
    let mut partitions: Vec<Partition> = primary.collect();
    let mut number = FIRST_LOGICAL;
    for extended in entries.iter().filter(|entry| entry.is_extended()) {
        disk.read_logical(extended, &mut number, &mut partitions)?;
    }
    Ok((!partitions.is_empty()).then_some(PartitionTable {
        kind: TableKind::Mbr,
        sector_bytes,
        partitions,
    }))
}

/// Returns whether `start` has a boot record that protects a GPT.
pub(crate) fn is_protective(start: &[u8]) -> bool {
    let entries = start.get(..RECORD_LEN).and_then(entries_of);
    entries.is_some_and(|entries| entries.iter().any(|entry| entry.kind == PROTECTIVE))
}

/// A device, and the size of its sectors.
struct Disk<'d> {
    device: &'d dyn BlockDevice,
    sector_bytes: u64,
}

impl Disk<'_> {
    /// Adds the logical partitions in the extended partition that `extended` describes. Numbers them from `number`, and
    /// increments `number` for each.
    fn read_logical(
        &self,
        extended: &Entry,
        number: &mut u32,
        partitions: &mut Vec<Partition>,
    ) -> Result<()> {
        let first = u64::from(extended.first_sector.get());
        let mut at = first;
        // The limit also ends a chain that forms a loop.
        for _ in partitions.len()..MAX_PARTITIONS {
            let offset_bytes = at * self.sector_bytes;
            if offset_bytes + RECORD_LEN as u64 > self.device.size_bytes() {
                break;
            }
            let mut record = [0; RECORD_LEN];
            self.device.read_at(&mut record, offset_bytes)?;
            let Some(entries) = entries_of(&record) else {
                break;
            };
            // Usually, the first entry describes a logical partition, and the second has the location of the next
            // table. Logical partitions in the other two entries are ignored.
            for logical in &entries[..2] {
                if !logical.is_extended()
                    && logical.sectors.get() > 0
                    && partitions.len() < MAX_PARTITIONS
                {
                    partitions.extend(self.partition(*number, logical, at));
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

    /// Returns the partition of `entry`, whose first sector is counted from sector `origin`. Returns `None` if the
    /// entry is unused or begins outside the device.
    fn partition(&self, number: u32, entry: &Entry, origin: u64) -> Option<Partition> {
        let (first, sectors) = (entry.first_sector.get(), entry.sectors.get());
        if sectors == 0 {
            return None;
        }
        let offset_bytes = (origin + u64::from(first)) * self.sector_bytes;
        let size_bytes = u64::from(sectors) * self.sector_bytes;
        // If the image is truncated, the partition ends with the device.
        let end_bytes = self.device.size_bytes().min(offset_bytes + size_bytes);
        (offset_bytes < end_bytes).then(|| Partition {
            number,
            offset_bytes,
            size_bytes: end_bytes - offset_bytes,
            type_name: type_name(entry.kind),
            name: String::new(),
            is_ext: false,
            format: None,
            error: None,
        })
    }
}

/// Returns the entries in `record`, or `None` if it does not end with the signature.
fn entries_of(record: &[u8]) -> Option<[Entry; 4]> {
    if record.get(TABLE.end..)? != SIGNATURE {
        return None;
    }
    <[Entry; 4]>::read_from_bytes(record.get(TABLE)?).ok()
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
