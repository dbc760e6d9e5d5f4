//! Recording of Larder's own caches: a tape whose events are written to a trace by a separate thread.
//!
//! # Model
//! `perf record`: the threads that use the caches add events to buffers, the [`lanes`](crate::lanes), and the
//! writer thread moves the events from the lanes to the file. If the writer is too slow, events are lost and
//! counted, or the other threads wait, as [`Overflow`] specifies. If the file can no longer be written, the
//! trace ends with the last complete row group. The caches can still be used, and further events are counted
//! as lost.
//!
//! # Cost
//! [`lanes`](crate::lanes) describes the cost for the threads that use the caches. The writer thread encodes
//! the events. An event is in the file after about [`ROW_GROUP_AGE`](crate::ROW_GROUP_AGE), and is then not lost if
//! the process is killed.

use crate::lanes::{Lanes, Name, Overflow, Timed, What};
use crate::paths::Paths;
use crate::{
    AttributeInfo, Error, FilePath, FileRead, MountInfo, TableInfo, TraceEvent, TraceInfo,
    TraceWriter,
};
use larder_cache::tape::{CacheKind, Event, NameEvent, ReadEvent, RecordingStats, Tape};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, SystemTime};

/// The longest interval between two collections of events from the lanes.
const COLLECT_INTERVAL: Duration = Duration::from_millis(100);

/// The parameters of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The action when events arrive faster than they can be written.
    pub overflow: Overflow,
    /// Whether the paths of files are recorded. The trace then contains names, so it must not be given to others
    /// carelessly.
    pub with_paths: bool,
}

impl Recording {
    /// Returns a recording without paths, which loses events that cannot be written in time.
    #[must_use]
    pub const fn lossy() -> Self {
        Self {
            overflow: Overflow::Lose,
            with_paths: false,
        }
    }

    /// Returns a recording without paths, which loses no events: threads wait until their events can be written.
    #[must_use]
    pub const fn lossless() -> Self {
        Self {
            overflow: Overflow::Wait,
            with_paths: false,
        }
    }
}

/// The result of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The number of events in the trace.
    pub events: u64,
    /// The number of events that were lost.
    pub lost: u64,
}

/// A recording. Dropping it ends the recording as [`TraceRecorder::finish`] does, but returns no error.
#[derive(Debug)]
pub struct TraceRecorder {
    tape: Arc<RecorderTape>,
    writer: Option<JoinHandle<Result<Recorded, Box<Failed>>>>,
}

/// A failure of the writer: the error, and the trace that could not be written.
struct Failed {
    error: Error,
    writer: TraceWriter,
}

/// The tape to which the caches report events.
#[derive(Debug)]
struct RecorderTape {
    file: String,
    lanes: Lanes,
    with_paths: bool,
    described: Mutex<Described>,
    progress: Mutex<Progress>,
    writer: OnceLock<Thread>,
}

/// The description of what is recorded, as far as it is known.
#[derive(Clone, Debug, Default)]
struct Described {
    tables: BTreeMap<CacheKind, TableInfo>,
    mount: Option<MountInfo>,
    attributes: Option<AttributeInfo>,
}

/// The progress of the writer.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// The number of events collected from the lanes.
    taken: u64,
    /// The number of collected events that could not be written.
    unwritten: u64,
    failure: Option<String>,
}

impl RecorderTape {
    fn lock_described(&self) -> MutexGuard<'_, Described> {
        self.described
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn request_collection(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    fn lock_progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recorded(&self) -> Recorded {
        let Progress {
            taken, unwritten, ..
        } = *self.lock_progress();
        Recorded {
            events: taken - unwritten,
            lost: unwritten + self.lanes.lost(),
        }
    }
}

impl Tape for RecorderTape {
    fn record(&self, event: Event) {
        self.lanes.put_event(event, || self.request_collection());
    }

    fn records_reads(&self) -> bool {
        true
    }

    fn record_read(&self, read: &ReadEvent) {
        self.lanes.put_read(*read, || self.request_collection());
    }

