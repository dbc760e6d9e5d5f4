//! A minimal page cache for the driver: it records which pages of one file are resident, in flight
//! and marked.

use std::collections::BTreeSet;

use larder_readahead::driver::{
    CachedFile, Claim, Driver, Found, Insert, Request, Run, start_pages,
};
use larder_readahead::{
    Advice, FileState, PageIndex, PolicyName, Read, Residency, Window, Windows,
};

/// One window that a policy returned: start, size, asynchronous size.
pub type ReturnedWindow = (u64, u32, u32);

/// A pseudo-random sequence from a seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The events of a file so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// All windows that the policy returned, in order.
    pub windows: Vec<ReturnedWindow>,
    /// The number of calls of the policy's `decide`.
    pub decisions: u32,
    /// The number of decisions about a page that was neither resident nor in flight. The reader
    /// waits for each such page.
    pub stalls: u32,
    /// The number of decisions about a page that a lookup did not find.
    pub misses: u32,
    /// The number of pages of windows that were already resident or in flight.
    pub pages_requested_again: u64,
}

/// A file, its pages in the cache, and its reader.
#[derive(Debug)]
pub struct ToyFile {
    driver: Driver,
    state: FileState,
    file_pages: u64,
    congested: bool,
    resident: Resident,
    in_flight: BTreeSet<u64>,
    marked: BTreeSet<u64>,
    /// The source of the order in which pages in flight arrive; `None` if they arrive immediately.
    arrivals: Option<Random>,
    pub log: Log,
}

/// The pages that are resident or in flight.
#[derive(Debug, Default)]
struct Resident(BTreeSet<u64>);

impl Residency for Resident {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.0.contains(&page.0)
    }
}

impl ToyFile {
    pub fn new(policy: PolicyName, file_pages: u64, max_pages: u32) -> Self {
        Self {
            driver: Driver::new(policy.policy()),
            state: FileState::new(max_pages),
            file_pages,
            congested: false,
            resident: Resident::default(),
            in_flight: BTreeSet::new(),
            marked: BTreeSet::new(),
            arrivals: None,
            log: Log::default(),
        }
    }

    /// Makes the device slow. The order in which pages arrive depends on the seed.
    pub fn with_slow_device(self, seed: u64) -> Self {
        Self {
            arrivals: Some(Random::new(seed)),
            ..self
        }
    }

    pub fn advise(&mut self, advice: Advice) {
        self.state.advise(advice);
    }

    pub fn set_congested(&mut self, congested: bool) {
        self.congested = congested;
    }

    /// Makes pages resident without a read.
    pub fn cache(&mut self, from: u64, pages: u64) {
        self.resident.0.extend(from..from + pages);
    }

    /// Removes pages, except those in flight.
    pub fn reclaim(&mut self, from: u64, pages: u64) {
        for page in from..from + pages {
            if !self.in_flight.contains(&page) {
                self.resident.0.remove(&page);
                self.marked.remove(&page);
            }
        }
    }

    /// Reads `pages` pages from `start`. Returns the resulting windows.
    pub fn read(&mut self, start: u64, pages: u32) -> &[ReturnedWindow] {
        self.request(start, pages, false)
    }

    /// Reads from `start` to the end of the file, with requests of each of `pages` in turn.
    pub fn read_to_end(&mut self, start: u64, pages: &[u32]) {
        let mut at = start;
        for pages in pages.iter().cycle() {
            if at >= self.file_pages {
                break;
            }
            self.read(at, *pages);
            at += u64::from(*pages);
        }
    }

    /// Simulates a fault on `page`. Returns the resulting windows.
    pub fn fault(&mut self, page: u64) -> &[ReturnedWindow] {
        self.request(page, 1, true)
    }

    fn request(&mut self, start: u64, pages: u32, by_fault: bool) -> &[ReturnedWindow] {
        let before = self.log.windows.len();
        let end = start + u64::from(pages);
        let request = Request {
            pages: start..end,
            ends_inside_page: false,
            by_fault,
            file_pages: self.file_pages,
        };
        let driver = self.driver;
        for page in start..end.min(self.file_pages) {
            driver.page(self, &request, PageIndex(page));
        }
        driver.end_read(self, &request);
        &self.log.windows[before..]
    }

    /// Simulates the wait of the reader for `page`, during which other pages arrive.
    fn arrive(&mut self, page: PageIndex) -> Found<()> {
        self.in_flight.remove(&page.0);
        match &mut self.arrivals {
            None => self.in_flight.clear(),
            Some(random) => self.in_flight.retain(|_| random.below(32) > 0),
        }
        Found {
            page: (),
            is_marked: self.marked.remove(&page.0),
        }
    }
}

impl CachedFile for ToyFile {
    type Page = ();
    type NewPage = ();

    fn with_state<R>(&mut self, run: impl FnOnce(&mut FileState, &dyn Residency) -> R) -> R {
        run(&mut self.state, &self.resident)
    }

    fn is_congested(&self) -> bool {
        self.congested
    }

    fn get(&mut self, page: PageIndex) -> Option<Found<()>> {
        self.resident.is_resident(page).then(|| self.arrive(page))
    }

    fn claim(&mut self, _: PageIndex) -> Claim<()> {
        self.log.misses += 1;
        Claim::Missing
    }

    fn fill_page(&mut self, page: PageIndex) -> bool {
        self.resident.0.insert(page.0);
        self.marked.remove(&page.0)
    }

    fn wait(&mut self, page: PageIndex) -> Option<Found<()>> {
        Some(self.arrive(page))
    }

    fn record_decision(&mut self, read: &Read, windows: Windows) {
        self.log.decisions += 1;
        self.log.stalls += u32::from(!self.resident.is_resident(read.index));
        let mut requested = BTreeSet::new();
        for window in windows {
            check(window, read, self.state.max_pages());
            for page in window.start.0..window.end().0 {
                assert!(requested.insert(page), "{window:?} overlaps another window");
            }
            let returned = (window.start.0, window.size, window.async_size);
            self.log.windows.push(returned);
        }
    }

    fn start(&mut self, _: &Read, window: Window) -> u32 {
        let new_pages = start_pages(self, window.start.0..window.end().0, window.marker());
        self.log.pages_requested_again += u64::from(window.size - new_pages);
        new_pages
    }

    fn insert(&mut self, page: PageIndex) -> Insert<()> {
        if self.resident.0.insert(page.0) {
            Insert::New(())
        } else {
            Insert::Present
        }
    }

    fn submit(&mut self, run: Run<()>) {
        self.in_flight.extend(run.indexes());
        self.marked.extend(run.marker.map(|page| page.0));
    }
}

/// Checks the properties of a window that the policy returned for `read`.
pub fn check(window: Window, read: &Read, max_pages: u32) {
    let as_requested =
        window.start == read.index && window.size <= read.rest_pages() && window.async_size == 0;
    assert!(
        window.size >= 1 && (window.size <= max_pages || as_requested),
        "{window:?} for {read:?} with a limit of {max_pages}"
    );
    assert!(
        window.start.0 < read.file_pages
            && u64::from(window.size) <= read.file_pages - window.start.0,
        "{window:?} for {read:?}"
    );
    assert!(window.async_size <= window.size, "{window:?}");
    assert_eq!(window.marker().is_some(), window.async_size > 0);
    assert!(
        window.marker().is_none_or(|marker| window.contains(marker)),
        "{window:?}"
    );
}
