//! The Parquet footer, which describes the trace and its row groups.
//!
//! # Layout
//! Before the footer, where readers of Parquet do not look, are its CRC-32C in little endian and [`MARK`].
//! Every footer that Larder wrote has them. Other tools write neither. They may have copied the checksums
//! of the row groups that they read, which do not match the row groups that they wrote.

use crate::columns::{self, CREATED_BY};
use crate::{Error, TraceInfo};
use parquet::file::metadata::{
    FileMetaData, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::schema::types::SchemaDescriptor;
use std::sync::Arc;

/// The first and last bytes of a Parquet file.
pub const MAGIC: &[u8; 4] = b"PAR1";
/// The bytes between the checksum and the footer.
pub const MARK: &[u8; 4] = b"lard";
/// Length of the end of a file: the footer's length, and [`MAGIC`].
pub const END_BYTES: usize = 8;
/// Length of the checksum and the mark.
pub const SUM_BYTES: usize = 8;

/// Encodes a footer without the end of the file.
pub(crate) fn encode(
    row_groups: Vec<RowGroupMetaData>,
    sums: &[u32],
    info: &TraceInfo,
) -> Result<Vec<u8>, Error> {
    let mut bytes = with_end(row_groups, sums, info)?;
    bytes.truncate(bytes.len() - END_BYTES);
    Ok(bytes)
}

/// Encodes a footer with everything that ends a trace.
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
