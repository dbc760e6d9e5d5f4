//! Writing a trace, a row group at a time.

use super::columns::{code_of_cache, code_of_operation, properties, schema};
use super::{Batch, Error, TraceEvent, TraceInfo, checkpoint, footer};
use parquet::data_type::{BoolType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// Rows of a row group.
pub const ROW_GROUP_ROWS: usize = 1 << 19;

/// A trace that is being written. Until [`TraceWriter::finish`] it is one that was cut short.
#[derive(Debug)]
pub struct TraceWriter {
    file: SerializedFileWriter<Summed>,
    info: TraceInfo,
    rows: Batch,
    /// Of the row groups written.
    sums: Vec<u32>,
}

impl TraceWriter {
    /// Makes the file at `path`, which only its owner may read, since it tells what was done.
    ///
    /// # Errors
    /// If there is such a file already, or it cannot be made.
    pub fn create(path: &Path, info: &TraceInfo) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let sink = Summed { file, sum: 0 };
        let mut file = SerializedFileWriter::new(sink, schema()?, Arc::new(properties()))?;
        // What it is can be told from the start.
        file.flush()?;
        Ok(Self {
            file,
            info: info.clone(),
            rows: Batch::default(),
            sums: Vec::new(),
        })
    }

    /// Adds `event`.
    ///
    /// # Errors
    /// If a row group is full and cannot be written.
    #[inline]
    pub fn push(&mut self, event: &TraceEvent) -> Result<(), Error> {
        self.rows.push(event);
        if self.rows.len() == ROW_GROUP_ROWS {
            self.write_row_group()?;
        }
        Ok(())
    }

    /// What is said of the trace from the next checkpoint on.
    pub fn info_mut(&mut self) -> &mut TraceInfo {
        &mut self.info
    }

    /// Writes what was added as a row group of its own, and its checkpoint. What is written is kept
    /// by the system, even if this process is killed.
    ///
    /// # Errors
    /// The system's, for want of room most likely.
    pub fn write_row_group(&mut self) -> Result<(), Error> {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.file.flush()?;
        self.file.inner_mut().sum = 0;
        let start = self.file.bytes_written() as u64;
        let mut row_group = self.file.next_row_group()?;
        write_columns(&mut row_group, &self.rows)?;
        row_group.close()?;
        self.rows.clear();
        self.file.flush()?;
        let sum = self.file.inner().sum;
        self.sums.push(sum);
        if let Some(row_group) = self.file.flushed_row_groups().last().cloned() {
            let checkpoint = checkpoint::encode(row_group, start, sum, &self.info)?;
            self.file.write_all(&checkpoint)?;
            self.file.flush()?;
        }
        Ok(())
    }

    /// Writes the rest and the footer.
    ///
    /// # Errors
    /// The system's, for want of room most likely.
    pub fn finish(mut self) -> Result<(), Error> {
        self.write_row_group()?;
        let row_groups = self.file.flushed_row_groups().to_vec();
        let end = footer::encode_end(row_groups, &self.sums, &self.info)?;
        self.file.write_all(&end)?;
        self.file.flush()?;
        Ok(())
    }
}

/// Writes `rows` in the order of the schema.
fn write_columns(
    row_group: &mut SerializedRowGroupWriter<'_, Summed>,
    rows: &Batch,
) -> Result<(), Error> {
    let caches: Vec<i32> = rows.cache.iter().copied().map(code_of_cache).collect();
    let (operations, hits): (Vec<i32>, Vec<bool>) = rows
        .operation
        .iter()
        .copied()
        .map(code_of_operation)
        .unzip();
    write_column::<Int64Type>(row_group, &rows.time)?;
    write_column::<Int32Type>(row_group, &caches)?;
    write_column::<Int32Type>(row_group, &operations)?;
    write_column::<Int32Type>(row_group, &rows.device)?;
    write_column::<Int64Type>(row_group, &rows.inode)?;
    write_column::<Int64Type>(row_group, &rows.index)?;
    write_column::<Int64Type>(row_group, &rows.name_hash)?;
    write_column::<BoolType>(row_group, &hits)
}

fn write_column<T: DataType>(
    row_group: &mut SerializedRowGroupWriter<'_, Summed>,
    values: &[T::T],
) -> Result<(), Error> {
    let Some(mut column) = row_group.next_column()? else {
        return Err(ParquetError::General("the schema has too few columns".to_owned()).into());
    };
    column.typed::<T>().write_batch(values, None, None)?;
    Ok(column.close()?)
}

/// A file, and the CRC-32C of what was written to it since that was last 0.
#[derive(Debug)]
struct Summed {
    file: File,
    sum: u32,
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sum = crc32c::crc32c_append(self.sum, &bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
