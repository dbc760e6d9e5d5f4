//! Reads a file with the importer of its format.

use super::event::EventSink;
use super::format::Format;
use super::skipped::Skipped;
use super::{arc, blkparse, fio, keys, msr, oracle_general, strace};
use crate::trace::Error;
use larder_cache::tape::CacheKind;
use std::io::BufRead;

/// Reads a file that is assumed to have `format`, and calls `emit` with each event. Returns the lines that
/// were skipped.
pub(super) fn read(
    format: Format,
    cache: Option<CacheKind>,
    reader: impl BufRead,
    emit: &mut EventSink<'_>,
) -> Result<Skipped, Error> {
    match format {
        Format::Blkparse => blkparse::import(reader, emit),
        Format::Fio => fio::import(reader, emit),
        Format::Strace => strace::import(reader, emit),
        Format::Msr => msr::import(reader, emit),
        Format::OracleGeneral => oracle_general::import(reader, cache, emit),
        Format::Arc => arc::import(reader, emit),
        Format::Keys => keys::import(reader, cache, emit),
    }
}
