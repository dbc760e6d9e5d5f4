//! The format of a pack: units of an image with their content, in the order of their first use.
//!
//! ```text
//!   0      48     map              data
//!   | head | etag | 24 bytes for   | units of 64 KiB; the last unit of |
//!   |      |      | each unit      | the object can be shorter         |
//! ```
//!
//! - The head has the magic number `larderpk`, the version of the format (4 bytes), the size of a unit (4), the size
//!   of the object (8), the number of units (4), the length of the `ETag` (4), and a checksum (16).
//! - The checksum is XXH3 with 128 bits. It covers the head (with 0 in place of the checksum), the `ETag` and the map.
//! - An entry of the map has the number of a unit (8), and the checksum of its content (16): XXH3 with 128 bits,
//!   with the number as the seed, so that a unit is valid only in its own place.
//! - Numbers are little-endian.
//!
//! The head, the `ETag` and the map precede the units, so that a pack can be used while it arrives.

use super::error::{Error, Result};
use super::format::{check_version, is_valid_etag};
use super::limits::{MAX_ETAG_BYTES, MAX_OBJECT_BYTES, MAX_UNITS, unit_count};
use crate::{UNIT_BYTES, Version};
use std::collections::HashSet;
use std::io::{Seek, SeekFrom, Write};
use twox_hash::XxHash3_128;
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The length of the head, in bytes.
pub const HEAD_BYTES: usize = size_of::<RawHead>();

pub(super) const MAGIC: [u8; 8] = *b"larderpk";

/// The version of the format.
const FORMAT: u32 = 1;

const ENTRY_BYTES: usize = size_of::<RawEntry>();

#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    magic: [u8; 8],
    format: U32,
    unit_bytes: U32,
    object_bytes: U64,
    units: U32,
    etag_bytes: U32,
    checksum: U128,
}

#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    unit: U64,
    checksum: U128,
}

/// The head of a pack, whose checksum was not verified yet.
#[derive(Clone, Copy, Debug)]
pub struct Head(RawHead);

/// The map of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    version: Version,
    entries: Vec<Entry>,
}

/// A unit in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of the unit in the object.
    pub unit: u64,
    /// The length of the unit in bytes. The last unit of the object can be shorter than the others.
    pub len: usize,
    checksum: u128,
}

impl Head {
    /// Parses a head.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::TooLarge`], [`Error::Damaged`].
    pub fn parse(bytes: &[u8; HEAD_BYTES]) -> Result<Self> {
        let raw: RawHead = zerocopy::transmute!(*bytes);
        if raw.magic != MAGIC || raw.format != FORMAT || u64::from(raw.unit_bytes) != UNIT_BYTES {
            return Err(Error::Unknown);
        }
        if usize_of(raw.units) > MAX_UNITS {
            return Err(Error::TooLarge);
        }
        if usize_of(raw.etag_bytes) > MAX_ETAG_BYTES || raw.object_bytes.get() > MAX_OBJECT_BYTES {
            return Err(Error::Damaged("a field of its head is invalid"));
        }
        Ok(Self(raw))
    }

    /// Returns the length of the `ETag` and the map, which follow the head.
    #[must_use]
    pub fn rest_bytes(&self) -> usize {
        usize_of(self.0.etag_bytes) + usize_of(self.0.units) * ENTRY_BYTES
    }

