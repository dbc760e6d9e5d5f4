//! Damaged traces, and files that are not traces.

use super::{events, read, write};
use larder_cache::tape::Operation;
use larder_lab::hash::{Error, Source as _, TraceFile};
use larder_lab::trace::Tolerance;
use larder_lab::tune::{Conditions, tune};
use larder_testkit::{Random, Seed};
use larder_trace::TraceEvent;
use std::fs;

const ROWS: usize = 200;
const MUTATIONS: u64 = 1000;

#[test]
fn damaged_trace_gives_the_written_rows_or_an_error() {
    let seed = Seed::from_environment(4);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let events = events(seed, 5 * ROWS);
    write(&path, &events, ROWS);
    let bytes = fs::read(&path).unwrap();
    let mut refused = 0;
    for number in 0..MUTATIONS {
        let part = seed.part(number);
        let mut random = Random::new(part);
        let mut mutated = bytes.clone();
        for _ in 0..=random.below(3) {
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            mutated[at] ^= 1 << random.below(8);
        }
        fs::write(&path, &mutated).unwrap();
        match read(&path, Tolerance::Whole) {
            // The damage is after a row group, in bytes that are no longer needed.
            Ok(read) => assert!(read == events, "{part}: other rows"),
            Err(_) => refused += 1,
        }
        if let Ok(read) = read(&path, Tolerance::UpToLastRowGroup) {
            assert!(read == events[..read.len()], "{part}: other rows");
        }
    }
    assert!(
        refused > MUTATIONS / 4,
        "{seed}: only {refused} were refused"
    );
}

#[test]
fn trace_with_a_damaged_row_group_ends_before_it() {
    let seed = Seed::from_environment(8);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    write(&path, &events(seed, 4 * ROWS), ROWS);
    let mut bytes = fs::read(&path).unwrap();
    let mut ends = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"larderRG"));
    let third = ends.nth(1).unwrap() + 16;
    bytes[third] ^= 1;
    fs::write(&path, &bytes).unwrap();

    let trace = TraceFile::open(&path, Tolerance::UpToLastRowGroup).unwrap();
    assert_eq!(trace.events(), 2 * ROWS as u64, "{seed}");
    let losses = trace.losses().to_string();
    assert!(
        losses.contains("row group 2 of the trace is damaged"),
        "{losses}"
    );
    assert!(
        losses.contains("1 later row group was not read"),
        "{losses}"
    );
    // `tune` divides the readable part into halves, and its report states that events are missing.
    let advice = tune(&trace, Conditions::new(16 << 20), &mut |_| {}).unwrap();
    let events = events(seed, 2 * ROWS);
    let is_lookup = |event: &&TraceEvent| matches!(event.operation, Operation::Lookup { .. });
    let lookups = events[ROWS..].iter().filter(is_lookup).count() as u64;
    let judged: u64 = advice.caches.iter().map(|cache| cache.lookups).sum();
    assert_eq!(judged, lookups, "{seed}");
    assert!(
        advice
            .summary()
            .starts_with("The trace is incomplete: the end is missing")
    );
    let whole = TraceFile::open(&path, Tolerance::Whole).unwrap();
    let refused = tune(&whole, Conditions::new(16 << 20), &mut |_| {});
    assert!(matches!(refused, Err(Error::Trace { .. })), "{refused:?}");
}
