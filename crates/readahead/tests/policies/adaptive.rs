//! Tables for `adaptive`: each row is a call and its windows (start, size, asynchronous size). The windows were derived
//! by hand from the rules in the documentation of the policy's modules. The device was not measured yet, so a window
//! has at most 256 pages. The tests after the tables read whole files through the toy cache.

use std::sync::Arc;
use std::time::Duration;

use larder_readahead::{
    Adaptive, Advice, Balance, FileState, PageIndex, Policy, PolicyName, Read, Residency, Trigger,
};

use crate::toy::{Random, ToyFile};

struct Nothing;

impl Residency for Nothing {
    fn is_resident(&self, _: PageIndex) -> bool {
        false
    }
}

/// One row: the trigger, page and request size, and the resulting windows (start, size, async).
type Step<'a> = (Trigger, u64, u32, &'a [(u64, u32, u32)]);

use Trigger::{Marker, Miss};

const FILE_PAGES: u64 = 1 << 20;

/// The state of a file that shares the balance of a cache of 1 GiB.
fn state(balance: &Arc<Balance>) -> FileState {
    let mut state = FileState::new(32);
    state.share(balance);
    state
}

fn balance() -> Arc<Balance> {
    Arc::new(Balance::new(1 << 18))
}

fn read(trigger: Trigger, index: u64, pages: u32) -> Read {
    Read {
        trigger,
        index: PageIndex(index),
        request_start: PageIndex(index),
        request_pages: pages,
        ends_inside_page: false,
        by_fault: false,
        file_pages: FILE_PAGES,
        congested: false,
    }
}

