//! Properties of the policies.

use larder_readahead::{FileState, PageIndex, PolicyName, Read, Residency, Trigger};
use larder_testkit::proptest_config;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::toy::{Log, ToyFile, check};

/// The seed, unless `LARDER_SEED` sets another. Each property prints the seed that it used.
const SEED: u64 = 2007;

fn any_policy() -> impl Strategy<Value = PolicyName> {
    select(PolicyName::ALL)
}

/// One action of a file's users. Page numbers are taken modulo the length of the file.
#[derive(Clone, Debug)]
enum Action {
    Read { start: u64, pages: u32 },
    ReadOn { pages: u32 },
    Fault { page: u64 },
    Reclaim { start: u64, pages: u64 },
    Congest { congested: bool },
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => (0_u64..2000, 1_u32..400).prop_map(|(start, pages)| Action::Read { start, pages }),
        6 => (1_u32..100).prop_map(|pages| Action::ReadOn { pages }),
        1 => (0_u64..2000).prop_map(|page| Action::Fault { page }),
        1 => (0_u64..2000, 1_u64..200)
            .prop_map(|(start, pages)| Action::Reclaim { start, pages }),
        1 => any::<bool>().prop_map(|congested| Action::Congest { congested }),
    ]
}

/// Performs the actions on `file`, which checks each window.
fn run(mut file: ToyFile, file_pages: u64, actions: &[Action]) -> Log {
    let mut next = 0;
    for action in actions {
        match *action {
            Action::Read { start, pages } => {
                let start = start % file_pages;
                file.read(start, pages);
                next = start + u64::from(pages);
            }
            Action::ReadOn { pages } => {
                file.read(next, pages);
                next += u64::from(pages);
            }
            Action::Fault { page } => {
                file.fault(page % file_pages);
            }
            Action::Reclaim { start, pages } => file.reclaim(start % file_pages, pages),
            Action::Congest { congested } => file.set_congested(congested),
        }
    }
    file.log
}

/// A page cache in which a pseudo-random half of the pages is resident.
struct Scrambled(u64);

impl Residency for Scrambled {
    fn is_resident(&self, page: PageIndex) -> bool {
        (page.0 ^ self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0
    }
}

/// Reads a file of 6000 pages from `start` to its end, in requests of `request` pages.
fn read_sequentially(policy: PolicyName, max_pages: u32, start: u64, request: u32) -> ToyFile {
    let mut file = ToyFile::new(policy, FILE_PAGES, max_pages);
    file.read_to_end(start, &[request]);
    file
}

const FILE_PAGES: u64 = 6000;

fn any_start() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0_u64), 1_u64..100]
}

