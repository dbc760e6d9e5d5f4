//! Tables for `legacy`: each row is a read (first page, pages) and its windows (start, size).

use larder_readahead::{Advice, PolicyName};

use crate::toy::ToyFile;

type Row = (u64, u32, &'static [(u64, u32)]);

fn file(max_pages: u32) -> ToyFile {
    ToyFile::new(PolicyName::Legacy, 1000, max_pages)
}

fn assert_reads(file: &mut ToyFile, rows: &[Row]) {
    for (start, pages, want) in rows {
        let got = file.read(*start, *pages);
        assert!(got.iter().all(|window| window.2 == 0), "no marker: {got:?}");
        let got: Vec<_> = got.iter().map(|window| (window.0, window.1)).collect();
        assert_eq!(got, *want, "read of {pages} pages at {start}");
    }
}

#[test]
fn sequential_reader_of_single_pages_has_a_window_ahead_from_its_second_read() {
    let rows: [Row; 10] = [
        (0, 1, &[(0, 4)]),
        (1, 1, &[(4, 8)]),
        (2, 1, &[]),
        (3, 1, &[]),
        (4, 1, &[(12, 16)]),
        (5, 1, &[]),
        (6, 6, &[]),
        (12, 1, &[(28, 32)]),
        (13, 15, &[]),
        (28, 1, &[(60, 32)]),
    ];
    assert_reads(&mut file(32), &rows);
    let rows: [Row; 8] = [
        (0, 1, &[(0, 4)]),
        (1, 1, &[(4, 16)]),
        (2, 2, &[]),
        (4, 1, &[(20, 32)]),
        (5, 15, &[]),
        (20, 1, &[(52, 64)]),
        (21, 31, &[]),
        (52, 1, &[(116, 128)]),
    ];
    assert_reads(&mut file(256), &rows);
}

#[test]
fn sequential_reader_of_larger_requests_starts_with_a_larger_window() {
    let rows: [Row; 6] = [
        (0, 3, &[(0, 8)]),
        (3, 3, &[(8, 16)]),
        (6, 3, &[(24, 32)]),
        (9, 15, &[]),
        (24, 3, &[(56, 32)]),
        (27, 3, &[]),
    ];
    assert_reads(&mut file(32), &rows);
    let rows: [Row; 7] = [
        (0, 8, &[(0, 16)]),
        (8, 8, &[(16, 32)]),
        (16, 8, &[(48, 32)]),
        (24, 8, &[]),
        (32, 16, &[]),
        (48, 8, &[(80, 32)]),
        (56, 8, &[]),
    ];
    assert_reads(&mut file(32), &rows);
    let rows: [Row; 4] = [
        (0, 16, &[(0, 32)]),
        (16, 16, &[(32, 32)]),
        (32, 16, &[(64, 32)]),
        (48, 16, &[]),
    ];
    assert_reads(&mut file(32), &rows);
}

#[test]
fn request_of_the_largest_window_opens_the_ahead_window_at_once() {
    let rows: [Row; 3] = [
        (0, 32, &[(0, 32), (32, 32)]),
        (32, 32, &[(64, 32)]),
        (64, 32, &[(96, 32)]),
    ];
    assert_reads(&mut file(32), &rows);
    // A request of two windows is handled in two parts.
    let rows: [Row; 2] = [
        (0, 64, &[(0, 32), (32, 32), (64, 32)]),
        (64, 64, &[(96, 32), (128, 32)]),
    ];
    assert_reads(&mut file(32), &rows);
    let rows: [Row; 3] = [
        (0, 1, &[(0, 1), (1, 1)]),
        (1, 1, &[(2, 1)]),
        (2, 1, &[(3, 1)]),
    ];
    assert_reads(&mut file(1), &rows);
}

#[test]
fn request_past_both_windows_is_split() {
    let rows: [Row; 3] = [
        (0, 1, &[(0, 4)]),
        // The first part is pages 1 to 27, with both windows. The second part is pages 28 to 32.
        (1, 32, &[(4, 8), (12, 16), (28, 32)]),
        (33, 1, &[(60, 32)]),
    ];
    assert_reads(&mut file(32), &rows[..2]);
    let mut file = file(32);
    assert_reads(&mut file, &rows);
}

#[test]
fn random_reads_are_not_extended_but_split_at_the_largest_window() {
    let rows: [Row; 6] = [
        (500, 4, &[(500, 4)]),
        (700, 4, &[(700, 4)]),
        (900, 1, &[(900, 1)]),
        (100, 32, &[(100, 32)]),
        // The second part of the request follows the first part, so it is sequential.
        (300, 40, &[(300, 32), (332, 16)]),
        (10, 2, &[(10, 2)]),
    ];
    assert_reads(&mut file(32), &rows);
}

#[test]
fn second_of_two_reads_in_a_row_opens_a_window() {
    let rows: [Row; 4] = [
        (7000, 4, &[(7000, 4)]),
        (500, 4, &[(500, 4)]),
        (504, 4, &[(504, 16)]),
        (508, 4, &[(520, 32)]),
    ];
    let mut file = ToyFile::new(PolicyName::Legacy, 10_000, 256);
    assert_reads(&mut file, &rows);
}

#[test]
fn seek_and_return_resets_the_windows_and_requests_cached_pages_again() {
    let rows: [Row; 8] = [
        (0, 1, &[(0, 4)]),
        (1, 1, &[(4, 8)]),
        (500, 1, &[(500, 1)]),
        (2, 1, &[(2, 1)]),
        (3, 1, &[(3, 4)]),
        (4, 1, &[(7, 8)]),
        (5, 2, &[]),
        (7, 1, &[(15, 16)]),
    ];
    let mut file = file(32);
    assert_reads(&mut file, &rows);
    // Pages 2 to 11 were resident, and the windows after the seek back have covered all of them.
    assert_eq!(file.log.pages_requested_again, 1 + 4 + 5);
}

#[test]
fn interleaved_streams_are_never_detected() {
    let rows: [Row; 8] = [
        (0, 1, &[(0, 4)]),
        (500, 1, &[(500, 1)]),
        (1, 1, &[(1, 1)]),
        (501, 1, &[(501, 1)]),
        (2, 1, &[(2, 1)]),
        (502, 1, &[(502, 1)]),
        (3, 2, &[(3, 2)]),
        (503, 2, &[(503, 2)]),
    ];
    assert_reads(&mut file(32), &rows);
}

#[test]
fn repeated_read_of_last_page_is_not_counted() {
    let rows: [Row; 5] = [
        (0, 2, &[(0, 4)]),
        (1, 2, &[(4, 8)]),
        (2, 1, &[]),
        (2, 1, &[]),
        (2, 3, &[(12, 16)]),
    ];
    assert_reads(&mut file(32), &rows);
    let rows: [Row; 3] = [(40, 2, &[(40, 2)]), (41, 1, &[]), (41, 2, &[(42, 4)])];
    assert_reads(&mut file(32), &rows);
}

#[test]
fn thrashed_pages_are_read_alone_and_shrink_the_next_window() {
    let mut file = file(32);
    let rows: [Row; 3] = [
        (0, 8, &[(0, 16)]),
        (8, 8, &[(16, 32)]),
        (16, 8, &[(48, 32)]),
    ];
    assert_reads(&mut file, &rows);
    file.reclaim(24, 24);
    let alone: Vec<(u64, u32)> = (24..48).map(|page| (page, 1)).collect();
    let got: Vec<_> = file.read(24, 24).iter().map(|w| (w.0, w.1)).collect();
    assert_eq!(got, alone);
    assert_reads(&mut file, &[(48, 8, &[(80, 30)])]);
    file.reclaim(79, 1);
    let rows: [Row; 4] = [
        (56, 23, &[]),
        (79, 1, &[(79, 1)]),
        (80, 1, &[(110, 28)]),
        // No page has been reclaimed since then.
        (81, 30, &[(138, 32)]),
    ];
    assert_reads(&mut file, &rows);
}

#[test]
fn window_of_a_thrashing_reader_shrinks_no_further_than_four_pages() {
    let mut file = file(32);
    assert_reads(&mut file, &[(0, 1, &[(0, 4)]), (1, 1, &[(4, 8)])]);
    file.reclaim(2, 1);
    assert_reads(&mut file, &[(2, 2, &[(2, 1)]), (4, 1, &[(12, 6)])]);
    file.reclaim(11, 1);
    assert_reads(&mut file, &[(5, 7, &[(11, 1)]), (12, 1, &[(18, 4)])]);
    file.reclaim(13, 1);
    assert_reads(&mut file, &[(13, 5, &[(13, 1)]), (18, 1, &[(22, 4)])]);
    let mut small = self::file(2);
    assert_reads(&mut small, &[(0, 1, &[(0, 2)])]);
    small.reclaim(1, 1);
    // The ahead window was opened before the page was missed.
    assert_reads(&mut small, &[(1, 1, &[(2, 2), (1, 1)]), (2, 1, &[(4, 2)])]);
}

#[test]
fn seek_clears_an_earlier_miss() {
    let mut file = file(32);
    assert_reads(&mut file, &[(0, 1, &[(0, 4)]), (1, 1, &[(4, 8)])]);
    file.reclaim(2, 1);
    let rows: [Row; 4] = [
        (2, 1, &[(2, 1)]),
        (500, 4, &[(500, 4)]),
        (504, 4, &[(504, 8)]),
        (508, 4, &[(512, 16)]),
    ];
    assert_reads(&mut file, &rows);
}

#[test]
fn cached_file_switches_readahead_off_after_256_pages_found() {
    let mut file = file(32);
    file.cache(0, 1000);
    let rows: [Row; 10] = [
        (0, 1, &[(0, 4)]),
        (1, 3, &[(4, 8)]),
        (4, 1, &[(12, 16)]),
        (5, 8, &[(28, 32)]),
        (13, 16, &[(60, 32)]),
        (29, 32, &[(92, 32)]),
        (61, 32, &[(124, 32)]),
        (93, 32, &[(156, 32)]),
        (125, 32, &[(188, 32)]),
        (157, 32, &[(220, 32)]),
    ];
    assert_reads(&mut file, &rows);
    // 4 + 8 + 16 + 7 times 32 pages were found resident. With the next window, pages 252 to 283,
    // the sum would be 284.
    assert_eq!(file.log.decisions, 10);
    assert_reads(&mut file, &[(189, 32, &[]), (221, 32, &[])]);
    // There is one call for the first request. After it, readahead is off, so there is one call for
    // each page of the second request.
    assert_eq!(file.log.decisions, 10 + 1 + 32);
    // A missing page switches readahead on again. The next window has the size for a thrashing
    // reader.
    file.reclaim(253, 1);
    let rows: [Row; 3] = [
        (253, 1, &[(253, 1)]),
        (254, 1, &[(254, 4)]),
        (255, 1, &[(258, 4)]),
    ];
    assert_reads(&mut file, &rows);
}

#[test]
fn cached_file_of_200_pages_is_read_to_its_end_before_readahead_is_off() {
    let mut file = ToyFile::new(PolicyName::Legacy, 200, 32);
    file.cache(0, 200);
    for page in 0..200 {
        file.read(page, 1);
    }
    assert_eq!(file.log.pages_requested_again, 200);
    assert_eq!(file.log.decisions, 200);
    // Pages past the end of the file are counted, too: those of the window at 188, and those of the
    // window at 220. The sum is 4 + 8 + 16 + 7 times 32 pages, and the next four pages exceed the
    // limit.
    assert_reads(&mut file, &[(10, 3, &[(10, 3)]), (50, 1, &[])]);
}

#[test]
fn random_reads_of_cached_pages_switch_readahead_off_too() {
    let mut file = file(32);
    file.cache(0, 1000);
    for n in 1..=63 {
        assert_eq!(file.read(n * 10, 4).len(), 1, "read {n}");
    }
    assert_reads(&mut file, &[(900, 4, &[]), (300, 4, &[])]);
}

#[test]
fn window_that_reads_a_page_resets_the_count_of_resident_pages() {
    let mut file = file(32);
    file.cache(0, 1000);
    file.reclaim(700, 1);
    for n in 1..=63 {
        assert_eq!(file.read(n * 10, 4).len(), 1, "read {n}");
    }
    assert_reads(&mut file, &[(699, 4, &[(699, 4)])]);
    for n in 1..=63 {
        assert_eq!(file.read(n * 10, 4).len(), 1, "read {n} after the reset");
    }
    assert_reads(&mut file, &[(900, 4, &[])]);
}

#[test]
fn first_window_that_switches_readahead_off_opens_no_ahead_window() {
    let mut cached = file(256);
    cached.cache(0, 256);
    assert_reads(&mut cached, &[(0, 256, &[])]);
    let mut but_one = file(256);
    but_one.cache(0, 255);
    assert_reads(&mut but_one, &[(0, 256, &[(0, 256), (256, 256)])]);
}

#[test]
fn congestion_defers_the_ahead_window_until_the_reader_reaches_it() {
    let mut file = file(32);
    file.set_congested(true);
    let rows: [Row; 4] = [
        (0, 1, &[(0, 4)]),
        (1, 1, &[]),
        (2, 2, &[]),
        (4, 1, &[(4, 8)]),
    ];
    assert_reads(&mut file, &rows);
    file.set_congested(false);
    assert_reads(&mut file, &[(5, 1, &[(12, 16)])]);
    file.set_congested(true);
    assert_reads(&mut file, &[(500, 4, &[(500, 4)]), (504, 4, &[(504, 8)])]);
}

#[test]
fn congestion_does_not_defer_a_forced_window() {
    let mut file = file(32);
    file.set_congested(true);
    assert_reads(&mut file, &[(0, 32, &[(0, 32), (32, 32)])]);
}

#[test]
fn window_deferred_by_congestion_clears_an_earlier_miss() {
    let mut file = file(32);
    assert_reads(&mut file, &[(0, 1, &[(0, 4)]), (1, 1, &[(4, 8)])]);
    file.reclaim(2, 1);
    assert_reads(&mut file, &[(2, 2, &[(2, 1)])]);
    file.set_congested(true);
    assert_reads(&mut file, &[(4, 1, &[])]);
    file.set_congested(false);
    assert_reads(&mut file, &[(5, 1, &[(12, 16)])]);
}

#[test]
fn windows_at_the_end_of_the_file_are_clipped() {
    let mut file = ToyFile::new(PolicyName::Legacy, 10, 32);
    let rows: [Row; 5] = [
        (0, 1, &[(0, 4)]),
        (1, 1, &[(4, 6)]),
        (2, 4, &[]),
        (6, 9, &[]),
        (10, 4, &[]),
    ];
    assert_reads(&mut file, &rows);
    let mut last = ToyFile::new(PolicyName::Legacy, u64::MAX, 32);
    let page = u64::MAX - 1;
    assert_eq!(last.read(page, 1), [(page, 1, 0)]);
}

#[test]
fn limit_of_zero_reads_each_page_alone() {
    assert_reads(&mut file(0), &[(0, 3, &[(0, 1), (1, 1), (2, 1)])]);
}

#[test]
fn advice_doubles_the_limit_or_reads_each_page_alone() {
    let mut file = file(16);
    file.advise(Advice::Sequential);
    let rows: [Row; 2] = [(0, 16, &[(0, 32)]), (16, 16, &[(32, 32)])];
    assert_reads(&mut file, &rows);
    file.advise(Advice::Random);
    assert_reads(&mut file, &[(500, 2, &[(500, 1), (501, 1)])]);
    file.advise(Advice::Normal);
    assert_reads(&mut file, &[(600, 2, &[(600, 2)])]);
}
