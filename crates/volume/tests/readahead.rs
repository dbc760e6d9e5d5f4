//! Every readahead policy with the caches of a volume: the content is right, and the device reads
//! are as expected.

use larder::{Advice, Error, Ino, OpenFile, OpenOptions, PolicyName, Volume};
use larder_instruments::{ReadRecord, RecordingDevice, ReorderingDevice};
use larder_testkit::device::fill_pattern;
use larder_testkit::image::LargeFile;
use larder_testkit::{Random, Requirement, Seed, skip};
use std::ops::Range;
use std::sync::Arc;
use std::thread;

const PAGE_BYTES: u64 = 4096;
/// The largest window in these tests.
const MAX_PAGES: u64 = 32;
/// The maximum number of device reads in addition to the number of windows of the maximum size. The
/// first windows are smaller, and an indirect block interrupts the file's blocks at page 12 and
/// after each further 1024 pages.
const SPARE_READS: u64 = 12;
/// The number of readers that take turns.
const READERS: u64 = 64;

fn tools_are_missing() -> bool {
    skip(&["mke2fs", "debugfs"].map(Requirement::Tool))
}

fn options(policy: PolicyName) -> OpenOptions {
    let mut options = OpenOptions::default();
    options.readahead = policy;
    options.readahead_max_bytes = MAX_PAGES * PAGE_BYTES;
    options
}

/// A volume with a large file, on a device whose reads are recorded.
struct Recorded {
    device: Arc<RecordingDevice>,
    volume: Volume,
    size_bytes: u64,
}

impl Recorded {
    fn new(size_mib: u64, options: &OpenOptions) -> Self {
        let large = LargeFile::new(size_mib).unwrap();
        let device = Arc::new(RecordingDevice::new(large.device));
        let volume = Volume::open_device(device.clone(), options).unwrap();
        let ino = volume.resolve(b"/large").unwrap();
        // Read the whole mapping of the file, so that all later device reads are of content.
        let _ = volume.seek_hole(ino, 0);
        let _ = device.take_log();
        Self {
            device,
            volume,
            size_bytes: large.size_bytes,
        }
    }

    fn open(&self) -> OpenFile {
        let ino = self.volume.resolve(b"/large").unwrap();
        self.volume.open_file(ino).unwrap()
    }

    /// Returns the device reads since the last call.
    fn reads(&self) -> Vec<ReadRecord> {
        self.device.take_log()
    }

    /// Waits until no page of the file is in flight, and then drops all its pages, as if they had
    /// been reclaimed.
    fn reclaim_all(&self) {
        let ino = self.volume.resolve(b"/large").unwrap();
        while self.volume.stats().page.objects > 0 {
            let whole = 0..self.size_bytes;
            self.volume.advise(ino, whole, Advice::DontNeed).unwrap();
            thread::yield_now();
        }
    }
}

/// Reads `pages` of the file in requests of `request_pages`, and checks every byte.
fn read_pages(file: &OpenFile, pages: Range<u64>, request_pages: u64) {
    let request_bytes = usize::try_from(request_pages * PAGE_BYTES).unwrap();
    let (mut buf, mut expected) = (vec![0; request_bytes], vec![0; request_bytes]);
    for page in pages.step_by(usize::try_from(request_pages).unwrap()) {
        check(file, page * PAGE_BYTES, &mut buf, &mut expected);
    }
}

fn check(file: &OpenFile, offset_bytes: u64, buf: &mut [u8], expected: &mut [u8]) {
    let len = file.read_at(buf, offset_bytes).unwrap();
    let left = file.size_bytes().saturating_sub(offset_bytes);
    assert_eq!(len as u64, left.min(buf.len() as u64));
    fill_pattern(&mut expected[..len], offset_bytes);
    assert!(
        buf[..len] == expected[..len],
        "wrong byte after {offset_bytes}"
    );
}

fn pages_of(reads: &[ReadRecord]) -> u64 {
    reads.iter().map(|read| read.len_bytes).sum::<u64>() / PAGE_BYTES
}

/// Returns all policies that read ahead.
fn policies() -> impl Iterator<Item = PolicyName> {
    let all = PolicyName::ALL.iter().copied();
    all.filter(|policy| *policy != PolicyName::Off)
}