    /// Parses `rest`, the [`Head::rest_bytes`] after the head.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn map(&self, rest: &[u8]) -> Result<Map> {
        if rest.len() != self.rest_bytes() {
            return Err(Error::Damaged("its end is missing"));
        }
        if self.checksum_with(rest) != self.0.checksum {
            return Err(Error::Damaged("the checksum of its head is wrong"));
        }
        let (etag, map) = rest.split_at(usize_of(self.0.etag_bytes));
        let etag = std::str::from_utf8(etag).ok();
        let etag = etag.filter(|etag| is_valid_etag(etag));
        let etag = etag.ok_or(Error::Damaged("the ETag of the image is invalid"))?;
        let object_bytes = self.0.object_bytes.get();
        let (count, mut seen) = (unit_count(object_bytes), HashSet::new());
        let (entries, _) = map.as_chunks::<ENTRY_BYTES>();
        let entries = entries.iter().map(|entry| {
            let raw: RawEntry = zerocopy::transmute!(*entry);
            let unit = raw.unit.get();
            let is_valid = unit < count && seen.insert(unit);
            is_valid.then(|| Entry {
                unit,
                len: unit_len(unit, object_bytes),
                checksum: raw.checksum.get(),
            })
        });
        let entries: Option<Vec<Entry>> = entries.collect();
        Ok(Map {
            version: Version {
                etag: Some(etag.to_owned()),
                modified_seconds: 0,
                size_bytes: object_bytes,
            },
            entries: entries.ok_or(Error::Damaged("a unit is invalid or occurs twice"))?,
        })
    }

    /// Computes the checksum of the head and what follows it.
    fn checksum_with(&self, rest: &[u8]) -> U128 {
        let unsigned = RawHead {
            checksum: 0.into(),
            ..self.0
        };
        XxHash3_128::oneshot(&[unsigned.as_bytes(), rest].concat()).into()
    }
}

impl Map {
    /// Checks that the pack belongs to `current`, the version of an object.
    ///
    /// # Errors
    /// [`Error::OtherVersion`].
    pub fn check(&self, current: &Version) -> Result<()> {
        check_version(&self.version, current)
    }

    /// Returns the units in the order in which they follow the map.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl Entry {
    fn new(unit: u64, bytes: &[u8]) -> Self {
        let checksum = XxHash3_128::oneshot_with_seed(unit, bytes);
        Self {
            unit,
            len: bytes.len(),
            checksum,
        }
    }

    /// Returns whether `bytes` are the content of the unit.
    #[must_use]
    pub fn matches(&self, bytes: &[u8]) -> bool {
        *self == Self::new(self.unit, bytes)
    }
}

/// Writes a pack of `units` of an object to `out`, which must be empty. `read` returns the content of a unit.
///
/// # Errors
/// [`Error::NoVersion`] if the version has no valid `ETag`, [`Error::Io`], and the errors of `read`.
pub(super) fn write(
    out: &mut (impl Write + Seek),
    version: &Version,
    units: &[u64],
    mut read: impl FnMut(u64) -> Result<Vec<u8>>,
) -> Result<()> {
    let etag = version.etag.as_ref().filter(|etag| is_valid_etag(etag));
    let etag = etag.ok_or(Error::NoVersion)?;
    let mut rest = etag.clone().into_bytes();
    let data_start = HEAD_BYTES + rest.len() + units.len() * ENTRY_BYTES;
    out.seek(SeekFrom::Start(data_start as u64))?;
    for &unit in units {
        let bytes = read(unit)?;
        out.write_all(&bytes)?;
        let Entry { checksum, .. } = Entry::new(unit, &bytes);
        let entry = RawEntry {
            unit: unit.into(),
            checksum: checksum.into(),
        };
        rest.extend_from_slice(entry.as_bytes());
    }
    let mut head = Head(RawHead {
        magic: MAGIC,
        format: FORMAT.into(),
        unit_bytes: u32_of(usize::try_from(UNIT_BYTES).unwrap_or(usize::MAX)),
        object_bytes: version.size_bytes.into(),
        units: u32_of(units.len()),
        etag_bytes: u32_of(etag.len()),
        checksum: 0.into(),
    });
    head.0.checksum = head.checksum_with(&rest);
    out.seek(SeekFrom::Start(0))?;
    out.write_all(head.0.as_bytes())?;
    Ok(out.write_all(&rest)?)
}

/// Returns the length of a unit that is in the object.
fn unit_len(unit: u64, object_bytes: u64) -> usize {
    let rest_bytes = object_bytes.saturating_sub(unit * UNIT_BYTES);
    usize::try_from(rest_bytes.min(UNIT_BYTES)).expect("a unit is small")
}

fn usize_of(number: U32) -> usize {
    usize::try_from(number.get()).unwrap_or(usize::MAX)
}

/// Converts a number that the limits of a pack keep small.
fn u32_of(number: usize) -> U32 {
    u32::try_from(number).expect("the number is small").into()
}

#[cfg(test)]
mod tests;
