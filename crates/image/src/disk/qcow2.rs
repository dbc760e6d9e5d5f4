//! The format qcow2.
//!
//! # Source
//! The specification in the documentation of QEMU (`docs/interop/qcow2`). All numbers are big-endian. The L1 table has
//! the offsets of L2 tables, each of which has the size of a cluster. An entry of an L2 table has 8 bytes, whose bits are:
//!
//! | bits | uncompressed cluster |
//! |---|---|
//! | 63 | 1 if the cluster has one reference |
//! | 62 | 0 |
//! | 9 to 55 | the offset of the cluster |
//! | 0 | 1 if the cluster reads as zeros |
//!
//! | bits | compressed cluster |
//! |---|---|
//! | 63 | 0 |
//! | 62 | 1 |
//! | *x* to 61 | the number of sectors of 512 bytes that the content occupies in addition to the one in which it begins |
//! | 0 to *x* - 1 | the offset of the content in bytes |
//!
//! *x* is 62 - (`cluster_bits` - 8). With extended L2 entries, 8 bytes follow. For each of the
//! 32 subclusters *n*, bit *n* is 1 if the subcluster is stored, and bit 32 + *n* is 1 if it reads as zeros.

use super::decompress;
use super::error::{DiskError, corrupt};
use super::layout::{Extent, Layout, PackedUnit, Place};
use super::limits::MAX_DISK_BYTES;
use super::tables::{Tables, read_first_level};
use larder_block::{BlockDevice, Result};
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The number of bytes at the start of the file that are searched for the header, its extensions and the name of the
/// backing file.
pub(super) const HEAD_BYTES: u64 = 64 << 10;
/// The length of the header of version 2.
const VERSION_2_LEN: usize = 72;
/// The smallest and the largest cluster, as powers of two.
const CLUSTER_BITS: std::ops::RangeInclusive<u32> = 9..=21;
/// The smallest cluster with extended L2 entries, as a power of two.
const MIN_EXTENDED_BITS: u32 = 14;

/// Incompatible features. The first two do not concern a reader.
const DIRTY: u64 = 1 << 0;
const MARKED_CORRUPT: u64 = 1 << 1;
const EXTERNAL_DATA: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
pub(super) const EXTENDED: u64 = 1 << 4;

/// The extension of the header with the name of the external data file.
const DATA_FILE_NAME: u32 = 0x4441_5441;

/// Bits of entries.
const OFFSET: u64 = 0x00FF_FFFF_FFFF_FE00;
const COMPRESSED: u64 = 1 << 62;
const READS_AS_ZEROS: u64 = 1;

/// The number of subclusters of a cluster with an extended L2 entry.
const SUBCLUSTERS: u64 = 32;
/// The size of the sectors in which lengths of compressed clusters are counted, in bytes.
const SECTOR_BYTES: u64 = 512;
/// The largest part of an L2 table that is read and cached at once, in bytes.
const MAX_PART_BYTES: u64 = 64 << 10;

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    pub(super) magic: [u8; 4],
    pub(super) version: U32,
    pub(super) backing_name_offset: U64,
    pub(super) backing_name_len: U32,
    pub(super) cluster_bits: U32,
    pub(super) size: U64,
    pub(super) encryption: U32,
    pub(super) l1_entries: U32,
    pub(super) l1_offset: U64,
    pub(super) refcount_table_offset: U64,
    pub(super) refcount_table_clusters: U32,
    pub(super) snapshots: U32,
    pub(super) snapshots_offset: U64,
    // The following fields exist since version 3.
    pub(super) incompatible: U64,
    pub(super) compatible: U64,
    pub(super) autoclear: U64,
    pub(super) refcount_order: U32,
    pub(super) len: U32,
    pub(super) compression: u8,
}

/// How clusters are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Deflate,
    Zstd,
}

