use super::*;
use crate::Error;
use crate::disk_cache::{CacheDir, Identity};
use crate::meter::Meter;
use crate::object::Object;
use futures_util::FutureExt as _;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::path::Path as FilePath;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The number of units of the object. The last one is shorter.
const COUNT: usize = 40;
pub(crate) const UNITS: u64 = COUNT as u64;
const SIZE: usize = COUNT * crate::disk_cache::UNIT_BYTES - 100;

pub(crate) struct Fixture {
    pub(crate) units: Arc<Units>,
    pub(crate) runtime: Runtime,
    content: Bytes,
}

impl Fixture {
    /// Creates units of which none is in memory, without a disk cache.
    pub(crate) fn new() -> Self {
        Self::with_disk(None)
    }

    /// Creates units of which none is in memory or in the disk cache, which is in `directory`.
    pub(crate) fn cached_in(directory: &FilePath) -> Self {
        let cache = CacheDir::open(directory, 1 << 30).unwrap();
        let identity = Identity {
            location: "disk.img",
            version: "one",
            credentials: "",
        };
        let disk = cache.object(&identity, SIZE as u64, "disk.img").unwrap();
        disk.confirm().unwrap();
        Self::with_disk(Some(disk))
    }

    /// Creates units of which none is in memory.
    fn with_disk(disk: Option<CachedObject>) -> Self {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let byte = |at: usize| (at.wrapping_mul(40_503) >> 7).to_le_bytes()[0];
        let content: Bytes = (0..SIZE).map(byte).collect();
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from("disk.img");
        let put = store.put(&path, content.clone().into());
        runtime.block_on(put).unwrap();
        let opened = Fetcher::open(
            Object {
                store,
                path,
                version_id: None,
            },
            1,
            Duration::from_mins(1),
            false,
            Meter::default(),
        );
        let (fetcher, _) = runtime.block_on(opened).unwrap();
        Self {
            units: Arc::new(Units::new(fetcher, disk, 1 << 30)),
            runtime,
            content,
        }
    }

    pub(crate) fn unit(&self, number: u64) -> Bytes {
        let run = self.units.known.bytes_of(&(number..number + 1));
        self.content.slice(usize_of(run.start)..usize_of(run.end))
    }

    fn claim(&self, numbers: impl IntoIterator<Item = u64>) -> Claims {
        let claims = self.units.claim(numbers, Priority::Background);
        claims.expect("a unit is absent")
    }

    /// Starts to read units.
    fn start(&self, numbers: Range<u64>) -> tokio::task::JoinHandle<Result<Vec<Bytes>>> {
        let units = Arc::clone(&self.units);
        let range_bytes = units.known.bytes_of(&numbers);
        let read = async move { units.read(range_bytes, Priority::Demand).await };
        self.runtime.spawn(read)
    }

    fn finish(&self, read: tokio::task::JoinHandle<Result<Vec<Bytes>>>) -> Result<Vec<Bytes>> {
        self.runtime.block_on(read).unwrap()
    }

    /// Waits until `count` tasks wait for the first unit of `claims`.
    fn await_waiting(&self, claims: &Claims, count: usize) {
        while claims.waiting() < count {
            self.runtime.block_on(tokio::task::yield_now());
        }
    }

    /// Reads units.
    pub(crate) fn read(&self, numbers: Range<u64>) -> Bytes {
        let parts = self.finish(self.start(numbers)).unwrap();
        parts.concat().into()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.units.fetcher().counters().to_counts().requests
    }
}

#[test]
fn delivered_units_are_not_requested() {
    let fixture = Fixture::new();
    let mut claims = fixture.claim(0..UNITS);
    let read = fixture.start(0..UNITS);
    let _runtime = fixture.runtime.enter();
    for number in (0..UNITS).rev() {
        assert!(claims.deliver(number, fixture.unit(number)));
        assert!(!claims.deliver(number, fixture.unit(number)));
    }
    let parts = fixture.finish(read).unwrap();
    assert_eq!(parts.concat(), fixture.content);
    assert_eq!(fixture.requests(), 1);
}

#[test]
fn claims_become_urgent_when_a_thread_waits() {
    let fixture = Fixture::new();
    for is_read in [false, true] {
        let claims = fixture.claim([8, 30]);
        let urgency = Arc::clone(claims.urgency());
        assert_eq!(urgency.priority(), Priority::Background);
        let read = is_read.then(|| fixture.start(7..10));
        if is_read {
            fixture.await_waiting(&claims, 1);
        } else {
            fixture
                .units
                .expedite(&fixture.units.known.bytes_of(&(5..9)));
        }
        assert_eq!(urgency.priority(), Priority::Demand);
        drop(claims);
        assert!(read.is_none_or(|read| fixture.finish(read).is_ok()));
    }
}

#[test]
fn units_of_dropped_claims_are_fetched_by_one_request() {
    let fixture = Fixture::new();
    let mut claims = fixture.claim(3..20);
    let read = fixture.start(3..20);
    fixture.await_waiting(&claims, 1);
    let _runtime = fixture.runtime.enter();
    assert!(claims.deliver(3, fixture.unit(3)));
    drop(claims);
    let parts = fixture.finish(read).unwrap();
    assert_eq!(parts[0], fixture.unit(3));
    assert_eq!(parts[16], fixture.unit(19));
    assert_eq!(fixture.requests(), 2);
}

