//! Plays the kernel around the policy: a page cache, and what reads, faults and advice do to it.

use crate::cache::Cache;
use larder_readahead::{
    Advice, FileState, Folio, Modern, PageIndex, Policy, Read, Residency, Trigger, Window,
    pages_inside, pages_touched,
};
use larder_testkit::readahead::{
    Action, Folios, KernelWindow, Operation, Outcome, PAGE_BYTES, Pattern,
};
use std::ops::Range;

/// The order of the largest folio of the kernel: 2 MiB.
const LARGEST_FOLIO: u8 = 9;

/// An open file.
#[derive(Clone, Copy, Debug)]
struct Stream {
    state: FileState,
    /// Random reads are advised.
    random_reads: bool,
    /// Random faults are advised.
    random_faults: bool,
}

/// A pattern while it is replayed.
#[derive(Debug)]
pub struct Replay {
    file_bytes: u64,
    streams: Vec<Stream>,
    cache: Cache,
    /// The page cache has large folios.
    large: bool,
    outcome: Outcome,
}

impl Replay {
    pub fn new(pattern: &Pattern, folios: Folios) -> Self {
        let pages = |kib: u32| kib / 4;
        let mut state = FileState::new(pages(pattern.max_kib));
        state.set_io_pages(pages(pattern.io_kib));
        if folios == Folios::Large {
            state.set_largest_folio(LARGEST_FOLIO);
        }
        let stream = Stream {
            state,
            random_reads: false,
            random_faults: false,
        };
        Self {
            file_bytes: pattern.file_bytes,
            streams: vec![stream; pattern.streams().into()],
            cache: Cache::default(),
            large: folios == Folios::Large,
            outcome: Outcome::default(),
        }
    }

    /// What the policy makes of the operation.
    pub fn perform(&mut self, operation: &Operation) -> Outcome {
        let stream = usize::from(operation.stream);
        match operation.action {
            Action::Read {
                offset_bytes,
                len_bytes,
            } => self.read(stream, offset_bytes, len_bytes.into()),
            Action::Fault { page } => self.fault(stream, page),
            Action::AdviseMapping(advice) => {
                self.streams[stream].state.advise_mapping(advice);
                self.streams[stream].random_faults = advice == Advice::Random;
            }
            Action::Advise {
                advice,
                offset_bytes,
                len_bytes,
            } => self.advise(stream, advice, offset_bytes, len_bytes),
        }
        std::mem::take(&mut self.outcome)
    }

    fn file_pages(&self) -> u64 {
        self.file_bytes.div_ceil(PAGE_BYTES)
    }

    fn read(&mut self, stream: usize, offset: u64, len: u64) {
        let end = (offset + len).min(self.file_bytes);
        if offset >= end {
            return;
        }
        let asked = pages_touched(offset, len, PAGE_BYTES);
        let got = pages_touched(offset, end - offset, PAGE_BYTES);
        let mut read = Read {
            trigger: Trigger::Miss,
            index: PageIndex(got.start),
            request_start: PageIndex(asked.start),
            request_pages: u32::try_from(asked.end - asked.start).unwrap(),
            ends_inside_page: !end.is_multiple_of(PAGE_BYTES),
            by_fault: false,
            file_pages: self.file_pages(),
            congested: false,
        };
        for page in got {
            read.index = PageIndex(page);
            if !self.cache.is_resident(read.index) {
                self.ask(stream, Trigger::Miss, &read);
                self.bring_in_alone(page, false);
            }
            if self.cache.unmark(read.index) {
                self.ask(stream, Trigger::Marker, &read);
            }
        }
        Modern.end_read(&mut self.streams[stream].state, &read);
    }

    /// A fault that misses is retried once its page is there, and the retry is a hit. Where faults
    /// are advised to be random, the kernel leaves markers alone.
    fn fault(&mut self, stream: usize, page: u64) {
        let read = Read {
            trigger: Trigger::Access,
            index: PageIndex(page),
            request_start: PageIndex(page),
            request_pages: 1,
            ends_inside_page: false,
            by_fault: true,
            file_pages: self.file_pages(),
            congested: false,
        };
        if !self.cache.is_resident(read.index) {
            self.ask(stream, Trigger::Miss, &read);
            self.bring_in_alone(page, false);
            self.ask(stream, Trigger::Access, &read);
            return;
        }
        self.ask(stream, Trigger::Access, &read);
        if !self.streams[stream].random_faults && self.cache.unmark(read.index) {
            self.ask(stream, Trigger::Marker, &read);
        }
    }

