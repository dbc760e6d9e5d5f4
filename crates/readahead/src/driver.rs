//! The driver: looks up the pages of a request, consults the policy, and starts its windows.
//!
//! Model: `filemap_get_pages`, with `page_cache_sync_ra` for a missing page and
//! `page_cache_async_ra` for a marked one. The driver is generic over [`CachedFile`], which is the
//! page cache and the device of one file as one reader sees them. A volume, the simulator and the
//! tests of this crate implement it.
//!
//! # One page of a request
//! [`Driver::page`] is called for each page in turn:
//!
//! 1. If the policy [wants every page](Policy::wants_every_page) and [this
//!    one](Policy::wants_access), it is consulted with [`Trigger::Access`], before the lookup.
//! 2. The page is looked up. On a hit without the marker the driver is done: the hit costs one
//!    lookup, and no call of the policy.
//! 3. A missing page is claimed. The claim has one of three results: it was found by now, which is a
//!    hit; it is in flight, so the reader waits for it and the policy is not consulted; or the
//!    reader has to bring it in. In the last case the policy is consulted with [`Trigger::Miss`]. A
//!    page that is in none of its windows is read alone.
//! 4. If the page carries the marker, the marker is removed, and then the policy is consulted with
//!    [`Trigger::Marker`]. The marker is not restored, whatever the answer, so one reader triggers
//!    one window. This applies to a hit, to a page in flight, and to a page that the reader's own
//!    miss has just brought in: if a request fills its window, the marker is on the first page. A
//!    page in flight is checked before the wait, so that the next window is read during the wait,
//!    and again after it.
//! 5. The reader waits for the page. If the read of the page failed, the driver continues at 3.
//!
//! After the last page, [`Driver::end_read`] records where the request ended.
//!
//! # One window
//! The policy returns at most two windows, each within the file. Unless a window is the request as
//! it is, it is also within [`FileState::max_pages`]. An instance that shares a cache among streams
//! lowers that limit in [`CachedFile::with_state`]. For each window, [`CachedFile::start`] brings in
//! its pages, and their number is reported with [`Policy::window_read`], even if it is 0.
//!
//! [`start_pages`] carries out a window, or a part of one. It skips pages that are resident or in
//! flight, and submits each contiguous run of the others at once. It sets the marker on
//! [`Window::marker`] if it brought in that page. A page that was present before belongs to the
//! window that brought it in. If memory runs out, the rest of the window is skipped.
//!
//! # What the instance decides
//! The instance decides which pages the reader reads itself, and which are queued. In the simulator,
//! the device takes all of them, and the reader waits for one. In a volume, the reader reads the
//! missing page and the pages that follow it, and queues the rest.

use crate::{FileState, PageIndex, Policy, Read, Residency, Trigger, Window, Windows};
use std::ops::Range;

/// Pages of a file that a reader requests at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The pages. They may extend past the end of the file.
    pub pages: Range<u64>,
    /// The request ends inside its last page, or the file ends there.
    pub ends_inside_page: bool,
    /// The request is a page fault of one page, not a read.
    pub by_fault: bool,
    /// Pages in the file, including a partial last one.
    pub file_pages: u64,
}

impl Request {
    /// Returns the request as a policy sees it at `index`.
    fn read(&self, trigger: Trigger, index: PageIndex, congested: bool) -> Read {
        let pages = self.pages.end.saturating_sub(self.pages.start);
        Read {
            trigger,
            index,
            request_start: PageIndex(self.pages.start),
            request_pages: u32::try_from(pages).unwrap_or(u32::MAX),
            ends_inside_page: self.ends_inside_page,
            by_fault: self.by_fault,
            file_pages: self.file_pages,
            congested,
        }
    }
}

/// A page that was found.
#[derive(Clone, Copy, Debug)]
pub struct Found<P> {
    /// The page as the reader gets it.
    pub page: P,
    /// The page carried the marker, which was removed.
    pub is_marked: bool,
}