#[test]
fn sequential_reader_reads_each_page_once_and_by_whole_windows() {
    if tools_are_missing() {
        return;
    }
    for &policy in PolicyName::ALL {
        for request_pages in [1, 8, 32, 256, 700] {
            let recorded = Recorded::new(16, &options(policy));
            let pages = recorded.size_bytes / PAGE_BYTES;
            read_pages(&recorded.open(), 0..pages, request_pages);
            let (reads, ahead) = (recorded.reads(), recorded.volume.stats().readahead);
            let what = format!(
                "{policy}, {request_pages} pages at once: {} reads",
                reads.len()
            );
            assert_eq!(pages_of(&reads), pages, "{what}");
            assert_eq!(ahead.policy, policy, "{what}");
            assert_eq!(ahead.max_bytes, MAX_PAGES * PAGE_BYTES, "{what}");
            let read_pages = match policy {
                PolicyName::Off => request_pages.min(256),
                _ => MAX_PAGES,
            };
            let most = pages / read_pages + SPARE_READS;
            assert!(reads.len() as u64 <= most, "{what}");
            assert_eq!(ahead.windows == 0, policy == PolicyName::Off, "{what}");
            assert_eq!(ahead.pages_ahead, ahead.pages_used, "{what}");
        }
    }
}

/// Reads one page for each reader in turn. Each reader has its own part of one file. Returns the
/// number of device reads.
fn interleave<'a>(recorded: &Recorded, file: impl Fn(u64) -> &'a OpenFile) -> u64 {
    let share = recorded.size_bytes / PAGE_BYTES / READERS;
    for page in 0..share {
        for reader in 0..READERS {
            let page = reader * share + page;
            read_pages(file(reader), page..page + 1, 1);
        }
    }
    let reads = recorded.reads();
    assert_eq!(pages_of(&reads), recorded.size_bytes / PAGE_BYTES);
    reads.len() as u64
}

#[test]
fn readers_with_own_open_files_have_own_readahead() {
    if tools_are_missing() {
        return;
    }
    for policy in policies() {
        let recorded = Recorded::new(64, &options(policy));
        let files: Vec<OpenFile> = (0..READERS).map(|_| recorded.open()).collect();
        let number = |reader: u64| usize::try_from(reader).unwrap();
        let reads = interleave(&recorded, |reader| &files[number(reader)]);
        // Each reader reads 256 pages, in windows of 1 or 2 pages, then 4, 8, 16 and so on.
        let most = READERS * (256 / MAX_PAGES + 6);
        assert!(reads <= most, "{policy}: {reads} reads");
    }
}

#[test]
fn only_modern_and_adaptive_policies_distinguish_readers_of_a_shared_open_file() {
    if tools_are_missing() {
        return;
    }
    for policy in policies() {
        let recorded = Recorded::new(64, &options(policy));
        let file = recorded.open();
        let reads = interleave(&recorded, |_| &file);
        let pages = recorded.size_bytes / PAGE_BYTES;
        if matches!(policy, PolicyName::Modern | PolicyName::Adaptive) {
            assert!(reads < pages / 16, "{policy}: {reads} reads");
        } else {
            assert!(reads > pages / 2, "{policy}: {reads} reads");
        }
    }
}

#[test]
fn pages_reclaimed_before_use_are_read_singly_only_by_legacy() {
    if tools_are_missing() {
        return;
    }
    for policy in policies() {
        let recorded = Recorded::new(16, &options(policy));
        let file = recorded.open();
        // The reads end in the middle of a window, when the next window has been read ahead.
        read_pages(&file, 0..1040, 1);
        recorded.reclaim_all();
        let _ = recorded.reads();
        read_pages(&file, 1040..1100, 1);
        let reads = recorded.reads();
        let alone = reads.iter().filter(|read| read.len_bytes == PAGE_BYTES);
        let alone = alone.count();
        if policy == PolicyName::Legacy {
            assert!(alone > 32, "{policy}: {alone} reads of one page");
        } else {
            assert!(alone < 8, "{policy}: {alone} reads of one page");
        }
    }
}

