//! Records the caches of the running kernel through its tracepoints.
//!
//! # Model
//! A recording works like `trace-cmd record` with a separate tracing instance ([`instance`]). For each
//! processor, it reads pages of the kernel's ring buffer and decodes them as the kernel's `format` files
//! describe ([`mod@format`], [`ring`]). [`events`] converts the kernel's events to cache events.
//!
//! A recording of selected processes must also contain the removals of entries by other processes. Therefore
//! a second instance records the removals of all processes. Of these, only the removals of entries that the
//! recording contains are used.
//!
//! # Invariants
//! Events of all processors are reported in the order of their times. An event is held back until no processor
//! can have an unread earlier event. This is the case after all processors were read in a pass that began later
//! than the time of the event.
//!
//! # Cost
//! The kernel needs the requested buffer for each processor. This process needs about one byte for each
//! cached page of a file that is cached completely (see [`resident`]).

#[cfg(any(test, fuzzing))]
mod damaged;
mod devices;
mod error;
mod events;
mod format;
mod instance;
mod paths;
mod processes;
mod reads;
mod resident;
mod ring;
mod source;
mod tracepoint;

#[cfg(fuzzing)]
pub use damaged::events_in_page;
pub use error::Error;
use events::DeviceCounts;

use events::Translator;
use instance::Tracefs;
use larder_trace::Row;
use paths::Files;
pub use paths::{PathCounts, PathSearch};
use rustix::time::{ClockId, clock_gettime};
use source::{RawEvent, Source};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use tracepoint::{Known, REQUIRED, Tracepoint};

/// Interval at which the buffers are emptied.
const READ_INTERVAL: Duration = Duration::from_millis(50);

/// Parameters of a recording.
#[derive(Clone, Debug)]
pub struct KernelConfig {
    /// A path on the recorded file system; `None` for the whole machine.
    pub mount: Option<PathBuf>,
    /// The recorded processes.
    pub processes: Processes,
    /// Size of the kernel's buffer for each processor, in bytes.
    pub buffer_bytes: u64,
    /// Whether the recorded files are remembered, so that their paths can be found after the recording.
    pub with_paths: bool,
}

/// The receiver of the rows of a recording.
pub trait RowSink {
    /// Receives a row.
    fn row(&mut self, row: Row) -> Result<(), super::Error>;

    /// Is called after all rows that are available have been received, several times a second.
    fn end_pass(&mut self) -> Result<(), super::Error> {
        Ok(())
    }
}

impl<F: FnMut(Row) -> Result<(), super::Error>> RowSink for F {
    fn row(&mut self, row: Row) -> Result<(), super::Error> {
        self(row)
    }
}

/// The processes whose activity is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Processes {
    /// All processes except this one.
    All,
    /// These processes and all their descendants, including processes that are started during the recording.
    Trees(Vec<u32>),
    /// The command that is passed to [`KernelRecorder::spawn`], and the processes that it starts.
    Spawned,
}

/// Summary of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSummary {
    /// Number of kernel events that were read.
    pub events: u64,
    /// Number of kernel events that were lost because buffers were full.
    pub lost: u64,
    /// Device requests and readahead windows.
    pub counts: DeviceCounts,
    /// Tracepoints that this kernel lacks.
    pub missing: Vec<&'static str>,
}

/// A recording in progress. Its kernel instances are removed on drop.
#[derive(Debug)]
pub struct KernelRecorder {
    /// The source of the events of the recorded processes. If not all processes are recorded, also the source
    /// of the removals of the whole machine.
    sources: Vec<Source>,
    translator: Translator,
    /// Events that were read, but may be preceded by events that were not read yet.
    held: Vec<RawEvent>,
    events: u64,
    missing: Vec<&'static str>,
    /// The files whose paths are searched for.
    files: Option<Files>,
    /// The recorded file system, if it was chosen: its device, and a path on it.
    chosen: Option<(u32, PathBuf)>,
}

