//! Tests recommendations for traces with a known answer.

use larder::PolicyName;
use larder_cache::tape::{CacheKind, Operation};
use larder_instruments::simulated::DeviceModel;
use larder_lab::advise::device::DeviceFigures;
use larder_lab::advise::{Advice, Change, Current, Error, ReadOrigin, Settings, advise};
use larder_lab::hash::TraceFile;
use larder_lab::output::Report;
use larder_lab::trace::Tolerance;
use larder_trace::{FileRead, TraceEvent, TraceInfo, TraceWriter};
use std::path::Path;

/// An event at a time in nanoseconds.
fn event(time_ns: u64, cache: CacheKind, operation: Operation, object: u64) -> TraceEvent {
    let (inode, index, name_hash) = match cache {
        CacheKind::Page => (12, object, 0),
        CacheKind::Buffer => (0, object, 0),
        CacheKind::Dentry => (0, 2, object),
        CacheKind::Inode => (object, 0, 0),
    };
    TraceEvent {
        time_ns,
        cache,
        operation,
        device: 1,
        inode,
        index,
        name_hash,
    }
}

const LOOKUP: Operation = Operation::Lookup { hit: true };

fn settings(current: &str) -> Settings {
    Settings {
        current: Current::parse(current, |size| size.parse().map_err(|_| size.to_owned())).unwrap(),
        device: *DeviceModel::named("nvme").unwrap(),
        device_name: "nvme".to_owned(),
        memory_bytes: None,
        seed: 1,
    }
}

/// Writes the events to a trace. `records_changes` must be true if there are insertions or removals.
fn write(
    path: &Path,
    events: impl IntoIterator<Item = TraceEvent>,
    records_changes: bool,
) -> TraceFile {
    let info = TraceInfo {
        source: "test".to_owned(),
        records_changes,
        ..TraceInfo::default()
    };
    let mut writer = TraceWriter::create(path, &info).unwrap();
    for event in events {
        writer.push(&event).unwrap();
    }
    writer.finish().unwrap();
    TraceFile::open(path, Tolerance::Whole).unwrap()
}

fn advised(
    events: impl IntoIterator<Item = TraceEvent>,
    settings: &Settings,
) -> Result<Advice, Error> {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir.path().join("trace"), events, false);
    advise(&trace, settings, &mut |_| {})
}

/// Returns the page at `place` of a loop over `pages` pages, in an order that is not sequential.
fn scattered(place: u64, pages: u64) -> u64 {
    // The factor is prime, so each page occurs once in a pass.
    place * 7919 % pages
}

/// Lookups of `pages` pages in an order that is not sequential, `passes` times, one every `each_ns`.
fn passes(pages: u64, passes: u64, each_ns: u64) -> impl Iterator<Item = TraceEvent> {
    let page = move |place| scattered(place, pages);
    let events = 0..pages * passes;
    events.map(move |place| event(place * each_ns, CacheKind::Page, LOOKUP, page(place)))
}

fn part<'a>(advice: &'a Advice, part: &str) -> &'a Change {
    let mut changes = advice.recommendation.changes.iter();
    changes.find(|change| change.part == part).unwrap()
}

