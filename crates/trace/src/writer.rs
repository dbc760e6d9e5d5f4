//! The writer of a trace, which writes one row group at a time.

use crate::columns::{properties, schema};
use crate::encode::write_columns;
use crate::{Batch, Error, FilePath, FileRead, TraceEvent, TraceInfo, checkpoint, footer};
use parquet::file::writer::SerializedFileWriter;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of rows in a full row group.
pub const ROW_GROUP_ROWS: usize = 1 << 19;

/// The time after which [`TraceWriter::write_aged_row_group`] writes a row group that is not full.
pub const ROW_GROUP_AGE: Duration = Duration::from_secs(5);

/// A trace that is being written. Until [`TraceWriter::finish`] returns, the file has no footer.
#[derive(Debug)]
pub struct TraceWriter {
    file: SerializedFileWriter<Summed>,
    info: TraceInfo,
    rows: Batch,
    /// The checksums of the row groups that are complete in the file.
    sums: Vec<u32>,
    /// The number of events in the complete row groups.
    kept: u64,
    /// The number of rows with a read or a path of a file in the complete row groups.
    kept_files: u64,
    /// The offset of the end of the complete row groups and their checkpoints.
    kept_bytes: u64,
    /// The time at which the pending row group began.
    began: Instant,
}

impl TraceWriter {
    /// Creates the file at `path`. Only its owner can access it, because a trace reveals which files were
    /// used.
    ///
    /// # Errors
    /// If the file already exists or cannot be created.
    pub fn create(path: &Path, info: &TraceInfo) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        Self::new(file, info).inspect_err(|_| {
            // If the file were kept, another attempt would fail because the file exists.
            let _ = std::fs::remove_file(path);
        })
    }

    fn new(file: File, info: &TraceInfo) -> Result<Self, Error> {
        // Without the lock, which some file systems do not support, readers treat the trace as cut short.
        let _ = file.try_lock();
        let sink = Summed {
            file,
            sum: 0,
            is_sealed: false,
        };
        let mut file = SerializedFileWriter::new(sink, schema()?, Arc::new(properties()))?;
        // The magic number is written now, so that the file can be recognized before the first row group is
        // written.
        file.flush()?;
        let kept_bytes = file.bytes_written() as u64;
        Ok(Self {
            file,
            info: info.clone(),
            rows: Batch::default(),
            sums: Vec::new(),
            kept: 0,
            kept_files: 0,
            kept_bytes,
            began: Instant::now(),
        })
    }

    /// Appends `event`.
    ///
    /// # Errors
    /// If a row group is full and cannot be written.
    #[inline]
    pub fn push(&mut self, event: &TraceEvent) -> Result<(), Error> {
        self.rows.push(event);
        self.write_full_row_group()
    }

    /// Appends a read of a file.
    ///
    /// # Errors
    /// If a row group is full and cannot be written.
    pub fn push_read(&mut self, read: &FileRead) -> Result<(), Error> {
        self.rows.push_read(read);
        self.write_full_row_group()
    }

    /// Appends the path of a file.
    ///
    /// # Errors
    /// If a row group is full and cannot be written.
    pub fn push_path(&mut self, path: &FilePath) -> Result<(), Error> {
        self.rows.push_path(path);
        self.write_full_row_group()
    }

    #[inline]
    fn write_full_row_group(&mut self) -> Result<(), Error> {
        if self.rows.len() == ROW_GROUP_ROWS {
            self.write_row_group()?;
        }
        Ok(())
    }

    /// Returns the description of the trace. The following checkpoints and the footer contain it.
    pub fn info_mut(&mut self) -> &mut TraceInfo {
        &mut self.info
    }

    /// Writes the pending events as a row group if [`ROW_GROUP_AGE`] has passed since the last row group. Recorders call
    /// this regularly, so that events become readable soon even if there are few.
    ///
    /// # Errors
    /// Returns the errors of [`Self::write_row_group`].
    pub fn write_aged_row_group(&mut self) -> Result<(), Error> {
        if self.began.elapsed() >= ROW_GROUP_AGE {
            self.write_row_group()?;
        }
        Ok(())
    }

    /// Writes the pending events as a row group, followed by its checkpoint. After this, the events are not
    /// lost if the process is killed.
    ///
    /// # Errors
    /// Returns the system's error, most likely because there is no space.
    pub fn write_row_group(&mut self) -> Result<(), Error> {
        self.began = Instant::now();
        if self.rows.is_empty() {
            return Ok(());
        }
        self.file.flush()?;
        self.file.inner_mut().sum = 0;
        let start = self.file.bytes_written() as u64;
        let columns = self.file.schema_descr().columns().to_vec();
        let properties = Arc::clone(self.file.properties());
        let mut row_group = self.file.next_row_group()?;
        write_columns(&mut row_group, &columns, &properties, &self.rows)?;
        row_group.close()?;
        self.file.flush()?;
        let sum = self.file.inner().sum;
        let files = self.kept_files + self.rows.files.len() as u64;
        self.info.file_rows = files;
        if let Some(row_group) = self.file.flushed_row_groups().last().cloned() {
            let checkpoint = checkpoint::encode(row_group, start, sum, &self.info)?;
            self.file.write_all(&checkpoint)?;
            self.file.flush()?;
        }
        self.sums.push(sum);
        self.kept += self.rows.len() as u64;
        self.kept_files = files;
        self.kept_bytes = self.file.bytes_written() as u64;
        self.rows.clear();
        Ok(())
    }

    /// Returns the number of events in the row groups that are complete in the file. If writing fails, the
    /// trace contains only these events.
    pub(crate) fn kept(&self) -> u64 {
        self.kept
    }

    /// Ends the trace after its last complete row group. Truncates the file there, which makes room for a
    /// footer. The footer records that the end is missing, and that `lost` events were lost. If more events
    /// are lost, this method can be called again. No other method can write to the file after this.
    ///
    /// # Errors
    /// Returns the system's error. The file then has no footer.
    pub(crate) fn cut_short(&mut self, lost: u64) -> Result<(), Error> {
        self.info.lost = lost;
        self.info.is_cut_short = true;
        self.info.file_rows = self.kept_files;
        // Readers must not wait for further row groups.
        let _ = self.file.inner().file.unlock();
        let whole = self.file.flushed_row_groups().iter().take(self.sums.len());
        let end = footer::encode_end(whole.cloned().collect(), &self.sums, &self.info)?;
        // Parquet's writer must not write its pending data later, when there may be space again.
        let sink = self.file.inner_mut();
        sink.is_sealed = true;
        sink.file.set_len(self.kept_bytes)?;
        sink.file.write_all_at(&end, self.kept_bytes)?;
        Ok(())
    }

    /// Writes the pending events and the footer.
    ///
    /// # Errors
    /// Returns the system's error, most likely because there is no space.
    pub fn finish(mut self) -> Result<(), Error> {
        self.write_end()
    }

    /// Writes the pending events and the footer, as [`Self::finish`] does, but does not consume the writer.
    pub(crate) fn write_end(&mut self) -> Result<(), Error> {
        self.write_row_group()?;
        self.info.file_rows = self.kept_files;
        let row_groups = self.file.flushed_row_groups().to_vec();
        let end = footer::encode_end(row_groups, &self.sums, &self.info)?;
        self.file.write_all(&end)?;
        self.file.flush()?;
        Ok(())
    }
}