    fn records_names(&self) -> bool {
        self.with_paths
    }

    fn record_name(&self, name: &NameEvent<'_>) {
        if self.with_paths {
            let name = Name {
                directory: name.directory,
                bytes: name.name.into(),
                ino: name.ino,
            };
            self.lanes.put_name(name, || self.request_collection());
        }
    }

    fn stats(&self) -> Option<RecordingStats> {
        let Recorded { events, lost } = self.recorded();
        Some(RecordingStats {
            file: self.file.clone(),
            events,
            lost,
            failure: self.lock_progress().failure.clone(),
        })
    }
}

impl TraceRecorder {
    /// Starts a recording to a new file at `path`. `source` is a human-readable name of what is recorded.
    ///
    /// # Errors
    /// If the file already exists, or if the file or the thread cannot be created.
    pub fn start(path: &Path, source: &str, recording: Recording) -> Result<Self, Error> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = now.ok().and_then(|now| i64::try_from(now.as_secs()).ok());
        let info = TraceInfo {
            source: source.to_owned(),
            began_unix_s: seconds,
            records_changes: true,
            records_reads: true,
            records_paths: recording.with_paths,
            ..TraceInfo::default()
        };
        let writer = TraceWriter::create(path, &info)?;
        let tape = Arc::new(RecorderTape {
            file: path.display().to_string(),
            lanes: Lanes::new(recording.overflow),
            with_paths: recording.with_paths,
            described: Mutex::default(),
            progress: Mutex::default(),
            writer: OnceLock::new(),
        });
        let writer_tape = Arc::clone(&tape);
        let thread = thread::Builder::new()
            .name("larder-recorder".to_owned())
            .spawn(move || {
                let _closes = CloseOnDrop(&writer_tape.lanes);
                write(&writer_tape, writer)
            })?;
        // No other code sets the writer, so this cannot fail.
        let _ = tape.writer.set(thread.thread().clone());
        Ok(Self {
            tape,
            writer: Some(thread),
        })
    }

    /// Returns the tape to which the caches report events.
    #[must_use]
    pub fn tape(&self) -> Arc<dyn Tape> {
        self.tape.clone()
    }

    /// Sets the description of the recorded tables, which the trace stores.
    pub fn set_tables(&self, tables: BTreeMap<CacheKind, TableInfo>) {
        self.tape.lock_described().tables = tables;
    }

    /// Sets the settings of the recorded mount, which the trace stores.
    pub fn set_mount(&self, mount: MountInfo) {
        self.tape.lock_described().mount = Some(mount);
    }

    /// Sets the counts of the caches of shared attributes, which the trace stores.
    pub fn set_attributes(&self, attributes: AttributeInfo) {
        self.tape.lock_described().attributes = Some(attributes);
    }

    /// Ends the recording: writes the remaining events and the footer. Later events are counted as lost.
    ///
    /// # Errors
    /// Returns the first error of the writer. The trace then ends with the last complete row group before the
    /// error. If there is space for a footer, the footer records the number of lost events.
    pub fn finish(mut self) -> Result<Recorded, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<Recorded, Error> {
        let Some(writer) = self.writer.take() else {
            return Ok(Recorded::default());
        };
        self.tape.lanes.close();
        writer.thread().unpark();
        let written = writer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.map_err(|failed| {
            let Failed { error, mut writer } = *failed;
            // If this fails, the trace can still be read by its checkpoints.
            let _ = writer.cut_short(self.tape.recorded().lost);
            error
        })
    }
}

impl Drop for TraceRecorder {
    fn drop(&mut self) {
        // Callers that need the error call `finish`. The writer has logged the error.
        let _ = self.end();
    }
}