#[test]
fn loop_that_exceeds_the_memory_needs_memory_for_the_loop() {
    // 160 MB, read four times in 32 s.
    let pages = 40_000;
    let advice = advised(passes(pages, 4, 200_000), &settings("cache_size=67108864")).unwrap();
    let change = part(&advice, "memory");
    // Of the memory, 1/4 can be used for names and inodes, which the trace does not have.
    assert_eq!(change.options, ["cache_size=192M"], "{change:?}");
    let saved = change.saved_ns.unwrap();
    assert!(
        saved.low.unwrap() > 0.0 && saved.value < 3.2e10,
        "{saved:?}"
    );
    // Three of four passes hit instead of missing.
    let expected = 3.0 * 40_000.0 * advice.costs.page_ns;
    assert!(
        (saved.value / expected - 1.0).abs() < 0.02,
        "{saved:?} {expected}"
    );
    let [curve] = &advice.caches[..] else {
        panic!("{:?}", advice.caches)
    };
    assert!(curve.is_exact);
    assert_eq!((curve.knee_objects, curve.useful_objects), (pages, pages));
    assert!((curve.least_misses - 40_000.0).abs() < 0.5);
    assert!(
        advice
            .verdict()
            .starts_with("Mount with: -o cache_size=192M"),
        "{}",
        advice.verdict()
    );
    // Without the last page, a loop has no hits at all.
    let limited = Settings {
        memory_bytes: Some(100 << 20),
        ..settings("cache_size=67108864")
    };
    let advice = advised(passes(pages, 4, 200_000), &limited).unwrap();
    assert!(part(&advice, "memory").options.is_empty());
}

#[test]
fn small_working_set_needs_no_change() {
    let advice = advised(passes(1000, 50, 100_000), &settings("")).unwrap();
    assert!(
        advice.keeps_current && advice.mount_option.is_empty(),
        "{:?}",
        advice.recommendation
    );
    assert!(advice.recommendation.saved_ns.value.abs() < 1e-9);
    assert!(
        advice.verdict().starts_with("Keep the current options"),
        "{}",
        advice.verdict()
    );
    assert_eq!(advice.recommendation.changes.len(), 4);
    assert!(
        advice.tables.is_none(),
        "50,000 lookups in 5 s cannot matter"
    );
}

#[test]
fn sequential_reads_without_readahead_need_readahead() {
    // One pass over 160 MB in 0.4 s, in reads of 128 KiB.
    let miss = Operation::Lookup { hit: false };
    let events = (0..40_000).map(|page| event(page * 10_000, CacheKind::Page, miss, page));
    let advice = advised(events, &settings("ro,readahead=off")).unwrap();
    let change = part(&advice, "readahead");
    assert!(change.is_recommended(), "{change:?}");
    assert!(
        advice.mount_option.starts_with("ro,readahead="),
        "{}",
        advice.mount_option
    );
    let times = advice.readahead.as_ref().unwrap();
    assert_eq!(times.policies[0].policy, PolicyName::Off);
    assert!(
        times
            .policies
            .iter()
            .skip(1)
            .any(|one| one.read_s < times.policies[0].read_s / 2.0)
    );
    assert!(
        change.saved_ns.unwrap().value < 4e8,
        "not more than the recording"
    );
}

/// Bytes of a recorded read, and its pages.
const READ_BYTES: u32 = 64 << 10;
const READ_PAGES: u64 = 16;

/// A read of file `12 + stream`, by a thread of its own.
fn file_read(start_ns: u64, duration_ns: u64, stream: u32, number: u64) -> FileRead {
    FileRead {
        time_ns: start_ns + duration_ns,
        device: 1,
        inode: 12 + u64::from(stream),
        offset_bytes: number * u64::from(READ_BYTES),
        len_bytes: READ_BYTES,
        file_bytes: 64 << 20,
        stream: 0,
        thread: 100 + stream,
        duration_ns,
        is_fault: false,
    }
}

/// Advice for a trace with `reads`, each of which looks its pages up before it ends.
fn advised_on_reads(reads: impl IntoIterator<Item = FileRead>, settings: &Settings) -> Advice {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let mut writer = TraceWriter::create(&path, &TraceInfo::default()).unwrap();
    for read in reads {
        for page in 0..READ_PAGES {
            let index = read.offset_bytes / 4096 + page;
            let lookup = event(read.start_ns(), CacheKind::Page, LOOKUP, index);
            let lookup = TraceEvent {
                inode: read.inode,
                ..lookup
            };
            writer.push(&lookup).unwrap();
        }
        writer.push_read(&read).unwrap();
    }
    writer.finish().unwrap();
    let trace = TraceFile::open(&path, Tolerance::Whole).unwrap();
    advise(&trace, settings, &mut |_| {}).unwrap()
}

