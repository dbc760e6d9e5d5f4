//! The driver: looks up the pages of a request in the page cache, and reads the missing pages as the
//! policy decides.
//!
//! A request is a range of pages that a reader needs. A [`Policy`] returns windows: runs of pages to
//! read. The last [`Window::async_size`] pages of a window are its asynchronous part: usually the pages
//! after the request. The first page of this part carries the marker, a flag (`PG_readahead` in Linux):
//! the first access to the marked page requests the next window.
//!
//! Model: `filemap_get_pages`, which calls `page_cache_sync_ra` for a missing page and
//! `page_cache_async_ra` for a marked page. The driver is generic over [`CachedFile`], a trait for
//! the page cache and the device of one file, as one reader sees them. A volume (an open image), the
//! simulator and the tests of this crate implement the trait.
//!
//! # One page of a request
//! [`Driver::page`] is called for each page of the request, in order. It can consult the policy for
//! three reasons, the variants of [`Trigger`], and it starts the windows that the policy returns. The
//! steps for one page are:
//!
//! 1. If the policy can use hits without a marker ([`Policy::can_use_hits`]), the driver checks whether
//!    the policy wants this access ([`Policy::wants_access`]). If so, the driver consults the policy
//!    with [`Trigger::Access`].
//! 2. The driver looks up the page. If the page is present and carries no marker, the driver returns
//!    it. Unless the policy can use hits without a marker, such a hit costs one lookup and nothing else.
//! 3. If the page is not present, the driver claims it ([`Claim`]):
//!    - If nothing has to be read, for example because another thread has inserted the page since
//!      the lookup, the driver continues as after a hit.
//!    - If another thread is reading the page (it is in flight), the reader waits for that read in
//!      step 5. The policy is not consulted about the miss, but it is notified of the wait if it
//!      requires this ([`Policy::observes_waits`]).
//!    - Otherwise, the driver consults the policy with [`Trigger::Miss`]. If none of the returned
//!      windows contains the page, the page is read alone.
//! 4. If the page carries the marker, the marker is removed, and then the policy is consulted with
//!    [`Trigger::Marker`]. Because the marker is removed first, only one reader requests the next
//!    window. The marker is not restored, even if the policy returns no window. This step applies to a hit, to a page in flight, and to a
//!    page that the reader itself reads after a miss. If a sequential request covers the whole window,
//!    there is no page after the request to carry the marker. In this case, the policy
//!    [`OnDemand`](crate::OnDemand) makes the whole window asynchronous, so its first page, which was
//!    just missed, carries the marker. After a miss, or if the page is in flight, the driver checks
//!    the marker before the wait, so that the next window is read during the wait. It checks again
//!    after the wait: if the page was in flight, the thread that reads it can have set the marker
//!    after the first check.
//! 5. After a miss, or if the page is in flight, the reader waits for the page. If
//!    [`CachedFile::wait`] returns `None`, usually because the read by another thread failed, the
//!    driver continues at step 3.
//!
//! After the last page, [`Driver::end_read`] records where the request ended.
//!
//! # One window
//! The policy returns windows within the file: at most two, or the [`Series`](crate::Series) of
//! [`Adaptive`](crate::Adaptive). A window has at most [`FileState::max_pages`] pages; [`Policy`] lists the
//! exceptions. If several streams share a cache, an implementation of [`CachedFile`] can
//! lower `max_pages` in [`CachedFile::with_state`]. For each window, [`CachedFile::start`] starts the
//! reads of all or some of the missing pages, or leaves them to the reader. It returns the number of
//! pages whose reads it has started or left to the reader, which can be 0. The driver passes this
//! number to [`Policy::window_read`].
//!
//! [`start_pages`] starts the reads for a range of pages. It skips pages that are resident or in
//! flight, and submits each contiguous run of other pages as soon as the run ends. The page
//! [`Window::marker`] gets the marker only if `start_pages` inserts this page: a page that was
//! already present belongs to the window for which it was inserted. If memory runs out, the rest of
//! the range is skipped.
//!
//! # What the implementation of `CachedFile` decides
//! The implementation decides which pages the reader reads itself, and which are queued for other
//! threads. In the simulator, the reader queues all pages, and then waits for the page that it needs.
//!
//! In a volume, the reader itself reads the missing page and the pages that follow it in the window. If
//! the policy has returned a second window, the reader also reads the pages of the request in that
//! window. It stops at the next cached page, or after a maximum number of pages. The reader queues all
//! other missing pages of the windows. There is one exception: if the policy is consulted about a miss
//! and returns a window without an asynchronous part, no pages of this window are queued. Those that
//! the reader does not read itself are read after later misses. The exception does not apply to windows
//! of the policy `adaptive` that extend past the request.