/// The tables of a qcow2 image.
#[derive(Debug)]
pub(crate) struct Qcow2 {
    size_bytes: u64,
    file_bytes: u64,
    cluster_bits: u32,
    has_extended_entries: bool,
    /// Whether an entry can say that its cluster reads as zeros.
    has_zero_bit: bool,
    method: Method,
    l1: Vec<U64>,
}

impl Qcow2 {
    /// Reads the header and the L1 table of `file`.
    ///
    /// # Errors
    /// As [`open_disk`](super::open_disk).
    pub(crate) fn open(file: &dyn BlockDevice) -> Result<Self, DiskError> {
        let file_bytes = file.size_bytes();
        let head_len = usize::try_from(file_bytes.min(HEAD_BYTES)).unwrap_or(usize::MAX);
        let mut head = vec![0; head_len];
        file.read_at(&mut head, 0)?;
        let header = header(&head)?;
        check_features(&header, &head)?;
        let cluster_bits = header.cluster_bits.get();
        let has_extended_entries = header.incompatible.get() & EXTENDED != 0;
        if !CLUSTER_BITS.contains(&cluster_bits)
            || has_extended_entries && cluster_bits < MIN_EXTENDED_BITS
        {
            return Err(DiskError::Corrupt("the size of its clusters is invalid"));
        }
        let mut image = Self {
            size_bytes: header.size.get(),
            file_bytes,
            cluster_bits,
            has_extended_entries,
            has_zero_bit: header.version.get() > 2 && !has_extended_entries,
            method: method(&header)?,
            l1: Vec::new(),
        };
        if image.size_bytes > MAX_DISK_BYTES {
            return Err(DiskError::Corrupt("the size of its disk is invalid"));
        }
        let entries = image.size_bytes.div_ceil(image.bytes_of_l2_table());
        if entries > u64::from(header.l1_entries.get()) {
            return Err(DiskError::Corrupt("its L1 table is too short"));
        }
        image.l1 = read_first_level(file, header.l1_offset.get(), entries, "an L1 table")?;
        Ok(image)
    }

    fn cluster_bytes(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Returns the length of an entry of an L2 table.
    fn entry_bytes(&self) -> u64 {
        if self.has_extended_entries { 16 } else { 8 }
    }

    /// Returns the number of bytes of the disk that an L2 table describes.
    fn bytes_of_l2_table(&self) -> u64 {
        (self.cluster_bytes() / self.entry_bytes()) << self.cluster_bits
    }

    /// Returns the length of a subcluster if the entries are extended, otherwise the length of a cluster.
    fn bytes_of_place(&self) -> u64 {
        if self.has_extended_entries {
            self.cluster_bytes() / SUBCLUSTERS
        } else {
            self.cluster_bytes()
        }
    }

    /// Returns where the byte at `offset_bytes` of the disk is. `entry` describes its cluster.
    fn place(&self, entry: &[u8], offset_bytes: u64) -> Result<Place, &'static str> {
        let word = |at: usize| {
            let bytes = entry.get(at..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
        };
        let in_cluster = offset_bytes % self.cluster_bytes();
        let descriptor = word(0);
        if descriptor & COMPRESSED != 0 {
            let unit = self.packed(descriptor, offset_bytes - in_cluster)?;
            return Ok(Place::Packed(unit));
        }
        let cluster = descriptor & OFFSET;
        let (is_stored, is_zero) = if self.has_extended_entries {
            let subcluster = in_cluster / self.bytes_of_place();
            let has_bit = |bit: u64| word(8) >> bit & 1 != 0;
            (has_bit(subcluster), has_bit(subcluster + SUBCLUSTERS))
        } else {
            let is_zero = self.has_zero_bit && descriptor & READS_AS_ZEROS != 0;
            (cluster != 0 && !is_zero, is_zero)
        };
        if is_stored && (is_zero || cluster == 0) {
            return Err("the state of a subcluster is invalid");
        }
        if !is_stored {
            return Ok(Place::Zero);
        }
        if !cluster.is_multiple_of(self.cluster_bytes()) {
            return Err("a cluster is not aligned");
        }
        let at_bytes = cluster + in_cluster;
        if at_bytes >= self.file_bytes {
            return Err("a cluster is not in the file");
        }
        Ok(Place::Stored(at_bytes))
    }

    /// Returns the compressed cluster of `descriptor`, which begins at `start_bytes` of the disk.
    fn packed(&self, descriptor: u64, start_bytes: u64) -> Result<PackedUnit, &'static str> {
        let offset_bits = 62 - (self.cluster_bits - 8);
        let start = descriptor & ((1 << offset_bits) - 1);
        let sectors = (descriptor & !(COMPRESSED | 1 << 63)) >> offset_bits;
        let end = (start / SECTOR_BYTES + 1 + sectors) * SECTOR_BYTES;
        let end = end.min(self.file_bytes);
        if start >= end {
            return Err("a compressed cluster is not in the file");
        }
        Ok(PackedUnit {
            start_bytes,
            len: 1 << self.cluster_bits,
            stored: start..end,
        })
    }
}

