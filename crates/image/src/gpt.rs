//! GUID partition tables.
//!
//! # Source
//! UEFI specification 2.10, section 5.3: the header is in the second sector, and a backup is in the last sector. Each
//! header gives the first sector of an array of partition entries. The header and the array have checksums.

use crate::table::{
    LINUX_RAID, MAX_PARTITIONS, Partition, PartitionTable, SECTOR_BYTES, TableKind,
};
use larder_block::{BlockDevice, Result};
use uuid::{Uuid, uuid};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const SIGNATURE: [u8; 8] = *b"EFI PART";
/// The byte range of the checksum field in the header.
const CHECKSUM: std::ops::Range<usize> = 16..20;
/// The largest array of entries that is read. An array usually has 16 KiB.
const MAX_ARRAY_BYTES: u64 = 1 << 20;

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    signature: [u8; 8],
    revision: U32,
    len_bytes: U32,
    checksum: U32,
    reserved: U32,
    own_sector: U64,
    other_sector: U64,
    first_usable_sector: U64,
    last_usable_sector: U64,
    disk: [u8; 16],
    array_sector: U64,
    entries: U32,
    entry_bytes: U32,
    array_checksum: U32,
}

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Entry {
    kind: [u8; 16],
    own: [u8; 16],
    first_sector: U64,
    last_sector: U64,
    attributes: U64,
    name: [U16; 36],
}

/// The names of types, as `fdisk` prints them.
const TYPES: [(Uuid, &str); 16] = [
    (
        uuid!("0fc63daf-8483-4772-8e79-3d69d8477de4"),
        "Linux filesystem",
    ),
    (uuid!("c12a7328-f81f-11d2-ba4b-00a0c93ec93b"), "EFI System"),
    (uuid!("21686148-6449-6e6f-744e-656564454649"), "BIOS boot"),
    (uuid!("0657fd6d-a4ab-43c4-84e5-0933c84b4f4f"), "Linux swap"),
    (uuid!("e6d6d379-f507-44c2-a23c-238f2a3df928"), "Linux LVM"),
    (uuid!("a19d880f-05fc-4d3b-a006-743f0f84911e"), LINUX_RAID),
    (uuid!("933ac7e1-2eb4-4f13-b844-0e14e2aef915"), "Linux home"),
    (
        uuid!("3b8f8425-20e0-4f3b-907f-1a25a76f98e8"),
        "Linux server data",
    ),
    (
        uuid!("bc13c2ff-59e6-4262-a352-b275fd6f7172"),
        "Linux extended boot",
    ),
    (
        uuid!("44479540-f297-41b2-9af7-d131d5f0458a"),
        "Linux root (x86)",
    ),
    (
        uuid!("4f68bce3-e8cd-4db1-96e7-fbcaf984b709"),
        "Linux root (x86-64)",
    ),
    (
        uuid!("b921b045-1df0-41c3-af44-4c6f280d3fae"),
        "Linux root (ARM-64)",
    ),
    (
        uuid!("ebd0a0a2-b9e5-4433-87c0-68b6b72699c7"),
        "Microsoft basic data",
    ),
    (
        uuid!("e3c9e316-0b5c-4db8-817d-f92df00215ae"),
        "Microsoft reserved",
    ),
    (
        uuid!("fe3a2a5d-4f32-41a7-b725-accc3285a309"),
        "ChromeOS kernel",
    ),
    (
        uuid!("3cb8e202-3b7e-47dd-8a3c-7ff2a13cfcec"),
        "ChromeOS root fs",
    ),
];

