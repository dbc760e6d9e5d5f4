//! Compares the curves with simulations of single caches.

use super::clock::Clock;
use super::*;
use crate::run_report::as_f64;
use crate::simulator::{CpuModel, PAGE_BYTES, Simulator, SimulatorConfig};
use crate::workload::chance::generator;
use crate::workload::chance::mix;
use crate::workload::{Jobs, Operation as Call, ReaderJob};
use larder_instruments::simulated::DeviceModel;
use larder_readahead::PolicyName;
use proptest::prelude::*;
use rand::Rng;
use rand_distr::{Distribution, Zipf};
use std::collections::{BTreeMap, HashMap};

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Lookup(u64),
    Insert(u64),
    Remove(u64),
}

/// An LRU cache of one size: the oracle of the curves.
#[derive(Debug, Default)]
struct Lru {
    capacity: usize,
    clock: u64,
    uses: HashMap<u64, u64>,
    objects: BTreeMap<u64, u64>,
}

impl Lru {
    fn new(capacity: u64) -> Self {
        Self {
            capacity: usize::try_from(capacity).unwrap(),
            ..Self::default()
        }
    }

    /// Returns whether the object was present.
    fn touch(&mut self, object: u64) -> bool {
        self.clock += 1;
        let before = self.uses.insert(object, self.clock);
        if let Some(before) = before {
            self.objects.remove(&before);
        }
        self.objects.insert(self.clock, object);
        if self.objects.len() > self.capacity {
            let (_, evicted) = self.objects.pop_first().unwrap();
            self.uses.remove(&evicted);
        }
        before.is_some()
    }

    fn remove(&mut self, object: u64) {
        if let Some(before) = self.uses.remove(&object) {
            self.objects.remove(&before);
        }
    }

    /// Returns the number of lookups that miss.
    fn misses(mut self, events: &[Event]) -> u64 {
        let mut misses = 0;
        for event in events {
            match *event {
                Event::Lookup(object) => misses += u64::from(!self.touch(object)),
                Event::Insert(object) => {
                    self.touch(object);
                }
                Event::Remove(object) => self.remove(object),
            }
        }
        misses
    }
}

/// Returns the curve of the events.
fn curve(events: &[Event], limits: StackLimits) -> MissCurve {
    let (mut stack, mut depths) = (LruStack::new(limits), Depths::default());
    for event in events {
        match *event {
            Event::Lookup(object) => {
                let id = mix(object);
                depths.add(id, stack.touch(id));
            }
            Event::Insert(object) => {
                stack.touch(mix(object));
            }
            Event::Remove(object) => stack.remove(mix(object)),
        }
    }
    stack.check_invariants();
    MissCurve::new(&depths)
}

/// Returns 20 sizes, from 1 object to twice the number of objects.
fn sizes(objects: u64) -> Vec<u64> {
    let step = (2.0 * as_f64(objects)).powf(1.0 / 19.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes are small"
    )]
    let mut sizes: Vec<u64> = (0..20)
        .map(|place| step.powi(place).round() as u64)
        .collect();
    sizes.dedup();
    // Some small sizes are equal after rounding, so larger ones take their place.
    let largest = 2 * objects;
    sizes.extend((1..).map(|place| largest + place).take(20 - sizes.len()));
    sizes
}

/// The kinds of traces.
const TRACES: [&str; 5] = ["uniform", "zipf", "scan", "loop", "mixed"];

/// Returns the lookups of a trace.
fn lookups(trace: &str, objects: u64, count: u64, seed: u64) -> Vec<u64> {
    let mut random = generator(seed, 3);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank"
    )]
    let mut zipf = {
        let ranks = Zipf::new(as_f64(objects), 0.9).unwrap();
        let mut random = generator(seed, 4);
        move || ranks.sample(&mut random) as u64
    };
    (0..count)
        .map(|place| match trace {
            "uniform" => random.random_range(0..objects),
            "zipf" => zipf(),
            "scan" => place,
            "loop" => place % objects,
            // A hot set, a loop, and a scan that is never repeated.
            _ => match random.random_range(0..4) {
                0 | 1 => zipf() % (objects / 4 + 1),
                2 => objects + place / 4 % (objects / 2 + 1),
                _ => 4 * objects + place,
            },
        })
        .collect()
}

