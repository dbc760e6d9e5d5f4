//! Events replayed by the second, on one processor.
//!
//! Run it with `cargo bench -p larder-lab --bench hash`. Under the tests it runs small, to see that
//! it works; times mean something in the bench profile only.

use larder_cache::hash::Function;
use larder_cache::tape::{CacheKind, Operation};
use larder_lab::hash::{
    Combination, Each, Error, KeyKind, Keys, Room, Source, Surveys, Wanted, replay, survey,
};
use larder_trace::TraceEvent;
use rustix::time::{ClockId, clock_gettime};

/// Tables that are replayed beside one: what they take more is their replaying alone, and no decoding.
const FURTHER: u64 = 4;

/// Passes over the lookups that hit, beside one, in which all objects come: what they take more is
/// lookups alone.
const FURTHER_PASSES: u64 = 3;

/// Keys made up, as a trace tells of them that a cache was recorded in: all objects come, and are
/// looked up again and again.
struct Recorded {
    keys: Keys,
    objects: u64,
    passes: u64,
}

impl Recorded {
    /// Lookups that hit, in a pass.
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

    fn tells_changes(&self) -> bool {
        true
    }

    fn read(&self, each: &mut Each<'_>) -> Result<(), Error> {
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

/// The processor time of all threads, in seconds: the machine may be busy with others.
#[expect(clippy::cast_precision_loss, reason = "for display")]
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// What `work` takes of the processor, and what comes of it.
fn time<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let before = processor_seconds();
    let result = work();
    (processor_seconds() - before, result)
}

/// What a replay in so many tables takes.
fn replay_in(
    tables: u64,
    source: &Recorded,
    wanted: Wanted,
    (surveys, table): (&Surveys, Combination),
) -> f64 {
    let tables: Vec<_> = (0..tables).map(|_| table).collect();
    let (seconds, outcomes) = time(|| replay(source, wanted, surveys, &tables, &mut |_| {}));
    outcomes.expect("memory for tables");
    seconds
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
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
    let wanted = Wanted::default().and(cache, Room::AsTold);
    let (surveyed, surveys) = time(|| survey(&short, wanted));
    let surveys = surveys.expect("keys made up can be read");
    let table = Combination {
        cache,
        function: Function::Golden.into(),
        bits: surveys[&cache].fitting_bits(),
    };
    let replay_in = |tables, source| replay_in(tables, source, wanted, (&surveys, table));
    let further = |source| replay_in(1 + FURTHER, source) - replay_in(1, source);
    // Inserts are in both, and so are the lookups that a replay times alone.
    let seconds = further(&long) - further(&short);
    println!(
        "{kind}, {objects} objects, million a second of one processor: survey {:.1} events, decoding \
         included; replay {:.1} lookups",
        million_a_second(short.events(), surveyed),
        million_a_second((long.events() - short.events()) * FURTHER, seconds),
    );
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let objects = if is_bench { 1_000_000 } else { 1000 };
    // One processor replays; another one decodes meanwhile.
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()
        .expect("a thread");
    for kind in [KeyKind::Pages, KeyKind::Names] {
        measure(kind, objects);
    }
}
