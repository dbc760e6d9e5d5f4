//! The columns of a row group that only reads and paths of files use. Most batches have few such rows, or none.

use super::column::Column;
use super::columns::Columns;
use super::name_codes::text;
use larder_trace::columns::{ColumnKind, FILE, NAME};
use larder_trace::{Batch, FileRow};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::metadata::RowGroupMetaData;
use std::fs::File;
use std::sync::Arc;

/// The maximum length of a path, in bytes. A recorder stores at most the last 4096 bytes of a path, plus what replaces bytes
/// that are not UTF-8.
const MAX_PATH_BYTES: usize = 3 * 4096;

/// The columns of reads and paths.
pub(super) struct FileColumns {
    offset: Column<Int64Type>,
    length: Column<Int32Type>,
    file_size: Column<Int64Type>,
    stream: Column<Int64Type>,
    thread: Column<Int32Type>,
    duration: Column<Int64Type>,
    path: Column<ByteArrayType>,
    // Values of a batch. The vectors are kept so that their memory is reused.
    longs: Vec<i64>,
    ints: Vec<i32>,
    texts: Vec<ByteArray>,
}

impl FileColumns {
    /// Opens the columns of a row group.
    pub(super) fn open(
        file: &Arc<File>,
        group: &RowGroupMetaData,
        places: Columns,
    ) -> Result<Self, String> {
        let place = |column| places.place(column).ok_or("a column is missing");
        Ok(Self {
            offset: Column::open(file, group, place(ColumnKind::Offset)?)?,
            length: Column::open(file, group, place(ColumnKind::Length)?)?,
            file_size: Column::open(file, group, place(ColumnKind::FileSize)?)?,
            stream: Column::open(file, group, place(ColumnKind::Stream)?)?,
            thread: Column::open(file, group, place(ColumnKind::Thread)?)?,
            duration: Column::open(file, group, place(ColumnKind::Duration)?)?,
            path: Column::open(file, group, place(ColumnKind::Path)?)?,
            longs: Vec::new(),
            ints: Vec::new(),
            texts: Vec::new(),
        })
    }

    /// Reads the next `rows` values. Adds those of the rows that `batch.cache` marks as rows of files to `batch.files`.
    pub(super) fn read(&mut self, rows: usize, batch: &mut Batch) -> Result<(), String> {
        let is_file = |(row, cache): (usize, &u8)| {
            (*cache == FILE).then(|| FileRow {
                row,
                ..FileRow::default()
            })
        };
        let files = &mut batch.files;
        files.extend(batch.cache.iter().enumerate().filter_map(is_file));
        let has_paths = files.iter().any(|file| batch.operation[file.row] == NAME);
        let has_reads = files.iter().any(|file| batch.operation[file.row] != NAME);
        if files.is_empty() {
            self.file_size.pass(rows);
        } else {
            let longs = &mut self.longs;
            read_values(&mut self.file_size, rows, longs, files, |file, value| {
                file.file_bytes = value.cast_unsigned();
            })?;
        }
        if has_reads {
            let longs = &mut self.longs;
            read_values(&mut self.offset, rows, longs, files, |file, value| {
                file.offset_bytes = value.cast_unsigned();
            })?;
            read_values(&mut self.stream, rows, longs, files, |file, value| {
                file.stream = value.cast_unsigned();
            })?;
            read_values(&mut self.duration, rows, longs, files, |file, value| {
                file.duration_ns = value.cast_unsigned();
            })?;
            let ints = &mut self.ints;
            read_values(&mut self.length, rows, ints, files, |file, value| {
                file.len_bytes = value.cast_unsigned();
            })?;
            read_values(&mut self.thread, rows, ints, files, |file, value| {
                file.thread = value.cast_unsigned();
            })?;
        } else {
            let longs = [&mut self.offset, &mut self.stream, &mut self.duration];
            for column in longs {
                column.pass(rows);
            }
            let ints = [&mut self.length, &mut self.thread];
            for column in ints {
                column.pass(rows);
            }
        }
        if !has_paths {
            self.path.pass(rows);
            return Ok(());
        }
        self.texts.clear();
        self.path.read(rows, &mut self.texts)?;
        for file in files {
            let path = self.texts[file.row].data();
            if path.len() > MAX_PATH_BYTES {
                return Err(format!("a path has {} bytes", path.len()));
            }
            file.path = std::str::from_utf8(path).map_err(text)?.into();
        }
        Ok(())
    }
}

/// Reads `rows` values, and passes those of `files` to `set`.
fn read_values<T: DataType>(
    column: &mut Column<T>,
    rows: usize,
    values: &mut Vec<T::T>,
    files: &mut [FileRow],
    set: impl Fn(&mut FileRow, &T::T),
) -> Result<(), String> {
    values.clear();
    column.read(rows, values)?;
    for file in files {
        let at = file.row;
        set(file, &values[at]);
    }
    Ok(())
}
