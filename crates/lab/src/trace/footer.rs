//! Reads the footer of a trace.

use super::columns::{self, Columns};
use super::row_group::RowGroup;
use super::{Error, info};
use larder_trace::TraceInfo;
use larder_trace::columns::WRITER;
use larder_trace::footer::{END_BYTES, MAGIC, MARK, SUM_BYTES};
use parquet::file::metadata::{
    FooterTail, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A decoded footer.
#[derive(Debug)]
pub(super) struct Footer {
    pub(super) info: TraceInfo,
    pub(super) columns: Columns,
    pub(super) row_groups: Vec<RowGroup>,
}

impl Footer {
    /// Combines this footer with `next`, the footer of the following row groups. The metadata is that of
    /// `next`, because it contains all losses up to the end of its row groups.
    pub(super) fn with_following(self, mut next: Self) -> Self {
        let mut row_groups = self.row_groups;
        row_groups.append(&mut next.row_groups);
        Self { row_groups, ..next }
    }
}

/// Decodes a footer that this program wrote, without the trailer of the file.
pub(super) fn decode(bytes: &[u8]) -> Result<Footer, Error> {
    let (mut footer, sums) = describe(&parse(bytes)?)?;
    if sums.len() != footer.row_groups.len() {
        return Err(Error::damaged(
            "the number of checksums differs from the number of row groups",
        ));
    }
    for (row_group, sum) in footer.row_groups.iter_mut().zip(sums) {
        row_group.sum = Some(sum);
    }
    Ok(footer)
}

fn parse(bytes: &[u8]) -> Result<ParquetMetaData, Error> {
    ParquetMetaDataReader::decode_metadata(bytes).map_err(Error::damaged)
}

/// Decodes the metadata without the checksums of row groups, and returns the checksums separately.
fn describe(metadata: &ParquetMetaData) -> Result<(Footer, Vec<u32>), Error> {
    let file = metadata.file_metadata();
    let columns = columns::find(file.schema_descr())?;
    let (info, sums) = info::of_metadata(file.key_value_metadata())?;
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

/// Reads the footer at the end of `file`; `None` if there is none.
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
        return Err(Error::damaged("the footer is longer than the file"));
    };
    let mut bytes = vec![0; SUM_BYTES + footer_bytes + END_BYTES];
    file.read_exact_at(&mut bytes, start)?;
    let (sum, footer) = bytes.split_at(SUM_BYTES);
    let is_summed = sum.ends_with(MARK);
    if is_summed && !sum.starts_with(&crc32c::crc32c(footer).to_le_bytes()) {
        return Err(Error::damaged("the CRC-32C of the footer does not match"));
    }
    let footer = &footer[..footer_bytes];
    if is_summed {
        return decode(footer).map(Some);
    }
    let metadata = parse(footer)?;
    let writer = metadata.file_metadata().created_by();
    if writer.is_some_and(|writer| writer.starts_with(WRITER)) {
        return Err(Error::damaged("the CRC-32C of the footer is missing"));
    }
    let (footer, _) = describe(&metadata)?;
    Ok(Some(footer))
}
