//! Recording from our own caches: a tape whose events a thread of its own writes to a trace.
//!
//! # Model
//! `perf record`: the threads that use the caches fill [`lanes`](super::lanes), one thread empties
//! them into the file. What it cannot keep up with is lost and counted, or, if asked for, waited for.
//!
//! # Cost
//! To those who use the caches, what [`lanes`](super::lanes) cost; the writer encodes. What was told
//! is in the file [`ROW_GROUP_AGE`] later, and stays there if the process is killed.

use super::lanes::{Lanes, Overflow};
use super::{Error, TableInfo, TraceEvent, TraceInfo, TraceWriter};
use larder_cache::tape::{CacheKind, Event, Tape};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant, SystemTime};

/// How often the lanes are emptied, unless one of them is half full.
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
    writer: Option<JoinHandle<Result<Recorded, Error>>>,
}

/// What the caches tell.
#[derive(Debug)]
struct RecorderTape {
    lanes: Lanes,
    tables: Mutex<BTreeMap<CacheKind, TableInfo>>,
    writer: OnceLock<Thread>,
}

impl RecorderTape {
    fn lock_tables(&self) -> MutexGuard<'_, BTreeMap<CacheKind, TableInfo>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
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
            lanes: Lanes::new(overflow),
            tables: Mutex::default(),
            writer: OnceLock::new(),
        });
        let told = Arc::clone(&tape);
        let thread = thread::Builder::new()
            .name("larder-recorder".to_owned())
            .spawn(move || {
                let _closes = Closes(&told.lanes);
                let result = write(&told, writer);
                result.inspect_err(|error| tracing::error!("the recording ends: {error}"))
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
    /// The first that the writer met. What was written before it can be read up to the last whole
    /// row group.
    pub fn finish(mut self) -> Result<Recorded, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<Recorded, Error> {
        let Some(writer) = self.writer.take() else {
            return Ok(Recorded::default());
        };
        self.tape.lanes.close();
        writer.thread().unpark();
        writer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
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

/// Writes what `tape` is told, until the lanes are closed.
fn write(tape: &RecorderTape, mut writer: TraceWriter) -> Result<Recorded, Error> {
    let (mut late, mut spare) = (Vec::new(), Vec::new());
    let mut events = 0;
    let mut row_group_began = Instant::now();
    loop {
        let is_last = tape.lanes.is_closed();
        let mut ready = tape.lanes.collect(&mut late, &mut spare);
        if is_last {
            ready = late.len();
        }
        for timed in late.drain(..ready) {
            writer.push(&TraceEvent::new(timed.time_ns, 0, timed.event))?;
        }
        events += ready as u64;
        let lost = tape.lanes.lost();
        let info = writer.info_mut();
        info.lost = lost;
        info.tables.clone_from(&tape.lock_tables());
        if is_last {
            writer.finish()?;
            return Ok(Recorded { events, lost });
        }
        if row_group_began.elapsed() >= ROW_GROUP_AGE {
            writer.write_row_group()?;
            row_group_began = Instant::now();
        }
        thread::park_timeout(ROUND);
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
