//! Tests of traces: written events are read back, from complete and from truncated traces, and
//! damage is reported.

mod cut;
mod damage;
mod live;
mod other_readers;
mod own_tables;
mod page;
mod recording;
mod replay;
mod rewritten;
mod round_trip;

use larder_cache::tape::{CacheKind, Operation};
use larder_lab::trace::{Error, Tolerance, TraceReader};
use larder_testkit::{Random, Seed};
use larder_trace::{Batch, TraceEvent, TraceInfo, TraceWriter};
use std::path::Path;

/// Returns events like those of a cache: of each kind, with numbers close to earlier ones.
fn events(seed: Seed, count: usize) -> Vec<TraceEvent> {
    let mut random = Random::new(seed);
    let mut time_ns = 0;
    let mut event = || {
        time_ns += random.below(1000);
        let cache = CacheKind::ALL[usize::from(random.byte() % 4)];
        let operation = match random.below(10) {
            0 => Operation::Insert,
            1 => Operation::Remove,
            2 => Operation::Evict,
            _ => Operation::Lookup {
                hit: random.below(8) > 0,
            },
        };
        TraceEvent {
            time_ns,
            cache,
            operation,
            device: 8 << 20 | 1,
            inode: random.below(5000),
            index: random.below(300),
            name_hash: random.below(1000) << 32,
        }
    };
    (0..count).map(|_| event()).collect()
}

/// Writes `events`, with `rows` in each row group.
fn write(path: &Path, events: &[TraceEvent], rows: usize) {
    let mut writer = TraceWriter::create(path, &info()).unwrap();
    for group in events.chunks(rows) {
        for event in group {
            writer.push(event).unwrap();
        }
        writer.write_row_group().unwrap();
    }
    writer.finish().unwrap();
}

fn info() -> TraceInfo {
    TraceInfo {
        source: "a test".to_owned(),
        began_unix_s: Some(961_000_000),
        records_changes: true,
        ..TraceInfo::default()
    }
}

/// Returns all events of a trace.
fn read(path: &Path, tolerance: Tolerance) -> Result<Vec<TraceEvent>, Error> {
    read_rest(&mut TraceReader::open(path, tolerance)?)
}

fn read_rest(reader: &mut TraceReader) -> Result<Vec<TraceEvent>, Error> {
    let mut batch = Batch::default();
    let mut events = Vec::new();
    while reader.read(&mut batch)? {
        events.extend(batch.events());
    }
    Ok(events)
}
