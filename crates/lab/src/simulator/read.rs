//! Reads one page: either the page is available, or the reader must wait for a request. Implements the page cache
//! and the device of a file for the readahead driver.
//!
//! A window becomes device requests: one for each contiguous run of pages that are neither cached nor in
//! flight. A long run is split at the maximum size of the device's commands. If all memory is in use, the rest
//! of the window is omitted, as in Linux.

use std::cell::Cell;
use std::ops::Range;

use larder_cache::page::{NewPage, Page, PageCache};
use larder_instruments::simulated::{RequestId, RequestKind};
use larder_readahead::driver::{CachedFile, Claim, Found, Insert, Request, Run, start_pages};
use larder_readahead::{FileState, PageIndex, Read, Residency, Window, Windows};

use super::cpu::Spent;
use super::ids::FileId;
use super::in_flight::Reading;
use super::machine::{Machine, key};

/// Progress of a reader or writer with one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The reader or writer has the page.
    Got,
    /// The page is being read by this request.
    Wait(RequestId),
    /// There is no memory for the page.
    NoMemory,
    /// Too many pages are dirty.
    Throttled,
}

impl Machine {
    /// Looks up page `index` of the file, which is part of `request`, and reads it if it is missing.
    pub(super) fn read_page(
        &mut self,
        state: &mut FileState,
        file: FileId,
        request: &Request,
        index: u64,
        spent: &mut Spent,
    ) -> Step {
        let driver = self.driver;
        let mut file = FileReader::new(self, state, file, spent);
        driver.page(&mut file, request, PageIndex(index))
    }

    /// Records that the reader has completed its request.
    pub(super) fn end_read(
        &mut self,
        state: &mut FileState,
        file: FileId,
        request: &Request,
        spent: &mut Spent,
    ) {
        let driver = self.driver;
        driver.end_read(&mut FileReader::new(self, state, file, spent), request);
    }

    /// Reads a single page, without readahead. If another reader has inserted the page since it was looked up, the
    /// reader waits for that read, or uses the cached page.
    pub(super) fn await_page(&mut self, file: FileId, index: u64, spent: &mut Spent) -> Step {
        if let Some(id) = self.in_flight.find(file, index) {
            return Step::Wait(id);
        }
        if self.pages.get(key(file, index)).is_some() {
            spent.copy();
            return Step::Got;
        }
        let Some(mut page) = self.insert_page(file, index) else {
            return Step::NoMemory;
        };
        spent.insert();
        page.set_wanted();
        let mut pages = self.page_vec();
        pages.push(page);
        let reading = Reading {
            file,
            first: index,
            pages,
            marker: None,
            ticket: None,
            waiters: Vec::new(),
        };
        Step::Wait(self.submit_read(RequestKind::Read, reading))
    }
}

/// A file in the context of one reader.
struct FileReader<'a> {
    machine: &'a mut Machine,
    state: &'a mut FileState,
    file: FileId,
    spent: &'a mut Spent,
    /// Progress of the reader with a missing page.
    step: Step,
    /// The pages of the reader's request.
    wanted: Range<u64>,
}

impl<'a> FileReader<'a> {
    fn new(
        machine: &'a mut Machine,
        state: &'a mut FileState,
        file: FileId,
        spent: &'a mut Spent,
    ) -> Self {
        Self {
            machine,
            state,
            file,
            spent,
            step: Step::NoMemory,
            wanted: 0..0,
        }
    }

    /// Removes the marker from page `index`, if the page is in flight.
    fn take_marker(&mut self, index: PageIndex) -> bool {
        match self.step {
            Step::Wait(id) => self.machine.in_flight.take_marker(id, index.0),
            _ => false,
        }
    }
}