/// Reads requests of `request_pages` at these pages under the adaptive policy, with checks of every byte. Returns the
/// number of requests, and the number of pages that were read ahead and then used.
fn read_adaptively(request_pages: u64, pages: impl Iterator<Item = u64>) -> (u64, u64) {
    let recorded = Recorded::new(32, &options(PolicyName::Adaptive));
    let file = recorded.open();
    let mut requests = 0;
    for page in pages {
        read_pages(&file, page..page + request_pages, request_pages);
        requests += 1;
    }
    let ahead = recorded.volume.stats().readahead;
    assert_eq!(ahead.policy, PolicyName::Adaptive);
    (requests, ahead.pages_used)
}

#[test]
fn adaptive_policy_reads_ahead_of_readers_in_any_regular_order() {
    if tools_are_missing() {
        return;
    }
    let cases: [(&str, u64, Vec<u64>); 5] = [
        ("forward", 4, (0..2000).map(|n| n * 4).collect()),
        ("backward", 4, (0..2000).rev().map(|n| n * 4).collect()),
        ("strided", 4, (0..200).map(|n| n * 40).collect()),
        (
            "strided backward",
            4,
            (0..200).rev().map(|n| n * 40).collect(),
        ),
        (
            "sixteen cursors",
            4,
            (0..120 * 16).map(|n| n % 16 * 500 + n / 16 * 4).collect(),
        ),
    ];
    for (name, request_pages, pages) in cases {
        let (requests, used) = read_adaptively(request_pages, pages.into_iter());
        let pages = requests * request_pages;
        assert!(used * 10 >= pages * 8, "{name}: {used} of {pages} pages");
    }
}

#[test]
fn adaptive_policy_reads_nothing_ahead_of_a_random_reader() {
    if tools_are_missing() {
        return;
    }
    let seed = Seed::from_environment(0x5b);
    println!("seed {seed}");
    let mut random = Random::new(seed.part(0));
    let recorded = Recorded::new(64, &options(PolicyName::Adaptive));
    let file = recorded.open();
    for _ in 0..1000 {
        let page = 1 + random.below(recorded.size_bytes / PAGE_BYTES - 2);
        read_pages(&file, page..page + 1, 1);
    }
    let ahead = recorded.volume.stats().readahead.pages_ahead;
    assert!(ahead < 400, "{ahead} pages");
}

#[test]
fn every_policy_in_any_cache_reads_every_byte_right() {
    if tools_are_missing() {
        return;
    }
    let seed = Seed::from_environment(0x5a);
    println!("seed {seed}");
    let large = LargeFile::new(16).unwrap();
    for &policy in PolicyName::ALL {
        for cache_kib in [64, 512, 4096] {
            let mut options = options(policy);
            options.cache_size_bytes = cache_kib << 10;
            options.readahead_max_bytes = 1 << 20;
            let volume = Volume::open_device(large.device.clone(), &options).unwrap();
            let ino = volume.resolve(b"/large").unwrap();
            let shared = volume.open_file(ino).unwrap();
            thread::scope(|scope| {
                for number in 0..4 {
                    let (volume, shared) = (&volume, &shared);
                    let random = Random::new(seed.part(number));
                    scope.spawn(move || read_at_random(volume, shared, random));
                }
            });
        }
    }
}

/// Reads pieces of any size, sequentially or not, through an open file of its own or the shared
/// one.
fn read_at_random(volume: &Volume, shared: &OpenFile, mut random: Random) {
    let own = volume.open_file(shared.ino()).unwrap();
    let (mut buf, mut expected) = (vec![0; 2 << 20], vec![0; 2 << 20]);
    let mut at = 0;
    for _ in 0..60 {
        let most = [1, 5000, 200_000, buf.len() as u64][usize::try_from(random.below(4)).unwrap()];
        let len = usize::try_from(1 + random.below(most)).unwrap();
        if random.below(3) == 0 || at >= own.size_bytes() {
            at = random.below(own.size_bytes());
        }
        let file = if random.below(2) == 0 { &own } else { shared };
        check(file, at, &mut buf[..len], &mut expected[..len]);
        at += len as u64;
    }
}