proptest! {
    #![proptest_config(proptest_config!(SEED))]

    /// No window exceeds the limit, unless it is exactly the rest of the request. Each window ends
    /// within the file, and its marker is inside it. The windows of one decision have no page in
    /// common. The same actions produce the same windows.
    #[test]
    fn windows_of_any_actions_are_valid_and_reproducible(
        policy in any_policy(),
        file_pages in 1_u64..2000,
        max_pages in 0_u32..300,
        seed in any::<u64>(),
        actions in vec(any_action(), 1..60),
    ) {
        let file = || ToyFile::new(policy, file_pages, max_pages).with_slow_device(seed);
        let log = run(file(), file_pages, &actions);
        prop_assert_eq!(log, run(file(), file_pages, &actions));
    }

    /// The property must also hold if the policy changes at each call, since all policies use the
    /// same state of a file.
    #[test]
    fn decision_on_any_numbers_does_not_overflow(
        max_pages in any::<u32>(),
        salt in any::<u64>(),
        reads in vec(
            (
                any_policy(),
                select(&[Trigger::Access, Trigger::Miss, Trigger::Marker]),
                prop_oneof![any::<u64>(), 0_u64..1000, u64::MAX - 1000..=u64::MAX],
                (any::<u64>(), any::<u32>(), any::<u64>()),
                (any::<bool>(), any::<bool>(), any::<bool>(), 0_u32..3),
            ),
            1..20,
        ),
    ) {
        let mut state = FileState::new(max_pages);
        for (name, trigger, index, (start, pages, file_pages), flags) in reads {
            let (ends_inside_page, by_fault, congested, new_pages) = flags;
            let read = Read {
                trigger,
                index: PageIndex(index),
                request_start: PageIndex(start),
                request_pages: pages,
                ends_inside_page,
                by_fault,
                file_pages,
                congested,
            };
            let policy = name.policy();
            policy.wants_access(&state, &read);
            for window in policy.decide(&mut state, &read, &Scrambled(salt)) {
                check(window, &read, state.max_pages());
                policy.window_read(&mut state, window, new_pages.min(window.size));
            }
            policy.end_read(&mut state, &read);
        }
    }

    /// A sequential reader under `ondemand` stalls for the first window. From the start of a file,
    /// it stalls once more if the first request fills that window: the marker is then on page 0, and
    /// the next window begins with page 1. That page is resident, so it gets no marker. From inside
    /// a file, the second request of the reader opens the first window.
    #[test]
    fn sequential_reader_under_ondemand_stalls_at_most_once_after_the_first_window(
        start in any_start(),
        request in 1_u32..400,
        max_pages in 1_u32..300,
    ) {
        let log = read_sequentially(PolicyName::OnDemand, max_pages, start, request).log;
        let first = if start > 0 && request <= max_pages { 2 } else { 1 };
        let unexpected_marker = start == 0 && request >= max_pages && max_pages > 1;
        prop_assert_eq!(log.stalls, first + u32::from(unexpected_marker));
        prop_assert_eq!(log.stalls, log.misses);
    }

    /// Under `modern`, a window that the request fills has the marker in its middle. So the reader
    /// stalls only for the first window, even at the start of a file. From inside a file, the
    /// second request of the reader opens the first window. With a limit of one page there is no
    /// room for a marker, so the reader stalls for every page.
    #[test]
    fn sequential_reader_under_modern_stalls_for_the_first_window_only(
        start in any_start(),
        request in 1_u32..400,
        max_pages in 2_u32..300,
    ) {
        let log = read_sequentially(PolicyName::Modern, max_pages, start, request).log;
        let first = if start > 0 && request <= max_pages { 2 } else { 1 };
        prop_assert_eq!(log.stalls, first);
        prop_assert_eq!(log.stalls, log.misses);
    }

    /// Under `legacy`, a reader never misses a page: the policy is consulted before each page that
    /// no decision has covered. The reader stalls for the first window. From inside a file, it also
    /// stalls once before that, for the request that is not known to be sequential yet. If that
    /// request is larger than the largest window, the first window has the initial size for the
    /// rest of the request. The next requests are then larger than the windows, and the reader
    /// stalls for each of them. With each of these stalls, the windows grow by two steps of the
    /// ramp, until they are large enough.
    #[test]
    fn sequential_reader_under_legacy_stalls_for_the_first_window_only(
        start in any_start(),
        request in prop_oneof![1_u32..400, 400_u32..4000],
        max_pages in prop_oneof![1_u32..300, 300_u32..3000],
    ) {
        let log = read_sequentially(PolicyName::Legacy, max_pages, start, request).log;
        prop_assert_eq!(log.misses, 0);
        if start == 0 {
            prop_assert_eq!(log.stalls, 1);
        } else if request <= max_pages {
            prop_assert_eq!(log.stalls, 2);
        } else {
            prop_assert!(log.stalls <= 2 + max_pages.ilog2() / 2, "{} stalls", log.stalls);
        }
    }

    /// Without readahead, the reader stalls for every request.
    #[test]
    fn sequential_reader_under_off_stalls_once_a_request(
        start in any_start(),
        request in 1_u32..400,
        max_pages in 0_u32..300,
    ) {
        let log = read_sequentially(PolicyName::Off, max_pages, start, request).log;
        let requests = (FILE_PAGES - start).div_ceil(u64::from(request));
        prop_assert_eq!(u64::from(log.stalls), requests);
    }

    /// As long as nothing is reclaimed, the windows of a sequential reader contain no page that is
    /// resident or in flight. The one exception is `ondemand` at the start of a file, if the first
    /// request fills its window. Then the marker is on page 0 and opens a window of the largest
    /// size at page 1, of which only the last page is new.
    ///
    /// This applies to one reader of a file that is not cached. If streams share an open file,
    /// reads are random, or pages are faulted or were reclaimed, windows may contain pages in
    /// flight, which the caller skips.
    #[test]
    fn sequential_reader_requests_pages_again_only_under_ondemand_at_the_start(
        policy in any_policy(),
        file_pages in prop_oneof![1_u64..400, Just(FILE_PAGES)],
        start in prop_oneof![Just(0_u64), 0..FILE_PAGES],
        requests in vec(1_u32..400, 1..4),
        max_pages in 0_u32..300,
        congested in any::<bool>(),
    ) {
        let start = start % file_pages;
        let mut file = ToyFile::new(policy, file_pages, max_pages);
        file.set_congested(congested);
        file.read_to_end(start, &requests);
        let page_0_is_marked = start == 0 && requests[0] >= max_pages && !congested;
        let want = if policy == PolicyName::OnDemand && page_0_is_marked {
            file_pages.min(max_pages.into()).saturating_sub(1)
        } else {
            0
        };
        prop_assert_eq!(file.log.pages_requested_again, want);
    }

    /// `ondemand` reads pages ahead again that were reclaimed before the reader used them.
    #[test]
    fn thrashed_pages_under_ondemand_are_read_ahead(
        request in 1_u32..16,
        reads_before in 4_u64..40,
        lost_pages in 1_u64..200,
    ) {
        let (misses, windows) = reread_thrashed(PolicyName::OnDemand, request, reads_before, lost_pages);
        // A reclaimed marked page, the rest of its request, and the marked pages of the old windows
        // each cost a miss. All other pages are read again in windows, and not one by one.
        prop_assert!(misses <= 8 && (lost_pages < 64 || misses * 8 <= lost_pages), "{misses}");
        if lost_pages > 64 {
            prop_assert!(windows >= 2);
        }
    }

    /// `legacy` does not read such pages ahead again: each reclaimed page that its windows had
    /// covered is a separate miss.
    #[test]
    fn thrashed_pages_under_legacy_are_read_one_by_one(
        request in 1_u32..16,
        reads_before in 4_u64..40,
        lost_pages in 1_u64..200,
    ) {
        let (misses, _) = reread_thrashed(PolicyName::Legacy, request, reads_before, lost_pages);
        // The windows extend past the reader by at least one page, and by at most twice the largest
        // window.
        prop_assert!(misses >= 1 && misses <= lost_pages.min(64), "{misses}");
    }
}

/// Reads the start of a file with `reads_before` requests, reclaims the next `lost_pages` pages,
/// and reads on over these pages. Returns the number of misses and of windows that this costs.
fn reread_thrashed(
    policy: PolicyName,
    request: u32,
    reads_before: u64,
    lost_pages: u64,
) -> (u64, usize) {
    let mut file = ToyFile::new(policy, FILE_PAGES, 32);
    for n in 0..reads_before {
        file.read(n * u64::from(request), request);
    }
    let at = reads_before * u64::from(request);
    file.reclaim(at, lost_pages);
    let (misses, windows) = (file.log.misses, file.log.windows.len());
    let mut reread = at;
    while reread < at + lost_pages {
        file.read(reread, request);
        reread += u64::from(request);
    }
    (
        u64::from(file.log.misses - misses),
        file.log.windows.len() - windows,
    )
}
