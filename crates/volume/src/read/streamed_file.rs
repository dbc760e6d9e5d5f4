//! The page cache and the device of a file, as the readahead driver sees them.
//!
//! Model: `page_cache_ra_unbounded`. After a miss, the reader reads the window that contains the
//! page, in one device read of at most [`BATCH_PAGES`], up to the first page that is resident. It
//! also reads the pages of the other window that its request covers. The rest is queued for the
//! readahead threads.
//!
//! ```text
//!   request:                 |-----------|
//!   windows:                 |----------------------|-----------------|
//!   resident pages:                            |--|
//!   read by:                 |     reader      |    threads ...       |
//! ```
//!
//! Therefore the reader waits for some pages that it did not request. An alternative was tried, in
//! which a thread reads those pages separately. It costs a second device read for each miss, which
//! on a disk is a second seek.
//!
//! Locking: a reader never waits for a page while it holds locked pages of its own, so that no two
//! readers wait for each other.

use super::queue::{Job, Queue};
use super::stream::{StreamRef, Streams};
use crate::Result;
use crate::fill::PageFiller;
use crate::live::key;
use larder_cache::page::{Entry, NewPage, Page, PageCache, PageKey, PageWait};
use larder_ext4::{Ino, Inode};
use larder_readahead::driver::{CachedFile, Claim, Found, Insert, Run, start_pages};
use larder_readahead::{FileState, PageIndex, Read, Residency, Trigger, Window};
use std::ops::Range;

/// The maximum number of pages that one reader reads at once.
pub(crate) const BATCH_PAGES: u32 = 256;

/// Pages that a reader reads itself, locked: the requested page, and those that follow. Empty if
/// the page is cached.
#[derive(Default)]
struct OwnPages {
    first: u64,
    pages: Vec<NewPage>,
    /// Whether the first page carries the marker.
    is_marked: bool,
}

impl OwnPages {
    fn of(index: PageIndex, mut page: NewPage) -> Self {
        page.set_wanted();
        Self {
            first: index.0,
            pages: vec![page],
            is_marked: false,
        }
    }

    fn indexes(&self) -> Range<u64> {
        self.first..self.first + self.pages.len() as u64
    }

    fn has_room(&self) -> bool {
        !self.pages.is_empty() && self.pages.len() < BATCH_PAGES as usize
    }
}

/// A file that is read through one stream.
pub(super) struct StreamedFile<'r> {
    inode: &'r Inode,
    stream: StreamRef<'r>,
    streams: &'r Streams,
    pages: &'r PageCache,
    /// Fills the pages that the reader reads itself.
    filler: &'r PageFiller,
    /// The queue of the other pages, for the readahead threads.
    queue: &'r Queue,
    own: OwnPages,
    /// A page that another reader or a thread is reading.
    in_flight: Option<PageWait<'r>>,
}

impl<'r> StreamedFile<'r> {
    pub(super) fn new(
        inode: &'r Inode,
        stream: StreamRef<'r>,
        streams: &'r Streams,
        filler: &'r PageFiller,
        queue: &'r Queue,
    ) -> Self {
        Self {
            inode,
            stream,
            streams,
            pages: filler.pages(),
            filler,
            queue,
            own: OwnPages::default(),
            in_flight: None,
        }
    }

    fn key(&self, index: u64) -> PageKey {
        key(self.inode.ino(), index)
    }

    /// Queues those of `pages` that are neither resident nor in flight, and returns their number.
    /// Queues none once the queue is closed.
    pub(super) fn queue(&mut self, pages: Range<u64>, marker: Option<PageIndex>) -> u32 {
        if self.queue.is_closed() {
            return 0;
        }
        start_pages(self, pages, marker)
    }

    /// Adds to `own` the contiguous `pages` that follow, up to the first that is cached. Returns
    /// the first page that was not tried.
    fn extend_own(&mut self, read: &Read, pages: &Range<u64>, marker: Option<PageIndex>) -> u64 {
        if !pages.contains(&self.own.indexes().end) {
            return self.own.indexes().end.clamp(pages.start, pages.end);
        }
        while self.own.has_room() && self.own.indexes().end < pages.end {
            let next = self.own.indexes().end;
            let Some(mut page) = self.pages.insert_absent(self.key(next)) else {
                break;
            };
            if next <= read.last_page().0 {
                page.set_wanted();
            } else {
                page.set_readahead();
            }
            if marker == Some(PageIndex(next)) {
                page.set_marker();
            }
            self.own.pages.push(page);
        }
        self.own.indexes().end
    }

    /// Starts reads of the pages of `window` that are neither cached nor being read. Pages that
    /// follow `own` are added to it, and the others are queued for the threads. Returns their
    /// number, and the number of those that are read ahead.
    ///
    /// A policy that answers a miss with the request itself (no asynchronous part) is consulted
    /// again at the next miss. Pages of such a request after `own` are left until then.
    fn start_with_own(&mut self, read: &Read, window: Window) -> (u32, u32) {
        let pages = window.start.0..window.end().0;
        let marker = window.marker();
        let has_page = window.contains(read.index);
        if has_page && self.own.pages.is_empty() {
            let page = self.pages.insert_absent(self.key(read.index.0));
            self.own = page.map_or_else(OwnPages::default, |page| OwnPages::of(read.index, page));
        }
        self.own.is_marked |= marker == Some(read.index);
        let request_end = read.last_page().0 + 1;
        let for_reader = if has_page {
            pages.clone()
        } else {
            overlap(&(read.request_start.0..request_end), &pages)
        };
        let mut unread = self.extend_own(read, &for_reader, marker);
        if read.trigger == Trigger::Miss && window.async_size == 0 {
            unread = for_reader.end;
        }
        let queued = self.queue(pages.start..for_reader.start, marker)
            + self.queue(unread..pages.end, marker);
        let taken = overlap(&self.own.indexes(), &pages);
        let ahead = request_end.clamp(taken.start, taken.end)..taken.end;
        (count(&taken) + queued, count(&ahead) + queued)
    }
}