/// The state of a page that a lookup did not find.
#[derive(Debug)]
pub enum Claim<P> {
    /// There is nothing to read: the page is present by now, or the reader does without it.
    Found(Found<P>),
    /// The page is in flight.
    InFlight {
        /// The page carried the marker, which was removed.
        is_marked: bool,
    },
    /// The reader has to bring in the page.
    Missing,
}

/// The result of inserting a page of a window.
#[derive(Debug)]
pub enum Insert<P> {
    /// The page was added to the cache and has to be read.
    New(P),
    /// The page was already resident or in flight.
    Present,
    /// There is no memory for the page.
    NoMemory,
}

/// Contiguous pages to read from the device.
#[derive(Debug)]
pub struct Run<P> {
    /// Index of the first page.
    pub first: u64,
    /// The pages, at least one.
    pub pages: Vec<P>,
    /// The page that gets the marker, if it is in this run.
    pub marker: Option<PageIndex>,
}

impl<P> Run<P> {
    /// Returns the indexes of the pages.
    #[must_use]
    pub fn indexes(&self) -> Range<u64> {
        self.first..self.first + self.pages.len() as u64
    }

    /// Returns the page that gets the marker, if it is in this run.
    pub fn marked(&mut self) -> Option<&mut P> {
        let place = self.marker?.0.checked_sub(self.first)?;
        self.pages.get_mut(usize::try_from(place).ok()?)
    }
}

/// A file's page cache and device, as one reader of the file sees them.
pub trait CachedFile {
    /// A page as the reader gets it.
    type Page;
    /// A page that has to be read from the device.
    type NewPage;

    /// Calls `run` with the state of the reader's stream, and with the pages of the file that are
    /// resident.
    fn with_state<R>(&mut self, run: impl FnOnce(&mut FileState, &dyn Residency) -> R) -> R;

    /// Returns true if the queue of the device is too long.
    fn is_congested(&self) -> bool {
        false
    }

    /// Looks up a page. This is called for every page, and is the whole cost of a hit.
    fn get(&mut self, page: PageIndex) -> Option<Found<Self::Page>>;

    /// Claims a page that was not found. After [`Claim::Missing`], the driver calls
    /// [`CachedFile::fill_page`]. After that, and after [`Claim::InFlight`], it calls
    /// [`CachedFile::wait`].
    fn claim(&mut self, page: PageIndex) -> Claim<Self::Page>;

    /// Brings in the claimed page, unless a window did so. Returns true if it carried the marker,
    /// which is removed.
    fn fill_page(&mut self, page: PageIndex) -> bool;

    /// Waits for the claimed page. Returns `None` if its read failed, so it must be claimed again.
    fn wait(&mut self, page: PageIndex) -> Option<Found<Self::Page>>;

    /// Records the answer to `read`, before its windows are started.
    fn decided(&mut self, _read: &Read, _windows: Windows) {}

    /// Starts a window of the answer to `read`, usually with [`start_pages`]. Returns how many of
    /// its pages are being read because of that.
    fn start(&mut self, read: &Read, window: Window) -> u32;

    /// Records that the windows of an access are started, and that the lookup follows. An instance
    /// whose reader reads pages of such windows itself does so now.
    fn access_started(&mut self) {}

    /// Inserts a page, which is submitted later with its run.
    fn insert(&mut self, page: PageIndex) -> Insert<Self::NewPage>;

    /// Starts the read of the pages of a run.
    fn submit(&mut self, run: Run<Self::NewPage>);

    /// Returns an empty vector for the pages of a run.
    fn run_pages(&mut self) -> Vec<Self::NewPage> {
        Vec::new()
    }
}

/// Reads files according to a policy.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    policy: &'static dyn Policy,
    /// Whether the policy wants every page of reads, and of faults. It is cached here because every
    /// hit needs it.
    wants_every_page: [bool; 2],
}

