//! The streams of one file, and the decision about each of its reads.
//!
//! Cost: at most [`MOST_STREAMS`] streams, and the [recent](super::recent) requests. Both tables are empty at first and
//! grow by doubling: a file with one stream needs less than a kilobyte. A new stream replaces the one that was not used
//! for the longest time. The number of entries in the tables of all files that share a balance is limited as well
//! ([`EntryShare`]). At this limit, the tables of a file do not grow. But each file can always have one stream and a
//! few recent requests.

use super::balance::{Balance, Chance, EntryShare, Start};
use super::recent::{Pages, Recent};
use super::stream::{Missing, Place, Shape, Stream};
use crate::{PageIndex, Read, Residency, Window, Windows};
use std::sync::Arc;

/// The maximum number of streams of a file.
pub(super) const MOST_STREAMS: usize = 256;

/// The number of random requests after which the share of those that were continued is known.
const KNOWN_REQUESTS: u32 = 64;

/// A random request is extended only if more than 1/`CONTINUED_DIVISOR` of the random requests were continued.
const CONTINUED_DIVISOR: u32 = 8;

/// The maximum number of pages after a marked page that are searched for a missing page.
const SEARCHED_PAGES: u32 = 256;

/// The streams of a file.
#[derive(Clone, Debug)]
pub(crate) struct FileStreams {
    balance: Arc<Balance>,
    entries: EntryShare,
    streams: Vec<Stream>,
    recent: Recent,
    /// The number of decisions, which orders the uses of the streams.
    decisions: u32,
    /// The stream of the last decision.
    last: Option<usize>,
    /// The number of random requests, and the number of those that the next request continued. Both are halved
    /// from time to time.
    random: u32,
    continued: u32,
}

impl FileStreams {
    pub(crate) fn new(balance: Arc<Balance>) -> Self {
        Self {
            entries: EntryShare::new(Arc::clone(&balance)),
            balance,
            streams: Vec::new(),
            recent: Recent::default(),
            decisions: 0,
            last: None,
            random: 0,
            continued: 0,
        }
    }

    pub(super) fn unshared() -> Self {
        Self::new(Arc::new(Balance::unshared()))
    }

    pub(super) fn balance(&self) -> &Balance {
        &self.balance
    }

