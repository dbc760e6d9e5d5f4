//! The footer: what a trace says of itself and of its row groups, as Parquet has it.
//!
//! # Layout
//! In front of the footer, where Parquet's readers do not look: its CRC-32C, in little endian, and
//! [`MARK`]. One that we wrote must have them. Another tool writes neither, and may have copied the sums of
//! the row groups that it read, which are not those of the ones that it wrote.

use super::columns::{self, CREATED_BY, Columns, WRITER};
use super::row_group::RowGroup;
use super::{Error, TraceInfo};
use parquet::file::metadata::{
    FileMetaData, FooterTail, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter,
    RowGroupMetaData,
};
use parquet::schema::types::SchemaDescriptor;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// What a file of Parquet starts and ends with.
pub(super) const MAGIC: &[u8; 4] = b"PAR1";
/// What stands in front of a footer, behind its sum.
const MARK: &[u8; 4] = b"lard";
/// Length of what ends a file: the footer's length, and [`MAGIC`].
const END_BYTES: usize = 8;
/// Length of sum and mark.
const SUM_BYTES: usize = 8;

/// A footer, made sense of.
#[derive(Debug)]
pub(super) struct Footer {
    pub(super) info: TraceInfo,
    pub(super) columns: Columns,
    pub(super) row_groups: Vec<RowGroup>,
}

impl Footer {
    /// This one and that of what follows, which knows the losses up to its end.
    pub(super) fn and(self, mut next: Self) -> Self {
        let mut row_groups = self.row_groups;
        row_groups.append(&mut next.row_groups);
        Self { row_groups, ..next }
    }
}

/// A footer, without what ends a file.
pub(super) fn encode(
    row_groups: Vec<RowGroupMetaData>,
    sums: &[u32],
    info: &TraceInfo,
) -> Result<Vec<u8>, Error> {
    let mut bytes = with_end(row_groups, sums, info)?;
    bytes.truncate(bytes.len() - END_BYTES);
    Ok(bytes)
}

/// A footer, with all that is to end a trace.
pub(super) fn encode_end(
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

/// Makes sense of a footer without what ends a file, which we wrote.
pub(super) fn decode(bytes: &[u8]) -> Result<Footer, Error> {
    let (mut footer, sums) = describe(&parse(bytes)?)?;
    if sums.len() != footer.row_groups.len() {
        return Err(Error::damaged("it has not one sum for each row group"));
    }
    for (row_group, sum) in footer.row_groups.iter_mut().zip(sums) {
        row_group.sum = Some(sum);
    }
    Ok(footer)
}

fn parse(bytes: &[u8]) -> Result<ParquetMetaData, Error> {
    ParquetMetaDataReader::decode_metadata(bytes).map_err(Error::damaged)
}

/// What a footer says, with no row group's sum; and the sums that it has.
fn describe(metadata: &ParquetMetaData) -> Result<(Footer, Vec<u32>), Error> {
    let file = metadata.file_metadata();
    let columns = columns::find(file.schema_descr())?;
    let (info, sums) = TraceInfo::of_metadata(file.key_value_metadata())?;
    let row_group = |metadata: &RowGroupMetaData| RowGroup {
        metadata: metadata.clone(),
        sum: None,
    };
    let footer = Footer {
        info,
        columns,
        row_groups: metadata.row_groups().iter().map(row_group).collect(),
    };
    for row_group in &footer.row_groups {
        row_group.check_codec()?;
    }
    Ok((footer, sums))
}

/// The footer at the end of `file`; `None` if there is none.
pub(super) fn read(file: &File) -> Result<Option<Footer>, Error> {
    let file_bytes = file.metadata()?.len();
    let Some(end_at) = file_bytes.checked_sub(END_BYTES as u64) else {
        return Ok(None);
    };
    let mut end = [0; END_BYTES];
    file.read_exact_at(&mut end, end_at)?;
    if !end.ends_with(MAGIC) {
        return Ok(None);
    }
    let tail = FooterTail::try_new(&end).map_err(Error::damaged)?;
    let footer_bytes = tail.metadata_length();
    let start = end_at.checked_sub((footer_bytes + SUM_BYTES) as u64);
    let Some(start) = start else {
        return Err(Error::damaged("its footer is longer than the file"));
    };
    let mut bytes = vec![0; SUM_BYTES + footer_bytes + END_BYTES];
    file.read_exact_at(&mut bytes, start)?;
    let (sum, footer) = bytes.split_at(SUM_BYTES);
    let is_summed = sum.ends_with(MARK);
    if is_summed && !sum.starts_with(&crc32c::crc32c(footer).to_le_bytes()) {
        return Err(Error::damaged("its footer's CRC-32C is another"));
    }
    let footer = &footer[..footer_bytes];
    if is_summed {
        return decode(footer).map(Some);
    }
    let metadata = parse(footer)?;
    let writer = metadata.file_metadata().created_by();
    if writer.is_some_and(|writer| writer.starts_with(WRITER)) {
        return Err(Error::damaged("its footer's CRC-32C is missing"));
    }
    let (footer, _) = describe(&metadata)?;
    Ok(Some(footer))
}
