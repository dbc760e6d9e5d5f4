//! Pages on their way into the page cache: what the readahead policy answers, and who reads it.
//!
//! Model: `filemap_get_pages` and `page_cache_ra_unbounded`. Of the policy's windows, a reader
//! reads the one that has its missing page itself, in one device read of at most [`BATCH_PAGES`]
//! and up to a page that is there, and of the others what its request goes on into. The rest is
//! for the readahead threads.
//!
//! ```text
//!   request:                 |-----------|
//!   windows:                 |----------------------|-----------------|
//!   pages that are there:                      |--|
//!   read by:                 |     reader      |    threads ...       |
//! ```
//!
//! So the reader waits for some pages that it did not ask for. Reading those apart, by a thread,
//! was tried: it costs a second device read for each miss, which on a disk is a second seek.
//!
//! Locking: a reader never waits for a page while it holds locked pages of its own, so that no two
//! readers wait for each other.

use crate::Result;
use crate::live::key;
use crate::queue::Job;
use crate::read::{Reader, Request};
use larder_cache::page::{Entry, NewPage, Page};
use larder_ext4::{Ino, Inode};
use larder_readahead::{PageIndex, Read, Residency, Trigger, Window, Windows};
use std::ops::Range;

/// The most pages that one reader reads at once.
pub(crate) const BATCH_PAGES: u32 = 256;

/// Pages that a reader reads itself, locked: the one that it wants now, and those that follow.
/// Empty where the page is there.
#[derive(Default)]
struct OwnPages {
    first: u64,
    pages: Vec<NewPage>,
}

impl OwnPages {
    fn of(index: u64, mut page: NewPage) -> Self {
        page.set_wanted();
        Self {
            first: index,
            pages: vec![page],
        }
    }

    fn indexes(&self) -> Range<u64> {
        self.first..self.first + self.pages.len() as u64
    }

    fn has_room(&self) -> bool {
        !self.pages.is_empty() && self.pages.len() < BATCH_PAGES as usize
    }
}

impl Reader {
    /// Brings in what a policy that wants every page wants before page `index` is looked up.
    pub(crate) fn access(&self, request: &Request<'_>, index: u64) {
        let read = request.read(Trigger::Access, index, self.queue.is_congested());
        let windows = self
            .streams
            .access(request.stream, &read, &self.cached(request.inode));
        if windows.is_empty() {
            return;
        }
        let mut own = OwnPages::default();
        let has_page = |window: Window| window.contains(PageIndex(index));
        if windows.into_iter().any(has_page) {
            let page = self
                .inodes
                .caches
                .pages
                .insert_absent(key(request.inode.ino(), index));
            own = page.map_or(own, |page| OwnPages::of(index, page));
        }
        self.bring_in_windows(request, &read, windows, &mut own);
        self.run(Job {
            inode: *request.inode,
            first: own.first,
            pages: own.pages,
        });
    }