    fn advise(&mut self, stream: usize, advice: Advice, offset: u64, len: u64) {
        let stream = &mut self.streams[stream];
        stream.state.advise(advice);
        match advice {
            Advice::WillNeed => {
                let pages = pages_touched(offset, len, PAGE_BYTES);
                let windows = stream
                    .state
                    .will_need(pages, self.file_bytes.div_ceil(PAGE_BYTES));
                for window in windows {
                    self.bring_in(window);
                }
            }
            Advice::DontNeed => {
                self.drop_pages(pages_inside(offset, len, self.file_bytes, PAGE_BYTES));
            }
            Advice::Normal | Advice::Sequential | Advice::Random => {
                stream.random_reads = advice == Advice::Random;
            }
        }
    }

    fn ask(&mut self, stream: usize, trigger: Trigger, read: &Read) {
        let read = Read { trigger, ..*read };
        let Stream {
            state,
            random_reads,
            ..
        } = &mut self.streams[stream];
        if trigger == Trigger::Access && !Modern.wants_access(state, &read) {
            return;
        }
        let forced = *random_reads && trigger == Trigger::Miss && !read.by_fault;
        for window in Modern.decide(state, &read, &self.cache) {
            if forced {
                self.bring_in_pieces(window);
            } else if self.large && self.streams[stream].state.reads_in_folios() {
                self.bring_in_folios(stream, window);
            } else {
                self.bring_in(window);
            }
        }
    }

    /// The kernel tells of what is forced in pieces of 2 MiB; the policy answers with one window.
    fn bring_in_pieces(&mut self, window: Window) {
        let mut start = window.start;
        while start < window.end() {
            let size = u32::try_from(window.end().0 - start.0).unwrap().min(512);
            self.bring_in(Window {
                start,
                size,
                async_size: 0,
            });
            start = start.plus(size.into());
        }
    }

    /// Brings in the pages of a window that are not there, one by one.
    fn bring_in(&mut self, window: Window) {
        self.tell(window, None);
        for page in window.start.0..window.end().0 {
            self.bring_in_alone(page, window.marker() == Some(PageIndex(page)));
        }
    }

    /// Brings in a window in large folios. Where one does not fit between what is cached, the rest
    /// of the window comes in single pages.
    fn bring_in_folios(&mut self, stream: usize, window: Window) {
        self.tell(window, Some(0));
        for folio in self.streams[stream].state.folios(window) {
            if self.cache.overlaps(folio) {
                let state = &self.streams[stream].state;
                if let Some(rest) = state.rest_in_single_pages(folio.start, self.file_pages()) {
                    self.bring_in(rest);
                }
                return;
            }
            let marked = window.marker().is_some_and(|page| folio.contains(page));
            self.cache.insert(folio, marked);
            self.outcome.add(folio.start.0, folio.order);
        }
    }

    fn bring_in_alone(&mut self, page: u64, marked: bool) {
        let folio = Folio {
            start: PageIndex(page),
            order: 0,
        };
        if !self.cache.overlaps(folio) {
            self.cache.insert(folio, marked);
            self.outcome.add(page, 0);
        }
    }

    /// Drops the folios that lie wholly in the range.
    fn drop_pages(&mut self, pages: Range<u64>) {
        for folio in self.cache.drop_inside(pages) {
            self.outcome.dropped_pages += folio.pages();
        }
    }

    fn tell(&mut self, window: Window, order: Option<u8>) {
        self.outcome.windows.push(KernelWindow {
            start: window.start.0,
            size: window.size.into(),
            async_size: window.async_size.into(),
            order,
        });
    }
}

/// What the kernel told, in the terms of the policy.
///
/// - Of single pages, an asynchronous part larger than the window has no marker, since the window
///   was cut at the end of the file.
/// - Of large folios, the kernel tells of the window before it is cut, also where nothing is left,
///   and of an order that it has not limited yet: the folios themselves are what is compared.
pub fn as_judged(kernel: &Outcome, pattern: &Pattern) -> Outcome {
    let file_pages = pattern.file_bytes.div_ceil(PAGE_BYTES);
    let mut outcome = kernel.clone();
    outcome.windows.retain_mut(|window| {
        if window.order.is_none() {
            if window.async_size > window.size {
                window.async_size = 0;
            }
            return true;
        }
        let size = window.size.min(file_pages.saturating_sub(window.start));
        window.async_size = window.async_size.saturating_sub(window.size - size);
        window.size = size;
        window.order = Some(0);
        size > 0
    });
    outcome
}