/// Calls the policy for each row in turn. Each row is a separate read.
fn assert_windows(subject: &str, state: &mut FileState, steps: &[Step<'_>]) {
    for (row, (trigger, index, pages, want)) in steps.iter().enumerate() {
        let read = read(*trigger, *index, *pages);
        let windows = Adaptive.decide(state, &read, &Nothing).into_iter();
        let got: Vec<_> = windows.map(|w| (w.start.0, w.size, w.async_size)).collect();
        assert_eq!(got, *want, "{subject}, row {row}: {read:?}");
        Adaptive.end_read(state, &read);
    }
}

#[test]
fn sequential_reader_doubles_its_windows_and_reads_long_ones_in_parts() {
    let steps: [Step<'_>; 5] = [
        (Miss, 0, 16, &[(0, 48, 32)]),
        (Marker, 16, 16, &[(48, 64, 64)]),
        (Marker, 48, 16, &[(112, 64, 64), (176, 64, 0)]),
        (
            Marker,
            112,
            16,
            &[(240, 64, 64), (304, 64, 0), (368, 64, 0), (432, 64, 0)],
        ),
        (
            Marker,
            240,
            16,
            &[(496, 64, 64), (560, 64, 0), (624, 64, 0), (688, 64, 0)],
        ),
    ];
    assert_windows("start of file", &mut state(&balance()), &steps);
}

#[test]
fn reader_that_waits_quadruples_its_windows() {
    let mut state = state(&balance());
    assert_windows("first", &mut state, &[(Miss, 0, 4, &[(0, 36, 32)])]);
    Adaptive.page_in_flight(&mut state, PageIndex(20));
    let steps: [Step<'_>; 1] = [(Marker, 4, 4, &[(36, 64, 64), (100, 64, 0)])];
    assert_windows("waited", &mut state, &steps);
}

#[test]
fn stream_inside_a_file_begins_with_its_second_request() {
    let steps: [Step<'_>; 3] = [
        (Miss, 1000, 16, &[(1000, 16, 0)]),
        (Miss, 1016, 16, &[(1016, 48, 32)]),
        (Marker, 1032, 16, &[(1064, 64, 64)]),
    ];
    assert_windows("inside", &mut state(&balance()), &steps);
}

#[test]
fn backward_stream_reads_ahead_before_its_requests() {
    let steps: [Step<'_>; 4] = [
        (Miss, 984, 16, &[(984, 16, 0)]),
        (Miss, 968, 16, &[(968, 16, 0), (936, 32, 1)]),
        (Marker, 967, 1, &[(872, 64, 1)]),
        (Marker, 935, 1, &[(744, 64, 0), (808, 64, 1)]),
    ];
    assert_windows("backward", &mut state(&balance()), &steps);
    // The start of the file ends the stream.
    let steps: [Step<'_>; 3] = [
        (Miss, 20, 4, &[(20, 4, 0)]),
        (Miss, 16, 4, &[(16, 4, 0), (0, 16, 1)]),
        (Marker, 15, 1, &[]),
    ];
    assert_windows("start", &mut state(&balance()), &steps);
}

#[test]
fn strided_stream_begins_with_its_fourth_request() {
    let steps: [Step<'_>; 5] = [
        (Miss, 1000, 16, &[(1000, 16, 0)]),
        (Miss, 1100, 16, &[(1100, 16, 0)]),
        (Miss, 1200, 16, &[(1200, 16, 0)]),
        (
            Miss,
            1300,
            16,
            &[(1300, 16, 0), (1400, 16, 16), (1500, 16, 0)],
        ),
        (
            Marker,
            1400,
            16,
            &[(1600, 16, 16), (1700, 16, 0), (1800, 16, 0), (1900, 16, 0)],
        ),
    ];
    assert_windows("strided", &mut state(&balance()), &steps);
}

#[test]
fn readers_of_one_open_file_have_separate_streams() {
    let steps: [Step<'_>; 6] = [
        (Miss, 1000, 16, &[(1000, 16, 0)]),
        (Miss, 5000, 4, &[(5000, 4, 0)]),
        (Miss, 5004, 4, &[(5004, 36, 32)]),
        (Miss, 1016, 16, &[(1016, 48, 32)]),
        (Marker, 5008, 4, &[(5040, 64, 64)]),
        (Marker, 1032, 16, &[(1064, 64, 64)]),
    ];
    assert_windows("two readers", &mut state(&balance()), &steps);
}

#[test]
fn pages_evicted_before_their_use_halve_the_windows() {
    let steps: [Step<'_>; 4] = [
        (Miss, 0, 16, &[(0, 48, 32)]),
        (Marker, 16, 16, &[(48, 64, 64)]),
        (Marker, 48, 16, &[(112, 64, 64), (176, 64, 0)]),
        // The limit is 64 pages, half of 128. Of these, 16 are the trigger distance, and 48 are the degree.
        (Miss, 100, 16, &[(100, 64, 48)]),
    ];
    assert_windows("evicted", &mut state(&balance()), &steps);
}

#[test]
fn random_advice_disables_readahead_and_sequential_advice_starts_streams() {
    let mut state = state(&balance());
    state.advise(Advice::Random);
    let steps: [Step<'_>; 2] = [(Miss, 0, 16, &[(0, 16, 0)]), (Miss, 16, 16, &[(16, 16, 0)])];
    assert_windows("random", &mut state, &steps);
    state.advise(Advice::Sequential);
    let steps: [Step<'_>; 1] = [(Miss, 700, 16, &[(700, 48, 32)])];
    assert_windows("sequential", &mut state, &steps);
}

#[test]
fn share_of_memory_limits_windows_by_the_rate_of_the_stream() {
    // A cache of 4096 pages: 13/16 of it are divided, and a window has at most 512 pages.
    let balance = Arc::new(Balance::new(4096));
    let mut state = state(&balance);
    let steps: [Step<'_>; 2] = [
        (Miss, 0, 16, &[(0, 48, 32)]),
        (Marker, 16, 16, &[(48, 64, 64)]),
    ];
    assert_windows("alone", &mut state, &steps);
    // For each page that the stream consumes, 64 pages are read. So its share is 1/64 of 3328 pages: 52 pages.
    let (mut marker, mut degree) = (48, 64);
    let mut now = Duration::ZERO;
    for _ in 0..40 {
        take(&balance, 64 * degree, &mut now, Duration::from_secs(1));
        let windows = Adaptive.decide(&mut state, &read(Marker, marker, 16), &Nothing);
        let window = windows.into_iter().last().unwrap();
        degree = windows.into_iter().map(|window| window.size).sum();
        marker = windows
            .into_iter()
            .find_map(|window| window.marker())
            .unwrap()
            .0;
        // The trigger distance.
        assert!(window.end().0 - marker >= 16, "{window:?}");
    }
    // 16 pages of the share, which is at least 52 pages, are the trigger distance.
    // The mean of the measured shares is rounded up by at most 3 pages.
    assert!((36..=39).contains(&degree), "{degree}");
}

/// A request of `pages` pages that is alone in the device and takes `duration`.
fn take(balance: &Balance, pages: u32, now: &mut Duration, duration: Duration) {
    let ticket = balance.submitted(pages, *now);
    *now += duration;
    balance.completed(ticket, *now);
}

/// Makes the device have a delay of about 12 ms, and deliver about 16000 pages per second.
fn disk(balance: &Balance) {
    let mut now = Duration::ZERO;
    let (first, second) = (balance.submitted(4, now), balance.submitted(256, now));
    balance.completed(first, Duration::from_millis(12));
    now = Duration::from_millis(16);
    balance.completed(second, now);
    for _ in 0..8 {
        take(balance, 4, &mut now, Duration::from_millis(12));
    }
}

#[test]
fn window_of_a_known_device_is_twice_its_delay_times_its_rate() {
    let balance = balance();
    let mut now = Duration::ZERO;
    for _ in 0..20 {
        let tickets: Vec<_> = (0..64).map(|_| balance.submitted(256, now)).collect();
        for (ticket, took) in tickets.into_iter().zip([30].into_iter().chain([60; 63])) {
            balance.completed(ticket, now + Duration::from_millis(took));
        }
        now += Duration::from_millis(60);
        take(&balance, 1, &mut now, Duration::from_millis(30));
    }
    // The rate is 64 * 256 pages in 60 ms, and the delay is 30 ms. The window is twice their product.
    let mut file = state(&balance);
    let mut next = 0;
    let mut largest = 0;
    let mut trigger = Miss;
    for _ in 0..20 {
        let windows = Adaptive.decide(&mut file, &read(trigger, next, 16), &Nothing);
        let pages: u32 = windows.into_iter().map(|window| window.size).sum();
        let marker = windows.into_iter().find_map(|window| window.marker());
        (next, trigger) = (marker.unwrap().0, Marker);
        largest = largest.max(pages);
    }
    assert!((16_000..17_000).contains(&largest), "{largest}");
}

#[test]
fn random_request_is_extended_only_if_such_requests_are_often_continued() {
    let extended = |continued_pct: u64| {
        let balance = balance();
        disk(&balance);
        let mut state = state(&balance);
        let mut random = Random::new(11);
        let mut count = 0;
        for _ in 0..400 {
            let start = 4 * random.below(FILE_PAGES / 4 - 8);
            let windows = Adaptive.decide(&mut state, &read(Miss, start, 4), &Nothing);
            let window = windows.first().unwrap();
            count += u32::from(window.size > 4);
            if random.below(100) < continued_pct {
                let trigger = if window.size > 4 { Marker } else { Miss };
                Adaptive.decide(&mut state, &read(trigger, start + 4, 4), &Nothing);
            }
        }
        count
    };
    // A random request may follow another by chance.
    let never = extended(0);
    assert!(never <= 2, "{never}");
    let often = extended(30);
    assert!(often > 250, "{often}");
}

#[test]
fn random_reads_read_their_requests_and_hardly_any_other_page() {
    let mut file = ToyFile::new(PolicyName::Adaptive, 1 << 22, 32);
    let mut random = Random::new(7);
    let mut pages = 0;
    for _ in 0..5000 {
        let windows = file.read(random.below((1 << 22) - 8), 4);
        pages += windows.iter().map(|(_, size, _)| size).sum::<u32>();
    }
    // A request may follow another by chance.
    assert!(pages <= 20_000 + 200, "{pages}");
}

/// Reads requests of 4 pages at these places of a file, and returns the number of misses.
fn misses(places: impl IntoIterator<Item = u64>) -> u32 {
    let mut file = ToyFile::new(PolicyName::Adaptive, 1 << 20, 32);
    for start in places {
        file.read(start, 4);
    }
    file.log.misses
}

#[test]
fn regular_reader_of_any_direction_misses_only_its_first_pages() {
    let forward = misses((0..1000).map(|n| 50_000 + n * 4));
    let backward = misses((0..1000).map(|n| 50_000 - n * 4));
    let up = misses((0..1000).map(|n| 50_000 + n * 100));
    let down = misses((0..1000).map(|n| 200_000 - n * 100));
    assert_eq!((forward, backward), (2, 2));
    assert_eq!((up, down), (4, 4));
    // Two readers with different strides.
    let two = misses((0..2000).map(|n| (n % 2) * 500_000 + n / 2 * (100 + (n % 2) * 37)));
    assert!(two <= 12, "{two}");
}

#[test]
fn two_hundred_cursors_miss_only_a_few_of_their_requests() {
    let visits = (0..200).flat_map(|visit| (0..200).map(move |cursor| (cursor, visit)));
    // At unequal distances, so that the cursors do not form a strided pattern.
    let start = |cursor: u64| 1000 + cursor * 5000 + (cursor * cursor * 7919) % 1000 * 4;
    let misses = misses(visits.map(|(cursor, visit)| start(cursor) + visit * 4));
    // Each cursor misses its first two requests. While many streams begin at once, none of them is known to continue, so
    // most of them miss about two more.
    assert!((400..=1000).contains(&misses), "{misses} of 40000");
}