/// Closes the lanes when the writer ends or panics, so that no thread waits for room forever.
struct CloseOnDrop<'l>(&'l Lanes);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Runs the writer thread: writes events with [`write_until_closed`], and ends the trace after an error.
fn write(tape: &RecorderTape, mut writer: TraceWriter) -> Result<Recorded, Box<Failed>> {
    match write_until_closed(tape, &mut writer) {
        Ok(()) => Ok(tape.recorded()),
        Err(error) => {
            end_after_error(tape, &mut writer, &error);
            Err(Box::new(Failed { error, writer }))
        }
    }
}

/// Writes the events that `tape` collects, until the lanes are closed or an error occurs.
fn write_until_closed(tape: &RecorderTape, writer: &mut TraceWriter) -> Result<(), Error> {
    let (mut late, mut spare) = (Vec::new(), Vec::new());
    let mut paths = Paths::default();
    loop {
        let is_last = tape.lanes.is_closed();
        let before = late.len();
        let mut ready = tape.lanes.collect(&mut late, &mut spare);
        tape.lock_progress().taken += (late.len() - before) as u64;
        if is_last {
            ready = late.len();
        }
        let mut repeated = 0;
        for timed in late.drain(..ready) {
            repeated += u64::from(!push(writer, &mut paths, timed)?);
        }
        tape.lock_progress().taken -= repeated;
        let described = tape.lock_described().clone();
        let info = writer.info_mut();
        info.lost = tape.lanes.lost();
        info.tables = described.tables;
        info.mount = described.mount;
        info.attributes = described.attributes;
        if is_last {
            return writer.write_end();
        }
        writer.write_aged_row_group()?;
        thread::park_timeout(COLLECT_INTERVAL);
    }
}

/// Writes `timed` as a row. Returns false without writing a row if `timed` is a name that adds no new path.
fn push(writer: &mut TraceWriter, paths: &mut Paths, timed: Timed) -> Result<bool, Error> {
    let Timed { time_ns, what } = timed;
    match what {
        What::Cache(event) => writer.push(&TraceEvent::new(time_ns, 0, event))?,
        What::Read(read) => writer.push_read(&row_of(time_ns, &read))?,
        What::Name(named) => {
            let Some(path) = paths.add(named.directory, &named.bytes, named.ino) else {
                return Ok(false);
            };
            writer.push_path(&FilePath {
                time_ns,
                device: 0,
                inode: named.ino,
                file_bytes: 0,
                path,
            })?;
        }
    }
    Ok(true)
}

/// Returns the row of a read that ended at `time_ns`.
fn row_of(time_ns: u64, read: &ReadEvent) -> FileRead {
    FileRead {
        time_ns,
        device: 0,
        inode: read.ino,
        offset_bytes: read.offset_bytes,
        len_bytes: u32::try_from(read.len_bytes).unwrap_or(u32::MAX),
        file_bytes: read.file_bytes,
        stream: read.stream.into(),
        thread: read.thread,
        duration_ns: u64::try_from(read.duration.as_nanos()).unwrap_or(u64::MAX),
        is_fault: false,
    }
}

/// Closes the lanes, logs the error, and ends the trace after its last complete row group.
fn end_after_error(tape: &RecorderTape, writer: &mut TraceWriter, error: &Error) {
    tape.lanes.close();
    let mut rest = Vec::new();
    tape.lanes.collect(&mut rest, &mut Vec::new());
    let mut progress = tape.lock_progress();
    progress.taken += rest.len() as u64;
    progress.unwritten = progress.taken - writer.kept();
    progress.failure = Some(error.to_string());
    drop(progress);
    if let Some(alarm) = tape.stats().and_then(|stats| stats.alarm()) {
        tracing::error!("{alarm}");
    }
    if let Err(error) = writer.cut_short(tape.recorded().lost) {
        tracing::warn!("the trace {} has no footer: {error}", tape.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_of_writer_closes_the_lanes() {
        let lanes = Lanes::new(Overflow::Wait);
        let panicked = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let _closes = CloseOnDrop(&lanes);
                panic!("the writer panics");
            });
            writer.join().is_err()
        });
        assert!(panicked && lanes.is_closed());
    }
}