/// Returns the lookups of a trace, and insertions and removals between them.
fn events(trace: &str, objects: u64, count: u64, seed: u64, one_change_in: u32) -> Vec<Event> {
    let mut random = generator(seed, 5);
    let mut events = Vec::new();
    for object in lookups(trace, objects, count, seed) {
        if one_change_in > 0 && random.random_range(0..one_change_in) == 0 {
            let object = random.random_range(0..objects);
            events.push(match random.random_range(0..3) {
                0 => Event::Insert(object),
                _ => Event::Remove(object),
            });
        }
        events.push(Event::Lookup(object));
    }
    events
}

#[test]
fn exact_curve_equals_simulated_caches_at_20_sizes() {
    for trace in TRACES {
        for one_change_in in [0, 3, 20] {
            let (objects, seed) = (500, 11);
            let events = events(trace, objects, 8000, seed, one_change_in);
            let curve = curve(&events, StackLimits::DEFAULT);
            assert!(curve.is_exact());
            for size in sizes(objects) {
                let expected = Lru::new(size).misses(&events);
                let text = format!("{trace}, 1 change in {one_change_in}, size {size}");
                let misses = curve.misses(size);
                assert!(
                    (misses - as_f64(expected)).abs() < 0.5,
                    "{text}: {misses} {expected}"
                );
                let [low, high] = curve.range(size);
                assert!(
                    low.total_cmp(&high).is_eq() && low.total_cmp(&misses).is_eq(),
                    "{text}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn exact_curve_equals_simulated_caches_for_any_events(
        events in prop::collection::vec((0_u8..6, 0_u64..40), 0..600),
    ) {
        let event = |(kind, object): &(u8, u64)| match kind {
            0 => Event::Insert(*object),
            1 => Event::Remove(*object),
            _ => Event::Lookup(*object),
        };
        let events: Vec<Event> = events.iter().map(event).collect();
        let curve = curve(&events, StackLimits::DEFAULT);
        for size in 1..=42 {
            let expected = Lru::new(size).misses(&events);
            prop_assert!((curve.misses(size) - as_f64(expected)).abs() < 0.5, "size {size}");
        }
    }
}

#[test]
fn sampled_curve_is_within_its_stated_error_at_20_sizes() {
    let limits = StackLimits {
        tracked: 4000,
        sampled: 4000,
    };
    for trace in TRACES {
        for one_change_in in [0, 20] {
            for seed in [21, 22, 23] {
                let objects = 30_000;
                let events = events(trace, objects, 200_000, seed, one_change_in);
                let curve = curve(&events, limits);
                assert!(!curve.is_exact(), "{trace}");
                let mut width = 0.0;
                for size in sizes(objects) {
                    let expected = as_f64(Lru::new(size).misses(&events));
                    let [low, high] = curve.range(size);
                    assert!(
                        low <= expected && expected <= high,
                        "{trace}, 1 change in {one_change_in}, seed {seed}, size {size}: {expected} is not \
                         in {low} to {high}"
                    );
                    width += (high - low) / as_f64(curve.lookups()) / 20.0;
                }
                // A wider range would contain wrong results as well.
                assert!(width < 0.3, "{trace}: mean width of the range {width}");
            }
        }
    }
}

#[test]
fn sample_never_exceeds_its_limit() {
    let limits = StackLimits {
        tracked: 1000,
        sampled: 100,
    };
    let (mut stack, mut tracked) = (LruStack::new(limits), 0);
    for object in 0..50_000 {
        tracked += u64::from(stack.touch(mix(object)).is_some());
        stack.check_invariants();
    }
    assert!((9..=11).contains(&stack.shift()), "{}", stack.shift());
    assert!(tracked < 2000, "{tracked}");
}

#[test]
fn knee_and_largest_useful_size_of_a_loop_are_its_length() {
    let events = events("loop", 700, 7000, 1, 0);
    let curve = curve(&events, StackLimits::DEFAULT);
    assert_eq!((curve.knee(), curve.largest_useful_size()), (700, 700));
    assert!((curve.ratio(699) - 1.0).abs() < 1e-9 && (curve.ratio(700) - 0.1).abs() < 1e-9);
    let scan = self::curve(&self::events("scan", 1, 1000, 1, 0), StackLimits::DEFAULT);
    assert_eq!((scan.knee(), scan.largest_useful_size()), (0, 0));
}

#[test]
fn clock_has_the_misses_of_the_page_cache_of_a_mount() {
    for (trace, seed) in [("uniform", 31), ("zipf", 32), ("loop", 33), ("mixed", 34)] {
        let pages = 6000;
        let lookups = lookups(trace, pages, 40_000, seed);
        let mut simulator = Simulator::new(SimulatorConfig {
            policy: PolicyName::Off,
            device: *DeviceModel::named("instant").unwrap(),
            memory_bytes: 8 << 20,
            readahead_max_bytes: PAGE_BYTES,
            seed: 1,
            cpu: CpuModel::default(),
        })
        .unwrap();
        let files = simulator
            .add_files(&[(10 * pages + 40_000) * PAGE_BYTES])
            .unwrap();
        let calls: Vec<Call> = lookups
            .iter()
            .map(|page| Call::read(0, page * PAGE_BYTES, PAGE_BYTES))
            .collect();
        let report = simulator.run(Jobs::new(files, vec![ReaderJob::new(calls.into_iter())]));
        let mut clock = Clock::new(usize::try_from(simulator.cached_pages()).unwrap());
        let misses: u64 = lookups
            .iter()
            .map(|page| u64::from(!clock.touch(mix(*page))))
            .sum();
        let expected = report.pages.page_misses;
        // The mount may keep a few frames free.
        let difference = misses.abs_diff(expected);
        assert!(
            difference * 100 <= expected,
            "{trace}: {misses} instead of {expected}"
        );
    }
}

#[test]
fn miniature_simulation_is_close_to_the_whole_cache() {
    for limits in [
        StackLimits::DEFAULT,
        StackLimits {
            tracked: 8000,
            sampled: 8000,
        },
    ] {
        for trace in TRACES {
            for seed in [41, 42] {
                let lookups = lookups(trace, 40_000, 300_000, seed);
                let mut small = ClockSimulations::with_miniature(1 << 11);
                let (mut stack, mut depths) = (LruStack::new(limits), Depths::default());
                let size = 1 << 14;
                let mut whole = Clock::new(size);
                let mut misses = 0;
                for object in &lookups {
                    let id = mix(*object);
                    misses += u64::from(!whole.touch(id));
                    let reference = stack.touch(id);
                    depths.add(id, reference);
                    small.lookup(id, 0, reference);
                }
                let lru = MissCurve::new(&depths);
                let estimate = small.misses(0).at(size as u64, |size| lru.misses(size));
                let count = as_f64(lookups.len() as u64);
                let error = (estimate - as_f64(misses)).abs() / count;
                let limit = if lru.is_exact() { 0.01 } else { 0.03 };
                assert!(error < limit, "{trace}, seed {seed}, {limits:?}: {error}");
            }
        }
    }
}

#[test]
fn clock_follows_insertions_and_removals() {
    let mut clock = Clock::new(2);
    assert!(!clock.touch(1) && !clock.touch(2));
    clock.remove(1);
    clock.fill(3);
    assert!(clock.touch(2) && clock.touch(3), "3 is in the place of 1");
    assert!(
        !clock.touch(1),
        "2 and 3 were used, and 3 is the first in the ring"
    );
    assert!(clock.touch(2) && !clock.touch(3));
}