#[test]
fn will_need_advice_reads_the_pages_immediately() {
    if tools_are_missing() {
        return;
    }
    for &policy in PolicyName::ALL {
        let recorded = Recorded::new(16, &options(policy));
        let file = recorded.open();
        // The range is from the last byte of page 1040 to the first byte of page 1139.
        let range = 1041 * PAGE_BYTES - 1..1139 * PAGE_BYTES + 1;
        file.advise(range, Advice::WillNeed);
        // Read in reverse order, so that no page is read for any other reason.
        file.advise(0..1, Advice::Random);
        for page in (1040..1140).rev() {
            read_pages(&file, page..page + 1, 1);
        }
        let reads = recorded.reads();
        assert_eq!((reads.len(), pages_of(&reads)), (1, 100), "{policy}");
    }
}

#[test]
fn dont_need_advice_drops_whole_pages_only() {
    if tools_are_missing() {
        return;
    }
    let recorded = Recorded::new(16, &options(PolicyName::Off));
    let file = recorded.open();
    read_pages(&file, 1030..1040, 10);
    file.advise(
        1031 * PAGE_BYTES + 1..1035 * PAGE_BYTES - 1,
        Advice::DontNeed,
    );
    assert_eq!(recorded.volume.stats().page.objects, 8);
    // This range extends past the end of the file. It has more indexes than the cache has frames,
    // so the cache iterates over its frames instead.
    file.advise(1036 * PAGE_BYTES..u64::MAX, Advice::DontNeed);
    assert_eq!(recorded.volume.stats().page.objects, 4);
    let _ = recorded.reads();
    read_pages(&file, 1030..1036, 6);
    let reads = recorded.reads();
    assert_eq!(
        (reads.len(), pages_of(&reads)),
        (1, 2),
        "pages 1032 and 1033"
    );
}

#[test]
fn advice_on_the_access_pattern_sets_the_window_size() {
    if tools_are_missing() {
        return;
    }
    for policy in policies() {
        for (advice, most_pages) in [
            (Advice::Normal, MAX_PAGES),
            (Advice::Sequential, 2 * MAX_PAGES),
            (Advice::Random, 1),
        ] {
            let recorded = Recorded::new(16, &options(policy));
            let file = recorded.open();
            file.advise(0..0, advice);
            read_pages(&file, 0..1000, 1);
            let largest = recorded.reads().iter().map(|read| read.len_bytes).max();
            let what = format!("{policy}, {advice:?}");
            // The adaptive policy has no fixed limit, and reads long windows in parts.
            if policy != PolicyName::Adaptive || advice == Advice::Random {
                assert_eq!(largest, Some(most_pages * PAGE_BYTES), "{what}");
            }
        }
    }
}

#[test]
fn volume_with_windows_of_size_zero_reads_nothing_ahead() {
    if tools_are_missing() {
        return;
    }
    for &policy in PolicyName::ALL {
        let mut options = options(policy);
        options.readahead_max_bytes = 0;
        let recorded = Recorded::new(1, &options);
        let file = recorded.open();
        read_pages(&file, 0..100, 1);
        assert_eq!(recorded.reads().len(), 100, "{policy}");
        let ahead = recorded.volume.stats().readahead;
        assert_eq!(ahead.policy, PolicyName::Off);
        assert_eq!(ahead.max_bytes, 0);
        assert_eq!((ahead.windows, ahead.pages_ahead), (0, 0), "{policy}");
    }
}

#[test]
fn open_file_reads_ahead_after_its_volume_is_dropped() {
    if tools_are_missing() {
        return;
    }
    let Recorded { device, volume, .. } = Recorded::new(16, &options(PolicyName::OnDemand));
    let file = volume
        .open_file(volume.resolve(b"/large").unwrap())
        .unwrap();
    drop(volume);
    read_pages(&file, 0..4096, 1);
    assert!((device.take_log().len() as u64) < 4096 / MAX_PAGES + SPARE_READS);
}

#[test]
fn file_without_content_cannot_be_opened() {
    if tools_are_missing() {
        return;
    }
    let recorded = Recorded::new(1, &options(PolicyName::OnDemand));
    let opened = recorded.volume.open_file(Ino::ROOT);
    assert!(matches!(opened, Err(Error::IsDirectory(Ino::ROOT))));
    let advised = recorded.volume.advise(Ino::ROOT, 0..1, Advice::Normal);
    assert!(matches!(advised, Err(Error::IsDirectory(Ino::ROOT))));
}

