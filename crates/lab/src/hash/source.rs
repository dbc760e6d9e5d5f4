//! Sources of events: a trace, or generated keys.

use super::completion::Completion;
use super::error::Error;
use super::segments::segment_end;
use super::step::{Step, Steps};
use crate::trace::{Losses, Tolerance, TraceReader};
use larder_cache::tape::{CacheKind, Operation};
use larder_trace::{Batch, TraceEvent, TraceInfo};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Maximum number of decoded batches that wait for the replay.
const AHEAD: usize = 2;

/// A function that receives the events of a batch, and returns whether to continue.
pub type BatchConsumer<'a> = dyn FnMut(&mut dyn Iterator<Item = TraceEvent>) -> bool + 'a;

/// Events that can be read several times, with the same result each time.
pub trait Source: Sync {
    /// Returns a description of the source for people.
    fn title(&self) -> String;

    /// Returns the number of events.
    fn events(&self) -> u64;

    /// Returns whether the events include insertions and removals. If not, these are derived from the
    /// lookups.
    fn has_changes(&self) -> bool;

    /// Returns the events that are missing.
    fn losses(&self) -> Losses {
        Losses::default()
    }

    /// Passes all events to `each` in batches, until `each` returns false.
    ///
    /// # Errors
    /// Returns an error if the events cannot be read.
    fn read(&self, each: &mut BatchConsumer<'_>) -> Result<(), Error>;
}

/// A trace in a file.
#[derive(Clone, Debug)]
pub struct TraceFile {
    path: PathBuf,
    tolerance: Tolerance,
    info: TraceInfo,
    losses: Losses,
    events: u64,
}

impl TraceFile {
    /// Opens the trace at `path`. If `tolerance` accepts a trace that was cut short, reads the whole trace to
    /// count its events.
    ///
    /// # Errors
    /// Returns the errors of [`TraceReader::open`] and of reading the trace.
    pub fn open(path: &Path, tolerance: Tolerance) -> Result<Self, Error> {
        let mut reader = open(path, tolerance)?;
        let events = match (tolerance, reader.cache_rows()) {
            (Tolerance::Whole, Some(events)) => events,
            _ => count(&mut reader).map_err(|source| failed(path, source))?,
        };
        Ok(Self {
            path: path.to_owned(),
            tolerance,
            info: reader.info().clone(),
            losses: reader.losses(),
            events,
        })
    }

    /// Returns the description of the trace.
    #[must_use]
    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// Passes all batches to `each`, until `each` returns false. The second argument of `each` is the number of events
    /// of the batch that count. Events that were recorded since the trace was opened do not count.
    ///
    /// # Errors
    /// Returns an error if the events cannot be read.
    pub fn read_batches(&self, each: &mut dyn FnMut(&Batch, usize) -> bool) -> Result<(), Error> {
        let mut reader = open(&self.path, self.tolerance)?;
        let mut batch = Batch::default();
        let mut left = self.events;
        while left > 0
            && reader
                .read(&mut batch)
                .map_err(|source| failed(&self.path, source))?
        {
            let events = batch.len().saturating_sub(batch.files.len());
            let counting = events.min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= counting as u64;
            if !each(&batch, counting) {
                break;
            }
        }
        Ok(())
    }
}

/// Reads all remaining events and returns their number.
fn count(reader: &mut TraceReader) -> Result<u64, crate::trace::Error> {
    let (mut events, mut batch) = (0, Batch::default());
    while reader.read(&mut batch)? {
        events += batch.events().count() as u64;
    }
    Ok(events)
}

fn open(path: &Path, tolerance: Tolerance) -> Result<TraceReader, Error> {
    TraceReader::open(path, tolerance).map_err(|source| failed(path, source))
}

fn failed(path: &Path, source: crate::trace::Error) -> Error {
    let path = path.to_owned();
    Error::Trace { path, source }
}

impl Source for TraceFile {
    fn title(&self) -> String {
        self.path.display().to_string()
    }

    fn events(&self) -> u64 {
        self.events
    }

    fn has_changes(&self) -> bool {
        self.info.records_changes
    }

    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn read(&self, each: &mut BatchConsumer<'_>) -> Result<(), Error> {
        self.read_batches(&mut |batch, events| each(&mut batch.events().take(events)))
    }
}

/// The first events of another source.
#[derive(Clone, Copy)]
pub struct Prefix<'s> {
    source: &'s dyn Source,
    events: u64,
}

impl<'s> Prefix<'s> {
    /// Returns a source of the first `events` of `source`.
    pub fn new(source: &'s dyn Source, events: u64) -> Self {
        Self { source, events }
    }
}

impl fmt::Debug for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title())
    }
}

impl Source for Prefix<'_> {
    fn title(&self) -> String {
        format!("{} events of {}", self.events, self.source.title())
    }

    fn events(&self) -> u64 {
        self.events.min(self.source.events())
    }

    fn has_changes(&self) -> bool {
        self.source.has_changes()
    }

    fn losses(&self) -> Losses {
        self.source.losses()
    }

    fn read(&self, each: &mut BatchConsumer<'_>) -> Result<(), Error> {
        let mut left = usize::try_from(self.events).unwrap_or(usize::MAX);
        self.source.read(&mut |events| {
            let mut first = events.take(left).inspect(|_| left -= 1);
            each(&mut first) && left > 0
        })
    }
}

