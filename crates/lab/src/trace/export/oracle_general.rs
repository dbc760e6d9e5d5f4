//! Exports the lookups of one cache in libCacheSim's format `oracleGeneral`. Each record contains the number
//! of the next lookup of the same entry.
//!
//! # Model
//! The format identifies an entry by a 64-bit number. A key that consists of one number, such as an inode of
//! device 0, is stored unchanged. A key of two numbers below 2^32 is stored as their concatenation, so that
//! adjacent entries have adjacent numbers. All other keys are hashed. The probability that two of a billion
//! hashed entries get the same number is 3%.
//!
//! # Next accesses
//! The records are first written without their next accesses. Then a pass reads the records from the end of
//! the file to its start, in pieces, and fills in the next accesses. It keeps in memory the position at which
//! it last found each entry. If there are too many entries for the memory, a pass processes only the entries
//! whose hashes are in a range, and the next pass processes the following range.
//!
//! # Cost
//! Each pass reads and writes the file once. The memory is limited to [`ENTRIES`] entries, some 300 MB.

use crate::trace::Error;
use crate::trace::import::{RECORD_BYTES, Record};
use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Operation};
use larder_trace::TraceEvent;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Maximum number of entries whose positions are kept in memory.
const ENTRIES: usize = 1 << 23;
/// Number of records in a piece.
const PIECE: u64 = 1 << 16;

/// Size of an entry of the page cache and of the buffer cache.
const PAGE_BYTES: u32 = 4096;

/// An export in progress.
#[derive(Debug)]
pub struct OracleGeneralWriter {
    file: BufWriter<File>,
    cache: CacheKind,
    records: u64,
}

impl OracleGeneralWriter {
    /// Creates the file at `path`, for the lookups of `cache`.
    ///
    /// # Errors
    /// Returns an error if the file already exists, or cannot be created.
    pub fn create(path: &Path, cache: CacheKind) -> io::Result<Self> {
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        Ok(Self {
            file: BufWriter::with_capacity(1 << 20, file),
            cache,
            records: 0,
        })
    }

    /// Writes `event`, if it is a lookup of the cache.
    pub fn push(&mut self, event: &TraceEvent) -> io::Result<()> {
        if event.cache != self.cache || !matches!(event.operation, Operation::Lookup { .. }) {
            return Ok(());
        }
        let is_page = matches!(self.cache, CacheKind::Page | CacheKind::Buffer);
        let record = Record {
            // 32 bits are sufficient for 136 years.
            clock_time_s: u32::try_from(event.time_ns / 1_000_000_000).unwrap_or(u32::MAX),
            object: object(event.key()),
            size: if is_page { PAGE_BYTES } else { 1 },
            next_access: -1,
        };
        self.records += 1;
        self.file.write_all(&record.to_bytes())
    }

    /// Fills in the next accesses, and returns the number of records.
    pub fn finish(self) -> Result<u64, Error> {
        let file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        let mut next = Some(0);
        while let Some(first) = next {
            next = fill_in(&file, self.records, first, ENTRIES)?;
        }
        Ok(self.records)
    }
}

/// Returns the number of an entry.
fn object(key: HashKey) -> u64 {
    match (u32::try_from(key.object), u32::try_from(key.index)) {
        (Ok(0), _) => key.index,
        (Ok(object), Ok(index)) => u64::from(object) << 32 | u64::from(index),
        _ => mix(mix(key.object).wrapping_add(key.index)),
    }
}

/// Fills in the next accesses of the entries whose hashes are at least `first`. If there are more than `most`
/// entries, returns the hash at which the next pass must begin.
fn fill_in(file: &File, records: u64, first: u64, most: usize) -> io::Result<Option<u64>> {
    let mut last_seen: HashMap<u64, u64> = HashMap::new();
    let mut end = None::<u64>;
    let mut bytes = Vec::new();
    for piece in (0..records.div_ceil(PIECE)).rev() {
        let from = piece * PIECE;
        let count = PIECE.min(records - from);
        bytes.resize(usize::try_from(count).unwrap_or(0) * RECORD_BYTES, 0);
        let offset = from * RECORD_BYTES as u64;
        file.read_exact_at(&mut bytes, offset)?;
        let chunks = bytes.as_chunks_mut::<RECORD_BYTES>().0;
        for (place, bytes) in (0..count).rev().zip(chunks.iter_mut().rev()) {
            let number = from + place;
            let record = Record::of_bytes(bytes);
            let hash = mix(record.object);
            if hash < first || end.is_some_and(|end| hash >= end) {
                continue;
            }
            let next = last_seen.insert(record.object, number);
            let next_access = next.map_or(-1, u64::cast_signed);
            *bytes = Record {
                next_access,
                ..record
            }
            .to_bytes();
            if last_seen.len() > most {
                end = Some(halve(&mut last_seen));
            }
        }
        file.write_all_at(&bytes, offset)?;
    }
    Ok(end)
}