/// Returns the table of `device` if the header in the second sector is valid. `start` has the first bytes of the device.
pub(crate) fn read(device: &dyn BlockDevice, start: &[u8]) -> Result<Option<PartitionTable>> {
    for sector_bytes in SECTOR_BYTES {
        if let Some(sector) = start.get(sector_bytes..2 * sector_bytes)
            && let Some(table) = read_from(device, sector, 1)?
        {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

/// Returns the table of `device` if the backup of the header, in the last sector, is valid.
pub(crate) fn read_backup(device: &dyn BlockDevice) -> Result<Option<PartitionTable>> {
    for sector_bytes in SECTOR_BYTES {
        let mut sector = vec![0; sector_bytes];
        let sectors = device.size_bytes() / sector_bytes as u64;
        let Some(last) = sectors.checked_sub(1) else {
            continue;
        };
        device.read_at(&mut sector, last * sector_bytes as u64)?;
        if let Some(table) = read_from(device, &sector, last)? {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

/// Returns the table whose header is in `sector`, which is sector `number` of `device`. Returns `None` if the header or
/// its array is invalid.
fn read_from(
    device: &dyn BlockDevice,
    sector: &[u8],
    number: u64,
) -> Result<Option<PartitionTable>> {
    let header = valid_header(sector).filter(|header| header.own_sector.get() == number);
    let Some(header) = header else {
        return Ok(None);
    };
    let sector_bytes = sector.len() as u64;
    let entry_bytes = u64::from(header.entry_bytes.get());
    let array_bytes = entry_bytes * u64::from(header.entries.get());
    let offset_bytes = header.array_sector.get().checked_mul(sector_bytes);
    let (Some(offset_bytes), true) = (
        offset_bytes,
        entry_bytes >= size_of::<Entry>() as u64 && array_bytes <= MAX_ARRAY_BYTES,
    ) else {
        return Ok(None);
    };
    let is_inside = offset_bytes
        .checked_add(array_bytes)
        .is_some_and(|end| end <= device.size_bytes());
    let (Ok(array_len), Ok(entry_len), true) = (
        usize::try_from(array_bytes),
        usize::try_from(entry_bytes),
        is_inside,
    ) else {
        return Ok(None);
    };
    let mut array = vec![0; array_len];
    device.read_at(&mut array, offset_bytes)?;
    if crc32fast::hash(&array) != header.array_checksum.get() {
        return Ok(None);
    }
    let partitions = (1..)
        .zip(array.chunks_exact(entry_len))
        .filter_map(|(number, bytes)| {
            let (entry, _) = Entry::ref_from_prefix(bytes).ok()?;
            partition(number, entry, sector_bytes, device.size_bytes())
        });
    Ok(Some(PartitionTable {
        kind: TableKind::Gpt,
        sector_bytes,
        partitions: partitions.take(MAX_PARTITIONS).collect(),
    }))
}

/// Returns the header in `sector` if its signature and its checksum are correct.
fn valid_header(sector: &[u8]) -> Option<&Header> {
    let (header, _) = Header::ref_from_prefix(sector).ok()?;
    if header.signature != SIGNATURE {
        return None;
    }
    let len = usize::try_from(header.len_bytes.get()).ok()?;
    let bytes = sector.get(..len)?;
    // The checksum is computed as if its own bytes were zero.
    let (before, after) = (bytes.get(..CHECKSUM.start)?, bytes.get(CHECKSUM.end..)?);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(before);
    hasher.update(&[0; CHECKSUM.end - CHECKSUM.start]);
    hasher.update(after);
    (hasher.finalize() == header.checksum.get()).then_some(header)
}

/// Returns the partition of `entry`, or `None` if the entry is unused, is invalid (it ends before it begins, or
/// overflows), or begins outside the device.
fn partition(
    number: u32,
    entry: &Entry,
    sector_bytes: u64,
    device_bytes: u64,
) -> Option<Partition> {
    if entry.kind == [0; 16] {
        return None;
    }
    let (first, last) = (entry.first_sector.get(), entry.last_sector.get());
    let offset_bytes = first.checked_mul(sector_bytes)?;
    let end_bytes = last.checked_add(1)?.checked_mul(sector_bytes)?;
    // If the image is truncated, the partition ends with the device.
    let end_bytes = end_bytes.min(device_bytes);
    if offset_bytes >= end_bytes {
        return None;
    }
    let kind = Uuid::from_bytes_le(entry.kind);
    let known = TYPES.iter().find(|(of, _)| *of == kind);
    let name = entry.name.iter().map(|unit| unit.get());
    let name: Vec<u16> = name.take_while(|&unit| unit != 0).collect();
    Some(Partition {
        number,
        offset_bytes,
        size_bytes: end_bytes - offset_bytes,
        type_name: known.map_or_else(|| kind.to_string(), |(_, name)| (*name).to_owned()),
        name: String::from_utf16_lossy(&name),
        is_ext: false,
        format: None,
        error: None,
    })
}
