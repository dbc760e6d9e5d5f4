//! Reads the events of one tracing instance, whose tracepoints may be limited to a device or to some threads.

use super::error::Error;
use super::instance::{Instance, Tracefs};
use super::processes;
use super::ring::PageLayout;
use super::tracepoint::{FIELDS, Known, Tracepoint};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of pages that are read from one processor before the next processor is read.
const PAGES: usize = 1024;

/// An event of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEvent {
    pub time: u64,
    /// The thread that caused the event, or 0 if it is unknown.
    pub thread: u32,
    pub tracepoint: Tracepoint,
    pub fields: [u64; FIELDS],
}

/// An instance, and its enabled tracepoints.
#[derive(Debug)]
pub(super) struct Source {
    instance: Instance,
    layout: PageLayout,
    /// The enabled tracepoints, by the number at the start of their events.
    known: HashMap<u16, Known>,
    page: Vec<u8>,
}

impl Source {
    /// Creates an instance with `known` enabled, limited to `device` if given.
    pub(super) fn new(
        tracefs: &Arc<Tracefs>,
        known: Vec<Known>,
        device: Option<u32>,
        buffer_bytes: u64,
    ) -> Result<Self, Error> {
        let header = tracefs.header_page().unwrap_or_default();
        let unknown = || Error::UnknownFormat(PathBuf::from("events/header_page"));
        let layout = PageLayout::parse(&header).ok_or_else(unknown)?;
        let instance = Instance::new(tracefs, buffer_bytes)?;
        for known in &known {
            let filter = device.map(|device| known.filter(device));
            instance.enable(known.name, filter.as_deref())?;
        }
        Ok(Self {
            instance,
            layout,
            known: known.into_iter().map(|known| (known.id, known)).collect(),
            page: vec![0; layout.page_bytes()],
        })
    }

    pub(super) fn set_tracing(&self, on: bool) -> Result<(), Error> {
        self.instance
            .write("tracing_on", if on { "1" } else { "0" })
    }

    /// Excludes the events of `threads`.
    pub(super) fn exclude_threads(&self, threads: &[u32]) -> Result<(), Error> {
        self.instance.write("set_event_notrace_pid", &list(threads))
    }

    /// Includes only the events of `threads` and of threads that they create.
    pub(super) fn limit_to_threads(&self, threads: &[u32]) -> Result<(), Error> {
        self.instance.write("options/event-fork", "1")?;
        self.instance.write("set_event_pid", &list(threads))
    }

    /// Includes only the events of the process trees of `roots`.
    pub(super) fn limit_to_trees(&self, roots: &[u32]) -> Result<(), Error> {
        // Threads may be created meanwhile. If their parent is already listed, the kernel lists them too.
        // Otherwise they are found as descendants when the processes are examined again.
        let mut listed = BTreeSet::new();
        loop {
            let all = processes::of_trees(roots)?;
            let new: Vec<u32> = all.difference(&listed).copied().collect();
            if new.is_empty() {
                return Ok(());
            }
            if listed.is_empty() {
                self.limit_to_threads(&new)?;
            } else {
                self.instance.append("set_event_pid", &list(&new))?;
            }
            listed.extend(new);
        }
    }

    pub(super) fn lost(&self) -> Result<u64, Error> {
        self.instance.lost()
    }

    /// Appends available events to `events`. If more events are available than were read, returns the time up
    /// to which the events of all processors have been read.
    pub(super) fn read(&mut self, events: &mut Vec<RawEvent>) -> Result<Option<u64>, Error> {
        let mut complete = None::<u64>;
        for pipe in self.instance.pipes() {
            if let Some(last) = self
                .layout
                .read_pipe(pipe, &mut self.page, &self.known, events)?
            {
                complete = Some(complete.map_or(last, |earlier| earlier.min(last)));
            }
        }
        Ok(complete)
    }
}

impl PageLayout {
    /// Appends available events of one processor to `events`. If more events are available than were read,
    /// returns the time of the last event that was read.
    fn read_pipe(
        &self,
        pipe: &OwnedFd,
        page: &mut [u8],
        known: &HashMap<u16, Known>,
        events: &mut Vec<RawEvent>,
    ) -> Result<Option<u64>, Error> {
        let mut last = 0;
        for _ in 0..PAGES {
            match rustix::io::read(pipe, &mut *page) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(None),
                Ok(len) => {
                    let whole = self.events(&page[..len], |time, event| {
                        last = time;
                        events.extend(raw(time, event, known));
                    });
                    whole.ok_or_else(|| Error::UnknownFormat(PathBuf::from("trace_pipe_raw")))?;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(Error::tracefs("read", "trace_pipe_raw")(error)),
            }
        }
        Ok(Some(last))
    }
}

fn raw(time: u64, event: &[u8], known: &HashMap<u16, Known>) -> Option<RawEvent> {
    let id = u16::from_le_bytes(*event.first_chunk()?);
    let known = known.get(&id)?;
    Some(RawEvent {
        time,
        thread: known.thread(event),
        tracepoint: known.tracepoint,
        fields: known.read(event)?,
    })
}

fn list(threads: &[u32]) -> String {
    let numbers: Vec<String> = threads.iter().map(ToString::to_string).collect();
    numbers.join(" ")
}
