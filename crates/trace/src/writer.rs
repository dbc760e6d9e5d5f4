//! Writing a trace, a row group at a time.

use crate::columns::{code_of_cache, code_of_operation, properties, schema};
use crate::{Batch, Error, TraceEvent, TraceInfo, checkpoint, footer};
use parquet::data_type::{BoolType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
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
    /// Of the row groups that are whole in the file.
    sums: Vec<u32>,
    /// Events in these.
    kept: u64,
    /// Where the last of their checkpoints ends.
    kept_bytes: u64,
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
        Self::new(file, info).inspect_err(|_| {
            // Of no use, and in the way of another try.
            let _ = std::fs::remove_file(path);
        })
    }

    fn new(file: File, info: &TraceInfo) -> Result<Self, Error> {
        let sink = Summed {
            file,
            sum: 0,
            is_sealed: false,
        };
        let mut file = SerializedFileWriter::new(sink, schema()?, Arc::new(properties()))?;
        // What it is can be told from the start.
        file.flush()?;
        let kept_bytes = file.bytes_written() as u64;
        Ok(Self {
            file,
            info: info.clone(),
            rows: Batch::default(),
            sums: Vec::new(),
            kept: 0,
            kept_bytes,
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
        self.file.flush()?;
        let sum = self.file.inner().sum;
        if let Some(row_group) = self.file.flushed_row_groups().last().cloned() {
            let checkpoint = checkpoint::encode(row_group, start, sum, &self.info)?;
            self.file.write_all(&checkpoint)?;
            self.file.flush()?;
        }
        self.sums.push(sum);
        self.kept += self.rows.len() as u64;
        self.kept_bytes = self.file.bytes_written() as u64;
        self.rows.clear();
        Ok(())
    }

    /// Events in the row groups that are whole in the file: all that are left if it can be written no more.
    pub(crate) fn kept(&self) -> u64 {
        self.kept
    }

    /// Ends the trace behind its last whole row group: what came then could not be written, and makes room for a
    /// footer, which says that the end is missing and how many events were `lost`. May be called again, when
    /// more are lost. Nothing else is written from then on.
    ///
    /// # Errors
    /// The system's. Then there is no footer.
    pub(crate) fn cut_short(&mut self, lost: u64) -> Result<(), Error> {
        self.info.lost = lost;
        self.info.is_cut_short = true;
        let whole = self.file.flushed_row_groups().iter().take(self.sums.len());
        let end = footer::encode_end(whole.cloned().collect(), &self.sums, &self.info)?;
        // What could not be written is not to follow once there is room again.
        let sink = self.file.inner_mut();
        sink.is_sealed = true;
        sink.file.set_len(self.kept_bytes)?;
        sink.file.write_all_at(&end, self.kept_bytes)?;
        Ok(())
    }

    /// Writes the rest and the footer.
    ///
    /// # Errors
    /// The system's, for want of room most likely.
    pub fn finish(mut self) -> Result<(), Error> {
        self.write_end()
    }

    /// What [`Self::finish`] does, for whom it may fail.
    pub(crate) fn write_end(&mut self) -> Result<(), Error> {
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
    /// Whether everything is refused.
    is_sealed: bool,
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_sealed {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let written = self.file.write(bytes)?;
        self.sum = crc32c::crc32c_append(self.sum, &bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_cache::tape::{CacheKind, Operation};
    use larder_lab::trace::{self, Tolerance, TraceReader};
    use rustix::fd::AsRawFd as _;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use std::path::PathBuf;

    fn event(number: u64) -> TraceEvent {
        TraceEvent {
            time_ns: number,
            cache: CacheKind::Inode,
            operation: Operation::Insert,
            device: 0,
            inode: number,
            index: 0,
            name_hash: 0,
        }
    }

    /// A trace with a row group of 10 events and 5 more, in a file that grows no more; and its path.
    fn full() -> (TraceWriter, PathBuf) {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("trace", flags).unwrap());
        let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
        let mut writer = TraceWriter::new(file, &TraceInfo::default()).unwrap();
        (0..10).for_each(|number| writer.push(&event(number)).unwrap());
        writer.write_row_group().unwrap();
        (10..15).for_each(|number| writer.push(&event(number)).unwrap());
        fcntl_add_seals(&writer.file.inner().file, SealFlags::GROW).unwrap();
        (writer, path)
    }

    #[test]
    fn trace_whose_file_cannot_grow_keeps_its_whole_row_groups_and_says_why_in_plain_words() {
        let (mut writer, path) = full();
        let error = writer.write_row_group().unwrap_err();
        assert!(matches!(error, Error::Io(_)), "{error:?}");
        assert!(!error.to_string().contains("External"), "{error}");
        assert_eq!(writer.kept(), 10);
        // Not even a footer has room.
        writer.cut_short(5).unwrap_err();
        let opened = TraceReader::open(&path, Tolerance::Whole);
        assert!(matches!(opened, Err(trace::Error::CutShort)), "{opened:?}");
        let reader = TraceReader::open(&path, Tolerance::UpToLastRowGroup).unwrap();
        assert_eq!(reader.rows(), 10);
    }

    #[test]
    fn trace_that_is_cut_short_is_whole_says_what_was_lost_and_is_written_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let mut writer = TraceWriter::create(&path, &TraceInfo::default()).unwrap();
        (0..10).for_each(|number| writer.push(&event(number)).unwrap());
        writer.write_row_group().unwrap();
        // As if half of the next row group had found room.
        writer.file.write_all(b"half of a row group").unwrap();
        for lost in [5, 7] {
            writer.cut_short(lost).unwrap();
            let reader = TraceReader::open(&path, Tolerance::Whole).unwrap();
            assert_eq!(reader.rows(), 10);
            assert!(reader.info().is_cut_short);
            assert_eq!(reader.losses().events, lost);
        }
        let written = std::fs::read(&path).unwrap();
        drop(writer);
        assert!(std::fs::read(&path).unwrap() == written);
    }
}