/// Removes the half of the entries with the greater hashes, and returns the smallest of these hashes.
fn halve(entries: &mut HashMap<u64, u64>) -> u64 {
    let mut hashes: Vec<u64> = entries.keys().map(|&object| mix(object)).collect();
    let middle = hashes.len() / 2;
    let (_, &mut bound, _) = hashes.select_nth_unstable(middle);
    entries.retain(|&object, _| mix(object) < bound);
    bound
}

/// Distributes the bits of `number` over the word, as a bijection.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number ^ (number >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::import::{Format, import};
    use larder_cache::tape::Event;
    use larder_testkit::Seed;
    use larder_testkit::seed::Random;
    use tempfile::TempDir;

    /// Exports lookups of `keys`, one in each second, and returns the content of the file.
    fn export(cache: CacheKind, keys: &[HashKey], folder: &TempDir) -> Vec<u8> {
        let path = folder.path().join("trace.oracleGeneral");
        let mut writer = OracleGeneralWriter::create(&path, cache).unwrap();
        for (second, &key) in (0..).zip(keys) {
            for operation in [Operation::Lookup { hit: false }, Operation::Insert] {
                let event = Event {
                    cache,
                    operation,
                    key,
                };
                writer
                    .push(&TraceEvent::new(second * 1_000_000_000, 0, event))
                    .unwrap();
            }
        }
        assert_eq!(writer.finish().unwrap(), keys.len() as u64);
        std::fs::read(&path).unwrap()
    }

    fn records(bytes: &[u8]) -> Vec<Record> {
        bytes.as_chunks().0.iter().map(Record::of_bytes).collect()
    }

    fn keys(pairs: &[(u64, u64)]) -> Vec<HashKey> {
        pairs
            .iter()
            .map(|&(object, index)| HashKey { object, index })
            .collect()
    }

    #[test]
    fn record_has_the_number_of_the_next_lookup_of_its_entry() {
        let folder = TempDir::new().unwrap();
        let keys = keys(&[(12, 0), (12, 1), (12, 0), (13, 0), (12, 0)]);
        let records = records(&export(CacheKind::Page, &keys, &folder));
        let next: Vec<i64> = records.iter().map(|record| record.next_access).collect();
        assert_eq!(next, [2, -1, 4, -1, -1]);
        let record = Record {
            clock_time_s: 3,
            object: 13 << 32,
            size: 4096,
            next_access: -1,
        };
        assert_eq!(records[3], record);
    }

    #[test]
    fn exported_numbers_are_imported_unchanged() {
        let folder = TempDir::new().unwrap();
        let seed = Seed::from_environment(0xe8);
        let mut random = Random::new(seed);
        let numbers: Vec<(u64, u64)> = (0..1000).map(|_| (0, random.next_u64())).collect();
        let keys = keys(&numbers);
        let bytes = export(CacheKind::Inode, &keys, &folder);
        let mut read = Vec::new();
        let skipped = import(Format::OracleGeneral, None, &*bytes, &mut |event| {
            read.push((event.time_ns, event.key()));
            Ok(())
        });
        assert_eq!(skipped.unwrap().total(), 0);
        let seconds = (0..).map(|second| second * 1_000_000_000);
        let expected: Vec<(u64, HashKey)> = seconds.zip(keys).collect();
        assert_eq!(read, expected, "seed {seed}");
    }

    #[test]
    fn several_passes_find_the_same_next_accesses_as_one() {
        let folder = TempDir::new().unwrap();
        let seed = Seed::from_environment(0x4a);
        let mut random = Random::new(seed);
        let numbers: Vec<(u64, u64)> = (0..200_000).map(|_| (0, random.below(5000))).collect();
        let one = export(CacheKind::Inode, &keys(&numbers), &folder);
        let path = folder.path().join("blank");
        let mut blank = records(&one);
        for record in &mut blank {
            record.next_access = 7;
        }
        let bytes: Vec<u8> = blank.into_iter().flat_map(Record::to_bytes).collect();
        std::fs::write(&path, bytes).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let (mut next, mut passes) = (Some(0), 0);
        while let Some(first) = next {
            next = fill_in(&file, numbers.len() as u64, first, 600).unwrap();
            passes += 1;
        }
        assert!(passes > 5, "{passes}");
        assert_eq!(std::fs::read(&path).unwrap(), one, "seed {seed}");
    }

    #[test]
    fn keys_of_large_numbers_are_distinct_objects() {
        let large = u64::from(u32::MAX) + 1;
        let keys = keys(&[(1, large), (large, 1), (large, large), (1, 1), (0, large)]);
        let mut objects: Vec<u64> = keys.into_iter().map(object).collect();
        objects.sort_unstable();
        objects.dedup();
        assert_eq!(objects.len(), 5);
    }
}