/// A file, and the CRC-32C of all bytes written since the checksum was last set to 0.
#[derive(Debug)]
struct Summed {
    file: File,
    sum: u32,
    /// True if all writes must fail.
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

    /// Returns a trace in a file that cannot grow, and the path of the file. The trace has a row group of 10
    /// events, and 5 pending events.
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
    fn trace_in_full_file_keeps_its_row_groups_and_returns_the_io_error() {
        let (mut writer, path) = full();
        let error = writer.write_row_group().unwrap_err();
        assert!(matches!(error, Error::Io(_)), "{error:?}");
        assert!(!error.to_string().contains("External"), "{error}");
        assert_eq!(writer.kept(), 10);
        // Without space, no footer is written.
        writer.cut_short(5).unwrap_err();
        let opened = TraceReader::open(&path, Tolerance::Whole);
        assert!(matches!(opened, Err(trace::Error::CutShort)), "{opened:?}");
        let reader = TraceReader::open(&path, Tolerance::UpToLastRowGroup).unwrap();
        assert_eq!(reader.rows(), 10);
    }

    #[test]
    fn trace_cut_short_records_losses_and_is_sealed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let mut writer = TraceWriter::create(&path, &TraceInfo::default()).unwrap();
        (0..10).for_each(|number| writer.push(&event(number)).unwrap());
        writer.write_row_group().unwrap();
        // Simulates a following row group that was written only in part.
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
