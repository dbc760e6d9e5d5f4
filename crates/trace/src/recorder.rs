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
//! the events. An event is in the file after about [`ROW_GROUP_AGE`], and is then not lost if the process is
//! killed.

use crate::lanes::{Lanes, Overflow};
use crate::{Error, TableInfo, TraceEvent, TraceInfo, TraceWriter};
use larder_cache::tape::{CacheKind, Event, RecordingStats, Tape};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant, SystemTime};

/// The longest interval between two collections of events from the lanes.
const COLLECT_INTERVAL: Duration = Duration::from_millis(100);
/// The time after which a row group is written even if it is not full.
const ROW_GROUP_AGE: Duration = Duration::from_secs(5);

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
    tables: Mutex<BTreeMap<CacheKind, TableInfo>>,
    progress: Mutex<Progress>,
    writer: OnceLock<Thread>,
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
    fn lock_tables(&self) -> MutexGuard<'_, BTreeMap<CacheKind, TableInfo>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.lanes.put(event, || {
            if let Some(writer) = self.writer.get() {
                writer.unpark();
            }
        });
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
    pub fn start(path: &Path, source: &str, overflow: Overflow) -> Result<Self, Error> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = now.ok().and_then(|now| i64::try_from(now.as_secs()).ok());
        let info = TraceInfo {
            source: source.to_owned(),
            began_unix_s: seconds,
            records_changes: true,
            ..TraceInfo::default()
        };
        let writer = TraceWriter::create(path, &info)?;
        let tape = Arc::new(RecorderTape {
            file: path.display().to_string(),
            lanes: Lanes::new(overflow),
            tables: Mutex::default(),
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
        *self.tape.lock_tables() = tables;
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
    let mut row_group_began = Instant::now();
    loop {
        let is_last = tape.lanes.is_closed();
        let before = late.len();
        let mut ready = tape.lanes.collect(&mut late, &mut spare);
        tape.lock_progress().taken += (late.len() - before) as u64;
        if is_last {
            ready = late.len();
        }
        for timed in late.drain(..ready) {
            writer.push(&TraceEvent::new(timed.time_ns, 0, timed.event))?;
        }
        let info = writer.info_mut();
        info.lost = tape.lanes.lost();
        info.tables.clone_from(&tape.lock_tables());
        if is_last {
            return writer.write_end();
        }
        if row_group_began.elapsed() >= ROW_GROUP_AGE {
            writer.write_row_group()?;
            row_group_began = Instant::now();
        }
        thread::park_timeout(COLLECT_INTERVAL);
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
