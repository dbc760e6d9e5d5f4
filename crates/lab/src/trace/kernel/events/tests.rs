//! Tests of the conversion of kernel events.

use super::*;
use crate::trace::kernel::tracepoint::FIELDS;
use larder_testkit::Seed;
use larder_testkit::seed::Random;

const LOOP: u64 = 7 << 20;
const BLOCK_DEVICES: u64 = 3;
const HIT: Operation = Operation::Lookup { hit: true };
const MISS: Operation = Operation::Lookup { hit: false };

const TRACEPOINTS: [Tracepoint; 10] = [
    Tracepoint::AddFolio,
    Tracepoint::DeleteFolio,
    Tracepoint::GetPages,
    Tracepoint::MapPages,
    Tracepoint::Fault,
    Tracepoint::SyncReadahead,
    Tracepoint::TouchBuffer,
    Tracepoint::LoadInode,
    Tracepoint::AllocateInode,
    Tracepoint::EvictInode,
];

fn translator() -> Translator {
    let number = u32::try_from(LOOP).unwrap();
    let devices = Devices {
        numbers: HashSet::from([number]),
        block_bytes: HashMap::from([(number, 1024)]),
    };
    Translator::new(devices, 4096, 0)
}

/// Returns the events for `tracepoint`: the cache, inode and index of each entry, and the
/// operation.
fn translated(
    translator: &mut Translator,
    tracepoint: Tracepoint,
    fields: [u64; FIELDS],
) -> Vec<(CacheKind, u64, u64, Operation)> {
    let mut events = Vec::new();
    translator.translate(raw(tracepoint, fields), &mut |row| {
        if let Row::Cache(event) = row {
            events.push((event.cache, event.inode, event.index, event.operation));
        }
    });
    events
}

fn raw(tracepoint: Tracepoint, fields: [u64; FIELDS]) -> RawEvent {
    RawEvent {
        time: 0,
        thread: 1,
        tracepoint,
        fields,
    }
}

#[test]
fn read_of_a_file_follows_its_lookups_and_a_read_of_a_device_is_no_row() {
    let mut caches = translator();
    let mut rows = Vec::new();
    let read = raw(Tracepoint::GetPages, [LOOP, 12, 5, 9]);
    caches.translate(read, &mut |row| rows.push(row));
    assert!(matches!(rows[0], Row::Cache(_)), "{rows:?}");
    let Some(Row::Read(read)) = rows.pop() else {
        panic!("{rows:?}");
    };
    assert_eq!((read.inode, read.thread), (12, 1));
    assert_eq!((read.offset_bytes, read.len_bytes), (5 * 4096, 5 * 4096));
    let of_device = raw(Tracepoint::GetPages, [BLOCK_DEVICES, LOOP, 5, 9]);
    caches.translate(of_device, &mut |row| panic!("{row:?}"));
}

#[test]
fn read_past_the_end_of_a_file_looks_up_only_cached_pages() {
    let mut caches = translator();
    let miss = translated(&mut caches, Tracepoint::SyncReadahead, [LOOP, 12, 0, 0]);
    assert_eq!(miss, [(CacheKind::Page, 12, 0, MISS)]);
    let folio = translated(&mut caches, Tracepoint::AddFolio, [LOOP, 12, 0, 1]);
    let inserts = [0, 1].map(|index| (CacheKind::Page, 12, index, Operation::Insert));
    assert_eq!(folio, inserts);
    let read = translated(&mut caches, Tracepoint::GetPages, [LOOP, 12, 0, 31]);
    assert_eq!(read, [0, 1].map(|index| (CacheKind::Page, 12, index, HIT)));
}

#[test]
fn page_cached_before_the_recording_is_inserted_at_its_first_lookup() {
    let mut caches = translator();
    let read = translated(&mut caches, Tracepoint::GetPages, [LOOP, 12, 5, 9]);
    let expected = [Operation::Insert, HIT].map(|operation| (CacheKind::Page, 12, 5, operation));
    assert_eq!(read, expected);
    let deleted = translated(&mut caches, Tracepoint::DeleteFolio, [LOOP, 12, 4, 2]);
    assert_eq!(deleted, [(CacheKind::Page, 12, 5, Operation::Remove)]);
}

#[test]
fn page_of_a_device_is_recorded_as_its_blocks() {
    let mut caches = translator();
    let added = translated(
        &mut caches,
        Tracepoint::AddFolio,
        [BLOCK_DEVICES, LOOP, 2, 0],
    );
    let expected: Vec<_> = (8..12)
        .flat_map(|block| [MISS, Operation::Insert].map(|what| (CacheKind::Buffer, 0, block, what)))
        .collect();
    assert_eq!(added, expected);
    let touched = translated(&mut caches, Tracepoint::TouchBuffer, [LOOP, 9, 1024, 0]);
    assert_eq!(touched, [(CacheKind::Buffer, 0, 9, HIT)]);
}

#[test]
fn loaded_inode_is_a_miss_and_an_insertion() {
    let mut caches = translator();
    let loaded = translated(&mut caches, Tracepoint::LoadInode, [LOOP, 12, 0, 0]);
    let expected = [MISS, Operation::Insert].map(|what| (CacheKind::Inode, 12, 0, what));
    assert_eq!(loaded, expected);
    let evicted = translated(&mut caches, Tracepoint::EvictInode, [LOOP, 12, 1, 0]);
    assert_eq!(evicted, [(CacheKind::Inode, 12, 0, Operation::Remove)]);
}

#[test]
fn requests_are_counted_except_empty_flushes() {
    let mut caches = translator();
    for (sectors, what) in [(8, b'R'), (16, b'W'), (2, b'F'), (0, b'F'), (8, b'D')] {
        let fields = [LOOP, sectors, what.into(), 0];
        assert!(translated(&mut caches, Tracepoint::QueueBio, fields).is_empty());
    }
    let counts = caches.counts;
    assert_eq!((counts.reads, counts.read_bytes), (1, 4096));
    assert_eq!((counts.writes, counts.written_bytes), (2, 9216));
}

#[test]
fn random_events_give_a_consistent_trace() {
    let seed = Seed::from_environment(0x6e);
    let mut random = Random::new(seed);
    let mut caches = translator();
    let mut there = HashSet::new();
    for _ in 0..50_000 {
        let tracepoint = *random.choose(&TRACEPOINTS).unwrap();
        let device = *random.choose(&[LOOP, BLOCK_DEVICES]).unwrap();
        let number = *random.choose(&[12, LOOP, 13, u64::MAX]).unwrap();
        let first = random.below(64);
        let fields = [device, number, first, (first + random.below(8)) % 8];
        caches.translate(raw(tracepoint, fields), &mut |row| {
            let Row::Cache(event) = row else { return };
            let key = (event.cache, event.device, event.inode, event.index);
            let agrees = match event.operation {
                Operation::Lookup { hit } => there.contains(&key) == hit,
                Operation::Insert => there.insert(key),
                Operation::Remove | Operation::Evict => there.remove(&key),
            };
            assert!(agrees, "seed {seed}: {tracepoint:?} {fields:?}: {event:?}");
        });
    }
}