    /// Reads page `index`, which is missing, and what the policy wants with it. `None` if there is
    /// no room for it.
    #[cold]
    pub(crate) fn bring_in(&self, request: &Request<'_>, index: u64) -> Result<Option<Page<'_>>> {
        let key = key(request.inode.ino(), index);
        let page = loop {
            match self.inodes.caches.pages.get_or_insert(key) {
                Entry::Uptodate(page) => return Ok(Some(page)),
                Entry::Busy(wait) => {
                    if wait.take_marker() {
                        self.read_ahead(request, index);
                    }
                    if let Some(page) = wait.wait() {
                        return Ok(Some(page));
                    }
                    // Whoever read it failed: it is gone, and ours to try.
                }
                Entry::New(page) => break page,
                Entry::Full => return Ok(None),
            }
        };
        let read = request.read(Trigger::Miss, index, self.queue.is_congested());
        let windows = self
            .streams
            .decide(request.stream, &read, &self.cached(request.inode));
        let mut own = OwnPages::of(index, page);
        self.bring_in_windows(request, &read, windows, &mut own);
        let complete = |first| self.inodes.caches.pages.complete(first);
        self.fill_each(request.inode, index, own.pages, complete)
            .map(Some)
    }

    /// Brings in the answer to `read`: `own`, locked on return, by the reader, the rest by the
    /// threads.
    fn bring_in_windows(
        &self,
        request: &Request<'_>,
        read: &Read,
        windows: Windows,
        own: &mut OwnPages,
    ) {
        for window in windows {
            self.bring_in_window(request, read, window, own);
        }
        let is_marked = |window: Window| window.marker() == Some(read.index);
        if !own.pages.is_empty() && windows.into_iter().any(is_marked) {
            // The request fills its window: the next one goes before the wait for this one.
            self.read_ahead(request, read.index.0);
        }
    }

    /// Sets off what the marker of page `index`, which was taken off, calls for.
    #[cold]
    pub(crate) fn read_ahead(&self, request: &Request<'_>, index: u64) {
        let read = request.read(Trigger::Marker, index, self.queue.is_congested());
        let windows = self
            .streams
            .decide(request.stream, &read, &self.cached(request.inode));
        for window in windows {
            let pages = window.start.0..window.end().0;
            let queued = self.queue_pages(request.inode, pages, window.marker());
            self.streams
                .window_read(request.stream, window, queued, queued);
        }
    }

    /// Brings in what of `window` is neither cached nor being read: pages that follow on `own` join
    /// those, the others are for the threads.
    ///
    /// A policy that answers a miss with the request as it is (no asynchronous part) is asked again
    /// at the next miss, so what of that is behind `own` is left till then.
    fn bring_in_window(
        &self,
        request: &Request<'_>,
        read: &Read,
        window: Window,
        own: &mut OwnPages,
    ) {
        let pages = window.start.0..window.end().0;
        let for_reader = if window.contains(read.index) {
            pages.clone()
        } else {
            overlap(&request.pages, &pages)
        };
        let mut behind = self.take_own(request, for_reader.clone(), window, own);
        if read.trigger == Trigger::Miss && window.async_size == 0 {
            behind = for_reader.end;
        }
        let marker = window.marker();
        let queued = self.queue_pages(request.inode, pages.start..for_reader.start, marker)
            + self.queue_pages(request.inode, behind..pages.end, marker);
        let taken = overlap(&own.indexes(), &pages);
        let ahead = request.pages.end.clamp(taken.start, taken.end)..taken.end;
        self.streams.window_read(
            request.stream,
            window,
            count(&taken) + queued,
            count(&ahead) + queued,
        );
    }

    /// Adds to `own` those of `pages` that follow on it, up to one that is there. Returns the first
    /// page that it did not look at.
    fn take_own(
        &self,
        request: &Request<'_>,
        pages: Range<u64>,
        window: Window,
        own: &mut OwnPages,
    ) -> u64 {
        if !pages.contains(&own.indexes().end) {
            return own.indexes().end.clamp(pages.start, pages.end);
        }
        while own.has_room() && own.indexes().end < pages.end {
            let next = own.indexes().end;
            let Some(mut page) = self
                .inodes
                .caches
                .pages
                .insert_absent(key(request.inode.ino(), next))
            else {
                break;
            };
            if next < request.pages.end {
                page.set_wanted();
            } else {
                page.set_readahead();
            }
            if window.marker() == Some(PageIndex(next)) {
                page.set_marker();
            }
            own.pages.push(page);
        }
        own.indexes().end
    }

    /// Queues those of `pages` that are neither cached nor being read; returns how many. None once
    /// the queue is closed.
    pub(crate) fn queue_pages(
        &self,
        inode: &Inode,
        pages: Range<u64>,
        marker: Option<PageIndex>,
    ) -> u32 {
        if self.queue.is_closed() {
            return 0;
        }
        let mut queued = 0;
        let mut run: Vec<NewPage> = Vec::new();
        let end = pages.end;
        for index in pages {
            if let Some(mut page) = self
                .inodes
                .caches
                .pages
                .insert_absent(key(inode.ino(), index))
            {
                page.set_readahead();
                if marker == Some(PageIndex(index)) {
                    page.set_marker();
                }
                run.push(page);
                queued += 1;
            } else {
                self.queue_run(inode, index, &mut run);
            }
        }
        self.queue_run(inode, end, &mut run);
        queued
    }

    /// Queues the pages of `run`, which end before page `end`.
    fn queue_run(&self, inode: &Inode, end: u64, run: &mut Vec<NewPage>) {
        if !run.is_empty() {
            self.queue.push(Job {
                inode: *inode,
                first: end - run.len() as u64,
                pages: std::mem::take(run),
            });
        }
    }

    /// Reads the pages of `job`. An error is for whoever asks for the page.
    pub(crate) fn run(&self, job: Job) {
        if job.pages.is_empty() {
            return;
        }
        let ino = job.inode.ino();
        if let Err(error) = self.fill_each(&job.inode, job.first, job.pages, NewPage::complete) {
            tracing::debug!(%ino, %error, "readahead failed");
        }
    }

    /// Fills contiguous pages, together if possible, else one by one, so that
    /// a damaged block costs only its own page. `complete_first` completes the first:
    /// whoever waits for another finds it with no pin of ours.
    fn fill_each<R>(
        &self,
        inode: &Inode,
        index: u64,
        mut pages: Vec<NewPage>,
        complete_first: impl FnOnce(NewPage) -> R,
    ) -> Result<R> {
        let page_bytes = self.inodes.page_bytes();
        self.inodes.with_mapping(inode, |inode| {
            let together = self.fill(inode, index * page_bytes, &mut pages).is_ok();
            let mut filled = (index..).zip(pages).map(|(index, mut page)| {
                if !together {
                    let alone = std::slice::from_mut(&mut page);
                    self.fill(inode, index * page_bytes, alone)?;
                }
                Ok(page)
            });
            let first = filled.next().expect("a batch has at least one page");
            filled.flatten().for_each(NewPage::complete);
            first.map(complete_first)
        })
    }

    fn cached(&self, inode: &Inode) -> CachedPages<'_> {
        CachedPages {
            reader: self,
            ino: inode.ino(),
        }
    }
}

/// How many pages these are: no more than a window has.
fn count(pages: &Range<u64>) -> u32 {
    u32::try_from(pages.end - pages.start).unwrap_or(u32::MAX)
}

/// What of `pages` lies within `window`; where nothing does, an empty range at its near end.
fn overlap(pages: &Range<u64>, window: &Range<u64>) -> Range<u64> {
    let start = pages.start.clamp(window.start, window.end);
    start..pages.end.clamp(start, window.end)
}

/// The pages of one file that are cached or being read.
struct CachedPages<'a> {
    reader: &'a Reader,
    ino: Ino,
}

impl Residency for CachedPages<'_> {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.reader
            .inodes
            .caches
            .pages
            .contains(key(self.ino, page.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_of_what_lies_apart_is_empty_at_the_near_end() {
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
