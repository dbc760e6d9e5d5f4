//! Surveying and replaying a trace uses memory for the objects present at one time, whatever its
//! length. The test has a process of its own, whose memory is measured.

use larder_cache::hash::Function;
use larder_cache::tape::{CacheKind, Operation};
use larder_lab::hash::{
    BatchConsumer, Capacity, Combination, Error, Source, Wanted, replay, survey,
};
use larder_testkit::memory::{peak_resident_bytes, resident_bytes};
use larder_trace::TraceEvent;

/// Number of objects at one time.
const OBJECTS: u64 = 1000;
/// Total number of objects. Keeping data of all of them would exceed the limit.
const ALL: u64 = 2_000_000;
/// Number of events in one batch.
const BATCH: usize = 1 << 16;
/// Memory for the batches that are decoded ahead, and for the allocator.
const MAX_BYTES: u64 = 64 << 20;

/// Each object is inserted, looked up, and removed after [`OBJECTS`] more insertions.
struct Passing;

impl Source for Passing {
    fn title(&self) -> String {
        "objects that are inserted and removed".to_owned()
    }

    fn events(&self) -> u64 {
        3 * ALL
    }

    fn has_changes(&self) -> bool {
        true
    }

    fn read(&self, each: &mut BatchConsumer<'_>) -> Result<(), Error> {
        let event = |operation, index| TraceEvent {
            time_ns: 0,
            cache: CacheKind::Page,
            operation,
            device: 0,
            inode: 12,
            index,
            name_hash: 0,
        };
        let steps = |index: u64| {
            let removed = index.checked_sub(OBJECTS);
            [
                Some(event(Operation::Insert, index)),
                Some(event(Operation::Lookup { hit: true }, index)),
                removed.map(|index| event(Operation::Remove, index)),
            ]
        };
        let mut events = (0..ALL).flat_map(steps).flatten().peekable();
        while events.peek().is_some() && each(&mut events.by_ref().take(BATCH)) {}
        Ok(())
    }
}

#[test]
fn replay_memory_is_limited_to_live_objects() {
    let before = resident_bytes();
    let wanted = Wanted::default().with(CacheKind::Page, Capacity::AsRecorded);
    let surveys = survey(&Passing, wanted).unwrap();
    let survey = surveys[&CacheKind::Page];
    assert_eq!(survey.peak_objects, OBJECTS + 1);
    assert_eq!((survey.inserts, survey.contradictions), (ALL, 0));
    let table = Combination {
        cache: CacheKind::Page,
        function: Function::Golden.into(),
        bits: survey.fitting_bits(),
    };
    let outcomes = replay(&Passing, wanted, &surveys, &[table], &mut |_| {}).unwrap();
    assert_eq!(outcomes[0].counts.hits, ALL);
    let took = peak_resident_bytes().saturating_sub(before);
    assert!(took < MAX_BYTES, "{} MiB", took >> 20);
}
