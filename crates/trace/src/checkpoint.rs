//! Checkpoints: what stands behind each row group, so that a trace without a footer can be read.
//!
//! # Layout
//! What a Parquet footer would say if the row group in front were the only one, and behind it, in
//! little endian:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | where the row group starts, which is where the checkpoint before it ends |
//! | 4 | length of the footer |
//! | 4 | CRC-32C of the footer and these fields, without it and the mark |
//! | 8 | [`MARK`] |
//!
//! So checkpoints are a list, from the last to the first. A footer that knew of all row groups, each
//! time, would take bytes by the square of their number.

use crate::{Error, TraceInfo, footer};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;

/// What a checkpoint ends with.
pub const MARK: &[u8; 8] = b"larderRG";
/// Length of the fields behind the footer.
pub const TAIL_BYTES: usize = 24;

/// The bytes to write behind a row group that starts at `start` and has the CRC-32C `sum`.
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