    /// Returns the size of the tables in bytes.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.streams.capacity() * size_of::<Stream>()
            + self.recent.memory_bytes()
    }

    /// Returns the windows for a missing page. `is_sequential` is true if the page follows the last read, or if
    /// sequential reads are advised.
    pub(super) fn miss(
        &mut self,
        read: &Read,
        missing: &Missing,
        is_sequential: bool,
    ) -> Option<Windows> {
        self.decisions = self.decisions.wrapping_add(1);
        self.last = None;
        if let Some(windows) = self.continue_stream(missing) {
            return Some(windows);
        }
        let pages = Pages {
            start: read.request_start.0.min(missing.start),
            end: missing.end,
        };
        let start = if missing.start == 0 {
            Start::OfFile
        } else {
            Start::OfPattern
        };
        let pattern = self
            .recent
            .pattern(pages, missing.start, read.ends_inside_page);
        if pattern == Some(Shape::Forward) {
            self.continued = self.continued.saturating_add(1);
        }
        let is_start = is_sequential || missing.start == 0;
        let shape = pattern.or_else(|| is_start.then_some(Shape::Forward))?;
        let request = u32::try_from(pages.end - pages.start).unwrap_or(u32::MAX);
        let mut stream = Stream::new(shape, start, missing, request, &self.balance);
        let windows = stream.miss(Place::Next, missing, &self.balance);
        self.add(stream);
        Some(windows)
    }

    /// Returns the windows for a missing page that belongs to no stream.
    pub(super) fn random(&mut self, read: &Read, missing: &Missing) -> Windows {
        let pages = Pages {
            start: read.request_start.0.min(missing.start),
            end: missing.end,
        };
        self.recent.push(pages, &mut self.entries);
        if self.random == u32::from(u8::MAX) {
            (self.random, self.continued) = (self.random / 2, self.continued / 2);
        }
        self.random += 1;
        let pages = missing.pages();
        let room = missing.file_pages.saturating_sub(missing.end);
        let is_continued = self.random >= KNOWN_REQUESTS
            && self.continued > self.random / CONTINUED_DIVISOR
            && self.balance.is_worth(pages, self.continued, self.random);
        if !is_continued || room < u64::from(pages) || pages > missing.max_pages / 2 {
            return missing.windows(&self.balance);
        }
        Windows::from(Window {
            start: PageIndex(missing.start),
            size: pages * 2,
            async_size: pages,
        })
    }

    /// Records the pages that were read around a fault.
    pub(super) fn read_around(&mut self, window: Option<Window>) {
        if let Some(window) = window {
            let pages = Pages {
                start: window.start.0,
                end: window.end().0,
            };
            self.recent.push(pages, &mut self.entries);
        }
    }

    /// Returns the windows after a read of a marked page.
    pub(super) fn marked(&mut self, missing: &Missing, resident: &dyn Residency) -> Windows {
        self.decisions = self.decisions.wrapping_add(1);
        let decisions = self.decisions;
        let is_marked = |stream: &Stream| stream.marker == Some(missing.start);
        self.last = self.streams.iter().position(is_marked);
        if let Some(stream) = self.last.and_then(|at| self.streams.get_mut(at)) {
            stream.used_at = decisions;
            let hole = match stream.shape {
                Shape::Forward => hole(resident, stream.next(), stream.degree()),
                Shape::Backward | Shape::Strided { .. } => None,
            };
            return stream.marked(hole, missing, &self.balance);
        }
        self.continued = self.continued.saturating_add(1);
        if self.balance.chance(Start::OfPattern, 0) == Chance::Low {
            return Windows::NONE;
        }
        let Some(next) = hole(resident, missing.end, SEARCHED_PAGES) else {
            return Windows::NONE;
        };
        let request = missing.pages().max(1);
        let at_hole = Missing {
            start: next,
            end: next,
            ..*missing
        };
        let mut stream = Stream::new(
            Shape::Forward,
            Start::OfPattern,
            &at_hole,
            request,
            &self.balance,
        );
        let windows = stream.begin_ahead(request, missing, &self.balance);
        self.add(stream);
        windows
    }

    /// Forgets the marker of a stream, whose next window is not read because the device is congested.
    pub(super) fn forget_marker(&mut self, page: u64) {
        let mut streams = self.streams.iter_mut();
        if let Some(stream) = streams.find(|stream| stream.marker == Some(page)) {
            stream.marker = None;
        }
    }

    /// Records that a reader waits for a page in flight.
    pub(super) fn wait(&mut self, page: u64) {
        let mut streams = self.streams.iter_mut();
        if let Some(stream) = streams.find(|stream| stream.has_ahead(page)) {
            stream.wait(&self.balance);
        }
    }

    /// Returns the windows for a missing page that belongs to a stream.
    fn continue_stream(&mut self, missing: &Missing) -> Option<Windows> {
        let places = self.streams.iter().enumerate();
        let places = places.filter_map(|(at, stream)| Some((stream.place(missing)?, at)));
        let (place, at) = places.min()?;
        self.last = Some(at);
        let stream = &mut self.streams[at];
        stream.used_at = self.decisions;
        Some(stream.miss(place, missing, &self.balance))
    }

    fn add(&mut self, mut stream: Stream) {
        stream.used_at = self.decisions;
        let is_first = self.streams.is_empty();
        if is_first || self.streams.len() < MOST_STREAMS && self.entries.grow() {
            self.last = Some(self.streams.len());
            self.streams.push(stream);
            return;
        }
        let decisions = self.decisions;
        let idle = |(_, stream): &(usize, &Stream)| decisions.wrapping_sub(stream.used_at);
        self.last = self
            .streams
            .iter()
            .enumerate()
            .max_by_key(idle)
            .map(|(at, _)| at);
        if let Some(oldest) = self.last.and_then(|at| self.streams.get_mut(at)) {
            *oldest = stream;
        }
    }

    /// Records that of a window of the last decision, only `new_pages` pages were read.
    pub(super) fn record_short(&mut self, window: Window, new_pages: u32) {
        if let Some(stream) = self.last.and_then(|at| self.streams.get_mut(at)) {
            stream.record_short(window, new_pages);
        }
    }
}

/// Returns the first missing page from `from` on, if one of the next `pages` pages is missing.
fn hole(resident: &dyn Residency, from: u64, pages: u32) -> Option<u64> {
    let pages = pages.clamp(1, SEARCHED_PAGES);
    resident
        .next_hole(PageIndex(from), pages)
        .map(|page| page.0)
}
