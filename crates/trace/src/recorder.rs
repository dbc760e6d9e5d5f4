//! Recording from our own caches: a tape whose events a thread of its own writes to a trace.
//!
//! # Model
//! `perf record`: the threads that use the caches fill [`lanes`](crate::lanes), one thread empties
//! them into the file. What it cannot keep up with is lost and counted, or, if asked for, waited for.
//! Where the file cannot be written any more, the trace ends there; those who use the caches go on, and what
//! they tell is counted.
//!
//! # Cost
//! To those who use the caches, what [`lanes`](crate::lanes) cost; the writer encodes. What was told
//! is in the file [`ROW_GROUP_AGE`] later, and stays there if the process is killed.

use crate::lanes::{Lanes, Overflow};
use crate::{Error, TableInfo, TraceEvent, TraceInfo, TraceWriter};
use larder_cache::tape::{CacheKind, Event, RecordingStats, Tape};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant, SystemTime};

/// How often the lanes are emptied, unless one of them fills.
const ROUND: Duration = Duration::from_millis(100);
/// A row group is written so often, full or not.
const ROW_GROUP_AGE: Duration = Duration::from_secs(5);

/// What was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Events in the trace.
    pub events: u64,
    /// Events that are not.
    pub lost: u64,
}

/// A recording. Dropped, it ends as by [`TraceRecorder::finish`].
#[derive(Debug)]
pub struct TraceRecorder {
    tape: Arc<RecorderTape>,
    writer: Option<JoinHandle<Result<Recorded, Box<Failed>>>>,
}

/// A trace that cannot be written any more, and why.
struct Failed {
    error: Error,
    writer: TraceWriter,
}

/// What the caches tell.
#[derive(Debug)]
struct RecorderTape {
    file: String,
    lanes: Lanes,
    tables: Mutex<BTreeMap<CacheKind, TableInfo>>,
    progress: Mutex<Progress>,
    writer: OnceLock<Thread>,
}

/// How far the writer is.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// Events that it took from the lanes.
    taken: u64,
    /// Of these, those that it could not write.
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
    /// Records to a new file at `path`. `source` says of what, for people.
    ///
    /// # Errors
    /// If there is such a file already, or it or the thread cannot be made.
    pub fn start(path: &Path, source: &str, overflow: Overflow) -> Result<Self, Error> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = now.ok().and_then(|now| i64::try_from(now.as_secs()).ok());
        let info = TraceInfo {
            source: source.to_owned(),
            began_unix_s: seconds,
            tells_changes: true,
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
        let told = Arc::clone(&tape);
        let thread = thread::Builder::new()
            .name("larder-recorder".to_owned())
            .spawn(move || {
                let _closes = Closes(&told.lanes);
                write(&told, writer)
            })?;
        // Only here.
        let _ = tape.writer.set(thread.thread().clone());
        Ok(Self {
            tape,
            writer: Some(thread),
        })
    }

    /// What the caches are to tell.
    #[must_use]
    pub fn tape(&self) -> Arc<dyn Tape> {
        self.tape.clone()
    }

    /// Says which tables are recorded: replayed with the same, a trace does the same.
    pub fn set_tables(&self, tables: BTreeMap<CacheKind, TableInfo>) {
        *self.tape.lock_tables() = tables;
    }

    /// Ends the recording: writes what was told, and the footer. Nothing is recorded from then on.
    ///
    /// # Errors
    /// The first that the writer met. The trace ends with the last whole row group before it, and says how
    /// much was lost, if there is room for that.
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
            // Without it, the checkpoints tell what there is.
            let _ = writer.cut_short(self.tape.recorded().lost);
            error
        })
    }
}

impl Drop for TraceRecorder {
    fn drop(&mut self) {
        // Who wants to know of errors calls `finish`; the log has them.
        let _ = self.end();
    }
}

/// Closes the lanes when the writer ends, by a panic too: nobody is to wait for room that nobody
/// makes.
struct Closes<'l>(&'l Lanes);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Writes what `tape` is told, until the lanes are closed, or nothing can be written any more.
fn write(tape: &RecorderTape, mut writer: TraceWriter) -> Result<Recorded, Box<Failed>> {
    match write_rounds(tape, &mut writer) {
        Ok(()) => Ok(tape.recorded()),
        Err(error) => {
            give_up(tape, &mut writer, &error);
            Err(Box::new(Failed { error, writer }))
        }
    }
}

fn write_rounds(tape: &RecorderTape, writer: &mut TraceWriter) -> Result<(), Error> {
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
        thread::park_timeout(ROUND);
    }
}

/// Takes nothing any more, says so, and ends the trace where it is whole.
fn give_up(tape: &RecorderTape, writer: &mut TraceWriter, error: &Error) {
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
    fn writer_that_panics_lets_nobody_wait() {
        let lanes = Lanes::new(Overflow::Wait);
        let panicked = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let _closes = Closes(&lanes);
                panic!("the writer's end");
            });
            writer.join().is_err()
        });
        assert!(panicked && lanes.is_closed());
    }
}