impl Driver {
    /// Creates a driver that consults `policy`.
    #[must_use]
    pub fn new(policy: &'static dyn Policy) -> Self {
        Self {
            policy,
            wants_every_page: [false, true].map(|by_fault| policy.wants_every_page(by_fault)),
        }
    }

    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &'static dyn Policy {
        self.policy
    }

    /// Returns true if the policy has to be consulted about hits too.
    #[must_use]
    #[inline]
    pub fn wants_every_page(&self, by_fault: bool) -> bool {
        self.wants_every_page[usize::from(by_fault)]
    }

    /// Returns a page of `request`, and brings it in if it is missing.
    #[inline]
    pub fn page<F: CachedFile>(
        &self,
        file: &mut F,
        request: &Request,
        index: PageIndex,
    ) -> F::Page {
        if self.wants_every_page(request.by_fault) {
            self.consult(file, request, Trigger::Access, index);
            file.access_started();
        }
        let Some(found) = file.get(index) else {
            return self.fill(file, request, index);
        };
        if found.is_marked {
            self.read_ahead(file, request, index);
        }
        found.page
    }

    /// Records that the reader has received all of `request`.
    pub fn end_read<F: CachedFile>(&self, file: &mut F, request: &Request) {
        let read = request.read(Trigger::Access, PageIndex(request.pages.start), false);
        file.with_state(|state, _| self.policy.end_read(state, &read));
    }

    #[cold]
    fn fill<F: CachedFile>(&self, file: &mut F, request: &Request, index: PageIndex) -> F::Page {
        let found = loop {
            let is_marked = match file.claim(index) {
                Claim::Found(found) => break found,
                Claim::InFlight { is_marked } => is_marked,
                Claim::Missing => {
                    self.consult(file, request, Trigger::Miss, index);
                    file.fill_page(index)
                }
            };
            if is_marked {
                self.read_ahead(file, request, index);
            }
            if let Some(found) = file.wait(index) {
                break found;
            }
        };
        if found.is_marked {
            self.read_ahead(file, request, index);
        }
        found.page
    }

    /// Starts the windows for a page whose marker was removed.
    #[cold]
    fn read_ahead<F: CachedFile>(&self, file: &mut F, request: &Request, index: PageIndex) {
        self.consult(file, request, Trigger::Marker, index);
    }

    /// Consults the policy, and starts the windows that it returns.
    fn consult<F: CachedFile>(
        &self,
        file: &mut F,
        request: &Request,
        trigger: Trigger,
        index: PageIndex,
    ) {
        let read = request.read(trigger, index, file.is_congested());
        let windows = file.with_state(|state, resident| {
            let is_wanted = trigger != Trigger::Access || self.policy.wants_access(state, &read);
            is_wanted.then(|| self.policy.decide(state, &read, resident))
        });
        let Some(windows) = windows else {
            return;
        };
        file.decided(&read, windows);
        for window in windows {
            let new_pages = file.start(&read, window);
            file.with_state(|state, _| self.policy.window_read(state, window, new_pages));
        }
    }
}

/// Brings in those of `pages` that are neither resident nor in flight. Returns their number.
pub fn start_pages<F: CachedFile + ?Sized>(
    file: &mut F,
    pages: Range<u64>,
    marker: Option<PageIndex>,
) -> u32 {
    let mut new_pages = 0;
    let mut open: Option<Run<F::NewPage>> = None;
    for index in pages {
        match file.insert(PageIndex(index)) {
            Insert::New(page) => {
                let run = open.get_or_insert_with(|| Run {
                    first: index,
                    pages: file.run_pages(),
                    marker: None,
                });
                run.pages.push(page);
                if marker == Some(PageIndex(index)) {
                    run.marker = marker;
                }
                new_pages += 1;
            }
            Insert::Present => {
                if let Some(run) = open.take() {
                    file.submit(run);
                }
            }
            Insert::NoMemory => break,
        }
    }
    if let Some(run) = open {
        file.submit(run);
    }
    new_pages
}
