//! Encodes a batch of events as a row group.
//!
//! Parquet's writer encodes the columns whose values differ from row to row. The module [`dictionary`] encodes the
//! other columns: names of caches and operations, devices, and columns that only reads of files and their paths use.

mod dictionary;
mod hybrid;

use crate::batch::FileRow;
use crate::columns::{CACHES, ColumnKind, OPERATIONS};
use crate::{Batch, Error};
use bytes::Bytes;
use dictionary::{DictionaryColumn, Entry, write_codes, write_numbers};
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::{BoolType, DataType, Int64Type};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::io::Write;

/// Writes `rows` to `row_group`, in the column order of [`ColumnKind::ALL`]. `columns` are the
/// descriptions of these columns, and `properties` are those of the file.
pub(crate) fn write_columns<W: Write + Send>(
    row_group: &mut SerializedRowGroupWriter<'_, W>,
    columns: &[ColumnDescPtr],
    properties: &WriterPropertiesPtr,
    rows: &Batch,
) -> Result<(), Error> {
    for (column, kind) in columns.iter().zip(ColumnKind::ALL) {
        let dense = Dense { column, properties };
        let sparse = Sparse { rows, column };
        match kind {
            ColumnKind::Time => dense.write::<Int64Type, _>(row_group, &rows.time)?,
            ColumnKind::Cache => write_codes(row_group, column.clone(), &rows.cache, &CACHES)?,
            ColumnKind::Operation => {
                write_codes(row_group, column.clone(), &rows.operation, &OPERATIONS)?;
            }
            ColumnKind::Device => write_numbers(row_group, column.clone(), &rows.device)?,
            ColumnKind::Inode => dense.write::<Int64Type, _>(row_group, &rows.inode)?,
            ColumnKind::Index => dense.write::<Int64Type, _>(row_group, &rows.index)?,
            ColumnKind::NameHash => dense.write::<Int64Type, _>(row_group, &rows.name_hash)?,
            ColumnKind::Hit => dense.write::<BoolType, _>(row_group, &rows.hit)?,
            ColumnKind::Offset => sparse.write(row_group, &0, |row| row.offset_bytes)?,
            ColumnKind::Length => sparse.write(row_group, &0, |row| row.len_bytes)?,
            ColumnKind::FileSize => sparse.write(row_group, &0, |row| row.file_bytes)?,
            ColumnKind::Stream => sparse.write(row_group, &0, |row| row.stream)?,
            ColumnKind::Thread => sparse.write(row_group, &0, |row| row.thread)?,
            ColumnKind::Duration => sparse.write(row_group, &0, |row| row.duration_ns)?,
            ColumnKind::Path => sparse.write(row_group, &"", |row| &*row.path)?,
        }
    }
    Ok(())
}

/// A column that Parquet's writer encodes.
struct Dense<'a> {
    column: &'a ColumnDescPtr,
    properties: &'a WriterPropertiesPtr,
}

impl Dense<'_> {
    /// Writes `values`. The program contains only Parquet's writers for the types `T`.
    /// [`SerializedRowGroupWriter::next_column`] would add the writers for all types: a quarter of a megabyte.
    fn write<T: DataType, W: Write + Send>(
        &self,
        row_group: &mut SerializedRowGroupWriter<'_, W>,
        values: &[T::T],
    ) -> Result<(), Error> {
        let mut sink = TrackedWrite::new(Vec::new());
        let pages = Box::new(SerializedPageWriter::new(&mut sink));
        let (column, properties) = (self.column.clone(), self.properties.clone());
        let mut writer = ColumnWriterImpl::<'_, T>::new(column, properties, pages);
        writer.write_batch(values, None, None)?;
        let close = writer.close()?;
        Ok(row_group.append_column(&Bytes::from(sink.into_inner()?), close)?)
    }
}

/// A column that only the rows in [`Batch::files`] use.
struct Sparse<'a> {
    rows: &'a Batch,
    column: &'a ColumnDescPtr,
}

impl<'a> Sparse<'a> {
    /// Writes the values that `value` returns, and `blank` in the rows between them.
    fn write<W: Write + Send, T: Entry + Clone>(
        &self,
        row_group: &mut SerializedRowGroupWriter<'_, W>,
        blank: &T,
        value: impl Fn(&'a FileRow) -> T,
    ) -> Result<(), Error> {
        let mut values = DictionaryColumn::new();
        let mut next = 0;
        for row in &self.rows.files {
            values.push_run(blank, row.row - next);
            values.push_run(&value(row), 1);
            next = row.row + 1;
        }
        values.push_run(blank, self.rows.len() - next);
        values.write(row_group, self.column.clone())
    }
}