impl CachedFile for FileReader<'_> {
    type Page = Step;
    type NewPage = NewPage;

    fn with_state<R>(&mut self, run: impl FnOnce(&mut FileState, &dyn Residency) -> R) -> R {
        let resident = CachedPages {
            pages: &self.machine.pages,
            file: self.file,
            lookups: Cell::new(0),
        };
        let result = run(self.state, &resident);
        self.machine.counts.policy_lookups += resident.lookups.get();
        result
    }

    fn is_congested(&self) -> bool {
        self.machine.device.is_congested()
    }

    fn get(&mut self, page: PageIndex) -> Option<Found<Step>> {
        self.machine.counts.page_lookups += 1;
        self.spent.lookup();
        let cached = self.machine.pages.get(key(self.file, page.0));
        let is_marked = cached.as_ref().map(Page::take_marker)?;
        self.machine.counts.page_hits += 1;
        self.spent.copy();
        Some(Found {
            page: Step::Got,
            is_marked,
        })
    }

    fn claim(&mut self, page: PageIndex) -> Claim<Step> {
        self.machine.counts.page_misses += 1;
        let Some(id) = self.machine.in_flight.find(self.file, page.0) else {
            return Claim::Missing;
        };
        self.machine.counts.page_misses_in_flight += 1;
        self.step = Step::Wait(id);
        Claim::InFlight {
            is_marked: self.take_marker(page),
        }
    }

    fn fill_page(&mut self, page: PageIndex) -> bool {
        self.machine.counts.lookups_after_miss += 1;
        self.spent.lookup();
        self.step = self.machine.await_page(self.file, page.0, self.spent);
        self.take_marker(page)
    }

    fn wait(&mut self, _: PageIndex) -> Option<Found<Step>> {
        Some(Found {
            page: self.step,
            is_marked: false,
        })
    }

    fn record_decision(&mut self, _: &Read, _: Windows) {
        self.machine.counts.readahead_calls += 1;
        self.spent.decision();
    }

    fn start(&mut self, read: &Read, window: Window) -> u32 {
        self.wanted = read.index.0..read.last_page().0 + 1;
        start_pages(self, window.start.0..window.end().0, window.marker())
    }

    fn insert(&mut self, page: PageIndex) -> Insert<NewPage> {
        self.machine.counts.insert_lookups += 1;
        let Some(mut new) = self.machine.insert_page(self.file, page.0) else {
            return if self.machine.is_memory_full {
                Insert::NoMemory
            } else {
                Insert::Present
            };
        };
        self.spent.insert();
        if self.wanted.contains(&page.0) {
            new.set_wanted();
        } else {
            new.set_readahead();
        }
        Insert::New(new)
    }

    /// Submits the run, split at the maximum size of the device's commands.
    fn submit(&mut self, run: Run<NewPage>) {
        let Run {
            mut first,
            pages: mut rest,
            marker,
        } = run;
        while !rest.is_empty() {
            let most = usize::try_from(self.machine.max_request_pages).unwrap_or(usize::MAX);
            let pages = if rest.len() <= most {
                std::mem::take(&mut rest)
            } else {
                let mut pages = self.machine.page_vec();
                pages.extend(rest.drain(..most));
                pages
            };
            let end = first + pages.len() as u64;
            let is_wanted = first < self.wanted.end && self.wanted.start < end;
            let reading = Reading {
                file: self.file,
                first,
                pages,
                marker: marker
                    .map(|marker| marker.0)
                    .filter(|marker| (first..end).contains(marker)),
                ticket: None,
                waiters: Vec::new(),
            };
            let kind = if is_wanted {
                RequestKind::Read
            } else {
                RequestKind::ReadAhead
            };
            self.machine.submit_read(kind, reading);
            first = end;
        }
    }

    fn run_pages(&mut self) -> Vec<NewPage> {
        self.machine.page_vec()
    }
}

/// The pages of one file that are cached or in flight.
struct CachedPages<'a> {
    pages: &'a PageCache,
    file: FileId,
    lookups: Cell<u64>,
}

impl Residency for CachedPages<'_> {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.lookups.set(self.lookups.get() + 1);
        self.pages.contains(key(self.file, page.0))
    }
}