/// Returns the number of pages of each device read, in order of offset.
fn sizes(mut reads: Vec<ReadRecord>) -> Vec<u64> {
    reads.sort_by_key(|read| read.offset_bytes);
    reads
        .iter()
        .map(|read| read.len_bytes / PAGE_BYTES)
        .collect()
}

#[test]
fn exact_policy_ignores_how_many_streams_share_the_cache() {
    if tools_are_missing() {
        return;
    }
    for (policy, limited) in [
        (PolicyName::Legacy, [1, 2, 4, 8, 13, 13, 13, 13]),
        (PolicyName::OnDemand, [1, 2, 4, 8, 16, 23, 23, 23]),
    ] {
        for (is_exact, expected) in [(false, limited), (true, [1, 4, 8, 16, 32, 32, 32, 32])] {
            let mut options = options(policy);
            options.cache_size_bytes = 4 << 20;
            options.readahead_exact = is_exact;
            let recorded = Recorded::new(64, &options);
            assert_eq!(recorded.volume.stats().readahead.exact, is_exact);
            read_pages(&recorded.open(), 2050..2051, 1);
            let before = recorded.reads().pop().unwrap().offset_bytes;
            let others: Vec<OpenFile> = (0..23).map(|_| recorded.open()).collect();
            for (number, file) in (0..).zip(&others) {
                read_pages(file, number * 40..number * 40 + 20, 1);
            }
            // No indirect block interrupts the file's blocks here.
            read_pages(&recorded.open(), 2100..2300, 1);
            let mut reads = recorded.reads();
            // The device may have read the last windows of the other readers only now. Leave out
            // these reads.
            reads.retain(|read| read.offset_bytes > before);
            let read = sizes(reads);
            assert_eq!(read[..8], expected, "{policy}, exact: {is_exact}");
        }
    }
}

/// One reader begins a read, and waits for a page. Meanwhile, another reader reads sequentially
/// through the same open file. With `readahead_exact`, the first reader then overwrites the
/// readahead state with its own copy, so that the next sequential read does not continue the
/// windows.
#[test]
fn exact_policy_stores_the_state_of_the_reader_that_ends_last() {
    if tools_are_missing() {
        return;
    }
    for (policy, is_exact, expected) in [
        (PolicyName::Legacy, false, &[8][..]),
        (PolicyName::Legacy, true, &[]),
        (PolicyName::OnDemand, false, &[8]),
        // The marked page belongs to no window of the state. The next window therefore begins after
        // the marked page, and the first two pages of the window are cached.
        (PolicyName::OnDemand, true, &[14]),
    ] {
        let large = LargeFile::new(64).unwrap();
        let silent = Arc::new(ReorderingDevice::new(large.device, 1));
        let device = Arc::new(RecordingDevice::new(silent.clone()));
        let mut options = options(policy);
        options.readahead_exact = is_exact;
        let volume = Volume::open_device(device.clone(), &options).unwrap();
        let ino = volume.resolve(b"/large").unwrap();
        let _ = volume.seek_hole(ino, 0);
        let file = volume.open_file(ino).unwrap();
        let awaited = 5000 * PAGE_BYTES..5001 * PAGE_BYTES;
        read_pages(&volume.open_file(ino).unwrap(), 5000..5001, 1);
        let offset = device.take_log().last().unwrap().offset_bytes;
        file.advise(awaited.clone(), Advice::DontNeed);
        silent.silence(offset..offset + 1);
        file.advise(awaited, Advice::WillNeed);
        let lookups = || volume.stats().page.lookups;
        let before = lookups();
        thread::scope(|scope| {
            scope.spawn(|| read_pages(&file, 5000..5001, 1));
            while lookups() == before {
                thread::yield_now();
            }
            read_pages(&file, 2100..2102, 1);
            silent.answer();
        });
        let _ = device.take_log();
        read_pages(&file, 2102..2103, 1);
        let read = sizes(device.take_log());
        assert_eq!(read, expected, "{policy}, exact: {is_exact}");
    }
}
