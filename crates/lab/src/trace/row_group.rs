//! Reads and decodes one row group: reads a batch of rows from each column, and combines the values into
//! events.

use super::Error;
use super::column::{CodeColumn, Codes, Column};
use super::columns::Columns;
use super::file_columns::FileColumns;
use super::name_codes::text;
use larder_trace::Batch;
use larder_trace::columns::{CACHES, ColumnKind, FILE, OPERATIONS, READ};
use parquet::basic::Compression;
use parquet::data_type::{BoolType, Int32Type, Int64Type};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Maximum number of rows in a batch.
pub const BATCH_ROWS: usize = 1 << 15;

/// Size of a read for the computation of a checksum, in bytes.
const SUM_BYTES: u64 = 1 << 18;

/// A row group that remains to be read.
#[derive(Clone, Debug)]
pub(super) struct RowGroup {
    pub(super) metadata: RowGroupMetaData,
    /// The CRC-32C of the row group; `None` if another tool wrote the row group.
    pub(super) sum: Option<u32>,
}

impl RowGroup {
    /// Returns the number of rows according to the metadata.
    pub(super) fn rows(&self) -> u64 {
        self.metadata.num_rows().try_into().unwrap_or(0)
    }

    /// Checks that the compression of all columns is supported.
    pub(super) fn check_codec(&self) -> Result<(), Error> {
        let codecs = self
            .metadata
            .columns()
            .iter()
            .map(ColumnChunkMetaData::compression);
        let mut unread = codecs
            .filter(|codec| !matches!(codec, Compression::UNCOMPRESSED | Compression::SNAPPY));
        unread.next().map_or(Ok(()), |codec| {
            // Report the name without the compression level.
            let name = codec.to_string();
            let name = name.split('(').next().unwrap_or_default();
            Err(Error::Codec(name.to_owned()))
        })
    }

    /// Verifies the checksum of the row group, if it has one, and returns its rows. The error describes the
    /// damage.
    pub(super) fn open(&self, file: &Arc<File>, places: Columns) -> Result<Rows, String> {
        let bytes = self.place(file.metadata().map_err(text)?.len())?;
        if let Some(sum) = self.sum
            && sum_of(file, bytes).map_err(text)? != sum
        {
            return Err("the CRC-32C does not match".to_owned());
        }
        let group = &self.metadata;
        let place = |column| places.place(column).ok_or("a column is missing");
        let codes = |column, codes| {
            CodeColumn::open(file, group, place(column)?, places.has_numbers, codes)
        };
        let files = places.has_files();
        Ok(Rows {
            left: usize::try_from(group.num_rows()).map_err(text)?,
            time: Column::open(file, group, place(ColumnKind::Time)?)?,
            cache: codes(ColumnKind::Cache, Codes::Cache)?,
            operation: codes(ColumnKind::Operation, Codes::Operation)?,
            device: Column::open(file, group, place(ColumnKind::Device)?)?,
            inode: Column::open(file, group, place(ColumnKind::Inode)?)?,
            index: Column::open(file, group, place(ColumnKind::Index)?)?,
            name_hash: Column::open(file, group, place(ColumnKind::NameHash)?)?,
            hit: Column::open(file, group, place(ColumnKind::Hit)?)?,
            files: files
                .then(|| FileColumns::open(file, group, places))
                .transpose()?,
        })
    }

    /// Returns the range of the row group in the file. Returns an error if the range is not within the file.
    fn place(&self, file_bytes: u64) -> Result<Range<u64>, String> {
        let mut place = file_bytes..0;
        for chunk in self.metadata.columns() {
            let first = chunk.dictionary_page_offset();
            let start = u64::try_from(first.unwrap_or(chunk.data_page_offset()));
            let end = start.ok().zip(u64::try_from(chunk.compressed_size()).ok());
            let range = end.and_then(|(start, bytes)| Some(start..start.checked_add(bytes)?));
            let Some(range) = range.filter(|range| range.end <= file_bytes) else {
                let name = chunk.column_path().string();
                return Err(format!("column `{name}` extends past the end of the file"));
            };
            place = place.start.min(range.start)..place.end.max(range.end);
        }
        Ok(place)
    }
}

/// Returns the CRC-32C of a range of the file.
fn sum_of(file: &File, mut bytes: Range<u64>) -> io::Result<u32> {
    let mut sum = 0;
    let mut buffer = Vec::new();
    while bytes.start < bytes.end {
        let piece = SUM_BYTES.min(bytes.end - bytes.start);
        buffer.resize(usize::try_from(piece).unwrap_or(0), 0);
        file.read_exact_at(&mut buffer, bytes.start)?;
        sum = crc32c::crc32c_append(sum, &buffer);
        bytes.start += piece;
    }
    Ok(sum)
}

/// The remaining rows of a row group.
pub(super) struct Rows {
    left: usize,
    time: Column<Int64Type>,
    cache: CodeColumn,
    operation: CodeColumn,
    device: Column<Int32Type>,
    inode: Column<Int64Type>,
    index: Column<Int64Type>,
    name_hash: Column<Int64Type>,
    hit: Column<BoolType>,
    /// The columns of reads and paths, if the file has them.
    files: Option<FileColumns>,
}

impl Debug for Rows {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Rows")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl Rows {
    /// Returns the number of remaining rows.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Replaces the content of `batch` by as many rows as fit in it. The error describes the damage.
    pub(super) fn read(&mut self, batch: &mut Batch) -> Result<(), String> {
        batch.clear();
        let rows = self.left.min(BATCH_ROWS);
        self.left -= rows;
        self.time.read(rows, &mut batch.time)?;
        self.device.read(rows, &mut batch.device)?;
        self.inode.read(rows, &mut batch.inode)?;
        self.index.read(rows, &mut batch.index)?;
        self.name_hash.read(rows, &mut batch.name_hash)?;
        self.hit.read(rows, &mut batch.hit)?;
        self.cache.read(rows, &mut batch.cache)?;
        self.operation.read(rows, &mut batch.operation)?;
        for (&cache, &operation) in batch.cache.iter().zip(&batch.operation) {
            if (cache == FILE) != (operation >= READ) {
                let (cache, operation) = (usize::from(cache), usize::from(operation));
                return Err(format!(
                    "the operation `{}` does not apply to `{}`",
                    OPERATIONS[operation], CACHES[cache]
                ));
            }
        }
        match &mut self.files {
            Some(files) => files.read(rows, batch),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_trace::columns::schema;
    use parquet::basic::ZstdLevel;
    use parquet::schema::types::SchemaDescriptor;

    #[test]
    fn unsupported_compression_is_rejected_by_name() {
        let schema = Arc::new(SchemaDescriptor::new(schema().unwrap()));
        let check = |codec| {
            let columns = schema.columns().iter().map(|column| {
                let chunk = ColumnChunkMetaData::builder(Arc::clone(column));
                chunk.set_compression(codec).build().unwrap()
            });
            let metadata = RowGroupMetaData::builder(Arc::clone(&schema))
                .set_column_metadata(columns.collect())
                .build()
                .unwrap();
            RowGroup {
                metadata,
                sum: None,
            }
            .check_codec()
        };
        check(Compression::SNAPPY).unwrap();
        check(Compression::UNCOMPRESSED).unwrap();
        let refused = check(Compression::ZSTD(ZstdLevel::default())).unwrap_err();
        assert!(
            refused.to_string().contains("compressed with ZSTD,"),
            "{refused}"
        );
    }
}
