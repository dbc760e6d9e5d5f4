//! Seekable zstd: frames that are compressed independently, and a table of their sizes.
//!
//! # Source
//! "Zstandard Seekable Format" in the sources of zstd (`contrib/seekable_format`). All numbers are little-endian. The
//! file ends with a skippable frame, the seek table: for each frame its compressed size, its size, and optionally a
//! checksum; then the number of frames, a descriptor and a magic number.

use super::decompress;
use super::error::{DiskError, corrupt};
use super::layout::{Extent, Layout, PackedUnit, Place};
use super::limits::{MAX_TABLE_BYTES, MAX_UNIT_BYTES, max_stored_bytes};
use super::tables::Tables;
use larder_block::{BlockDevice, Result};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const FOOTER_MAGIC: u32 = 0x8F92_EAB1;
const SKIPPABLE_MAGIC: u32 = 0x184D_2A5E;
/// Bits of the descriptor.
const HAS_CHECKSUMS: u8 = 1 << 7;
const RESERVED: u8 = 0b0111_1100;
/// The length of a checksum in the table.
const CHECKSUM_BYTES: u64 = 4;

/// The start of a skippable frame.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Skippable {
    magic: U32,
    len: U32,
}

/// The end of the seek table.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Footer {
    frames: U32,
    descriptor: u8,
    magic: U32,
}

/// The first bytes of an entry of the seek table.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Entry {
    stored_len: U32,
    len: U32,
}

/// Where a frame begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    /// The offset on the disk, in bytes.
    disk_bytes: u64,
    /// The offset in the file, in bytes.
    file_bytes: u64,
}

/// The seek table of a file.
#[derive(Debug)]
pub(crate) struct Seekable {
    /// The starts of the frames that have content, and the end of the last one. Both offsets increase.
    starts: Vec<Start>,
    largest_bytes: u64,
}

impl Seekable {
    /// Reads the seek table of `file`. Returns `None` if the file has no seek table.
    ///
    /// # Errors
    /// As [`open_disk`](super::open_disk).
    pub(crate) fn open(file: &dyn BlockDevice) -> Result<Option<Self>, DiskError> {
        const DAMAGED: DiskError = DiskError::Corrupt("its seek table is invalid");
        let file_bytes = file.size_bytes();
        let Some(footer) = read_back::<Footer>(file, file_bytes)? else {
            return Ok(None);
        };
        if footer.magic != FOOTER_MAGIC {
            return Ok(None);
        }
        if footer.descriptor & RESERVED != 0 {
            let what = "a seek table of a later version".to_owned();
            return Err(DiskError::Unsupported(what));
        }
        let has_checksums = footer.descriptor & HAS_CHECKSUMS != 0;
        let entry_bytes =
            size_of::<Entry>() as u64 + if has_checksums { CHECKSUM_BYTES } else { 0 };
        let entries_bytes = u64::from(footer.frames.get()) * entry_bytes;
        if entries_bytes > MAX_TABLE_BYTES {
            let what = format!("a seek table of {entries_bytes} bytes");
            return Err(DiskError::Unsupported(what));
        }
        let content_bytes = entries_bytes + size_of::<Footer>() as u64;
        let start_bytes = file_bytes.checked_sub(content_bytes).ok_or(DAMAGED)?;
        let skippable = read_back::<Skippable>(file, start_bytes)?.ok_or(DAMAGED)?;
        if skippable.magic != SKIPPABLE_MAGIC || u64::from(skippable.len.get()) != content_bytes {
            return Err(DAMAGED);
        }
        let mut bytes = vec![0; usize::try_from(entries_bytes).unwrap_or(usize::MAX)];
        file.read_at(&mut bytes, start_bytes)?;
        let frames_end = start_bytes - size_of::<Skippable>() as u64;
        Self::parse(&bytes, entry_bytes, frames_end).map(Some)
    }