/// Two threads that read a file of 64 MiB each, in turn: a read every 8 ms.
fn two_streams() -> impl Iterator<Item = FileRead> {
    let each_ns = 8_000_000;
    (0..2048).map(move |place| {
        let stream = u32::try_from(place % 2).unwrap();
        file_read(place * each_ns, each_ns, stream, place / 2)
    })
}

fn on_disk(current: &str) -> Settings {
    Settings {
        device: *DeviceModel::named("sata-2007").unwrap(),
        device_name: "sata-2007".to_owned(),
        ..settings(current)
    }
}

#[test]
fn recorded_streams_that_interleave_on_a_disk_need_readahead() {
    let advice = advised_on_reads(two_streams(), &on_disk("readahead=off"));
    let times = advice.readahead.as_ref().unwrap();
    assert_eq!(times.origin, ReadOrigin::Recorded);
    assert_eq!((times.reads, times.readers, times.parts), (2048, 2, 16));
    assert_eq!(times.pages, 2048 * READ_PAGES, "each page is read once");
    let simulated: Vec<PolicyName> = times.policies.iter().map(|one| one.policy).collect();
    for policy in PolicyName::ALL {
        assert!(simulated.contains(policy), "{simulated:?}");
    }
    let change = part(&advice, "readahead");
    assert!(change.is_recommended(), "{change:?}");
    assert!(
        change.options[0].starts_with("readahead=") && change.options[0] != "readahead=off",
        "{change:?}"
    );
    assert!(
        change.reason.contains("recorded reads of 2 threads"),
        "{change:?}"
    );
    let note = "Readahead was simulated with 2048 recorded reads of 2 threads.";
    assert!(
        advice.notes.iter().any(|one| one == note),
        "{:?}",
        advice.notes
    );
}

/// A measured disk. Its model has at least the size of sata-2007.
fn measured_disk(size_bytes: u64) -> Settings {
    let figures = DeviceFigures {
        version: 1,
        path: "disk.img".to_owned(),
        size_bytes,
        random_read_ns: 9e6,
        random_read_p99_ns: 2e7,
        random_reads_per_s: 180.0,
        sequential_bytes_per_s: 150e6,
        flush_ns: None,
    };
    Settings {
        device: figures.model(),
        device_name: "measured".to_owned(),
        ..settings("readahead=off")
    }
}

#[test]
fn trace_that_exceeds_the_device_has_unknown_readahead() {
    // The last read is 200 GiB after the start of its file.
    let each_ns = 8_000_000;
    let far = file_read(
        2048 * each_ns,
        each_ns,
        0,
        (200 << 30) / u64::from(READ_BYTES),
    );
    let reads = || two_streams().chain([far]);
    let advice = advised_on_reads(reads(), &measured_disk(1 << 30));
    assert!(advice.readahead.is_none());
    let change = part(&advice, "readahead");
    assert!(change.saved_ns.is_none(), "{change:?}");
    assert!(change.reason.contains("does not fit"), "{change:?}");
    assert!(part(&advice, "memory").saved_ns.is_some());
    let advice = advised_on_reads(reads(), &measured_disk(1 << 40));
    assert!(part(&advice, "readahead").saved_ns.is_some());
}