impl<'r> CachedFile for StreamedFile<'r> {
    /// `None` if the cache has no room for it.
    type Page = Result<Option<Page<'r>>>;
    type NewPage = NewPage;

    fn with_state<R>(&mut self, run: impl FnOnce(&mut FileState, &dyn Residency) -> R) -> R {
        let resident = CachedPages {
            pages: self.pages,
            ino: self.inode.ino(),
        };
        run(&mut self.streams.lock(self.stream), &resident)
    }

    fn is_congested(&self) -> bool {
        self.queue.is_congested()
    }

    #[inline]
    fn get(&mut self, page: PageIndex) -> Option<Found<Self::Page>> {
        self.pages.get(self.key(page.0)).map(found)
    }

    fn claim(&mut self, page: PageIndex) -> Claim<Self::Page> {
        match self.pages.get_or_insert(self.key(page.0)) {
            Entry::Uptodate(page) => Claim::Ready(found(page)),
            Entry::Busy(wait) => {
                let is_marked = wait.take_marker();
                self.in_flight = Some(wait);
                Claim::InFlight { is_marked }
            }
            Entry::New(new) => {
                self.own = OwnPages::of(page, new);
                Claim::Missing
            }
            Entry::Full => Claim::Ready(Found {
                page: Ok(None),
                is_marked: false,
            }),
        }
    }

    fn fill_page(&mut self, _: PageIndex) -> bool {
        self.own.is_marked
    }

    fn wait(&mut self, _: PageIndex) -> Option<Found<Self::Page>> {
        if let Some(in_flight) = self.in_flight.take() {
            // No page means that its read failed and it was removed, so this reader tries to read
            // it.
            return in_flight.wait().map(found);
        }
        let OwnPages { first, pages, .. } = std::mem::take(&mut self.own);
        let complete = |page| self.pages.complete(page);
        let page = self.filler.fill_run(self.inode, first, pages, complete);
        Some(Found {
            page: page.map(Some),
            is_marked: false,
        })
    }

    fn start(&mut self, read: &Read, window: Window) -> u32 {
        let (new_pages, ahead_pages) = if read.trigger == Trigger::Marker {
            let queued = self.queue(window.start.0..window.end().0, window.marker());
            (queued, queued)
        } else {
            self.start_with_own(read, window)
        };
        self.streams.read_ahead(self.stream, ahead_pages);
        new_pages
    }

    fn before_lookup(&mut self) {
        if self.own.pages.is_empty() {
            return;
        }
        let OwnPages { first, pages, .. } = std::mem::take(&mut self.own);
        let inode = *self.inode;
        Job {
            inode,
            first,
            pages,
        }
        .run(self.filler);
    }

    fn insert(&mut self, page: PageIndex) -> Insert<NewPage> {
        match self.pages.insert_absent(self.key(page.0)) {
            Some(mut page) => {
                page.set_readahead();
                Insert::New(page)
            }
            None => Insert::Present,
        }
    }

    fn submit(&mut self, mut run: Run<NewPage>) {
        if let Some(page) = run.marked() {
            page.set_marker();
        }
        self.queue.push(Job {
            inode: *self.inode,
            first: run.first,
            pages: run.pages,
        });
    }
}

#[inline]
fn found(page: Page<'_>) -> Found<Result<Option<Page<'_>>>> {
    Found {
        is_marked: page.take_marker(),
        page: Ok(Some(page)),
    }
}

/// Returns the number of `pages`, which is at most that of a window.
fn count(pages: &Range<u64>) -> u32 {
    u32::try_from(pages.end - pages.start).unwrap_or(u32::MAX)
}

/// Returns the part of `pages` within `window`. If there is none, returns an empty range at the
/// nearer end.
fn overlap(pages: &Range<u64>, window: &Range<u64>) -> Range<u64> {
    let start = pages.start.clamp(window.start, window.end);
    start..pages.end.clamp(start, window.end)
}

/// The pages of one file that are cached or being read.
struct CachedPages<'a> {
    pages: &'a PageCache,
    ino: Ino,
}

impl Residency for CachedPages<'_> {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.pages.contains(key(self.ino, page.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_of_disjoint_ranges_is_empty_at_the_nearer_end() {
        let cases = [
            (5..9, 0..20, 5..9),
            (0..20, 5..9, 5..9),
            (0..7, 5..9, 5..7),
            (7..20, 5..9, 7..9),
            (0..3, 5..9, 5..5),
            (12..20, 5..9, 9..9),
        ];
        for (pages, window, want) in cases {
            assert_eq!(overlap(&pages, &window), want, "{pages:?} in {window:?}");
        }
    }
}
