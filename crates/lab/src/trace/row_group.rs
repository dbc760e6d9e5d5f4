//! Reads and decodes one row group: reads a batch of rows from each column, and combines the values into
//! events.

use super::Error;
use super::columns::Columns;
use larder_trace::Batch;
use larder_trace::columns::{cache_of_code, operation_of_code};
use parquet::basic::Compression;
use parquet::column::page::PageReader;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{BoolType, DataType, Int32Type, Int64Type};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use std::fmt::{self, Debug, Display, Formatter};
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
        Ok(Rows {
            left: usize::try_from(self.metadata.num_rows()).map_err(text)?,
            time: self.column(file, places.time)?,
            cache: self.column(file, places.cache)?,
            operation: self.column(file, places.operation)?,
            device: self.column(file, places.device)?,
            inode: self.column(file, places.inode)?,
            index: self.column(file, places.index)?,
            name_hash: self.column(file, places.name_hash)?,
            hit: self.column(file, places.hit)?,
            caches: Vec::new(),
            operations: Vec::new(),
            hits: Vec::new(),
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

    fn column<T: DataType>(&self, file: &Arc<File>, place: usize) -> Result<Column<T>, String> {
        let chunk = self.metadata.columns().get(place);
        let chunk = chunk
            .filter(|chunk| chunk.column_type() == T::get_physical_type())
            .ok_or("a column is missing")?;
        let rows = usize::try_from(self.metadata.num_rows()).map_err(text)?;
        let pages = SerializedPageReader::new(Arc::clone(file), chunk, rows, None).map_err(text)?;
        let pages: Box<dyn PageReader> = Box::new(pages);
        Ok(Column {
            reader: ColumnReaderImpl::new(chunk.column_descr_ptr(), pages),
            levels: Vec::new(),
        })
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
    cache: Column<Int32Type>,
    operation: Column<Int32Type>,
    device: Column<Int32Type>,
    inode: Column<Int64Type>,
    index: Column<Int64Type>,
    name_hash: Column<Int64Type>,
    hit: Column<BoolType>,
    // Decoded codes of a batch. The vectors are kept so that their memory is reused.
    caches: Vec<i32>,
    operations: Vec<i32>,
    hits: Vec<bool>,
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

    /// Appends as many rows to `batch` as fit in it. The error describes the damage.
    pub(super) fn read(&mut self, batch: &mut Batch) -> Result<(), String> {
        let rows = self.left.min(BATCH_ROWS);
        self.left -= rows;
        self.time.read(rows, &mut batch.time)?;
        self.device.read(rows, &mut batch.device)?;
        self.inode.read(rows, &mut batch.inode)?;
        self.index.read(rows, &mut batch.index)?;
        self.name_hash.read(rows, &mut batch.name_hash)?;
        self.caches.clear();
        self.cache.read(rows, &mut self.caches)?;
        for &code in &self.caches {
            let cache = cache_of_code(code);
            batch
                .cache
                .push(cache.ok_or_else(|| format!("unknown cache code {code}"))?);
        }
        self.operations.clear();
        self.operation.read(rows, &mut self.operations)?;
        self.hits.clear();
        self.hit.read(rows, &mut self.hits)?;
        for (&code, &hit) in self.operations.iter().zip(&self.hits) {
            let operation = operation_of_code(code, hit);
            batch
                .operation
                .push(operation.ok_or_else(|| format!("unknown operation code {code}"))?);
        }
        Ok(())
    }
}

/// A column of a row group.
struct Column<T: DataType> {
    reader: ColumnReaderImpl<T>,
    /// The definition levels of a batch. If the column is optional, they show which rows have values. Other
    /// tools make every column optional.
    levels: Vec<i16>,
}

impl<T: DataType> Column<T> {
    /// Appends the next `rows` values to `values`.
    fn read(&mut self, rows: usize, values: &mut Vec<T::T>) -> Result<(), String> {
        self.levels.clear();
        let read = self
            .reader
            .read_records(rows, Some(&mut self.levels), None, values);
        match read.map_err(text)? {
            (_, read, _) if read == rows => Ok(()),
            (read, _, _) if read == rows => Err("a row has a null value".to_owned()),
            (read, ..) => Err(format!("a column has {read} values instead of {rows}")),
        }
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
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