/// The caches whose events are needed, each with the rule that decides which objects its table contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    capacities: [Option<Capacity>; CacheKind::ALL.len()],
}

/// The rule that decides which objects a table contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// The objects that the trace inserts and does not remove. If the trace does not record insertions and
    /// removals, the table contains all objects that were looked up.
    AsRecorded,
    /// The objects of a cache with this capacity, which evicts by the clock algorithm.
    Objects(u64),
}

impl Wanted {
    /// Adds `cache`, with `capacity` as the rule for the objects of its table.
    #[must_use]
    pub fn with(mut self, cache: CacheKind, capacity: Capacity) -> Self {
        self.capacities[cache as usize] = Some(capacity);
        self
    }

    fn has(&self, cache: CacheKind) -> bool {
        self.capacities[cache as usize].is_some()
    }

    /// Returns the caches that were added.
    pub fn caches(&self) -> impl Iterator<Item = CacheKind> + '_ {
        CacheKind::ALL.into_iter().filter(|cache| self.has(*cache))
    }

    /// Returns whether insertions and removals are derived from lookups, for all caches that were added.
    pub(super) fn completes(&self, source: &dyn Source) -> bool {
        let mut capacities = self.capacities.iter().flatten();
        !source.has_changes() || capacities.all(|capacity| *capacity != Capacity::AsRecorded)
    }
}

/// Reads `source` from beginning to end, and passes each batch and its number (from 0) to `each`.
/// Meanwhile, a separate thread decodes the following batches. No batch contains events of two segments.
pub(super) fn for_each_batch(
    source: &dyn Source,
    wanted: Wanted,
    mut each: impl FnMut(u64, &Steps) -> Result<(), Error>,
) -> Result<(), Error> {
    thread::scope(|scope| {
        let (sender, batches) = sync_channel(AHEAD);
        let reader = scope.spawn(move || {
            let mut sorter = Sorter::new(source, wanted);
            let mut segments = Segments::of(source.events());
            source.read(&mut |events| {
                let mut events = events.peekable();
                while events.peek().is_some() {
                    let steps = sorter.sort(&mut events.by_ref().take(segments.left()));
                    segments.advance(steps.events);
                    if sender.send(steps).is_err() {
                        return false;
                    }
                }
                true
            })
        });
        let done = replay_all(&batches, &mut each);
        // After an error of `each`, the reader may be blocked on the full channel. Dropping the receiver
        // wakes the reader.
        drop(batches);
        let read = reader
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        done.and(read)
    })
}

/// The position in the sequence of segments (1/[`SEGMENTS`](super::segments::SEGMENTS) of the trace each).
struct Segments {
    events: u64,
    done: u64,
    number: u64,
}

impl Segments {
    fn of(events: u64) -> Self {
        let (done, number) = (0, 0);
        let mut segments = Self {
            events,
            done,
            number,
        };
        segments.advance(0);
        segments
    }

    /// Returns the number of events up to the end of the current segment, or `usize::MAX` after the last
    /// segment.
    fn left(&self) -> usize {
        let end = segment_end(self.number, self.events);
        let left = end
            .filter(|end| *end > self.done)
            .map(|end| end - self.done);
        left.and_then(|left| usize::try_from(left).ok())
            .unwrap_or(usize::MAX)
    }

    fn advance(&mut self, events: u64) {
        self.done += events;
        while segment_end(self.number, self.events).is_some_and(|end| end <= self.done) {
            self.number += 1;
        }
    }
}

fn replay_all(
    batches: &Receiver<Steps>,
    each: &mut impl FnMut(u64, &Steps) -> Result<(), Error>,
) -> Result<(), Error> {
    (0..)
        .zip(batches)
        .try_for_each(|(number, steps)| each(number, &steps))
}

/// Separates the events by cache, and adds derived insertions and removals where recorded ones are not used.
struct Sorter {
    wanted: Wanted,
    completions: [Option<Completion>; CacheKind::ALL.len()],
}

impl Sorter {
    fn new(source: &dyn Source, wanted: Wanted) -> Self {
        let completion = |capacity: Option<Capacity>| match capacity? {
            Capacity::Objects(objects) => Some(Completion::new(objects)),
            Capacity::AsRecorded => (!source.has_changes()).then(|| Completion::new(u64::MAX)),
        };
        Self {
            wanted,
            completions: wanted.capacities.map(completion),
        }
    }

    fn sort(&mut self, events: &mut dyn Iterator<Item = TraceEvent>) -> Steps {
        let mut steps = Steps::default();
        for event in events {
            steps.events += 1;
            let cache = event.cache;
            if !self.wanted.has(cache) {
                continue;
            }
            let step = Step::from(event);
            let steps = steps.of_mut(cache);
            match (&mut self.completions[cache as usize], step.operation) {
                (None, _) => steps.push(step),
                (Some(completion), Operation::Lookup { .. }) => completion.look_up(step.key, steps),
                // This cache uses derived insertions and removals, so recorded ones are ignored.
                (Some(_), Operation::Insert | Operation::Remove | Operation::Evict) => {}
            }
        }
        steps
    }
}
