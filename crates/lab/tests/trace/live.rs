//! Traces that are read while they are recorded.

use super::{events, info, read, read_rest};
use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Event, NameEvent, Operation, ReadEvent};
use larder_lab::trace::{Error, Tolerance, TraceReader, salvage};
use larder_testkit::Seed;
use larder_trace::{Batch, Overflow, Recording, TraceRecorder, TraceWriter};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

const ROWS: usize = 50;

#[test]
fn trace_that_is_written_is_read_up_to_its_last_row_group() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let events = events(Seed::from_environment(13), 2 * ROWS + 20);
    let mut writer = TraceWriter::create(&path, &info()).unwrap();
    let opened = TraceReader::open(&path, Tolerance::Whole);
    assert!(matches!(opened, Err(Error::NothingYet)), "{opened:?}");
    let mut written = 0;
    for group in events.chunks(ROWS) {
        for event in group {
            writer.push(event).unwrap();
        }
        if group.len() == ROWS {
            writer.write_row_group().unwrap();
            written += ROWS;
        }
        // The pending events are not readable yet.
        let mut reader = TraceReader::open(&path, Tolerance::Whole).unwrap();
        assert!(reader.is_being_recorded());
        let losses = reader.losses().to_string();
        assert!(losses.contains("still being recorded"), "{losses}");
        assert!(read_rest(&mut reader).unwrap() == events[..written]);
    }
    // A copy is a complete trace for all programs.
    let copy = dir.path().join("copy");
    salvage(&path, &copy).unwrap();
    assert!(read(&copy, Tolerance::Whole).unwrap() == events[..written]);
    writer.finish().unwrap();
    let mut reader = TraceReader::open(&path, Tolerance::Whole).unwrap();
    assert!(!reader.is_being_recorded() && reader.losses().are_none());
    assert!(read_rest(&mut reader).unwrap() == events);
}

#[test]
fn reader_that_opened_a_growing_trace_is_not_disturbed_by_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let events = events(Seed::from_environment(14), 2 * ROWS);
    let mut writer = TraceWriter::create(&path, &info()).unwrap();
    events[..ROWS]
        .iter()
        .for_each(|event| writer.push(event).unwrap());
    writer.write_row_group().unwrap();
    let mut reader = TraceReader::open(&path, Tolerance::Whole).unwrap();
    events[ROWS..]
        .iter()
        .for_each(|event| writer.push(event).unwrap());
    writer.finish().unwrap();
    assert!(read_rest(&mut reader).unwrap() == events[..ROWS]);
}

/// Records a lookup, a read and the names of a path.
fn record(path: &std::path::Path, with_paths: bool) {
    let recording = Recording {
        overflow: Overflow::Wait,
        with_paths,
    };
    let recorder = TraceRecorder::start(path, "a test", recording).unwrap();
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let tape = recorder.tape();
    assert!(tape.records_reads());
    assert_eq!(tape.records_names(), with_paths);
    for (directory, name, ino) in [(2, "secret-directory", 12), (12, "secret-file", 13)] {
        tape.record_name(&NameEvent {
            directory,
            name: name.as_bytes(),
            ino,
        });
    }
    tape.record(Event {
        cache: CacheKind::Page,
        operation: Operation::Lookup { hit: true },
        key: HashKey {
            object: 13,
            index: 2,
        },
    });
    tape.record_read(&ReadEvent {
        ino: 13,
        offset_bytes: 8192,
        len_bytes: 4096,
        file_bytes: 10_000,
        stream: 3,
        thread: 77,
        duration: Duration::from_micros(5),
    });
    let result = recorder.finish().unwrap();
    assert_eq!(result.events, if with_paths { 4 } else { 2 });
}

#[test]
fn paths_are_recorded_only_when_requested() {
    let dir = tempfile::tempdir().unwrap();
    for with_paths in [false, true] {
        let path = dir.path().join(with_paths.to_string());
        record(&path, with_paths);
        let bytes = fs::read(&path).unwrap();
        let has_name = bytes.windows(6).any(|bytes| bytes == b"secret");
        assert_eq!(has_name, with_paths);
        let mut reader = TraceReader::open(&path, Tolerance::Whole).unwrap();
        let info = reader.info();
        assert!(info.records_reads && info.records_paths == with_paths);
        let mut batch = Batch::default();
        assert!(reader.read(&mut batch).unwrap());
        let paths: Vec<_> = batch.paths().map(|path| path.path).collect();
        let expected = ["/secret-directory", "/secret-directory/secret-file"];
        let expected = if with_paths { &expected[..] } else { &[] };
        assert!(
            paths
                .iter()
                .map(|path| &**path)
                .eq(expected.iter().copied())
        );
        let read = batch.reads().next().unwrap();
        assert_eq!((read.inode, read.stream, read.thread), (13, 3, 77));
        assert_eq!((read.offset_bytes, read.len_bytes), (8192, 4096));
        assert_eq!((read.file_bytes, read.duration_ns), (10_000, 5000));
        assert_eq!(batch.events().count(), 1);
    }
}
