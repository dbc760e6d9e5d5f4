//! Imports recordings of other programs as events: recordings of cache accesses, system calls or block
//! requests.
//!
//! # Model
//! Each format is a stream of lines or records that is read once, from front to back. A line that describes
//! no access or is ambiguous is skipped, and counted with the reason. A file without any lookup, such as a file
//! of another format, cannot be imported. The resulting trace contains only lookups, and does not record
//! whether they hit: [`TraceInfo::records_changes`] is false, and a replay derives hits, insertions and
//! removals.
//!
//! | format | imported lookups | not in the file |
//! |---|---|---|
//! | [`blkparse`](Format::Blkparse), [`msr`](Format::Msr) | buffers: blocks of 4 KiB that were requested from a device | accesses to blocks in memory |
//! | [`fio`](Format::Fio) | pages | inode numbers |
//! | [`strace`](Format::Strace) | pages, dentries, inodes | inode numbers, symbolic links, page faults |
//! | [`oracle-general`](Format::OracleGeneral) | inodes; a key is one number | the meaning of the numbers |
//! | [`arc`](Format::Arc) | buffers | times |
//! | [`keys`](Format::Keys) | inodes, pages or dentries, depending on the form of a line | times |
//!
//! A file that gzip or zstd compressed is decompressed while it is read.
//!
//! # Cost
//! An import needs memory for one line of at most 1 MiB, and for all names in the file (`fio`, `strace`,
//! `msr`).
//!
//! [`TraceInfo::records_changes`]: larder_trace::TraceInfo::records_changes

mod arc;
mod blkparse;
mod compressed;
mod detect;
mod event;
mod fio;
mod foreign;
mod format;
mod keys;
mod lines;
mod msr;
mod oracle_general;
mod pages;
mod read;
mod skipped;
pub(crate) mod strace;

pub(super) use blkparse::device_number;
pub use compressed::decompressed;
pub use event::EventSink;
pub use foreign::{DetectedFormat, Foreign};
pub use format::Format;
pub(super) use oracle_general::{RECORD_BYTES, Record};
pub use skipped::Skipped;

use super::Error;
use larder_cache::tape::CacheKind;
use std::io::BufRead;

/// Reads a file of format `format` from `reader`, and calls `emit` with each event. Returns the lines that
/// were skipped. `cache` is the cache of the keys, for formats that do not determine a cache; `None` selects
/// the format's default.
///
/// # Errors
/// Returns the errors of `reader` and of `emit`, and [`Error::Foreign`] if the file has no lookup.
pub fn import(
    format: Format,
    cache: Option<CacheKind>,
    reader: impl BufRead,
    emit: &mut EventSink<'_>,
) -> Result<Skipped, Error> {
    let mut reader = decompressed(reader)?;
    let head = detect::head(&mut reader)?;
    detect::check(format, &head)?;
    let mut is_empty = true;
    let skipped = read::read(format, cache, reader, &mut |event| {
        is_empty = false;
        emit(event)
    })?;
    if is_empty {
        return Err(detect::foreign(format, skipped, &head).into());
    }
    Ok(skipped)
}

/// Detects the format of the file whose decompressed content begins with `head`. Returns `None` if no format
/// matches.
#[must_use]
pub fn detect(head: &[u8]) -> Option<Format> {
    detect::format(head)
}

/// Returns the first bytes that remain in `reader`, for [`detect()`].
///
/// # Errors
/// Returns the errors of `reader`.
pub fn head(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    detect::head(reader)
}
