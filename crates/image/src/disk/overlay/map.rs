//! Where each subcluster of the disk of an overlay is stored.

use super::error::OverlayError;
use super::header::{
    CLUSTER_BYTES, ENTRY_LEN, Geometry, L1_OFFSET, SUBCLUSTER_BYTES, SUBCLUSTERS, TABLE_ENTRIES,
    TABLE_SPAN_BYTES,
};
use super::space::{SECTOR_BYTES, Space};
use larder_block::BlockDevice;
use std::collections::BTreeSet;
use std::ops::Range;

/// The bit of an entry that indicates that its cluster has one reference.
const ONE_REFERENCE: u64 = 1 << 63;
/// The number of entries in a sector of the L1 table.
const L1_ENTRIES: usize = 64;
/// The number of entries in a sector of an L2 table.
const SECTOR_ENTRIES: u64 = SECTOR_BYTES / ENTRY_LEN as u64;
/// The number of entries in a page of an L2 table. A page has 4 KiB, like the smallest hole of a file.
const PAGE_ENTRIES: usize = 4096 / ENTRY_LEN;

/// Where a range of the disk is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the base, at the same offset.
    Base,
    /// Nowhere: it is zero.
    Zero,
    /// In the file of the overlay, from this offset on.
    File(u64),
}

impl Place {
    /// Returns whether a range at this place continues the preceding range of `len_bytes` at the place `first`.
    fn continues(self, first: Self, len_bytes: u64) -> bool {
        match (first, self) {
            (Self::File(first), Self::File(next)) => first + len_bytes == next,
            (first, next) => first == next,
        }
    }
}

/// The entry of a cluster of the disk in an L2 table. If a subcluster is read from the base, neither of its bits is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// The offset of the cluster in the file, or 0.
    at_bytes: u64,
    /// A bit for each subcluster that is stored in the file.
    stored: u32,
    /// A bit for each subcluster that is zero. The same bit of `stored` is then not set.
    zero: u32,
}

impl Entry {
    fn to_bytes(self) -> [u8; ENTRY_LEN] {
        let first = match self.at_bytes {
            0 => 0,
            at_bytes => at_bytes | ONE_REFERENCE,
        };
        let bits = u64::from(self.zero) << 32 | u64::from(self.stored);
        let mut bytes = [0; ENTRY_LEN];
        bytes[..8].copy_from_slice(&first.to_be_bytes());
        bytes[8..].copy_from_slice(&bits.to_be_bytes());
        bytes
    }

    /// Returns the offset in the file of the end of the last stored subcluster, or 0 if none is stored.
    fn end_bytes(self) -> u64 {
        match self.stored {
            0 => 0,
            stored => self.at_bytes + u64::from(stored.ilog2() + 1) * SUBCLUSTER_BYTES,
        }
    }

    /// Parses an entry from its two numbers.
    fn parse(words: [u64; 2]) -> Result<Self, OverlayError> {
        let [first, bits] = words;
        let half = |bits: u64| u32::try_from(bits & 0xFFFF_FFFF).unwrap_or(0);
        let (zero, stored) = (half(bits >> 32), half(bits));
        let at_bytes = if first == 0 { 0 } else { first ^ ONE_REFERENCE };
        if !at_bytes.is_multiple_of(CLUSTER_BYTES)
            || at_bytes == 0 && (first != 0 || stored != 0)
            || zero & stored != 0
        {
            return Err(OverlayError::Damaged("an entry of an L2 table is invalid"));
        }
        Ok(Self {
            at_bytes,
            stored,
            zero,
        })
    }
}

/// An L2 table.
#[derive(Debug)]
struct Table {
    /// The offset in the file.
    at_bytes: u64,
    /// Pages whose entries are all zero take no memory. Otherwise, a small file whose tables are holes could take any amount.
    pages: Vec<Option<Box<[Entry; PAGE_ENTRIES]>>>,
}

impl Table {
    /// Returns the table at `at_bytes` of the file, without entries.
    fn new(at_bytes: u64) -> Self {
        let entries = usize::try_from(TABLE_ENTRIES).unwrap_or(usize::MAX);
        Self {
            at_bytes,
            pages: vec![None; entries / PAGE_ENTRIES],
        }
    }

    fn entry(&self, index: usize) -> Entry {
        let page = self.pages.get(index / PAGE_ENTRIES);
        let page = page.and_then(Option::as_ref);
        page.map_or_else(Entry::default, |page| page[index % PAGE_ENTRIES])
    }

    fn entry_mut(&mut self, index: usize) -> Option<&mut Entry> {
        let page = self.pages.get_mut(index / PAGE_ENTRIES)?;
        let page = page.get_or_insert_with(|| Box::new([Entry::default(); PAGE_ENTRIES]));
        page.get_mut(index % PAGE_ENTRIES)
    }

    /// Returns the bytes of the entries with these indices.
    fn to_bytes(&self, indices: Range<usize>) -> Vec<u8> {
        let entries = indices.map(|index| self.entry(index));
        entries.flat_map(Entry::to_bytes).collect()
    }
}

