//! Tests that written events are read back.

use super::{events, info, read, write};
use larder_cache::tape::{CacheKind, Operation};
use larder_lab::trace::{CacheEvents, FileEvents, Tolerance, TraceReader, TraceSummary};
use larder_testkit::Seed;
use larder_trace::{Batch, Error, ROW_GROUP_ROWS, TableInfo, TraceEvent, TraceInfo, TraceWriter};
use proptest::prelude::*;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn any_event() -> impl Strategy<Value = TraceEvent> {
    let operation = prop_oneof![
        any::<bool>().prop_map(|hit| Operation::Lookup { hit }),
        Just(Operation::Insert),
        Just(Operation::Remove),
        Just(Operation::Evict),
    ];
    let cache = prop::sample::select(&CacheKind::ALL[..]);
    let numbers = (any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>());
    (any::<u64>(), cache, operation, numbers).prop_map(
        |(time_ns, cache, operation, (device, inode, index, name_hash))| TraceEvent {
            time_ns,
            cache,
            operation,
            device,
            inode,
            index,
            name_hash,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_events_in_any_row_groups_are_read_as_written(
        events in prop::collection::vec(any_event(), 0..300),
        rows in 1..100_usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        write(&path, &events, rows);
        prop_assert!(read(&path, Tolerance::Whole).unwrap() == events);
    }
}

#[test]
fn trace_of_several_row_groups_and_batches_is_read_in_order() {
    let seed = Seed::from_environment(1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let events = events(seed, ROW_GROUP_ROWS + 100_000);
    let mut writer = TraceWriter::create(&path, &info()).unwrap();
    for event in &events {
        writer.push(event).unwrap();
    }
    writer.finish().unwrap();

    let mut reader = TraceReader::open(&path, Tolerance::Whole).unwrap();
    assert_eq!(reader.row_groups(), 2);
    assert_eq!(reader.rows(), events.len() as u64);
    let mut batch = Batch::default();
    let mut left = &events[..];
    while reader.read(&mut batch).unwrap() {
        let (now, later) = left.split_at(batch.len());
        assert!(batch.events().eq(now.iter().copied()), "{seed}");
        left = later;
        assert_eq!(reader.rows(), left.len() as u64);
    }
    assert!(left.is_empty());
}

#[test]
fn info_is_read_as_written_with_the_losses_of_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let table = TableInfo {
        function: "mult".to_owned(),
        bits: 14,
    };
    let written = TraceInfo {
        tables: [(CacheKind::Page, table)].into(),
        ..info()
    };
    let mut writer = TraceWriter::create(&path, &written).unwrap();
    writer.info_mut().lost = 7;
    writer.finish().unwrap();
    let reader = TraceReader::open(&path, Tolerance::Whole).unwrap();
    assert_eq!(*reader.info(), TraceInfo { lost: 7, ..written });
    assert_eq!(reader.shortened(), None);
}

/// The trace was recorded by a mount of version 0.1 with the first version of the format.
#[test]
fn trace_of_version_1_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace/version-1.parquet");
    let mut reader = TraceReader::open(&path, Tolerance::Whole).unwrap();
    assert!(!reader.info().records_reads);
    let summary = TraceSummary::of(&mut reader).unwrap();
    assert_eq!(summary.events, 76);
    assert_eq!(summary.files, FileEvents::default());
    let counts = |cache| {
        let of: CacheEvents = summary.caches[&cache];
        (of.lookups, of.hits, of.inserts, of.removals, of.evictions)
    };
    assert_eq!(counts(CacheKind::Page), (2, 0, 2, 2, 0));
    assert_eq!(counts(CacheKind::Buffer), (26, 20, 12, 0, 0));
    assert_eq!(counts(CacheKind::Dentry), (5, 0, 3, 0, 0));
    assert_eq!(counts(CacheKind::Inode), (20, 15, 4, 0, 0));
}

#[test]
fn trace_is_readable_only_by_its_owner_and_never_overwrites() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    write(&path, &[], 1);
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = TraceWriter::create(&path, &info());
    assert!(
        matches!(&again, Err(Error::Io(error)) if error.kind() == io::ErrorKind::AlreadyExists),
        "{again:?}"
    );
}
