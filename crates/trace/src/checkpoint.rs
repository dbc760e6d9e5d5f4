//! Checkpoints: a record after each row group. With these records, a trace without a footer can be read.
//!
//! # Layout
//! A checkpoint starts with a Parquet footer that describes only the preceding row group. These fields
//! follow, in little endian:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | offset of the row group in the file: the end of the previous checkpoint, or of the magic number |
//! | 4 | length of this footer |
//! | 4 | CRC-32C of the footer and of the fields before this one |
//! | 8 | [`MARK`] |
//!
//! A reader searches for the last checkpoint. The offset in each checkpoint gives the place of the previous
//! one. A checkpoint describes only one row group: if it described all previous ones, the total size of the
//! checkpoints would grow with the square of the number of row groups.

use crate::{Error, TraceInfo, footer};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;

/// The last bytes of a checkpoint.
pub const MARK: &[u8; 8] = b"larderRG";
/// The length of the fields after the footer.
pub const TAIL_BYTES: usize = 24;

/// Encodes the checkpoint of `row_group`, whose offset in the file is `start`, and whose CRC-32C is `sum`.
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
