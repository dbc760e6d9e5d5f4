//! Simulates the kernel around the policy: a page cache, and the effect of reads, faults and advice
//! on it.

use crate::cache::Cache;
use larder_readahead::driver::{
    CachedFile, Claim, Driver, Found, Insert, Request, Run, start_pages,
};
use larder_readahead::{
    Advice, FileState, Folio, Modern, PageIndex, Read, Residency, Trigger, Window, pages_inside,
    pages_touched,
};
use larder_testkit::readahead::{
    Action, Folios, KernelWindow, Operation, Outcome, PAGE_BYTES, Pattern,
};
use std::ops::Range;

/// The order of the kernel's largest folio: 2 MiB.
const LARGEST_FOLIO: u8 = 9;

/// An open file.
#[derive(Clone, Debug)]
struct Stream {
    state: FileState,
    /// Whether random reads are advised.
    random_reads: bool,
    /// Whether random faults are advised.
    random_faults: bool,
}

/// A pattern during its replay.
#[derive(Debug)]
pub struct Replay {
    file_bytes: u64,
    streams: Vec<Stream>,
    cache: Cache,
    /// Whether the page cache supports large folios.
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

    /// Performs the operation, and returns the result of the policy.
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
        let requested = pages_touched(offset, len, PAGE_BYTES);
        let got = pages_touched(offset, end - offset, PAGE_BYTES);
        let request = Request {
            pages: requested,
            ends_inside_page: !end.is_multiple_of(PAGE_BYTES),
            by_fault: false,
            file_pages: self.file_pages(),
        };
        let driver = Driver::new(&Modern);
        let mut file = self.reader(stream, false);
        for page in got {
            driver.page(&mut file, &request, PageIndex(page));
        }
        driver.end_read(&mut file, &request);
    }

    /// Simulates a fault on `page`. A fault that misses is repeated when its page is present, and
    /// the repeated fault is a hit.
    fn fault(&mut self, stream: usize, page: u64) {
        let request = Request {
            pages: page..page + 1,
            ends_inside_page: false,
            by_fault: true,
            file_pages: self.file_pages(),
        };
        let driver = Driver::new(&Modern);
        let misses = !self.cache.is_resident(PageIndex(page));
        let mut file = self.reader(stream, true);
        driver.page(&mut file, &request, PageIndex(page));
        if misses {
            driver.page(&mut file, &request, PageIndex(page));
        }
    }

    fn reader(&mut self, stream: usize, by_fault: bool) -> Reader<'_> {
        Reader {
            leaves_markers: by_fault && self.streams[stream].random_faults,
            replay: self,
            stream,
        }
    }

    fn advise(&mut self, index: usize, advice: Advice, offset: u64, len: u64) {
        let stream = &mut self.streams[index];
        stream.state.advise(advice);
        match advice {
            Advice::WillNeed => {
                let pages = pages_touched(offset, len, PAGE_BYTES);
                let windows = stream
                    .state
                    .will_need(pages, self.file_bytes.div_ceil(PAGE_BYTES));
                for window in windows {
                    self.reader(index, false).start_single(window);
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

    /// Drops the folios that are completely inside the range.
    fn drop_pages(&mut self, pages: Range<u64>) {
        for folio in self.cache.drop_inside(pages) {
            self.outcome.dropped_pages += folio.pages();
        }
    }

    fn insert(&mut self, folio: Folio, marked: bool) {
        self.cache.insert(folio, marked);
        self.outcome.add(folio.start.0, folio.order);
    }

    fn record(&mut self, window: Window, order: Option<u8>) {
        self.outcome.windows.push(KernelWindow {
            start: window.start.0,
            size: window.size.into(),
            async_size: window.async_size.into(),
            order,
        });
    }
}

/// The file, as one stream reads it.
struct Reader<'a> {
    replay: &'a mut Replay,
    stream: usize,
    /// Whether random faults are advised, so that the kernel leaves markers in place.
    leaves_markers: bool,
}

impl Reader<'_> {
    fn stream(&self) -> &Stream {
        &self.replay.streams[self.stream]
    }

    fn take_marker(&mut self, page: PageIndex) -> bool {
        !self.leaves_markers && self.replay.cache.unmark(page)
    }

    /// Reads the absent pages of a window into the cache, as single pages.
    fn start_single(&mut self, window: Window) -> u32 {
        self.replay.record(window, None);
        start_pages(self, window.start.0..window.end().0, window.marker())
    }

    /// Starts a window in pieces of 2 MiB, because the kernel reports forced reads in such pieces.
    /// The policy returns one window for all of them.
    fn start_pieces(&mut self, window: Window) -> u32 {
        let (mut start, mut new_pages) = (window.start, 0);
        while start < window.end() {
            let size = u32::try_from(window.end().0 - start.0).unwrap().min(512);
            new_pages += self.start_single(Window {
                start,
                size,
                async_size: 0,
            });
            start = start.plus(size.into());
        }
        new_pages
    }

    /// Reads a window into the cache in large folios. If a folio does not fit between cached pages,
    /// the rest of the window is read in single pages.
    fn start_folios(&mut self, window: Window) -> u32 {
        self.replay.record(window, Some(0));
        let mut new_pages = 0;
        for folio in self.stream().state.folios(window) {
            if self.replay.cache.overlaps(folio) {
                let file_pages = self.replay.file_pages();
                let state = &self.stream().state;
                let rest = state.rest_in_single_pages(folio.start, file_pages);
                return new_pages + rest.map_or(0, |rest| self.start_single(rest));
            }
            let marked = window.marker().is_some_and(|page| folio.contains(page));
            self.replay.insert(folio, marked);
            new_pages += u32::try_from(folio.pages()).unwrap();
        }
        new_pages
    }
}

impl CachedFile for Reader<'_> {
    type Page = ();
    type NewPage = Folio;

    fn with_state<R>(&mut self, run: impl FnOnce(&mut FileState, &dyn Residency) -> R) -> R {
        let state = &mut self.replay.streams[self.stream].state;
        run(state, &self.replay.cache)
    }

    fn get(&mut self, page: PageIndex) -> Option<Found<()>> {
        self.replay.cache.is_resident(page).then(|| Found {
            page: (),
            is_marked: self.take_marker(page),
        })
    }

    fn claim(&mut self, _: PageIndex) -> Claim<()> {
        Claim::Missing
    }

    fn fill_page(&mut self, page: PageIndex) -> bool {
        start_pages(self, page.0..page.0 + 1, None);
        self.take_marker(page)
    }

    fn wait(&mut self, _: PageIndex) -> Option<Found<()>> {
        Some(Found {
            page: (),
            is_marked: false,
        })
    }

    fn start(&mut self, read: &Read, window: Window) -> u32 {
        let forced = self.stream().random_reads && read.trigger == Trigger::Miss && !read.by_fault;
        if forced {
            self.start_pieces(window)
        } else if self.replay.large && self.stream().state.reads_in_folios() {
            self.start_folios(window)
        } else {
            self.start_single(window)
        }
    }

    fn insert(&mut self, page: PageIndex) -> Insert<Folio> {
        let folio = Folio {
            start: page,
            order: 0,
        };
        if self.replay.cache.overlaps(folio) {
            return Insert::Present;
        }
        Insert::New(folio)
    }

    fn submit(&mut self, run: Run<Folio>) {
        for folio in run.pages {
            self.replay.insert(folio, run.marker == Some(folio.start));
        }
    }
}

/// Converts the kernel's outcome to the form in which the replay records that of the policy.
///
/// - With single pages, an asynchronous part that is larger than the window means that the window has no
///   marker: the window was cut at the end of the file.
/// - With large folios, the kernel reports the window before it is cut, even if nothing is left
///   after the cut. It also reports the order before the order is limited. Therefore the folios
///   themselves are compared.
pub fn comparable(kernel: &Outcome, pattern: &Pattern) -> Outcome {
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
