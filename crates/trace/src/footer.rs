//! The Parquet footer, which describes the trace and its row groups.
//!
//! # Layout
//! Two fields precede the footer: a CRC-32C in little endian, and [`MARK`]. The checksum covers the footer
//! and the last bytes of the file. Readers of Parquet ignore these fields. All traces that Larder writes have
//! them. A trace that another tool has rewritten does not have them. Its footer may still contain the
//! checksums of the original row groups, if the tool has copied the metadata. These checksums do not match
//! the rewritten row groups, so a reader ignores them.

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
/// The length of the last bytes of a file, which contain the length of the footer, and [`MAGIC`].
pub const END_BYTES: usize = 8;
/// The length of the checksum and the mark.
pub const SUM_BYTES: usize = 8;

/// Encodes a footer without the last bytes of the file.
pub(crate) fn encode(
    row_groups: Vec<RowGroupMetaData>,
    sums: &[u32],
    info: &TraceInfo,
) -> Result<Vec<u8>, Error> {
    let mut bytes = with_end(row_groups, sums, info)?;
    bytes.truncate(bytes.len() - END_BYTES);
    Ok(bytes)
}

/// Encodes everything that follows the last checkpoint: the checksum, the mark, the footer, and the last bytes
/// of the file.
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
