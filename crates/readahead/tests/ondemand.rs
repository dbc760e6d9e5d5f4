//! The `ondemand` policy from outside: a table of reads to windows, worked out by hand from the
//! rules in the module's documentation, and properties over a page set that stands for a cache.

use std::collections::BTreeSet;

use larder_readahead::{
    FileState, OnDemand, PageIndex, Policy, PolicyName, Read, Residency, Trigger, Window, Windows,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

/// Where the properties start unless `LARDER_SEED` says otherwise; each prints the one it used.
const SEED: u64 = 2007;

fn config() -> Config {
    let seed = std::env::var("LARDER_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(SEED);
    eprintln!("LARDER_SEED={seed}");
    Config {
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    }
}

struct Nothing;

impl Residency for Nothing {
    fn is_resident(&self, _: PageIndex) -> bool {
        panic!("ondemand decides without looking at the page cache")
    }
}

/// One row: what is asked, and the window (start, size, async) that it gets.
type Step = (Trigger, u64, u32, Option<(u64, u32, u32)>);

use Trigger::{Access, Marker, Miss};

/// Asks for each row in turn, as reads of their own that end where they say.
fn assert_windows(subject: &str, max_pages: u32, file_pages: u64, steps: &[Step]) {
    let mut state = FileState::new(max_pages);
    for (row, (trigger, index, pages, want)) in steps.iter().enumerate() {
        let read = Read {
            trigger: *trigger,
            index: PageIndex(*index),
            request_start: PageIndex(*index),
            request_pages: *pages,
            ends_inside_page: false,
            by_fault: false,
            file_pages,
            congested: false,
        };
        let got = OnDemand.decide(&mut state, &read, &Nothing);
        let got = got.first().map(|w| (w.start.0, w.size, w.async_size));
        assert_eq!(got, *want, "{subject}, row {row}: {read:?}");
        OnDemand.end_read(&mut state, &read);
    }
}

#[test]
fn sequential_reader_of_single_pages_ramps_up_to_the_limit() {
    let steps = [
        (Miss, 0, 1, Some((0, 4, 3))),
        (Marker, 1, 1, Some((4, 8, 8))),
        (Marker, 4, 1, Some((12, 16, 16))),
        (Marker, 12, 1, Some((28, 32, 32))),
        (Marker, 28, 1, Some((60, 32, 32))),
        (Marker, 60, 1, Some((92, 32, 32))),
    ];
    assert_windows("limit of 32", 32, 1000, &steps);
    let steps = [
        (Miss, 0, 1, Some((0, 4, 3))),
        (Marker, 1, 1, Some((4, 16, 16))),
        (Marker, 4, 1, Some((20, 32, 32))),
        (Marker, 20, 1, Some((52, 64, 64))),
        (Marker, 52, 1, Some((116, 128, 128))),
        (Marker, 116, 1, Some((244, 256, 256))),
    ];
    assert_windows("limit of 256", 256, 1000, &steps);
}

#[test]
fn sequential_reader_of_larger_requests_starts_with_a_larger_window() {
    let steps = [
        (Miss, 0, 8, Some((0, 16, 8))),
        (Marker, 8, 8, Some((16, 32, 32))),
        (Marker, 16, 8, Some((48, 32, 32))),
    ];
    assert_windows("8 pages", 32, 1000, &steps);
    let steps = [
        (Miss, 0, 3, Some((0, 8, 5))),
        (Marker, 3, 3, Some((8, 16, 16))),
    ];
    assert_windows("3 pages", 32, 1000, &steps);
}

#[test]
fn oversize_request_away_from_the_start_is_a_stream_from_its_first_page() {
    let steps = [
        (Miss, 100, 64, Some((100, 32, 32))),
        (Marker, 100, 64, Some((132, 32, 32))),
        (Marker, 132, 32, Some((164, 32, 32))),
    ];
    assert_windows("oversize", 32, 1000, &steps);
}

#[test]
fn oversize_request_at_the_start_costs_one_more_miss() {
    let steps = [
        (Miss, 0, 64, Some((0, 32, 32))),
        (Marker, 0, 64, Some((1, 32, 32))),
        (Miss, 33, 31, Some((33, 32, 32))),
        (Marker, 33, 31, Some((65, 32, 32))),
    ];
    assert_windows("oversize", 32, 1000, &steps);
}

#[test]
fn random_reads_are_read_as_they_are_and_leave_the_stream_alone() {
    let steps = [
        (Miss, 0, 1, Some((0, 4, 3))),
        (Miss, 500, 1, Some((500, 1, 0))),
        (Miss, 700, 32, Some((700, 32, 0))),
        (Miss, 300, 4, Some((300, 4, 0))),
        (Marker, 1, 1, Some((4, 8, 8))),
    ];
    assert_windows("random", 32, 1000, &steps);
}

/// The patch's own observation of `MySQL`: mostly 4-page random reads, sometimes two in a row, the
/// latter of which sets off a readahead of 16 pages; the limit is 1 MiB.
#[test]
fn second_of_two_reads_in_a_row_opens_a_window_of_sixteen_pages() {
    let steps = [
        (Miss, 7000, 4, Some((7000, 4, 0))),
        (Miss, 500, 4, Some((500, 4, 0))),
        (Miss, 504, 4, Some((504, 16, 12))),
    ];
    assert_windows("mysql", 256, 100_000, &steps);
}

#[test]
fn unaligned_read_that_repeats_the_last_page_is_sequential() {
    let steps = [
        (Miss, 40, 2, Some((40, 2, 0))),
        (Miss, 41, 2, Some((41, 4, 2))),
    ];
    assert_windows("unaligned", 32, 1000, &steps);
}

#[test]
fn marker_of_another_stream_opens_a_window_behind_it() {
    let steps = [
        (Miss, 0, 1, Some((0, 4, 3))),
        (Miss, 500, 1, Some((500, 1, 0))),
        (Miss, 501, 1, Some((501, 4, 3))),
        (Marker, 1, 1, Some((2, 16, 3))),
        (Marker, 502, 1, Some((503, 16, 3))),
        (Marker, 516, 1, Some((519, 32, 32))),
    ];
    assert_windows("interleaved", 32, 1000, &steps);
}

#[test]
fn thrashed_window_is_opened_again_where_the_reader_stands() {
    let steps = [
        (Miss, 0, 8, Some((0, 16, 8))),
        (Marker, 8, 8, Some((16, 32, 32))),
        // Pages 16 to 31 went unread; the reader comes for page 17 behind a read that ended at 16.
        (Miss, 16, 1, Some((48, 32, 32))),
        (Miss, 17, 8, Some((17, 16, 8))),
        (Marker, 25, 8, Some((33, 32, 32))),
    ];
    assert_windows("thrashing", 32, 1000, &steps);
}

#[test]
fn window_at_the_end_of_the_file_is_clipped() {
    let steps = [
        (Miss, 0, 1, Some((0, 4, 3))),
        (Marker, 1, 1, Some((4, 6, 6))),
        (Marker, 4, 1, None),
        (Miss, 9, 4, Some((9, 1, 0))),
        (Miss, 10, 1, None),
    ];
    assert_windows("end of file", 32, 10, &steps);
    assert_windows("empty file", 32, 0, &[(Miss, 0, 1, None)]);
    let last = u64::MAX - 1;
    assert_windows(
        "last page there is",
        32,
        u64::MAX,
        &[(Miss, last, 9, Some((last, 1, 0)))],
    );
}

#[test]
fn access_and_a_limit_of_zero_ask_for_nothing() {
    assert_windows(
        "access",
        32,
        10,
        &[(Access, 0, 1, None), (Miss, 0, 1, Some((0, 4, 3)))],
    );
    assert_windows(
        "limit of 0",
        0,
        10,
        &[(Miss, 0, 1, None), (Marker, 1, 1, None)],
    );
}

#[test]
fn congestion_defers_markers_and_never_misses() {
    let mut state = FileState::new(32);
    let read = |trigger, index| Read {
        trigger,
        index: PageIndex(index),
        request_start: PageIndex(index),
        request_pages: 1,
        ends_inside_page: false,
        by_fault: false,
        file_pages: 100,
        congested: true,
    };
    assert!(
        !OnDemand
            .decide(&mut state, &read(Miss, 0), &Nothing)
            .is_empty()
    );
    assert_eq!(
        OnDemand.decide(&mut state, &read(Marker, 1), &Nothing),
        Windows::NONE
    );
    // The stream was not forgotten: the page behind the window pushes it forward.
    let window = OnDemand.decide(&mut state, &read(Miss, 4), &Nothing);
    assert_eq!(
        window.first(),
        Some(Window {
            start: PageIndex(4),
            size: 8,
            async_size: 8
        })
    );
}

#[test]
fn off_asks_for_the_rest_of_the_request_on_a_miss_and_for_nothing_else() {
    let policy = PolicyName::Off.policy();
    let mut state = FileState::default();
    let cases = [
        (Miss, 0, 100, Some((0, 64))),
        (Miss, 60, 100, Some((60, 4))),
        (Miss, 60, 62, Some((60, 2))),
        (Miss, 60, 60, None),
        (Marker, 0, 100, None),
        (Access, 0, 100, None),
    ];
    for (trigger, index, file_pages, want) in cases {
        let read = Read {
            trigger,
            index: PageIndex(index),
            request_start: PageIndex(0),
            request_pages: 64,
            ends_inside_page: false,
            by_fault: false,
            file_pages,
            congested: false,
        };
        let got = policy.decide(&mut state, &read, &Nothing);
        let got = got.first().map(|window| (window.start.0, window.size));
        assert_eq!(got, want, "{read:?}");
    }
}

/// A page cache reduced to which pages are there or in flight, and which carry the marker.
struct ToyFile {
    file_pages: u64,
    state: FileState,
    resident: BTreeSet<u64>,
    marked: BTreeSet<u64>,
    misses: u32,
    windows: Vec<Window>,
}

impl Residency for ToyFile {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.resident.contains(&page.0)
    }
}

impl ToyFile {
    fn new(file_pages: u64, max_pages: u32) -> Self {
        Self {
            file_pages,
            state: FileState::new(max_pages),
            resident: BTreeSet::new(),
            marked: BTreeSet::new(),
            misses: 0,
            windows: Vec::new(),
        }
    }

    fn ask(&mut self, trigger: Trigger, index: u64, start: u64, pages: u32) {
        let read = Read {
            trigger,
            index: PageIndex(index),
            request_start: PageIndex(start),
            request_pages: pages,
            ends_inside_page: false,
            by_fault: false,
            file_pages: self.file_pages,
            congested: false,
        };
        let mut state = self.state;
        let windows = OnDemand.decide(&mut state, &read, self);
        self.state = state;
        let Some(window) = windows.first() else {
            return;
        };
        self.check(window);
        for page in window.start.0..window.end().0 {
            if self.resident.insert(page) && window.marker() == Some(PageIndex(page)) {
                self.marked.insert(page);
            }
        }
        self.windows.push(window);
    }

    fn check(&self, window: Window) {
        assert!(
            window.size >= 1 && window.size <= self.state.max_pages(),
            "{window:?}"
        );
        assert!(window.async_size <= window.size, "{window:?}");
        assert!(
            window.end().0 <= self.file_pages,
            "{window:?} in {} pages",
            self.file_pages
        );
        assert_eq!(window.marker().is_some(), window.async_size > 0);
        assert!(
            window.marker().is_none_or(|marker| window.contains(marker)),
            "{window:?}"
        );
    }

    fn read(&mut self, start: u64, pages: u32) {
        for index in start..(start + u64::from(pages)).min(self.file_pages) {
            if !self.resident.contains(&index) {
                self.misses += 1;
                self.ask(Trigger::Miss, index, start, pages);
                self.resident.insert(index);
            }
            if self.marked.remove(&index) {
                self.ask(Trigger::Marker, index, start, pages);
            }
        }
        self.state
            .set_previous(PageIndex(start + u64::from(pages) - 1), false);
    }

    fn reclaim(&mut self, from: u64, pages: u64) {
        let gone: Vec<u64> = self.resident.range(from..from + pages).copied().collect();
        for page in gone {
            self.resident.remove(&page);
            self.marked.remove(&page);
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn windows_of_any_reads_stay_within_the_limit_and_the_file(
        file_pages in 1_u64..2000,
        max_pages in 1_u32..300,
        reads in proptest::collection::vec((0_u64..2000, 1_u32..400, any::<bool>()), 1..60),
    ) {
        let mut file = ToyFile::new(file_pages, max_pages);
        let mut next = 0;
        for (offset, pages, sequential) in reads {
            let start = if sequential { next } else { offset };
            file.read(start, pages); // `ask` checks every window
            next = start + u64::from(pages);
        }
    }

    #[test]
    fn decision_on_any_numbers_does_not_overflow(
        max_pages in any::<u32>(),
        asks in proptest::collection::vec(
            (any::<bool>(), any::<u64>(), any::<u64>(), any::<u32>(), any::<u64>()), 1..20),
    ) {
        let mut state = FileState::new(max_pages);
        for (marker, index, start, pages, file_pages) in asks {
            let read = Read {
                trigger: if marker { Trigger::Marker } else { Trigger::Miss },
                index: PageIndex(index),
                request_start: PageIndex(start),
                request_pages: pages,
                ends_inside_page: false,
                by_fault: false,
                file_pages,
                congested: false,
            };
            if let Some(window) = OnDemand.decide(&mut state, &read, &Nothing).first() {
                prop_assert!(window.size >= 1 && window.size <= state.max_pages());
                prop_assert!(window.async_size <= window.size);
                prop_assert!(window.end().0 <= file_pages);
            }
            OnDemand.end_read(&mut state, &read);
        }
    }

    #[test]
    fn sequential_reader_misses_at_most_once_after_the_first_window(
        start in prop_oneof![Just(0_u64), 1_u64..100],
        request in 1_u32..400,
        max_pages in 1_u32..300,
    ) {
        let mut file = ToyFile::new(6000, max_pages);
        let mut at = start;
        // A stream that begins inside the file is noticed at its second request.
        while at < 6000 {
            file.read(at, request);
            at += u64::from(request);
        }
        let first = if start > 0 && request <= max_pages { 2 } else { 1 };
        prop_assert!(file.misses <= first + 1, "{} misses", file.misses);
    }

    #[test]
    fn sequential_reader_never_asks_for_a_page_twice(
        start in 1_u64..100,
        request in 1_u32..400,
        max_pages in 1_u32..300,
    ) {
        let mut file = ToyFile::new(6000, max_pages);
        let mut at = start;
        while at < 6000 {
            file.read(at, request);
            at += u64::from(request);
        }
        let mut end = 0;
        for window in &file.windows {
            prop_assert!(window.start.0 >= end, "{window:?} overlaps the one before");
            end = window.end().0;
        }
    }

    #[test]
    fn thrashed_pages_come_back_by_readahead(
        request in 1_u32..16,
        reads_before in 4_u64..40,
        lost_pages in 1_u64..200,
    ) {
        let mut file = ToyFile::new(6000, 32);
        for n in 0..reads_before {
            file.read(n * u64::from(request), request);
        }
        let at = reads_before * u64::from(request);
        file.reclaim(at, lost_pages);
        let (misses, windows) = (file.misses, file.windows.len());
        let mut reread = at;
        while reread < at + lost_pages {
            file.read(reread, request);
            reread += u64::from(request);
        }
        // A reclaimed marker, the rest of its request and markers of the old windows each cost a
        // miss; beyond those, pages come back in windows and not one by one.
        let misses = u64::from(file.misses - misses);
        prop_assert!(misses <= 8 && (lost_pages < 64 || misses * 8 <= lost_pages), "{misses}");
        if lost_pages > 64 {
            prop_assert!(file.windows.len() - windows >= 2);
            prop_assert!(file.windows[windows..].iter().any(|w| w.size > request));
        }
    }
}