use crate::{FileState, PageIndex, Policy, Read, Residency, Trigger, Window, Windows};
use std::ops::Range;

/// Pages of a file that a reader requests at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Indexes of the pages. The range may extend past the end of the file.
    pub pages: Range<u64>,
    /// Whether the requested bytes end inside a page, not at the end of a page. If the request extends
    /// past the end of the file: whether the file ends inside a page.
    pub ends_inside_page: bool,
    /// Whether the request is a page fault of one page, not a read.
    pub by_fault: bool,
    /// Number of pages in the file. A partial last page counts as one.
    pub file_pages: u64,
}

impl Request {
    /// Returns the input of the policy for the page `index` of this request.
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

/// The result for one page of a request: a page that the reader can use or, in rare cases, no page.
#[derive(Clone, Copy, Debug)]
pub struct Found<P> {
    /// The page, as [`CachedFile::Page`]. This type can express that no page was found.
    pub page: P,
    /// Whether the page carried the marker. The marker was removed.
    pub is_marked: bool,
}

/// The result of [`CachedFile::claim`], for a page that was not present at the lookup.
#[derive(Debug)]
pub enum Claim<P> {
    /// Nothing has to be read: the page was inserted after the lookup, or it cannot be read, for example
    /// because the cache is full. In the second case, [`Found::page`] states that the page is absent.
    Ready(Found<P>),
    /// Another thread is reading the page.
    InFlight {
        /// Whether the page carried the marker. The marker was removed.
        is_marked: bool,
    },
    /// The page is neither present nor in flight. This reader must read it.
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
    /// Index of the first page in the file.
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
        let offset = self.marker?.0.checked_sub(self.first)?;
        self.pages.get_mut(usize::try_from(offset).ok()?)
    }
}

/// A file's page cache and device, as one reader of the file sees them.
pub trait CachedFile {
    /// The result of a lookup for the reader, for example a reference to the cached page.
    type Page;
    /// A page that was inserted and has to be read from the device.
    type NewPage;

    /// Calls `run` with the readahead state of the reader's stream, and with the resident pages of
    /// the file.
    fn with_state<R>(&mut self, run: impl FnOnce(&mut FileState, &dyn Residency) -> R) -> R;

    /// Returns true if the queue of the device is so long that readahead should be deferred.
    fn is_congested(&self) -> bool {
        false
    }

    /// Looks up a page, and removes its marker. The driver calls this for every page. It calls
    /// nothing else for a hit without a marker, unless the policy [can use such
    /// hits](Policy::can_use_hits).
    fn get(&mut self, page: PageIndex) -> Option<Found<Self::Page>>;

    /// Claims a page that the lookup did not find, so that only one reader reads it. After
    /// [`Claim::Missing`], the driver starts the windows of the policy, and then calls
    /// [`CachedFile::fill_page`]. After [`Claim::Missing`] or [`Claim::InFlight`], if the page carried
    /// the marker, the driver starts the windows for [`Trigger::Marker`]. Then it calls
    /// [`CachedFile::wait`].
    fn claim(&mut self, page: PageIndex) -> Claim<Self::Page>;

