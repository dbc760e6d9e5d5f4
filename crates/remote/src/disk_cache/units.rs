//! The map and the units of a cache file. [`super`] describes the file.

use super::identity::Digest;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use twox_hash::XxHash3_128;

/// The size of a unit, in bytes.
pub const UNIT_BYTES: usize = 64 << 10;

/// The alignment of the map and the units: a page of the kernel's cache.
pub(super) const ALIGN_BYTES: usize = 4096;

/// The offset of the map.
const MAP_OFFSET_BYTES: u64 = ALIGN_BYTES as u64;

/// The size of an entry of the map.
const ENTRY_BYTES: usize = size_of::<u128>();

/// The number of entries in a page of the map.
const PAGE_ENTRIES: usize = ALIGN_BYTES / ENTRY_BYTES;

/// The storage of the bytes of a cache file. The tests use a device that loses power.
pub(super) trait Storage {
    /// Fills `buf`.
    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()>;

    /// Writes all of `bytes`.
    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<()>;
}

impl Storage for File {
    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        self.read_exact_at(buf, offset_bytes)
    }

    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset_bytes)
    }
}

/// The result of reading a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Read,
    Absent,
    /// The unit did not match its checksum. It is now absent.
    Damaged,
}

/// The positions of the parts of a cache file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    size_bytes: u64,
    data_offset_bytes: u64,
}

impl Layout {
    /// Returns the layout for an object of `size_bytes`, or `None` if the offsets would overflow.
    pub(super) fn new(size_bytes: u64) -> Option<Self> {
        let map_bytes = unit_count(size_bytes) * ENTRY_BYTES as u64;
        let data_offset_bytes = MAP_OFFSET_BYTES + map_bytes.next_multiple_of(ALIGN_BYTES as u64);
        data_offset_bytes.checked_add(size_bytes)?;
        Some(Self {
            size_bytes,
            data_offset_bytes,
        })
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.data_offset_bytes + self.size_bytes
    }
}

fn unit_count(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(UNIT_BYTES as u64)
}

/// The units of an object in `storage`.
#[derive(Debug)]
pub(super) struct Units<S> {
    storage: S,
    layout: Layout,
    /// The seed of the checksum of unit 0.
    seed: u64,
}

impl<S: Storage> Units<S> {
    pub(super) fn new(storage: S, layout: Layout, digest: &Digest) -> Self {
        let (seed, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
        Self {
            storage,
            layout,
            seed: u64::from_le_bytes(*seed),
        }
    }

    pub(super) fn storage(&self) -> &S {
        &self.storage
    }

    /// Reads `unit` into `buf`, whose content is unspecified if the result is not [`Outcome::Read`].
    pub(super) fn read(&self, unit: u64, buf: &mut [u8]) -> Outcome {
        self.check_length(unit, buf.len());
        let entry = self.entry(unit);
        if entry == 0 {
            return Outcome::Absent;
        }
        let read = self.storage.read_at(buf, self.data_offset_bytes(unit));
        if read.is_ok() && self.checksum(unit, buf) == entry {
            return Outcome::Read;
        }
        // If this fails, the next read finds the damage again.
        let _ = self.write_entry(unit, 0);
        Outcome::Damaged
    }

    /// Stores `bytes` as `unit`.
    pub(super) fn write(&self, unit: u64, bytes: &[u8]) -> io::Result<()> {
        self.check_length(unit, bytes.len());
        self.storage.write_at(bytes, self.data_offset_bytes(unit))?;
        self.write_entry(unit, self.checksum(unit, bytes))
    }

    /// Returns true if `unit` is within the object and in the map.
    pub(super) fn contains(&self, unit: u64) -> bool {
        unit < unit_count(self.layout.size_bytes) && self.entry(unit) != 0
    }

    /// Returns the map entry of `unit`: 0 if it is absent or the map cannot be read.
    fn entry(&self, unit: u64) -> u128 {
        let mut bytes = [0; ENTRY_BYTES];
        match self.storage.read_at(&mut bytes, entry_offset_bytes(unit)) {
            Ok(()) => u128::from_le_bytes(bytes),
            Err(_) => 0,
        }
    }

    /// Returns the entries of the map in order, each as [`Units::entry`].
    pub(super) fn entries(&self) -> impl Iterator<Item = u128> {
        let count = unit_count(self.layout.size_bytes);
        let pages = (0..count).step_by(PAGE_ENTRIES);
        let entries = pages.flat_map(|first| self.page(first));
        (0..count).zip(entries).map(|(_, entry)| entry)
    }

    /// Returns the entries in the page of the map that starts with the entry of unit `first`.
    fn page(&self, first: u64) -> [u128; PAGE_ENTRIES] {
        let mut bytes = [0; ALIGN_BYTES];
        let read = self.storage.read_at(&mut bytes, entry_offset_bytes(first));
        let (entries, _) = bytes.as_chunks();
        std::array::from_fn(|index| match read {
            Ok(()) => u128::from_le_bytes(entries[index]),
            Err(_) => 0,
        })
    }

    fn write_entry(&self, unit: u64, entry: u128) -> io::Result<()> {
        self.storage
            .write_at(&entry.to_le_bytes(), entry_offset_bytes(unit))
    }

    fn data_offset_bytes(&self, unit: u64) -> u64 {
        self.layout.data_offset_bytes + unit * UNIT_BYTES as u64
    }

    /// Returns the checksum of `unit`, which is not 0.
    fn checksum(&self, unit: u64, bytes: &[u8]) -> u128 {
        XxHash3_128::oneshot_with_seed(self.seed.wrapping_add(unit), bytes).max(1)
    }

    /// Checks that `len` is the length of `unit`, which the caller must ensure.
    ///
    /// # Panics
    /// If `unit` does not have `len` bytes.
    fn check_length(&self, unit: u64, len: usize) {
        let start_bytes = unit.saturating_mul(UNIT_BYTES as u64);
        let rest_bytes = self.layout.size_bytes.saturating_sub(start_bytes);
        let unit_bytes = rest_bytes.min(UNIT_BYTES as u64);
        assert!(
            unit_bytes > 0 && unit_bytes == len as u64,
            "unit {unit} of an object of {} bytes has {unit_bytes} bytes, not {len}",
            self.layout.size_bytes
        );
    }
}

fn entry_offset_bytes(unit: u64) -> u64 {
    MAP_OFFSET_BYTES + unit * ENTRY_BYTES as u64
}

#[cfg(test)]
mod tests;
