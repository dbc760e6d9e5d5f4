//! Tables for `ondemand`: each row is a call and its window (start, size, asynchronous size). The
//! tests after the tables read whole files through the toy cache.

use larder_readahead::{
    Advice, FileState, OnDemand, PageIndex, Policy, PolicyName, Read, Residency, Trigger, Windows,
};

use crate::toy::ToyFile;

struct Nothing;

impl Residency for Nothing {
    fn is_resident(&self, _: PageIndex) -> bool {
        panic!("ondemand must not query the page cache")
    }
}

/// One row: the trigger, page and request size, and the resulting window (start, size, async).
type Step = (Trigger, u64, u32, Option<(u64, u32, u32)>);

use Trigger::{Access, Marker, Miss};

/// Calls the policy for each row in turn. Each row is a separate read, which ends at the end of its
/// request.
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
fn random_reads_are_not_extended_and_keep_the_stream() {
    let steps = [
        (Miss, 0, 1, Some((0, 4, 3))),
        (Miss, 500, 1, Some((500, 1, 0))),
        (Miss, 700, 32, Some((700, 32, 0))),
        (Miss, 300, 4, Some((300, 4, 0))),
        (Marker, 1, 1, Some((4, 8, 8))),
    ];
    assert_windows("random", 32, 1000, &steps);
}

/// The observation of `MySQL` in the patch: mostly random reads of 4 pages, sometimes two in a row.
/// The second of two such reads triggers a readahead of 16 pages. The limit is 1 MiB.
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
fn marker_of_another_stream_opens_a_window_after_it() {
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
fn thrashed_window_is_opened_again_at_the_reader() {
    let steps = [
        (Miss, 0, 8, Some((0, 16, 8))),
        (Marker, 8, 8, Some((16, 32, 32))),
        // Pages 16 to 31 were not read. The next read requests page 17, after a read that ended
        // with page 16.
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
        "largest page index",
        32,
        u64::MAX,
        &[(Miss, last, 9, Some((last, 1, 0)))],
    );
}

#[test]
fn access_or_limit_of_zero_returns_no_window() {
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
fn congestion_defers_markers_but_not_misses() {
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
    // The window was kept: the page after it triggers the next window of the stream.
    let window = OnDemand.decide(&mut state, &read(Miss, 4), &Nothing);
    let window = window.first().map(|w| (w.start.0, w.size, w.async_size));
    assert_eq!(window, Some((4, 8, 8)));
}

type Row = (u64, u32, &'static [(u64, u32, u32)]);

fn assert_reads(file: &mut ToyFile, rows: &[Row]) {
    for (start, pages, want) in rows {
        let got = file.read(*start, *pages);
        assert_eq!(got, *want, "read of {pages} pages at {start}");
    }
}

#[test]
fn request_that_fills_its_window_finds_the_marker_on_its_first_page() {
    let mut file = ToyFile::new(PolicyName::OnDemand, 1000, 32);
    let rows: [Row; 3] = [
        (40, 32, &[(40, 32, 0)]),
        (72, 32, &[(72, 32, 32), (104, 32, 32)]),
        (104, 32, &[(136, 32, 32)]),
    ];
    assert_reads(&mut file, &rows);
}

#[test]
fn request_that_fills_the_first_window_reads_all_but_page_0_again() {
    let mut file = ToyFile::new(PolicyName::OnDemand, 1000, 32);
    assert_reads(&mut file, &[(0, 32, &[(0, 32, 32), (1, 32, 32)])]);
    assert_eq!(file.log.pages_requested_again, 31);

    let mut file = ToyFile::new(PolicyName::OnDemand, 1000, 2);
    assert_eq!(file.read(0, 10)[..3], [(0, 2, 2), (1, 2, 2), (3, 2, 2)]);
    assert_eq!(file.log.pages_requested_again, 1);
}

#[test]
fn seek_and_return_does_not_change_the_window() {
    let mut file = ToyFile::new(PolicyName::OnDemand, 1000, 32);
    let rows: [Row; 7] = [
        (0, 1, &[(0, 4, 3)]),
        (1, 1, &[(4, 8, 8)]),
        (500, 1, &[(500, 1, 0)]),
        (2, 1, &[]),
        (3, 1, &[]),
        (4, 1, &[(12, 16, 16)]),
        (5, 7, &[]),
    ];
    assert_reads(&mut file, &rows);
    assert_eq!(file.log.pages_requested_again, 0);
}

#[test]
fn interleaved_stream_is_detected_when_it_reads_twice_in_a_row() {
    let mut file = ToyFile::new(PolicyName::OnDemand, 1000, 32);
    let rows: [Row; 8] = [
        (100, 1, &[(100, 1, 0)]),
        (500, 1, &[(500, 1, 0)]),
        (101, 1, &[(101, 1, 0)]),
        (102, 1, &[(102, 4, 3)]),
        (501, 1, &[(501, 1, 0)]),
        (103, 1, &[(106, 8, 8)]),
        (502, 1, &[(502, 1, 0)]),
        (104, 3, &[(114, 16, 16)]),
    ];
    assert_reads(&mut file, &rows);
}

#[test]
fn cached_file_costs_no_decision() {
    let mut file = ToyFile::new(PolicyName::OnDemand, 1000, 32);
    file.cache(0, 1000);
    for page in 0..1000 {
        assert_eq!(file.read(page, 1), []);
    }
    assert_eq!(file.log.decisions, 0);
}

#[test]
fn thrashed_pages_are_read_in_windows_that_ramp_up_again() {
    let mut file = ToyFile::new(PolicyName::OnDemand, 1000, 32);
    let rows: [Row; 3] = [
        (0, 8, &[(0, 16, 8)]),
        (8, 8, &[(16, 32, 32)]),
        (16, 8, &[(48, 32, 32)]),
    ];
    assert_reads(&mut file, &rows);
    file.reclaim(24, 76);
    let rows: [Row; 4] = [
        (24, 8, &[(24, 16, 8)]),
        (32, 8, &[(40, 32, 32)]),
        (40, 8, &[(72, 32, 32)]),
        (48, 24, &[]),
    ];
    assert_reads(&mut file, &rows);
}

#[test]
fn advice_doubles_the_limit_or_returns_no_window() {
    let mut file = ToyFile::new(PolicyName::OnDemand, 1000, 16);
    file.advise(Advice::Sequential);
    assert_reads(&mut file, &[(0, 8, &[(0, 16, 8)]), (8, 8, &[(16, 32, 32)])]);
    file.advise(Advice::Random);
    assert_reads(&mut file, &[(500, 2, &[])]);
    assert_eq!(file.fault(700), [(700, 1, 0)]);
    file.advise(Advice::Normal);
    assert_reads(&mut file, &[(600, 2, &[(600, 2, 0)])]);
}
