//! Imports libCacheSim's format `oracleGeneral`. A record has 24 bytes in little-endian order: the time in
//! seconds, the object, its size, and the number of the next request for it.
//!
//! A record is imported as one lookup, whatever the size of the object. The type of the objects is unknown,
//! so they are treated as inodes unless the user specifies a cache.

use super::event::{EventSink, lookup};
use super::skipped::Skipped;
use crate::trace::Error;
use larder_cache::tape::CacheKind;
use std::io::{BufRead, Read as _};

/// The length of a record.
pub(in crate::trace) const RECORD_BYTES: usize = 24;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::trace) struct Record {
    pub clock_time_s: u32,
    pub object: u64,
    pub size: u32,
    /// The number, from 0, of the next request for the object; negative if there is none.
    pub next_access: i64,
}

impl Record {
    pub(in crate::trace) fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&self.clock_time_s.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.object.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.size.to_le_bytes());
        bytes[16..].copy_from_slice(&self.next_access.to_le_bytes());
        bytes
    }

    pub(in crate::trace) fn of_bytes(bytes: &[u8; RECORD_BYTES]) -> Self {
        let word = |at| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let double = |at| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Self {
            clock_time_s: word(0),
            object: double(4),
            size: word(12),
            next_access: double(16).cast_signed(),
        }
    }
}

/// Returns whether the complete records at the beginning of `bytes` are plausible: times must not decrease,
/// and the number of the next access must be greater than the number of the record.
pub(super) fn are_plausible(bytes: &[u8]) -> bool {
    /// An upper bound on the number of records of a real file.
    const MOST: i64 = 1 << 48;
    let records = bytes.as_chunks().0.iter().map(Record::of_bytes);
    let is_later = |(number, record): (i64, Record)| {
        let next = record.next_access;
        next < 0 || next == i64::MAX || (number < next && next < MOST)
    };
    let times = records.clone().map(|record| record.clock_time_s);
    records.len() > 0 && times.is_sorted() && (0..).zip(records).all(is_later)
}

pub(super) fn import(
    mut reader: impl BufRead,
    cache: Option<CacheKind>,
    emit: &mut EventSink<'_>,
) -> Result<Skipped, Error> {
    let mut skipped = Skipped::default();
    let cache = cache.unwrap_or(CacheKind::Inode);
    let mut began_s = None;
    for number in 1.. {
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        reader
            .by_ref()
            .take(RECORD_BYTES as u64)
            .read_to_end(&mut bytes)?;
        let Some(bytes) = bytes.first_chunk() else {
            if !bytes.is_empty() {
                skipped.add("an incomplete record", number, &[]);
            }
            break;
        };
        let record = Record::of_bytes(bytes);
        let since = record
            .clock_time_s
            .saturating_sub(*began_s.get_or_insert(record.clock_time_s));
        emit(lookup(
            u64::from(since) * 1_000_000_000,
            cache,
            0,
            record.object,
        ))?;
    }
    Ok(skipped)
}
