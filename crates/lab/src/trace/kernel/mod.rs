//! The live kernel's caches, recorded through its tracepoints.
//!
//! # Model
//! `trace-cmd record` with instances of its own ([`instance`]): pages of the ring buffer are read as they
//! are, for each processor, and taken apart by what the `format` files say ([`mod@format`], [`ring`]).
//! What the events mean for the caches is told in [`events`].
//!
//! A recording of some processes alone hears of what goes, too, whoever drops it: a second instance
//! has the removals of the whole machine, of which those are told whose entries are known.
//!
//! # Invariants
//! Events of all processors are told in the order of their times: what was read is kept until
//! all processors were read once more, since a clock that was asked before that says what is complete.
//!
//! # Cost
//! For each processor the buffer that was asked for; about a byte for each page of files that are
//! cached whole (see [`resident`]).

#[cfg(any(test, fuzzing))]
mod damaged;
mod devices;
mod error;
mod events;
mod format;
mod instance;
mod processes;
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
use larder_trace::TraceEvent;
use rustix::time::{ClockId, clock_gettime};
use source::{Raw, Source};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use tracepoint::{Known, REQUIRED, Tracepoint};

/// How often the buffers are emptied.
const ROUND: Duration = Duration::from_millis(50);

/// What is recorded.
#[derive(Clone, Debug)]
pub struct KernelConfig {
    /// The file system mounted here alone; of the whole machine if `None`.
    pub mount: Option<PathBuf>,
    /// By whom.
    pub processes: Processes,
    /// The size of the kernel's buffer, for each processor.
    pub buffer_bytes: u64,
}

/// Whose doings are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Everybody's but this process's.
    All,
    /// These processes', and those's that they started or will start.
    Trees(Vec<u32>),
    /// The command's that is given to [`KernelRecorder::spawn`], and those's that it starts.
    Spawned,
}

/// What became of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSummary {
    /// Events of the kernel that were read.
    pub events: u64,
    /// Events of the kernel that were lost, since its buffers were full.
    pub lost: u64,
    /// What devices were asked, and readahead did.
    pub counts: DeviceCounts,
    /// The tracepoints that this kernel lacks.
    pub missing: Vec<&'static str>,
}

/// A recording under way. All that it set up in the kernel is removed when this is dropped.
#[derive(Debug)]
pub struct KernelRecorder {
    /// What the processes do; and, if they are not all, what goes.
    sources: Vec<Source>,
    translator: Translator,
    /// Events that were read, but of which earlier ones may follow.
    held: Vec<Raw>,
    events: u64,
    missing: Vec<&'static str>,
}

impl KernelRecorder {
    /// Sets up the tracing, and begins, unless [`Processes::Spawned`] is still to be.
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
            Processes::All => sources[0].leave_out(&processes::own_threads())?,
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
        };
        if config.processes != Processes::Spawned {
            recorder.switch(true)?;
        }
        Ok(recorder)
    }

    /// Begins, and runs `command`.
    ///
    /// A thread that is recorded starts it, so that it is recorded from its first moment: the kernel adds
    /// who is made by those that it watches, and forgets those that end, as that thread does.
    pub fn spawn(&self, command: &mut Command) -> Result<Child, Error> {
        let starter = || {
            let thread = rustix::thread::gettid().as_raw_pid().cast_unsigned();
            self.sources[0].limit_to_threads(&[thread])?;
            self.switch(true)?;
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

    /// Calls `tell` with what happens until `stop`, which is given a while to wait, returns true.
    pub fn run(
        mut self,
        stop: &mut dyn FnMut(Duration) -> bool,
        tell: &mut dyn FnMut(TraceEvent) -> Result<(), super::Error>,
    ) -> Result<KernelSummary, Error> {
        while !stop(ROUND) {
            let complete = self.read(now_ns())?;
            self.tell(complete, tell)?;
        }
        self.switch(false)?;
        while self.read(u64::MAX)? != u64::MAX {}
        self.tell(u64::MAX, tell)?;
        let lost = self.sources.iter().map(Source::lost);
        Ok(KernelSummary {
            events: self.events,
            lost: lost.sum::<Result<_, _>>()?,
            counts: self.translator.counts,
            missing: std::mem::take(&mut self.missing),
        })
    }

    fn switch(&self, on: bool) -> Result<(), Error> {
        self.sources.iter().try_for_each(|source| source.switch(on))
    }

    /// Reads what there is, and returns the time up to which that is all; `now` if there is no more.
    fn read(&mut self, now: u64) -> Result<u64, Error> {
        let before = self.held.len();
        let mut complete = now;
        for source in &mut self.sources {
            complete = complete.min(source.read(&mut self.held)?.unwrap_or(now));
        }
        self.events += (self.held.len() - before) as u64;
        Ok(complete)
    }

    /// Tells what happened up to `complete`.
    fn tell(
        &mut self,
        complete: u64,
        tell: &mut dyn FnMut(TraceEvent) -> Result<(), super::Error>,
    ) -> Result<(), Error> {
        self.held.sort_by_key(|raw| raw.time);
        let end = self.held.partition_point(|raw| raw.time <= complete);
        let mut result = Ok(());
        for raw in self.held.drain(..end) {
            let Raw {
                time,
                tracepoint,
                fields,
            } = raw;
            self.translator
                .translate(time, tracepoint, fields, &mut |event| {
                    if result.is_ok() {
                        result = tell(event);
                    }
                });
        }
        Ok(result?)
    }
}

/// The device of the file system that `path` lies on, in the kernel's form.
fn device_of(path: &Path) -> Result<u32, Error> {
    let stat = rustix::fs::stat(path).map_err(|error| Error::Mount {
        path: path.to_owned(),
        source: error.into(),
    })?;
    Ok(devices::kernel_number(stat.st_dev))
}

/// The kernel's clock `mono`.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
