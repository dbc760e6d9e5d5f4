//! What all formats of disk images have in common: where each byte of the disk is stored in the file.

use super::tables::Tables;
use larder_block::Result;
use std::fmt::Debug;
use std::ops::Range;

/// A range of the disk that is stored in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The length in bytes, at least 1.
    pub(crate) len_bytes: u64,
    pub(crate) place: Place,
}

impl Extent {
    /// Returns the extent at the start of `range` of the disk. `place_at` returns the place of the byte at an offset, and
    /// the end of the bytes to which its entry in a table applies. It returns `None` if the entry is in another part of
    /// the table. Places that follow each other are joined.
    ///
    /// # Errors
    /// What is wrong with the first entry. A later damaged entry ends the extent.
    pub(crate) fn joined(
        range: Range<u64>,
        mut place_at: impl FnMut(u64) -> Option<Result<(Place, u64), &'static str>>,
    ) -> Result<Option<Self>, &'static str> {
        let mut at_bytes = range.start;
        let mut first: Option<Place> = None;
        while at_bytes < range.end
            && let Some(found) = place_at(at_bytes)
        {
            let (place, end_bytes) = match found {
                Ok(found) => found,
                Err(_) if first.is_some() => break,
                Err(what) => return Err(what),
            };
            match &first {
                Some(first) if !place.follows(first, at_bytes - range.start) => break,
                Some(_) => {}
                None => first = Some(place),
            }
            at_bytes = end_bytes;
        }
        let len_bytes = at_bytes.min(range.end) - range.start;
        Ok(first.map(|place| Self { len_bytes, place }))
    }
}

/// Where the bytes of an extent are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// They are not stored: they are zero.
    Zero,
    /// In the file, from this offset on. The first byte is in the file. If the file is damaged, the others can be past its
    /// end.
    Stored(u64),
    /// In a compressed unit.
    Packed(PackedUnit),
}

/// A unit that is stored compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackedUnit {
    /// The offset of the unit on the disk, in bytes.
    pub(crate) start_bytes: u64,
    /// The length of the unit on the disk in bytes, at most [`MAX_UNIT_BYTES`](super::limits::MAX_UNIT_BYTES).
    pub(crate) len: usize,
    /// The range of the file with the compressed unit. It is inside the file. Bytes that do not belong to the unit can
    /// follow.
    pub(crate) stored: Range<u64>,
}

impl Place {
    /// Returns whether these bytes follow those of `first` without a gap, if `first` has `len_bytes`.
    pub(crate) fn follows(&self, first: &Self, len_bytes: u64) -> bool {
        match (first, self) {
            (Self::Zero, Self::Zero) => true,
            (Self::Stored(first), Self::Stored(next)) => {
                first.checked_add(len_bytes) == Some(*next)
            }
            _ => false,
        }
    }
}

/// The tables of a disk image.
pub(crate) trait Layout: Debug + Send + Sync {
    /// Returns the size of the disk in bytes.
    fn size_bytes(&self) -> u64;

    /// Returns the size of a unit in bytes. If units differ in size, returns that of the largest one.
    fn unit_bytes(&self) -> u64;

    /// Returns the extent at the start of the range of `len_bytes` at `offset_bytes` of the disk. The range is inside the
    /// disk, and not empty. Returns `None` if a part of a table is needed that `tables` does not return.
    ///
    /// # Errors
    /// If a part of a table cannot be read or is damaged.
    fn extent(
        &self,
        tables: &Tables<'_>,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<Option<Extent>>;

    /// Returns the approximate memory, in bytes, that [`Layout::unpack`] uses for `unit`. The stored bytes are not included.
    fn unpack_memory_bytes(&self, unit: &PackedUnit) -> u64;

    /// Decompresses `stored`, the stored bytes of `unit`. Returns the content, which has the length of `unit`.
    ///
    /// # Errors
    /// What is wrong with `stored`.
    fn unpack(&self, unit: &PackedUnit, stored: &[u8]) -> Result<Vec<u8>, &'static str>;
}