    /// Starts the read of the claimed page, unless a window contained the page. An implementation in
    /// which the reader reads the page itself may do so in [`CachedFile::wait`]. Returns true if the
    /// page carried the marker, and removes the marker.
    fn fill_page(&mut self, page: PageIndex) -> bool;

    /// Waits until the page is read, by this reader or by the thread that has it in flight. Returns
    /// `None` if the page must be claimed again, usually because the read by another thread failed.
    fn wait(&mut self, page: PageIndex) -> Option<Found<Self::Page>>;

    /// Records that the policy returned `windows` for `read`. The driver calls this before it starts
    /// the windows.
    fn record_decision(&mut self, _read: &Read, _windows: Windows) {}

    /// Starts the reads of a window that the policy returned for `read`, usually with
    /// [`start_pages`], or leaves them to the reader. Returns the number of pages whose reads it has
    /// started or left to the reader.
    fn start(&mut self, read: &Read, window: Window) -> u32;

    /// Starts the reads that [`CachedFile::start`] has left to the reader: it has inserted these pages
    /// into the cache, but has not started their reads. If the policy [can use hits without a
    /// marker](Policy::can_use_hits), the driver calls this before each lookup, after the windows for
    /// [`Trigger::Access`] are started. An implementation must then start all such reads. Otherwise the
    /// reader could find one of these pages in flight, and wait for a read that never starts.
    fn before_lookup(&mut self) {}

    /// Inserts a page of a window into the cache. Its read starts later, when [`CachedFile::submit`]
    /// is called for the run that contains the page.
    fn insert(&mut self, page: PageIndex) -> Insert<Self::NewPage>;

    /// Starts the read of the pages of a run.
    fn submit(&mut self, run: Run<Self::NewPage>);

    /// Returns an empty vector for the pages of a run. An implementation may reuse allocations.
    fn run_pages(&mut self) -> Vec<Self::NewPage> {
        Vec::new()
    }
}

/// Reads files according to a policy.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    policy: &'static dyn Policy,
    /// The values of [`Policy::can_use_hits`] for reads and for faults. They are cached here
    /// because every hit needs one of them.
    can_use_hits: [bool; 2],
    /// The value of [`Policy::observes_waits`].
    observes_waits: bool,
}

impl Driver {
    /// Creates a driver that consults `policy`.
    #[must_use]
    pub fn new(policy: &'static dyn Policy) -> Self {
        Self {
            policy,
            can_use_hits: [false, true].map(|by_fault| policy.can_use_hits(by_fault)),
            observes_waits: policy.observes_waits(),
        }
    }

    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &'static dyn Policy {
        self.policy
    }

    /// Returns true if the policy can also use hits without a marker ([`Policy::can_use_hits`]). The
    /// result is for faults if `by_fault` is true, otherwise for reads.
    #[must_use]
    #[inline]
    pub fn can_use_hits(&self, by_fault: bool) -> bool {
        self.can_use_hits[usize::from(by_fault)]
    }

    /// Returns the page `index` of `request`. If the page is missing, reads it and waits for it.
    #[inline]
    pub fn page<F: CachedFile>(
        &self,
        file: &mut F,
        request: &Request,
        index: PageIndex,
    ) -> F::Page {
        if self.can_use_hits(request.by_fault) {
            self.consult(file, request, Trigger::Access, index);
            file.before_lookup();
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
                Claim::Ready(found) => break found,
                Claim::InFlight { is_marked } => {
                    if self.observes_waits {
                        file.with_state(|state, _| self.policy.page_in_flight(state, index));
                    }
                    is_marked
                }
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

    /// Consults the policy about an access to the marked page `index`, and starts the windows.
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
        file.record_decision(&read, windows);
        for window in windows {
            let new_pages = file.start(&read, window);
            file.with_state(|state, _| self.policy.window_read(state, window, new_pages));
        }
    }
}

/// Inserts and submits those of `pages` that are neither resident nor in flight. Returns the number of
/// inserted pages. If this call inserts the page `marker`, it sets [`Run::marker`] of the run that
/// contains that page.
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