impl Layout for Qcow2 {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn unit_bytes(&self) -> u64 {
        self.cluster_bytes()
    }

    fn extent(
        &self,
        tables: &Tables<'_>,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<Option<Extent>> {
        let failed = |what| corrupt(offset_bytes, len_bytes, what);
        let of_table = self.bytes_of_l2_table();
        let index = offset_bytes / of_table;
        let end_bytes = (offset_bytes + len_bytes).min((index + 1) * of_table);
        let entry = usize::try_from(index)
            .ok()
            .and_then(|index| self.l1.get(index));
        let table = entry.map_or(0, |entry| entry.get()) & OFFSET;
        if table == 0 {
            return Ok(Some(Extent {
                len_bytes: end_bytes - offset_bytes,
                place: Place::Zero,
            }));
        }
        if !table.is_multiple_of(self.cluster_bytes()) {
            return Err(failed("an L2 table is not aligned"));
        }
        let entry_of =
            |at_bytes: u64| ((at_bytes % of_table) >> self.cluster_bits) * self.entry_bytes();
        let part_bytes = self.cluster_bytes().min(MAX_PART_BYTES);
        let part_start = entry_of(offset_bytes) / part_bytes * part_bytes;
        let part_len = usize::try_from(part_bytes).unwrap_or(usize::MAX);
        let Some(part) = tables.read(table + part_start, part_len)? else {
            return Ok(None);
        };
        let place_at = |at_bytes: u64| {
            let start = usize::try_from(entry_of(at_bytes) - part_start).ok()?;
            let entry = part.get(start..).filter(|entry| !entry.is_empty())?;
            let with_end = |place| {
                let step_bytes = match place {
                    Place::Packed(_) => self.cluster_bytes(),
                    _ => self.bytes_of_place(),
                };
                (place, (at_bytes / step_bytes + 1) * step_bytes)
            };
            Some(self.place(entry, at_bytes).map(with_end))
        };
        Extent::joined(offset_bytes..end_bytes, place_at).map_err(failed)
    }

    fn unpack_memory_bytes(&self, unit: &PackedUnit) -> u64 {
        match self.method {
            Method::Deflate => decompress::inflate_memory_bytes(unit.len),
            Method::Zstd => decompress::zstd_memory_bytes(unit.len),
        }
    }

    fn unpack(&self, unit: &PackedUnit, stored: &[u8]) -> Result<Vec<u8>, &'static str> {
        let content = match self.method {
            Method::Deflate => decompress::deflate(stored, unit.len)?,
            Method::Zstd => decompress::zstd(stored, unit.len)?,
        };
        if content.len() < unit.len {
            return Err("a compressed cluster is too short");
        }
        Ok(content)
    }
}