impl KernelRecorder {
    /// Sets up the tracing. Starts it, except for [`Processes::Spawned`], where [`Self::spawn`] starts it.
    pub fn start(config: &KernelConfig) -> Result<Self, Error> {
        let tracefs = Tracefs::mount()?;
        let (known, missing) = tracepoint::find(|name| tracefs.event_file(name));
        let has = |tracepoint| known.iter().any(|known| known.tracepoint == tracepoint);
        if !REQUIRED.into_iter().all(has) {
            let name = missing.first().copied();
            return Err(Error::NoTracepoint(name.unwrap_or("filemap")));
        }
        let device = config.mount.as_deref().map(device_of).transpose()?;
        let is_removal = |known: &Known| {
            matches!(
                known.tracepoint,
                Tracepoint::DeleteFolio | Tracepoint::EvictInode
            )
        };
        let sets = match config.processes {
            Processes::All => vec![known],
            Processes::Trees(_) | Processes::Spawned => {
                let (removals, others) = known.into_iter().partition(is_removal);
                vec![others, removals]
            }
        };
        let sources = sets
            .into_iter()
            .map(|known| Source::new(&tracefs, known, device, config.buffer_bytes));
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        match &config.processes {
            Processes::All => sources[0].exclude_threads(&processes::own_threads())?,
            Processes::Trees(roots) => sources[0].limit_to_trees(roots)?,
            Processes::Spawned => {}
        }
        let page_bytes = rustix::param::page_size() as u64;
        let recorder = Self {
            translator: Translator::new(devices::of_machine(), page_bytes, now_ns()),
            sources,
            held: Vec::new(),
            events: 0,
            missing,
            files: config.with_paths.then(Files::default),
            chosen: device.zip(config.mount.clone()),
        };
        if config.processes != Processes::Spawned {
            recorder.set_tracing(true)?;
        }
        Ok(recorder)
    }

    /// Starts the tracing, and runs `command`.
    ///
    /// The command is started by a thread that is recorded. The kernel also records the children of recorded
    /// threads, so the command is recorded from its start. This thread exits immediately, which ends its own
    /// recording.
    pub fn spawn(&self, command: &mut Command) -> Result<Child, Error> {
        let starter = || {
            let thread = rustix::thread::gettid().as_raw_pid().cast_unsigned();
            self.sources[0].limit_to_threads(&[thread])?;
            self.set_tracing(true)?;
            command.spawn().map_err(|source| Error::Command {
                command: command.get_program().display().to_string(),
                source,
            })
        };
        std::thread::scope(|scope| match scope.spawn(starter).join() {
            Ok(child) => child,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Passes each row to `sink` until `stop` returns true. `stop` is called before each read of the buffers, and may
    /// wait for at most the duration that it receives. With [`KernelConfig::with_paths`], also returns a search for the
    /// paths of the recorded files.
    pub fn run(
        mut self,
        stop: &mut dyn FnMut(Duration) -> bool,
        sink: &mut dyn RowSink,
    ) -> Result<(KernelSummary, Option<PathSearch>), Error> {
        while !stop(READ_INTERVAL) {
            let complete = self.read(now_ns())?;
            self.emit(complete, sink)?;
            sink.end_pass()?;
        }
        self.set_tracing(false)?;
        while self.read(u64::MAX)? != u64::MAX {}
        self.emit(u64::MAX, sink)?;
        let lost = self.sources.iter().map(Source::lost);
        let lost = lost.sum::<Result<_, _>>()?;
        let time_ns = self.translator.elapsed_ns(now_ns());
        let search = self.files.take();
        let search = search.map(|files| PathSearch::new(files, time_ns, self.chosen));
        let summary = KernelSummary {
            events: self.events,
            lost,
            counts: self.translator.counts,
            missing: std::mem::take(&mut self.missing),
        };
        Ok((summary, search))
    }

    fn set_tracing(&self, on: bool) -> Result<(), Error> {
        self.sources
            .iter()
            .try_for_each(|source| source.set_tracing(on))
    }

    /// Reads the available events of all sources. Returns the time up to which all events have been read:
    /// `now`, or an earlier time if more events are available.
    fn read(&mut self, now: u64) -> Result<u64, Error> {
        let before = self.held.len();
        let mut complete = now;
        for source in &mut self.sources {
            complete = complete.min(source.read(&mut self.held)?.unwrap_or(now));
        }
        self.events += (self.held.len() - before) as u64;
        Ok(complete)
    }

    /// Passes the events up to `complete` to `sink`.
    fn emit(&mut self, complete: u64, sink: &mut dyn RowSink) -> Result<(), Error> {
        self.held.sort_by_key(|raw| raw.time);
        let end = self.held.partition_point(|raw| raw.time <= complete);
        let (translator, files) = (&mut self.translator, &mut self.files);
        let mut result = Ok(());
        for raw in self.held.drain(..end) {
            translator.translate(raw, &mut |row| {
                if let Some(files) = files {
                    files.add(&row);
                }
                if result.is_ok() {
                    result = sink.row(row);
                }
            });
        }
        Ok(result?)
    }
}

/// Returns the device of the file system that contains `path`, in the kernel's internal form.
fn device_of(path: &Path) -> Result<u32, Error> {
    let stat = rustix::fs::stat(path).map_err(|error| Error::Mount {
        path: path.to_owned(),
        source: error.into(),
    })?;
    Ok(devices::kernel_number(stat.st_dev))
}

/// Returns the time of the kernel's clock `mono`.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
