//! Recording with several threads.

use super::read_rest;
use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Event, Operation};
use larder_lab::trace::{Tolerance, TraceReader};
use larder_trace::{Error, Recording, TraceRecorder};
use std::thread;

const THREADS: u64 = 4;
const EVENTS: u64 = 100_000;

fn insert(cache: CacheKind, object: u64, index: u64) -> Event {
    Event {
        cache,
        operation: Operation::Insert,
        key: HashKey { object, index },
    }
}

/// Records numbers in several threads: each thread's own numbers, and occasionally one of a common
/// sequence, which a lock orders as a bucket's lock does.
fn record(overflow: Recording) -> (TraceReader, larder_trace::Recorded) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let recorder = TraceRecorder::start(&path, "a test", overflow).unwrap();
    let common = std::sync::Mutex::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (tape, common) = (recorder.tape(), &common);
            scope.spawn(move || {
                for number in 0..EVENTS {
                    tape.record(insert(CacheKind::Page, thread, number));
                    if number % 16 == 0 {
                        let mut next = common.lock().unwrap();
                        tape.record(insert(CacheKind::Dentry, 0, *next));
                        *next += 1;
                    }
                }
            });
        }
    });
    let counts = recorder.finish().unwrap();
    (TraceReader::open(&path, Tolerance::Whole).unwrap(), counts)
}

#[test]
fn events_of_many_threads_are_in_the_order_of_time_and_of_their_locks() {
    let (mut reader, recorded) = record(Recording::lossless());
    let reported = THREADS * (EVENTS + EVENTS / 16);
    assert_eq!((recorded.events, recorded.lost), (reported, 0));
    assert_eq!(reader.info().lost, 0);
    assert!(reader.info().records_changes);
    let mut next = [0; 5];
    let mut time_ns = 0;
    for event in read_rest(&mut reader).unwrap() {
        assert!(event.time_ns >= time_ns, "{event:?} is after {time_ns}");
        time_ns = event.time_ns;
        let HashKey { object, index } = event.key();
        let row = match event.cache {
            CacheKind::Dentry => 4,
            _ => usize::try_from(object).unwrap(),
        };
        assert_eq!(index, next[row], "{event:?}");
        next[row] += 1;
    }
    assert_eq!(next.iter().sum::<u64>(), reported);
}

#[test]
fn events_that_were_lost_are_counted() {
    let (mut reader, recorded) = record(Recording::lossy());
    let reported = THREADS * (EVENTS + EVENTS / 16);
    assert_eq!(recorded.events + recorded.lost, reported);
    assert_eq!(reader.info().lost, recorded.lost);
    assert_eq!(
        read_rest(&mut reader).unwrap().len() as u64,
        recorded.events
    );
}

#[test]
fn dropped_recording_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let recorder = TraceRecorder::start(&path, "a test", Recording::lossy()).unwrap();
    let tape = recorder.tape();
    tape.record(insert(CacheKind::Inode, 0, 7));
    drop(recorder);
    tape.record(insert(CacheKind::Inode, 0, 8));
    let mut reader = TraceReader::open(&path, Tolerance::Whole).unwrap();
    let events = read_rest(&mut reader).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].inode, 7);
}

#[test]
fn recording_does_not_overwrite() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    std::fs::write(&path, "mine").unwrap();
    let recorder = TraceRecorder::start(&path, "a test", Recording::lossy());
    assert!(matches!(recorder, Err(Error::Io(_))), "{recorder:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}
