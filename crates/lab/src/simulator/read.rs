//! Reading a page: the contract of [`larder_readahead::Policy`], step by step, up to where a
//! reader has to wait.
//!
//! A window becomes one device request for each contiguous run of pages that are neither cached
//! nor in flight, cut where the device's commands would be. Where the memory is all in use, the rest of the
//! window is left out, as in Linux.

use std::cell::Cell;
use std::ops::Range;

use larder_cache::page::{NewPage, PageCache};
use larder_instruments::simulated::{RequestId, RequestKind};
use larder_readahead::{FileState, PageIndex, Read, Residency, Trigger, Window};

use super::FileId;
use super::cpu::Spent;
use super::in_flight::Reading;
use super::machine::{Machine, key};

/// Pages of a file that a reader asks for at once.
#[derive(Clone, Debug)]
pub(super) struct PageRequest {
    pub(super) file: FileId,
    pub(super) pages: Range<u64>,
    /// It ends inside its last page.
    pub(super) ends_inside_page: bool,
    /// It is a page fault, of one page.
    pub(super) by_fault: bool,
}

/// How far a reader or writer has come with one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It has got the page.
    Got,
    /// The page is in flight.
    Wait(RequestId),
    /// There is no memory for the page.
    NoMemory,
    /// Too much is dirty.
    Throttled,
}

impl Machine {
    /// Looks up page `index` of the request, and brings it in if it is missing.
    pub(super) fn read_page(
        &mut self,
        state: &mut FileState,
        request: &PageRequest,
        index: u64,
        spent: &mut Spent,
    ) -> Step {
        if self.policy.wants_every_page(request.by_fault) {
            let read = self.describe(request, index, Trigger::Access);
            if self.policy.wants_access(state, &read) {
                self.ask(state, request, &read, spent);
            }
        }
        self.counts.page_lookups += 1;
        spent.lookup();
        let cached = self.pages.get(key(request.file, index));
        if let Some(is_marked) = cached.map(|page| page.take_marker()) {
            self.counts.page_hits += 1;
            if is_marked {
                self.ask_at(state, request, index, Trigger::Marker, spent);
            }
            spent.copy();
            return Step::Got;
        }
        self.counts.page_misses += 1;
        if self.in_flight.find(request.file, index).is_some() {
            self.counts.page_misses_in_flight += 1;
        } else {
            self.ask_at(state, request, index, Trigger::Miss, spent);
            self.counts.lookups_after_miss += 1;
            spent.lookup();
        }
        let step = self.await_page(request.file, index, spent);
        if let Step::Wait(id) = step
            && self.in_flight.take_marker(id, index)
        {
            self.ask_at(state, request, index, Trigger::Marker, spent);
        }
        step
    }

    /// Has a page read alone that is not in flight; or finds it after all, where it was missing
    /// for want of memory and another reader brought it in.
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
            waiters: Vec::new(),
        };
        Step::Wait(self.submit_read(RequestKind::Read, reading))
    }

    /// Takes note that the reader has got all of its request.
    pub(super) fn end_read(&self, state: &mut FileState, request: &PageRequest) {
        let read = self.describe(request, request.pages.start, Trigger::Access);
        self.policy.end_read(state, &read);
    }

    fn describe(&self, request: &PageRequest, index: u64, trigger: Trigger) -> Read {
        let request_pages = request.pages.end - request.pages.start;
        Read {
            trigger,
            index: PageIndex(index),
            request_start: PageIndex(request.pages.start),
            request_pages: u32::try_from(request_pages).unwrap_or(u32::MAX),
            ends_inside_page: request.ends_inside_page,
            by_fault: request.by_fault,
            file_pages: self.file(request.file).pages(),
            congested: self.device.is_congested(),
        }
    }

    fn ask_at(
        &mut self,
        state: &mut FileState,
        request: &PageRequest,
        index: u64,
        trigger: Trigger,
        spent: &mut Spent,
    ) {
        let read = self.describe(request, index, trigger);
        self.ask(state, request, &read, spent);
    }

    /// Asks the policy, and brings in the windows that it answers with.
    fn ask(
        &mut self,
        state: &mut FileState,
        request: &PageRequest,
        read: &Read,
        spent: &mut Spent,
    ) {
        self.counts.readahead_calls += 1;
        spent.decision();
        let resident = CachedPages {
            pages: &self.pages,
            file: request.file,
            lookups: Cell::new(0),
        };
        let windows = self.policy.decide(state, read, &resident);
        self.counts.policy_lookups += resident.lookups.get();
        for window in windows {
            let wanted = read.index.0..request.pages.end;
            let new_pages = self.bring_in(request.file, window, &wanted, spent);
            self.policy.window_read(state, window, new_pages);
        }
    }

    /// Has the device read those pages of a window that are neither cached nor in flight. Its
    /// reader is going to use the pages `wanted`. Returns how many are being read.
    fn bring_in(
        &mut self,
        file: FileId,
        window: Window,
        wanted: &Range<u64>,
        spent: &mut Spent,
    ) -> u32 {
        let mut new_pages = 0;
        let mut run = self.page_vec();
        let end = window.end().0;
        for index in window.start.0..end {
            self.counts.insert_lookups += 1;
            if let Some(mut page) = self.insert_page(file, index) {
                spent.insert();
                if wanted.contains(&index) {
                    page.set_wanted();
                } else {
                    page.set_readahead();
                }
                run.push(page);
                new_pages += 1;
                if run.len() as u64 == self.max_request_pages {
                    run = self.submit_run(file, index + 1, run, window, wanted);
                }
            } else {
                run = self.submit_run(file, index, run, window, wanted);
                if self.is_memory_full {
                    break;
                }
            }
        }
        let rest = self.submit_run(file, end, run, window, wanted);
        self.recycle(rest);
        new_pages
    }

    /// Submits the pages of `run`, which end before page `end`, if there are any. Returns an empty
    /// run.
    fn submit_run(
        &mut self,
        file: FileId,
        end: u64,
        run: Vec<NewPage>,
        window: Window,
        wanted: &Range<u64>,
    ) -> Vec<NewPage> {
        if run.is_empty() {
            return run;
        }
        let first = end - run.len() as u64;
        let is_wanted = first < wanted.end && wanted.start < end;
        let marker = window.marker().map(|marker| marker.0);
        let reading = Reading {
            file,
            first,
            pages: run,
            marker: marker.filter(|marker| (first..end).contains(marker)),
            waiters: Vec::new(),
        };
        let kind = if is_wanted {
            RequestKind::Read
        } else {
            RequestKind::ReadAhead
        };
        self.submit_read(kind, reading);
        self.page_vec()
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