#[test]
fn readahead_does_not_count_as_hits_at_every_cache_size() {
    // A loop over 4000 pages with readahead of 32 pages, and memory for 980.
    let (pages, window, frames) = (4000, 32, 980);
    let mut events = Vec::new();
    for place in 0..4 * pages {
        let time = place * 50_000;
        let mut push = |operation, place| {
            events.push(event(time, CacheKind::Page, operation, place % pages));
        };
        if place % window == 0 {
            for ahead in place..place + window {
                push(Operation::Insert, ahead);
                if let Some(evicted) = ahead.checked_sub(frames) {
                    push(Operation::Evict, evicted);
                }
            }
        }
        push(LOOKUP, place);
    }
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir.path().join("ahead"), events, true);
    let advice = advise(&trace, &settings("cache_size=4194304"), &mut |_| {}).unwrap();
    let [curve] = &advice.caches[..] else {
        panic!("{:?}", advice.caches)
    };
    assert_eq!(curve.recorded_misses, Some(0));
    assert!((curve.current_misses - 16_000.0).abs() < 0.5, "{curve:?}");
    assert!((curve.least_misses - 4000.0).abs() < 0.5, "{curve:?}");
    assert_eq!((curve.knee_objects, curve.useful_objects), (pages, pages));
}

#[test]
fn recorded_reads_that_memory_answers_need_no_readahead() {
    // Two files of 1 MiB, read 64 times, without readahead.
    let reads = two_streams().map(|read| FileRead {
        offset_bytes: read.offset_bytes % (1 << 20),
        ..read
    });
    let advice = advised_on_reads(reads, &on_disk("readahead=off"));
    let times = advice.readahead.as_ref().unwrap();
    assert_eq!(times.pages, 2 * 256, "later reads hit");
    assert!(advice.keeps_current, "{:?}", advice.recommendation);
}

#[test]
fn savings_of_memory_and_readahead_do_not_overlap() {
    // Two files of 16 MiB, read four times in 16 s, with memory for less than one of them.
    let reads = two_streams().map(|read| FileRead {
        offset_bytes: read.offset_bytes % (16 << 20),
        ..read
    });
    let advice = advised_on_reads(reads, &on_disk("readahead=off,cache_size=8388608"));
    assert!(
        part(&advice, "memory").is_recommended(),
        "{:?}",
        advice.recommendation
    );
    let times = advice.readahead.as_ref().unwrap();
    assert_eq!(
        times.pages,
        2 * 4096,
        "with the recommended memory, only the first pass reads from the device"
    );
    let saved = advice.recommendation.saved_ns.value;
    let recording = 2048.0 * 8e6;
    assert!(saved < recording, "{saved} of {recording}");
}

#[test]
fn overlapping_reads_of_threads_save_their_time_once() {
    let saved = |duration_ns| {
        let reads = two_streams().map(|read| FileRead {
            duration_ns,
            ..read
        });
        let advice = advised_on_reads(reads, &on_disk("readahead=off"));
        advice.readahead.unwrap().waiting_share
    };
    // Reads end every 8 ms.
    assert!((saved(8_000_000) - 1.0).abs() < 1e-9);
    let half = saved(16_000_000);
    assert!((half - 0.5).abs() < 0.01, "{half}");
}

#[test]
fn trace_without_recorded_reads_has_reads_from_lookups() {
    let miss = Operation::Lookup { hit: false };
    let events = (0..40_000).map(|page| event(page * 100_000, CacheKind::Page, miss, page));
    let advice = advised(events, &settings("readahead=off")).unwrap();
    let times = advice.readahead.as_ref().unwrap();
    assert_eq!(times.origin, ReadOrigin::PageLookups);
    // Each of the 16 parts has 2,500 pages, and each read has 32.
    assert_eq!(
        (times.reads, times.readers, times.pages),
        (16 * 79, 1, 40_000)
    );
    let note = "reads reconstructed from lookups of pages";
    assert!(
        advice.notes.iter().any(|one| one.contains(note)),
        "{:?}",
        advice.notes
    );
    let json = advice.to_json().unwrap();
    assert!(json.contains("\"origin\": \"page_lookups\""), "{json}");
}