/// Returns the header at the start of `head`. Fields that a version does not have are zero.
pub(super) fn header(head: &[u8]) -> Result<Header, DiskError> {
    let version = head.get(4..).and_then(<[u8]>::first_chunk);
    let version = version.map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let len = match version {
        2 => VERSION_2_LEN,
        3 => size_of::<Header>(),
        _ => {
            let what = format!("version {version} of qcow2");
            return Err(DiskError::Unsupported(what));
        }
    };
    let mut bytes = [0; size_of::<Header>()];
    let known = head.get(..len.min(head.len())).unwrap_or_default();
    bytes[..known.len()].copy_from_slice(known);
    let mut header = Header::read_from_bytes(&bytes)
        .map_err(|_| DiskError::Corrupt("its header is too short"))?;
    if known.len() < VERSION_2_LEN {
        return Err(DiskError::Corrupt("its header is too short"));
    }
    if version == 3 && header.len.get() as usize <= std::mem::offset_of!(Header, compression) {
        header.compression = 0;
    }
    Ok(header)
}

/// Checks that the disk is in this file, that it is not encrypted, and that its features are supported. `head` is the start
/// of the file.
fn check_features(header: &Header, head: &[u8]) -> Result<(), DiskError> {
    match header.encryption.get() {
        0 => {}
        1 => return Err(DiskError::Encrypted("AES")),
        2 => return Err(DiskError::Encrypted("LUKS")),
        _ => return Err(DiskError::Encrypted("an unknown method")),
    }
    if header.backing_name_offset.get() != 0 {
        return Err(DiskError::OtherFile {
            role: "backing file",
            name: name_of_backing_file(header, head).to_vec(),
        });
    }
    let features = header.incompatible.get();
    if features & EXTERNAL_DATA != 0 {
        return Err(DiskError::OtherFile {
            role: "external data file",
            name: extension(header, head, DATA_FILE_NAME).to_vec(),
        });
    }
    let unknown = features & !(DIRTY | MARKED_CORRUPT | COMPRESSION | EXTENDED);
    if unknown != 0 {
        let bits: Vec<String> = (0..64)
            .filter(|bit| unknown >> bit & 1 != 0)
            .map(|bit| bit.to_string())
            .collect();
        let what = format!("incompatible features {}", bits.join(", "));
        return Err(DiskError::Unsupported(what));
    }
    Ok(())
}

fn method(header: &Header) -> Result<Method, DiskError> {
    match header.compression {
        0 => Ok(Method::Deflate),
        1 => Ok(Method::Zstd),
        other => {
            let what = format!("compression type {other}");
            Err(DiskError::Unsupported(what))
        }
    }
}

/// Returns `len` bytes at `offset` of `head`, or an empty slice if they are not in it.
fn bytes_at(head: &[u8], offset: u64, len: u32) -> &[u8] {
    let range = usize::try_from(offset).ok().and_then(|start| {
        let end = start.checked_add(len as usize)?;
        Some(start..end)
    });
    range.and_then(|range| head.get(range)).unwrap_or_default()
}

/// Returns the name of the backing file, or an empty slice. `head` is the start of the file.
pub(super) fn name_of_backing_file<'h>(header: &Header, head: &'h [u8]) -> &'h [u8] {
    bytes_at(
        head,
        header.backing_name_offset.get(),
        header.backing_name_len.get(),
    )
}

/// Returns the content of the extension `wanted` of `header`, or an empty slice. `head` is the start of the file.
pub(super) fn extension<'h>(header: &Header, head: &'h [u8], wanted: u32) -> &'h [u8] {
    let mut at = u64::from(header.len.get());
    loop {
        let word = |at: u64| {
            let bytes = bytes_at(head, at, 4).first_chunk();
            bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
        };
        let (kind, len) = (word(at), word(at + 4));
        match kind {
            // The end of the extensions, or of `head`.
            0 => return &[],
            kind if kind == wanted => return bytes_at(head, at + 8, len),
            _ => at += 8 + u64::from(len).next_multiple_of(8),
        }
    }
}
