//! Implements [`CachedFile`], through which the readahead driver uses the page cache and the
//! device, for one reader of a file.
//!
//! Model: `page_cache_ra_unbounded`. A window is the range of pages that one readahead decision
//! reads. After a miss, the reader itself reads pages of the window, from the missing page up to
//! the first page that is already cached. If the policy returns a second window, and the request
//! extends into it, the reader continues into it, up to the end of the request. In total, it reads at
//! most [`BATCH_PAGES`], and it stops at a cached page.
//!
//! The other pages of the windows are requested from the device before the reader waits. If the
//! pages that the reader reads itself consist of several parts (see [`runs`](super::runs)), the
//! reader waits only for the part with the missing page.
//!
//! ```text
//!   request:                 |-----------|
//!   windows:                 |----------------------|-----------------|
//!   cached pages:                              |--|
//!   read by:                 |     reader      |    device ...        |
//! ```
//!
//! Therefore the reader also waits for pages after its request, if they are in the same device read.
//! A separate read of these pages was tried and rejected: for each miss, it costs a second device
//! read and, on a disk, a second seek.
//!
//! Locking: a reader never waits for a page while it has other pages locked. Therefore no two
//! readers can wait for each other.

use super::runs::Runs;
use super::stream::{End, StreamRef, Streams};
use crate::Result;
use crate::live::key;
use larder_block::Priority;
use larder_cache::page::{Entry, NewPage, Page, PageCache, PageKey, PageWait, StillBusy};
use larder_ext4::{Ino, Inode};
use larder_readahead::driver::{CachedFile, Claim, Found, Insert, Request, Run, start_pages};
use larder_readahead::{FileState, PageIndex, PolicyName, Read, Residency, Trigger, Window};
use std::ops::Range;
use std::time::Instant;

/// The maximum number of pages that a reader reads with one device read.
pub(crate) const BATCH_PAGES: u32 = 256;

/// The pages that a reader has locked and reads itself: the missing page, and pages that directly
/// follow it. Empty if no page is missing.
#[derive(Default)]
struct OwnPages {
    first: u64,
    pages: Vec<NewPage>,
    /// Whether the first page has the readahead marker. A read of a marked page starts the next
    /// window.
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

/// A file, and the readahead state (stream) through which it is read.
pub(super) struct StreamedFile<'r> {
    inode: &'r Inode,
    stream: StreamRef<'r>,
    streams: &'r Streams,
    pages: &'r PageCache,
    runs: &'r Runs,
    /// The copy of the readahead state on which the read works. `None` if the read works on the
    /// stream's own state.
    copy: Option<FileState>,
    own: OwnPages,
    /// A page for which this reader waits, and which another reader or readahead is reading.
    in_flight: Option<PageWait<'r>>,
    /// The time at which this reader stops waiting for a page. Set when the reader begins to wait,
    /// if the device has a timeout.
    give_up_at: Option<Instant>,
}

impl<'r> StreamedFile<'r> {
    pub(super) fn new(
        inode: &'r Inode,
        stream: StreamRef<'r>,
        streams: &'r Streams,
        pages: &'r PageCache,
        runs: &'r Runs,
    ) -> Self {
        Self {
            inode,
            stream,
            streams,
            pages,
            runs,
            copy: None,
            own: OwnPages::default(),
            in_flight: None,
            give_up_at: None,
        }
    }

    /// Copies the readahead state for this read, if reads work on copies.
    pub(super) fn copy_state(&mut self) {
        self.copy = self.streams.copy(self.stream);
    }

    /// Stores the copy of the readahead state, if this read works on one.
    pub(super) fn store_state(self) {
        if let Some(copy) = self.copy {
            self.streams.store(self.stream, copy);
        }
    }

    /// Records that the reader has received all of `request`.
    pub(super) fn end_read(&mut self, request: &Request) {
        let driver = self.streams.driver();
        if self.copy.is_some() || driver.can_use_hits(false) {
            driver.end_read(self, request);
        } else {
            self.stream.set_end(End {
                page: PageIndex(request.pages.end - 1),
                is_inside: request.ends_inside_page,
            });
        }
    }

