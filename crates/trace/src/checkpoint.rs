//! Checkpoints: records after each row group, so that a trace without a footer can be read.
//!
//! # Layout
//! A Parquet footer as if the preceding row group were the only one, followed by these fields in
//! little endian:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | start of the row group, which is the end of the previous checkpoint |
//! | 4 | length of the footer |
//! | 4 | CRC-32C of the footer and of the fields before this one |
//! | 8 | [`MARK`] |
//!
//! Thus checkpoints form a list, from the last to the first. If each of them described all row
//! groups, their total size would grow with the square of the number of row groups.

use crate::{Error, TraceInfo, footer};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;

/// The last bytes of a checkpoint.
pub const MARK: &[u8; 8] = b"larderRG";
/// Length of the fields after the footer.
pub const TAIL_BYTES: usize = 24;

/// Encodes the checkpoint of a row group that starts at `start` and has the CRC-32C `sum`.
pub(crate) fn encode(
    row_group: RowGroupMetaData,
    start: u64,
    sum: u32,
    info: &TraceInfo,
) -> Result<Vec<u8>, Error> {
    let mut bytes = footer::encode(vec![row_group], &[sum], info)?;
    let footer_bytes = u32::try_from(bytes.len())
        .map_err(|error| Error::Write(ParquetError::External(error.into())))?;
    bytes.extend(start.to_le_bytes());
    bytes.extend(footer_bytes.to_le_bytes());
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes.extend(MARK);
    Ok(bytes)
}