/// The L2 tables of an overlay, and which parts of them the file does not contain yet.
#[derive(Debug)]
pub(super) struct Map {
    tables: Vec<Option<Table>>,
    dirty: Dirty,
}

/// The parts of tables that differ from those in the file.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    /// The numbers of the tables to which the L1 table in the file does not refer.
    new_tables: BTreeSet<usize>,
    /// The changed sectors of the other tables: the number of the table, and that of the sector.
    sectors: BTreeSet<(usize, usize)>,
}

/// An offset in the file, and the bytes to write there.
pub(super) type Piece = (u64, Vec<u8>);

impl Map {
    /// Reads the tables of `file`, and checks that it extends to the last stored subcluster. Records the clusters to which the
    /// tables refer in `space`.
    pub(super) fn read(
        file: &dyn BlockDevice,
        geometry: &Geometry,
        space: &mut Space,
    ) -> Result<Self, OverlayError> {
        let claim = |at_bytes: u64, space: &mut Space| {
            let is_free =
                at_bytes.is_multiple_of(CLUSTER_BYTES) && space.claim(at_bytes / CLUSTER_BYTES);
            let twice = "a cluster is used twice, or does not exist";
            is_free.then_some(()).ok_or(OverlayError::Damaged(twice))
        };
        let mut map = Self {
            tables: Vec::new(),
            dirty: Dirty::default(),
        };
        let mut end_bytes = 0;
        for first in words(file, L1_OFFSET, geometry.l1_entries)? {
            if first == 0 {
                map.tables.push(None);
                continue;
            }
            let at_bytes = first ^ ONE_REFERENCE;
            claim(at_bytes, space)?;
            let words = words(file, at_bytes, TABLE_ENTRIES * 2)?;
            let mut table = Table::new(at_bytes);
            for (index, pair) in words.as_chunks::<2>().0.iter().enumerate() {
                let entry = Entry::parse(*pair)?;
                if entry.at_bytes != 0 {
                    claim(entry.at_bytes, space)?;
                }
                end_bytes = end_bytes.max(entry.end_bytes());
                if entry != Entry::default()
                    && let Some(own) = table.entry_mut(index)
                {
                    *own = entry;
                }
            }
            map.tables.push(Some(table));
        }
        if let Some(last_bytes) = end_bytes.checked_sub(1) {
            file.read_at(&mut [0], last_bytes)?;
        }
        Ok(map)
    }

    /// Returns the number of the table of the byte at `offset_bytes` of the disk, and the number of its entry.
    fn position(offset_bytes: u64) -> (usize, usize) {
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let entry = offset_bytes % TABLE_SPAN_BYTES / CLUSTER_BYTES;
        (index(offset_bytes / TABLE_SPAN_BYTES), index(entry))
    }

    fn entry(&self, offset_bytes: u64) -> Entry {
        let (table, entry) = Self::position(offset_bytes);
        let table = self.tables.get(table).and_then(Option::as_ref);
        table.map_or_else(Entry::default, |table| table.entry(entry))
    }

    /// Returns the place of the byte at `offset_bytes`, and the length of the range in its cluster that has this place.
    fn in_cluster(&self, offset_bytes: u64) -> (Place, u64) {
        let entry = self.entry(offset_bytes);
        let inside_bytes = offset_bytes % CLUSTER_BYTES;
        let first = u32::try_from(inside_bytes / SUBCLUSTER_BYTES).unwrap_or(0);
        let has_bit = |bits: u32| bits >> first & 1 != 0;
        let (place, bits) = if has_bit(entry.stored) {
            (Place::File(entry.at_bytes + inside_bytes), entry.stored)
        } else if has_bit(entry.zero) {
            (Place::Zero, entry.zero)
        } else {
            (Place::Base, !(entry.stored | entry.zero))
        };
        let end = u64::from(first + (bits >> first).trailing_ones()).min(SUBCLUSTERS);
        (place, end * SUBCLUSTER_BYTES - inside_bytes)
    }

    /// Returns the place of the byte at `offset_bytes`, and how many of the `len_bytes` from there on have this place.
    pub(super) fn run(&self, offset_bytes: u64, len_bytes: u64) -> (Place, u64) {
        let (place, mut done_bytes) = self.in_cluster(offset_bytes);
        while done_bytes < len_bytes {
            let (next, more_bytes) = self.in_cluster(offset_bytes + done_bytes);
            if !next.continues(place, done_bytes) {
                break;
            }
            done_bytes += more_bytes;
        }
        (place, done_bytes.min(len_bytes))
    }

    /// Returns whether the byte at `offset_bytes` is in a part of the disk that has an L2 table.
    pub(super) fn has_table(&self, offset_bytes: u64) -> bool {
        let (table, _) = Self::position(offset_bytes);
        self.tables.get(table).is_some_and(Option::is_some)
    }

