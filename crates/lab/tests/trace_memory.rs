//! Writing and reading a trace uses the same memory, whatever its length. The test has a process of
//! its own, whose memory is measured.

use larder_cache::tape::{CacheKind, Operation};
use larder_lab::trace::{Tolerance, TraceReader};
use larder_testkit::memory::{peak_resident_bytes, resident_bytes};
use larder_testkit::{Random, Seed};
use larder_trace::{Batch, TraceEvent, TraceInfo, TraceWriter};

/// As rows, these events would take 20 times the memory that is allowed.
const EVENTS: u64 = 20_000_000;
/// Memory for a row group, its pages, and the allocator.
const MAX_BYTES: u64 = 160 << 20;

#[test]
fn memory_is_limited_to_one_row_group() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let mut random = Random::new(Seed::from_environment(7));
    let before = resident_bytes();
    let mut writer = TraceWriter::create(&path, &TraceInfo::default()).unwrap();
    for number in 0..EVENTS {
        let event = TraceEvent {
            time_ns: number * 100,
            cache: CacheKind::Page,
            operation: Operation::Lookup { hit: true },
            device: 0,
            inode: random.below(1000),
            index: random.below(1 << 20),
            name_hash: 0,
        };
        writer.push(&event).unwrap();
    }
    writer.finish().unwrap();

    let mut reader = TraceReader::open(&path, Tolerance::Whole).unwrap();
    let mut batch = Batch::default();
    let mut events = 0;
    while reader.read(&mut batch).unwrap() {
        events += batch.len() as u64;
    }
    assert_eq!(events, EVENTS);
    let took = peak_resident_bytes().saturating_sub(before);
    assert!(took < MAX_BYTES, "{} MiB", took >> 20);
}
