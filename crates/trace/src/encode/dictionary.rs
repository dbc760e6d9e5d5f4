//! Column chunks whose values are indices of a dictionary.
//!
//! Parquet's own writer looks up each value in its dictionary. The columns of a trace that are encoded here have few
//! distinct values, or are 0 in most rows. Their indices are encoded as runs, so that equal neighbours cost nothing.

use super::hybrid::Hybrid;
use crate::Error;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::collections::HashMap;
use std::hash::Hash;
use std::io::Write;

/// A value of a column, which a dictionary can contain.
pub(super) trait Entry: Eq + Hash + Ord {
    /// Appends the value in Parquet's plain encoding.
    fn put(&self, bytes: &mut Vec<u8>);

    /// Returns the statistics of a column with these values, if queries are likely to select rows by them.
    fn statistics(_min: &Self, _max: &Self) -> Option<Statistics> {
        None
    }
}

impl Entry for u32 {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl Entry for u64 {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl Entry for &str {
    fn put(&self, bytes: &mut Vec<u8>) {
        // Paths are far shorter than 4 GiB: the writer limits them.
        let len = u32::try_from(self.len()).unwrap_or(u32::MAX);
        bytes.extend(len.to_le_bytes());
        bytes.extend(self.as_bytes());
    }

    fn statistics(min: &Self, max: &Self) -> Option<Statistics> {
        let value = |text: &str| Some(ByteArray::from(text));
        Some(Statistics::byte_array(
            value(min),
            value(max),
            None,
            Some(0),
            false,
        ))
    }
}

/// A column in construction: runs of equal values, in the order of the rows.
#[derive(Debug)]
pub(super) struct DictionaryColumn<T> {
    entries: HashMap<T, u32>,
    plain: Vec<u8>,
    runs: Vec<(u32, usize)>,
    rows: usize,
}

impl<T: Entry + Clone> DictionaryColumn<T> {
    pub(super) fn new() -> Self {
        Self {
            entries: HashMap::new(),
            plain: Vec::new(),
            runs: Vec::new(),
            rows: 0,
        }
    }

    /// Appends `count` times `value`.
    pub(super) fn push_run(&mut self, value: &T, count: usize) {
        if count > 0 {
            let index = self.index_of(value);
            self.push_index_run(index, count);
        }
    }

    /// Appends `count` times the value with `index`.
    fn push_index_run(&mut self, index: u32, count: usize) {
        self.rows += count;
        match self.runs.last_mut() {
            Some((last, so_far)) if *last == index => *so_far += count,
            _ => self.runs.push((index, count)),
        }
    }

    fn index_of(&mut self, value: &T) -> u32 {
        if let Some(index) = self.entries.get(value) {
            return *index;
        }
        let index = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        value.put(&mut self.plain);
        self.entries.insert(value.clone(), index);
        index
    }

    /// Appends the column to `row_group`.
    pub(super) fn write<W: Write + Send>(
        self,
        row_group: &mut SerializedRowGroupWriter<'_, W>,
        column: ColumnDescPtr,
    ) -> Result<(), Error> {
        let keys = || self.entries.keys();
        let statistics = keys()
            .min()
            .zip(keys().max())
            .and_then(|(min, max)| T::statistics(min, max));
        let entries = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let mut indices = Hybrid::new(entries.saturating_sub(1));
        for (index, count) in self.runs {
            indices.push_run(index, count);
        }
        let chunk = Chunk {
            column,
            dictionary: self.plain,
            entries,
            width: indices.width(),
            indices: indices.finish(),
            rows: self.rows,
            statistics,
        };
        chunk.write(row_group)
    }
}

/// Writes a column of numbers that change rarely from row to row.
pub(super) fn write_numbers<W: Write + Send>(
    row_group: &mut SerializedRowGroupWriter<'_, W>,
    column: ColumnDescPtr,
    numbers: &[i32],
) -> Result<(), Error> {
    let mut values = DictionaryColumn::new();
    for run in numbers.chunk_by(|one, next| one == next) {
        values.push_run(&run[0].cast_unsigned(), run.len());
    }
    values.write(row_group, column)
}

/// Writes a column of codes, which are indices of `names`. The dictionary has only the names that occur.
pub(super) fn write_codes<W: Write + Send>(
    row_group: &mut SerializedRowGroupWriter<'_, W>,
    column: ColumnDescPtr,
    codes: &[u8],
    names: &[&'static str],
) -> Result<(), Error> {
    let mut values = DictionaryColumn::new();
    let mut indices = [None; 1 << u8::BITS];
    for run in codes.chunk_by(|one, next| one == next) {
        let code = usize::from(run[0]);
        let index =
            *indices[code].get_or_insert_with(|| values.index_of(names.get(code).unwrap_or(&"")));
        values.push_index_run(index, run.len());
    }
    values.write(row_group, column)
}

/// The encoded pages of a column in a row group.
#[derive(Debug)]
struct Chunk {
    column: ColumnDescPtr,
    /// The values in plain encoding.
    dictionary: Vec<u8>,
    entries: u32,
    indices: Vec<u8>,
    width: u32,
    rows: usize,
    statistics: Option<Statistics>,
}

impl Chunk {
    fn write<W: Write + Send>(
        self,
        row_group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), Error> {
        let rows = u32::try_from(self.rows).unwrap_or(u32::MAX);
        let [width, ..] = self.width.to_le_bytes();
        let mut data = vec![width];
        data.extend(self.indices);
        let pages = [
            Page::DictionaryPage {
                buf: Bytes::from(self.dictionary),
                num_values: self.entries,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            },
            Page::DataPage {
                buf: Bytes::from(data),
                num_values: rows,
                encoding: Encoding::RLE_DICTIONARY,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            },
        ];
        let mut sink = TrackedWrite::new(Vec::new());
        let mut starts = [0; 2];
        for (page, start) in pages.into_iter().zip(&mut starts) {
            *start = offset(sink.bytes_written())?;
            let bytes = page.buffer().len();
            SerializedPageWriter::new(&mut sink).write_page(CompressedPage::new(page, bytes))?;
        }
        let bytes = sink.into_inner()?;
        let len = offset(bytes.len())?;
        let mut metadata = ColumnChunkMetaData::builder(self.column)
            .set_compression(Compression::UNCOMPRESSED)
            .set_encodings(vec![
                Encoding::PLAIN,
                Encoding::RLE,
                Encoding::RLE_DICTIONARY,
            ])
            .set_total_compressed_size(len)
            .set_total_uncompressed_size(len)
            .set_num_values(rows.into())
            .set_dictionary_page_offset(Some(starts[0]))
            .set_data_page_offset(starts[1]);
        if let Some(statistics) = self.statistics {
            metadata = metadata.set_statistics(statistics);
        }
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows.into(),
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok(row_group.append_column(&Bytes::from(bytes), close)?)
    }
}

/// Converts an offset in a column chunk to the type of Parquet's metadata.
fn offset(bytes: usize) -> Result<i64, ParquetError> {
    i64::try_from(bytes).map_err(|error| ParquetError::External(error.into()))
}