    /// Adds an L2 table without entries for the byte at `offset_bytes`. It is at `at_bytes` of the file.
    pub(super) fn add_table(&mut self, offset_bytes: u64, at_bytes: u64) {
        let (number, _) = Self::position(offset_bytes);
        if let Some(table) = self.tables.get_mut(number) {
            *table = Some(Table::new(at_bytes));
            self.dirty.new_tables.insert(number);
        }
    }

    /// Returns the offset in the file of the cluster with the byte at `offset_bytes`, if it has one.
    pub(super) fn cluster(&self, offset_bytes: u64) -> Option<u64> {
        let at_bytes = self.entry(offset_bytes).at_bytes;
        (at_bytes != 0).then_some(at_bytes)
    }

    /// Records that the subclusters of a range in one cluster are stored. The range begins at `offset_bytes`. The cluster
    /// is at `at_bytes` of the file.
    pub(super) fn store(&mut self, offset_bytes: u64, len_bytes: u64, at_bytes: u64) {
        let (number, index) = Self::position(offset_bytes);
        let table = self.tables.get_mut(number).and_then(Option::as_mut);
        let Some(entry) = table.and_then(|table| table.entry_mut(index)) else {
            return;
        };
        let first = offset_bytes % CLUSTER_BYTES / SUBCLUSTER_BYTES;
        let end = first + len_bytes.div_ceil(SUBCLUSTER_BYTES);
        let bits = (first..end.min(SUBCLUSTERS)).fold(0, |bits, bit| bits | 1_u32 << bit);
        entry.at_bytes = at_bytes;
        entry.stored |= bits;
        entry.zero &= !bits;
        if !self.dirty.new_tables.contains(&number) {
            let sector = index as u64 / SECTOR_ENTRIES;
            let sector = usize::try_from(sector).unwrap_or(usize::MAX);
            self.dirty.sectors.insert((number, sector));
        }
    }

    /// Removes and returns the parts of tables that differ from those in the file.
    pub(super) fn take_dirty(&mut self) -> Dirty {
        std::mem::take(&mut self.dirty)
    }

    /// Records that `dirty` was not written.
    pub(super) fn restore_dirty(&mut self, dirty: Dirty) {
        self.dirty.new_tables.extend(dirty.new_tables);
        self.dirty.sectors.extend(dirty.sectors);
    }

    /// Returns the new tables of `dirty`.
    pub(super) fn new_tables(&self, dirty: &Dirty) -> Vec<Piece> {
        let tables = dirty.new_tables.iter();
        let tables = tables.filter_map(|&number| self.tables.get(number)?.as_ref());
        let all = 0..usize::try_from(TABLE_ENTRIES).unwrap_or(usize::MAX);
        let pieces = tables.map(|table| (table.at_bytes, table.to_bytes(all.clone())));
        pieces.collect()
    }

    /// Returns the sectors that make the content of `dirty`, which was just taken, a part of the disk: the changed
    /// sectors of tables to which the L1 table in the file refers, and the sectors of the L1 table that refer to new
    /// tables.
    pub(super) fn links(&self, dirty: &Dirty) -> Vec<Piece> {
        let sector_len = usize::try_from(SECTOR_ENTRIES).unwrap_or(usize::MAX);
        let sectors = dirty.sectors.iter().filter_map(|&(number, sector)| {
            let table = self.tables.get(number)?.as_ref()?;
            let first = sector * sector_len;
            Some((
                table.at_bytes + sector as u64 * SECTOR_BYTES,
                table.to_bytes(first..first + sector_len),
            ))
        });
        // All tables are in the file or in `dirty`, so whole sectors can be written. A device writes them as a whole.
        let in_l1: BTreeSet<usize> = dirty
            .new_tables
            .iter()
            .map(|&number| number / L1_ENTRIES)
            .collect();
        let tables = in_l1.into_iter().map(|sector| {
            let first = sector * L1_ENTRIES;
            let entries = (first..first + L1_ENTRIES).flat_map(|number| {
                let table = self.tables.get(number).and_then(Option::as_ref);
                table
                    .map_or(0, |table| table.at_bytes | ONE_REFERENCE)
                    .to_be_bytes()
            });
            (L1_OFFSET + sector as u64 * SECTOR_BYTES, entries.collect())
        });
        sectors.chain(tables).collect()
    }
}

impl Dirty {
    /// Returns whether the tables in the file are up to date.
    pub(super) fn is_empty(&self) -> bool {
        self.new_tables.is_empty() && self.sectors.is_empty()
    }
}

/// Reads `count` big-endian numbers at `offset_bytes` of `file`.
fn words(file: &dyn BlockDevice, offset_bytes: u64, count: u64) -> Result<Vec<u64>, OverlayError> {
    let mut bytes = vec![0; usize::try_from(count * 8).unwrap_or(usize::MAX)];
    file.read_at(&mut bytes, offset_bytes)?;
    let words = bytes.as_chunks().0.iter();
    Ok(words.map(|word| u64::from_be_bytes(*word)).collect())
}