    fn key(&self, index: u64) -> PageKey {
        key(self.inode.ino(), index)
    }

    /// Starts to read the pages of `window` that are neither cached nor being read, and returns
    /// their number.
    pub(super) fn start_window(&mut self, window: Window) -> u32 {
        start_pages(self, window.start.0..window.end().0, window.marker())
    }

    /// Extends `own` with the pages of `pages` that directly follow `own`, up to the first page that
    /// cannot be inserted, for example because that page is already cached. Returns the first page
    /// of `pages` that is not in `own`.
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

    /// Starts to read the pages of `window` that are neither cached nor being read. Adds the pages
    /// that directly follow `own` to `own`, and requests the other pages from the device. Returns
    /// the number of all these pages, and the number of those that count as read ahead: all except
    /// pages of the request that are in `own`.
    ///
    /// After a miss, a window without an asynchronous part is continued at the next miss, when the policy is
    /// called again. Therefore the pages of such a window after `own` are not requested now. With the policy
    /// `adaptive`, such a window can extend past the request. Its pages are then requested now.
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
        let is_adaptive = self.streams.driver().policy().name() == PolicyName::Adaptive;
        let is_for_request = !is_adaptive || has_page && pages.end <= request_end;
        if read.trigger == Trigger::Miss && window.async_size == 0 && is_for_request {
            unread = for_reader.end;
        }
        let started = start_pages(self, pages.start..for_reader.start, marker)
            + start_pages(self, unread..pages.end, marker);
        let taken = overlap(&self.own.indexes(), &pages);
        let ahead = request_end.clamp(taken.start, taken.end)..taken.end;
        (count(&taken) + started, count(&ahead) + started)
    }
}

impl<'r> CachedFile for StreamedFile<'r> {
    /// `None` if no page is free in the cache.
    type Page = Result<Option<Page<'r>>>;
    type NewPage = NewPage;

    fn with_state<R>(&mut self, run: impl FnOnce(&mut FileState, &dyn Residency) -> R) -> R {
        let resident = CachedPages {
            pages: self.pages,
            ino: self.inode.ino(),
        };
        match &mut self.copy {
            Some(copy) => run(copy, &resident),
            None => run(&mut self.streams.lock(self.stream), &resident),
        }
    }

    fn is_congested(&self) -> bool {
        self.runs.is_congested()
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

    fn wait(&mut self, page: PageIndex) -> Option<Found<Self::Page>> {
        if let Some(in_flight) = self.in_flight.take() {
            self.runs.expedite(self.inode, page.0);
            self.give_up_at = self.give_up_at.or_else(|| self.runs.deadline());
            return match in_flight.wait(self.give_up_at) {
                Ok(Some(page)) => {
                    self.give_up_at = None;
                    Some(found(page))
                }
                // The read of the page failed, and the page was removed. This reader tries again.
                Ok(None) => None,
                Err(StillBusy) => Some(Found {
                    page: Err(self.runs.timed_out()),
                    is_marked: false,
                }),
            };
        }
        let OwnPages { first, pages, .. } = std::mem::take(&mut self.own);
        let complete = |page| self.pages.complete(page);
        let page = self.runs.read(self.inode, first, pages, complete);
        Some(Found {
            page: page.map(Some),
            is_marked: false,
        })
    }

    fn start(&mut self, read: &Read, window: Window) -> u32 {
        let (new_pages, ahead_pages) = if read.trigger == Trigger::Marker {
            let started = self.start_window(window);
            (started, started)
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
        self.runs.start(self.inode, first, pages, Priority::Demand);
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
        self.runs
            .start(self.inode, run.first, run.pages, Priority::Background);
    }
}

#[inline]
fn found(page: Page<'_>) -> Found<Result<Option<Page<'_>>>> {
    Found {
        is_marked: page.take_marker(),
        page: Ok(Some(page)),
    }
}

/// Returns the number of pages in `pages`, a part of a window.
fn count(pages: &Range<u64>) -> u32 {
    u32::try_from(pages.end - pages.start).unwrap_or(u32::MAX)
}

/// Returns the part of `pages` that is in `window`. If the ranges do not overlap, returns an empty
/// range at the start or the end of `window`, whichever is nearer to `pages`.
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