#[test]
fn evicted_objects_are_hits_of_a_larger_cache_and_deleted_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    // A recording with 4 MiB of memory: a loop over 4000 pages, each evicted before it is used again.
    let frames = 980;
    let pages = 4000;
    let mut events = Vec::new();
    for place in 0..4 * pages {
        let time = place * 50_000;
        let miss = Operation::Lookup { hit: false };
        events.push(event(time, CacheKind::Page, miss, scattered(place, pages)));
        events.push(event(
            time,
            CacheKind::Page,
            Operation::Insert,
            scattered(place, pages),
        ));
        if place >= frames {
            events.push(event(
                time,
                CacheKind::Page,
                Operation::Remove,
                scattered(place - frames, pages),
            ));
        }
    }
    let trace = write(&dir.path().join("evicted"), events.iter().copied(), true);
    let advice = advise(&trace, &settings("cache_size=4194304"), &mut |_| {}).unwrap();
    let option = &part(&advice, "memory").options;
    assert!(
        option == &["cache_size=24M"] || option == &["cache_size=16M"],
        "{option:?}"
    );
    assert_eq!(advice.caches[0].recorded_misses, Some(4 * pages));
    // The same removals in a cache that was not full.
    let advice = advise(&trace, &settings("cache_size=1073741824"), &mut |_| {}).unwrap();
    assert!((advice.caches[0].least_misses - 16_000.0).abs() < 0.5);
    assert!(part(&advice, "memory").options.is_empty());
    assert!(
        advice
            .notes
            .iter()
            .any(|note| note.contains("as invalidations")),
        "{:?}",
        advice.notes
    );
}

#[test]
fn trace_without_pages_has_advice_for_what_it_has() {
    let names =
        (0..200_000).map(|place| event(place * 100_000, CacheKind::Dentry, LOOKUP, place % 50_000));
    let advice = advised(names, &settings("cache_size=8388608")).unwrap();
    assert!(advice.readahead.is_none());
    assert!(part(&advice, "readahead").saved_ns.is_none());
    assert!(
        advice
            .notes
            .iter()
            .any(|note| note.contains("page, buffer, inode")),
        "{:?}",
        advice.notes
    );
    assert!(
        !part(&advice, "memory").options.is_empty(),
        "{:?}",
        advice.recommendation
    );
}

#[test]
fn trace_without_lookups_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let empty = write(&dir.path().join("empty"), [], true);
    let inserts = [event(1, CacheKind::Page, Operation::Insert, 3)];
    let inserts = write(&dir.path().join("inserts"), inserts, true);
    for trace in [empty, inserts] {
        let refused = advise(&trace, &settings(""), &mut |_| {}).unwrap_err();
        assert!(refused.to_string().contains("has no lookups"), "{refused}");
    }
}

#[test]
fn trace_without_times_has_curves_but_no_savings() {
    let advice = advised(passes(100, 10, 0), &settings("")).unwrap();
    assert!(advice.keeps_current);
    for change in &advice.recommendation.changes {
        assert!(
            change.saved_ns.is_none() && change.reason.contains("no times"),
            "{change:?}"
        );
    }
    assert_eq!(advice.caches[0].knee_objects, 100);
}

#[test]
fn advice_is_the_same_each_time_and_its_report_is_complete() {
    let settings = settings("cache_size=67108864");
    let [first, second] = [1, 2].map(|_| advised(passes(40_000, 3, 200_000), &settings).unwrap());
    let text = |advice: &Advice| {
        let json = advice.to_json().unwrap();
        // The paths of the traces differ.
        json.replace(&advice.trace, "")
    };
    assert_eq!(text(&first), text(&second));
    let files = first.report().unwrap();
    let names: Vec<&str> = files.iter().map(|file| &*file.name).collect();
    assert_eq!(
        names,
        [
            "advise.md",
            "advise.html",
            "advise.csv",
            "advise.json",
            "memory.svg",
            "misses-page.svg"
        ]
    );
    let html = &files[1].content;
    assert_eq!(html.matches("<svg").count(), 2);
    assert!(html.contains("Recommendation") && html.contains("Readahead"));
}
