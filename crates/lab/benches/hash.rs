//! Measures events replayed per second on one processor.
//!
//! Run it with `cargo bench -p larder-lab --bench hash`. Under the tests it runs with small sizes, to
//! verify that it works. Times are only meaningful in the bench profile.

use larder_cache::hash::Function;
use larder_cache::tape::{CacheKind, Operation};
use larder_lab::hash::{
    BatchConsumer, Capacity, Combination, Error, KeyKind, Keys, Source, Surveys, Wanted, replay,
    survey,
};
use larder_trace::TraceEvent;
use rustix::time::{ClockId, clock_gettime};

/// Number of additional tables in the second measurement. The additional time is the time of their
/// replay alone, without decoding.
const FURTHER: u64 = 4;

/// Number of additional passes over the lookups that hit, after one pass that inserts all objects. The
/// additional time is the time of the lookups alone.
const FURTHER_PASSES: u64 = 3;

/// Generated keys, as in a trace that a cache recorded: all objects are inserted, and looked up
/// repeatedly.
struct Recorded {
    keys: Keys,
    objects: u64,
    passes: u64,
}

impl Recorded {
    /// Returns the number of lookups that hit in one pass.
    fn hits(&self) -> u64 {
        self.keys.events() - self.objects
    }
}

impl Source for Recorded {
    fn title(&self) -> String {
        self.keys.title()
    }

    fn events(&self) -> u64 {
        self.objects + self.hits() * self.passes
    }

    fn has_changes(&self) -> bool {
        true
    }

    fn read(&self, each: &mut BatchConsumer<'_>) -> Result<(), Error> {
        for pass in 0..self.passes {
            let mut number = 0;
            self.keys.read(&mut |events| {
                each(&mut events.filter_map(|event| {
                    number += 1;
                    let is_first = number <= self.objects;
                    let operation = if is_first {
                        Operation::Insert
                    } else {
                        Operation::Lookup { hit: true }
                    };
                    (!is_first || pass == 0).then_some(TraceEvent { operation, ..event })
                }))
            })?;
        }
        Ok(())
    }
}

/// Returns the processor time of all threads, in seconds, which does not include other processes.
#[expect(clippy::cast_precision_loss, reason = "displayed with few digits")]
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the processor time of `work`, and its result.
fn time<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let before = processor_seconds();
    let result = work();
    (processor_seconds() - before, result)
}

/// Returns the processor time of a replay in this number of tables.
fn replay_in(
    tables: u64,
    source: &Recorded,
    wanted: Wanted,
    (surveys, table): (&Surveys, Combination),
) -> f64 {
    let tables: Vec<_> = (0..tables).map(|_| table).collect();
    let (seconds, outcomes) = time(|| replay(source, wanted, surveys, &tables, &mut |_| {}));
    outcomes.expect("the tables can be allocated");
    seconds
}

#[expect(clippy::cast_precision_loss, reason = "displayed with few digits")]
fn million_a_second(events: u64, seconds: f64) -> f64 {
    events as f64 / seconds / 1e6
}

fn measure(kind: KeyKind, objects: u32) {
    let cache: CacheKind = kind.cache();
    let source = |passes| Recorded {
        keys: Keys::new(kind, cache, objects, 1),
        objects: objects.into(),
        passes,
    };
    let (short, long) = (source(1), source(1 + FURTHER_PASSES));
    let wanted = Wanted::default().with(cache, Capacity::AsRecorded);
    let (surveyed, surveys) = time(|| survey(&short, wanted));
    let surveys = surveys.expect("generated keys can be read");
    let table = Combination {
        cache,
        function: Function::Golden.into(),
        bits: surveys[&cache].fitting_bits(),
    };
    let replay_in = |tables, source| replay_in(tables, source, wanted, (&surveys, table));
    let further = |source| replay_in(1 + FURTHER, source) - replay_in(1, source);
    // Both times include the insertions, and the lookups that a replay repeats to time them. The
    // difference does not include them.
    let seconds = further(&long) - further(&short);
    println!(
        "{kind}, {objects} objects: survey {:.1} million events per second of processor time, including \
         decoding; replay {:.1} million lookups",
        million_a_second(short.events(), surveyed),
        million_a_second((long.events() - short.events()) * FURTHER, seconds),
    );
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let objects = if is_bench { 1_000_000 } else { 1000 };
    // One processor replays, while another one decodes.
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()
        .expect("the thread clock is available");
    for kind in [KeyKind::Pages, KeyKind::Names] {
        measure(kind, objects);
    }
}
