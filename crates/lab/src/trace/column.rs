//! Reads the values of one column in a row group.

use super::checked_pages::CheckedPages;
use super::code_pages::CodePages;
use super::name_codes::{code_of, text};
use larder_trace::columns::{CACHES, OPERATIONS};
use parquet::basic::Type;
use parquet::column::page::PageReader;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use std::fs::File;
use std::sync::Arc;

/// A column of a row group.
pub(super) struct Column<T: DataType> {
    reader: ColumnReaderImpl<T>,
    /// The definition levels of a batch. If the column is optional, they show which rows have values. Other
    /// tools make every column optional.
    levels: Vec<i16>,
    /// The number of rows that were passed over, but not skipped in the file yet.
    passed: usize,
}

impl<T: DataType> Column<T> {
    /// Opens the column at `place` in the row group.
    pub(super) fn open(
        file: &Arc<File>,
        row_group: &RowGroupMetaData,
        place: usize,
    ) -> Result<Self, String> {
        let (chunk, pages) = pages(file, row_group, place, T::get_physical_type())?;
        Ok(Self {
            reader: ColumnReaderImpl::new(chunk.column_descr_ptr(), pages),
            levels: Vec::new(),
            passed: 0,
        })
    }

    /// Appends the next `rows` values to `values`.
    pub(super) fn read(&mut self, rows: usize, values: &mut Vec<T::T>) -> Result<(), String> {
        let passed = std::mem::take(&mut self.passed);
        if passed > 0 {
            let skipped = self.reader.skip_records(passed).map_err(text)?;
            check_count(skipped, passed)?;
        }
        self.levels.clear();
        let read = self
            .reader
            .read_records(rows, Some(&mut self.levels), None, values);
        match read.map_err(text)? {
            (_, read, _) if read == rows => Ok(()),
            (read, _, _) if read == rows => Err("a row has a null value".to_owned()),
            (read, ..) => check_count(read, rows),
        }
    }

    /// Passes over the next `rows` values. This costs nothing until the next read.
    pub(super) fn pass(&mut self, rows: usize) {
        self.passed += rows;
    }
}

/// Returns the pages of the column at `place` in the row group, which must have the type `physical`.
fn pages<'g>(
    file: &Arc<File>,
    row_group: &'g RowGroupMetaData,
    place: usize,
    physical: Type,
) -> Result<(&'g ColumnChunkMetaData, Box<dyn PageReader>), String> {
    let chunk = row_group.columns().get(place);
    let chunk = chunk
        .filter(|chunk| chunk.column_type() == physical)
        .ok_or("a column is missing")?;
    let rows = usize::try_from(row_group.num_rows()).map_err(text)?;
    let pages = SerializedPageReader::new(Arc::clone(file), chunk, rows, None).map_err(text)?;
    let pages = CheckedPages::new(pages, physical, rows);
    Ok((chunk, Box::new(pages)))
}

fn check_count(read: usize, rows: usize) -> Result<(), String> {
    if read == rows {
        Ok(())
    } else {
        Err(format!("a column has {read} values instead of {rows}"))
    }
}

/// A column of codes: numbers, or names that are converted to their indices.
pub(super) struct CodeColumn {
    values: CodeValues,
    /// The names of the codes.
    names: &'static [&'static str],
}

/// The forms of codes. The vectors, which have the values of a batch, are kept so that their memory is reused.
enum CodeValues {
    Numbers(Box<Column<Int32Type>>, Vec<i32>),
    Names(Box<CodePages>),
    /// Names in an optional column, which other programs write.
    OptionalNames(Box<Column<ByteArrayType>>, Vec<ByteArray>),
}

/// The column of a trace that has codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codes {
    Cache,
    Operation,
}

impl CodeColumn {
    /// Opens the column at `place` in the row group, which contains numbers if `has_numbers`.
    pub(super) fn open(
        file: &Arc<File>,
        row_group: &RowGroupMetaData,
        place: usize,
        has_numbers: bool,
        codes: Codes,
    ) -> Result<Self, String> {
        let names: &'static [&'static str] = match (codes, has_numbers) {
            (Codes::Cache, false) => &CACHES,
            (Codes::Cache, true) => &CACHES[..4],
            (Codes::Operation, false) => &OPERATIONS,
            (Codes::Operation, true) => &OPERATIONS[..3],
        };
        let values = if has_numbers {
            CodeValues::Numbers(Box::new(Column::open(file, row_group, place)?), Vec::new())
        } else {
            let (chunk, pages) = pages(file, row_group, place, Type::BYTE_ARRAY)?;
            if chunk.column_descr().max_def_level() == 0 {
                CodeValues::Names(Box::new(CodePages::new(pages, names)))
            } else {
                CodeValues::OptionalNames(
                    Box::new(Column::open(file, row_group, place)?),
                    Vec::new(),
                )
            }
        };
        Ok(Self { values, names })
    }

    /// Appends the next `rows` codes to `codes`.
    pub(super) fn read(&mut self, rows: usize, codes: &mut Vec<u8>) -> Result<(), String> {
        match &mut self.values {
            CodeValues::Numbers(column, values) => {
                values.clear();
                column.read(rows, values)?;
                for &value in &*values {
                    let code = u8::try_from(value)
                        .ok()
                        .filter(|code| usize::from(*code) < self.names.len());
                    codes.push(code.ok_or_else(|| format!("unknown code {value}"))?);
                }
            }
            CodeValues::Names(pages) => pages.read(rows, codes)?,
            CodeValues::OptionalNames(column, values) => {
                values.clear();
                column.read(rows, values)?;
                for value in &*values {
                    codes.push(code_of(self.names, value.data())?);
                }
            }
        }
        Ok(())
    }
}