#[test]
fn failed_claims_pass_the_error_to_the_readers() {
    let fixture = Fixture::new();
    let claims = fixture.claim(3..4);
    let read = fixture.start(3..4);
    fixture.await_waiting(&claims, 1);
    claims.fail(&Error::Denied);
    assert_eq!(fixture.finish(read), Err(Error::Denied));
    // The error is remembered for the unit, but not for its neighbours.
    assert_eq!(fixture.finish(fixture.start(3..4)), Err(Error::Denied));
    let read = fixture.start(4..5);
    assert_eq!(fixture.finish(read).unwrap(), [fixture.unit(4)]);
}

#[test]
fn unit_of_a_wrong_length_is_not_delivered() {
    let fixture = Fixture::new();
    let mut claims = fixture.claim(0..UNITS);
    let last = fixture.unit(UNITS - 1);
    assert!(!claims.deliver(0, last.clone()));
    assert!(!claims.deliver(UNITS - 1, fixture.unit(0)));
    assert!(claims.deliver(UNITS - 1, last));
}

#[test]
fn known_units_are_not_claimed() {
    let fixture = Fixture::new();
    fixture.finish(fixture.start(5..7)).unwrap();
    let first = fixture.claim([9, 4]);
    assert_eq!(first.numbers().collect::<Vec<_>>(), [4, 9]);
    assert!(
        fixture
            .units
            .claim([4, 5, 9], Priority::Background)
            .is_none()
    );
    let mut second = fixture.claim(3..11);
    let part = second.take(&(7..9));
    assert_eq!(part.numbers().collect::<Vec<_>>(), [7, 8]);
    assert_eq!(second.numbers().collect::<Vec<_>>(), [3, 10]);
}

#[test]
fn run_is_fetched_by_one_request_for_any_claims_in_it() {
    let fixture = Fixture::new();
    let claims = fixture.claim([2, 5, UNITS - 1]);
    let fetch = Arc::clone(&fixture.units).fetch(0..UNITS, claims);
    fixture.runtime.block_on(fetch);
    let in_memory = |number| fixture.units.known.in_memory([number].into_iter());
    assert_eq!(in_memory(5), Some(vec![fixture.unit(5)]));
    assert_eq!(in_memory(UNITS - 1), Some(vec![fixture.unit(UNITS - 1)]));
    assert_eq!(in_memory(3), None);
    assert_eq!(fixture.requests(), 2);
}

#[test]
fn read_does_not_wait_for_a_pack_that_is_paused() {
    let fixture = Fixture::new();
    let claims = fixture.claim(3..4);
    fixture.units.uses().expect(claims.numbers());
    let wait = || {
        let joins = |_: &Range<u64>, _| false;
        let known = &fixture.units.known;
        let (mut found, _) = known.find_or_claim([3].into_iter(), Priority::Demand, joins);
        let end = Instant::now() + Duration::from_hours(1);
        fixture.units.wait(found.remove(0), 3, end)
    };
    let is_late = || {
        let waited = fixture.runtime.block_on(async { wait().now_or_never() });
        waited.is_some_and(|waited| matches!(waited, Ok(Waited::Late)))
    };
    assert!(!is_late());
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let units = Arc::clone(&fixture.units);
    let step = async move { units.uses().paused_after(Duration::ZERO, receiver).await };
    let step = fixture.runtime.spawn(step);
    let waited = fixture.runtime.block_on(wait());
    assert!(matches!(waited, Ok(Waited::Late)) && is_late());
    sender.send(()).unwrap();
    fixture.runtime.block_on(step).unwrap().unwrap();
    assert!(!is_late());
}

#[test]
fn small_reads_of_a_late_unit_are_one_request() {
    const LEN: u64 = 4096;
    let fixture = Fixture::new();
    let claims = fixture.claim(3..5);
    fixture.units.uses().expect(claims.numbers());
    let units = Arc::clone(&fixture.units);
    let stalled = std::future::pending::<()>();
    let step = async move { units.uses().paused_after(Duration::ZERO, stalled).await };
    fixture.runtime.spawn(step);
    for number in [3, 4] {
        let requests = fixture.requests();
        for start in (number * UNIT_BYTES..(number + 1) * UNIT_BYTES).step_by(usize_of(LEN)) {
            let range_bytes = start..start + LEN;
            let expected = part_of(&fixture.unit(number), number, &range_bytes);
            let read = async { fixture.units.read(range_bytes, Priority::Demand).await };
            assert_eq!(fixture.runtime.block_on(read).unwrap(), [expected]);
        }
        assert_eq!(fixture.requests(), requests + 1);
    }
}

#[test]
fn unit_that_arrives_after_the_end_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::cached_in(folder.path());
    let mut claims = fixture.claim(3..5);
    let _runtime = fixture.runtime.enter();
    assert!(claims.deliver(3, fixture.unit(3)));
    fixture.runtime.block_on(fixture.units.finish_stores());
    assert!(claims.deliver(4, fixture.unit(4)));
    fixture.runtime.block_on(fixture.units.stored_except(0));
    let in_memory = |number| fixture.units.known.in_memory([number].into_iter());
    assert_eq!(in_memory(4), Some(vec![fixture.unit(4)]));
    assert!(fixture.units.is_on_disk(3) && !fixture.units.is_on_disk(4));
}