    /// Parses the entries of a seek table, each of which has `entry_bytes`. The frames must end at `frames_end` of the
    /// file. They do not if the file is a concatenation of several files, each of which has a seek table.
    fn parse(entries: &[u8], entry_bytes: u64, frames_end: u64) -> Result<Self, DiskError> {
        let entry_len = usize::try_from(entry_bytes).unwrap_or(usize::MAX);
        let mut at = Start {
            disk_bytes: 0,
            file_bytes: 0,
        };
        let mut starts = Vec::with_capacity(entries.len() / entry_len + 1);
        starts.push(at);
        let mut largest_bytes = 0;
        for entry in entries.chunks_exact(entry_len) {
            let Ok((entry, _)) = Entry::ref_from_prefix(entry) else {
                break;
            };
            let (stored, len) = (
                u64::from(entry.stored_len.get()),
                u64::from(entry.len.get()),
            );
            if len > MAX_UNIT_BYTES {
                let what = format!("a zstd frame of {} MiB", len >> 20);
                return Err(DiskError::Unsupported(what));
            }
            if len > 0 && stored > max_stored_bytes(len) {
                return Err(DiskError::Corrupt("a frame in its seek table is too long"));
            }
            at.file_bytes += stored;
            at.disk_bytes += len;
            largest_bytes = largest_bytes.max(len);
            if len > 0 {
                starts.push(at);
            } else if let Some(last) = starts.last_mut() {
                // A frame without content, such as a skippable one: the next frame begins after it.
                *last = at;
            }
        }
        if at.file_bytes != frames_end {
            let what = "its seek table does not match the frames of the file";
            return Err(DiskError::Corrupt(what));
        }
        Ok(Self {
            starts,
            largest_bytes,
        })
    }
}

impl Layout for Seekable {
    fn size_bytes(&self) -> u64 {
        self.starts.last().map_or(0, |end| end.disk_bytes)
    }

    fn unit_bytes(&self) -> u64 {
        self.largest_bytes
    }

    fn extent(&self, _: &Tables<'_>, offset_bytes: u64, len_bytes: u64) -> Result<Option<Extent>> {
        let next = self
            .starts
            .partition_point(|start| start.disk_bytes <= offset_bytes);
        let (Some(start), Some(end)) = (
            next.checked_sub(1).and_then(|index| self.starts.get(index)),
            self.starts.get(next),
        ) else {
            return Err(corrupt(offset_bytes, len_bytes, "a frame is missing"));
        };
        let unit_bytes = end.disk_bytes - start.disk_bytes;
        // Frames without content can follow.
        let stored_end = end
            .file_bytes
            .min(start.file_bytes + max_stored_bytes(unit_bytes));
        Ok(Some(Extent {
            len_bytes: len_bytes.min(end.disk_bytes - offset_bytes),
            place: Place::Packed(PackedUnit {
                start_bytes: start.disk_bytes,
                len: usize::try_from(unit_bytes).unwrap_or(usize::MAX),
                stored: start.file_bytes..stored_end,
            }),
        }))
    }

    fn unpack_memory_bytes(&self, unit: &PackedUnit) -> u64 {
        decompress::zstd_memory_bytes(unit.len)
    }

    fn unpack(&self, unit: &PackedUnit, stored: &[u8]) -> Result<Vec<u8>, &'static str> {
        decompress::zstd(stored, unit.len)
    }
}

/// Reads a value that ends at `end_bytes` of `file`. Returns `None` if there is not enough space before it.
fn read_back<T: FromBytes>(file: &dyn BlockDevice, end_bytes: u64) -> Result<Option<T>, DiskError> {
    let Some(start_bytes) = end_bytes.checked_sub(size_of::<T>() as u64) else {
        return Ok(None);
    };
    let mut bytes = vec![0; size_of::<T>()];
    file.read_at(&mut bytes, start_bytes)?;
    Ok(T::read_from_bytes(&bytes).ok())
}
