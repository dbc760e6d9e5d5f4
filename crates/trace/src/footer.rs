//! The footer: what a trace says of itself and of its row groups, as Parquet has it.
//!
//! # Layout
//! In front of the footer, where Parquet's readers do not look: its CRC-32C, in little endian, and
//! [`MARK`]. One that we wrote must have them. Another tool writes neither, and may have copied the sums of
//! the row groups that it read, which are not those of the ones that it wrote.

use crate::columns::{self, CREATED_BY};
use crate::{Error, TraceInfo};
use parquet::file::metadata::{
    FileMetaData, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::schema::types::SchemaDescriptor;
use std::sync::Arc;

/// What a file of Parquet starts and ends with.
pub const MAGIC: &[u8; 4] = b"PAR1";
/// What stands in front of a footer, behind its sum.
pub const MARK: &[u8; 4] = b"lard";
/// Length of what ends a file: the footer's length, and [`MAGIC`].
pub const END_BYTES: usize = 8;
/// Length of sum and mark.
pub const SUM_BYTES: usize = 8;

/// A footer, without what ends a file.
pub(crate) fn encode(
    row_groups: Vec<RowGroupMetaData>,
    sums: &[u32],
    info: &TraceInfo,
) -> Result<Vec<u8>, Error> {
    let mut bytes = with_end(row_groups, sums, info)?;
    bytes.truncate(bytes.len() - END_BYTES);
    Ok(bytes)
}

/// A footer, with all that is to end a trace.
pub(crate) fn encode_end(
    row_groups: Vec<RowGroupMetaData>,
    sums: &[u32],
    info: &TraceInfo,
) -> Result<Vec<u8>, Error> {
    let footer = with_end(row_groups, sums, info)?;
    let sum = crc32c::crc32c(&footer).to_le_bytes();
    Ok([&sum[..], MARK, &footer].concat())
}

fn with_end(
    row_groups: Vec<RowGroupMetaData>,
    sums: &[u32],
    info: &TraceInfo,
) -> Result<Vec<u8>, Error> {
    let rows = row_groups.iter().map(RowGroupMetaData::num_rows).sum();
    let schema = Arc::new(SchemaDescriptor::new(columns::schema()?));
    let pairs = info.to_metadata(sums)?;
    let file = FileMetaData::new(
        1,
        rows,
        Some(CREATED_BY.to_owned()),
        Some(pairs),
        schema,
        None,
    );
    let metadata = ParquetMetaData::new(file, row_groups);
    let mut bytes = Vec::new();
    ParquetMetaDataWriter::new(&mut bytes, &metadata).finish()?;
    Ok(bytes)
}
