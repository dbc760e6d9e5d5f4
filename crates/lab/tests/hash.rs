//! Replays keys in the real table, and compares the results with short models, with distributions, and
//! with recordings.

use larder_block::MemoryDevice;
use larder_cache::Caches;
use larder_cache::budget::BudgetConfig;
use larder_cache::dentry::Dentry;
use larder_cache::hash::{Function, HashKey};
use larder_cache::page::{Entry, PageKey};
use larder_cache::table::histogram::Report;
use larder_cache::table::{Counts, HashFunction};
use larder_cache::tables::Finder;
use larder_cache::tape::{CacheKind, Event, Operation};
use larder_lab::hash::{
    BatchConsumer, Capacity, Combination, Error, HashReport, KeyKind, Keys, Outcome, Source,
    Survey, TraceFile, Wanted, p_value, replay, survey,
};
use larder_lab::output::Report as _;
use larder_lab::trace::Tolerance;
use larder_testkit::{Random, Seed};
use larder_trace::{Recording, TraceEvent, TraceRecorder};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// In-memory events of one cache.
struct Events {
    events: Vec<TraceEvent>,
    has_changes: bool,
}

impl Source for Events {
    fn title(&self) -> String {
        "events".to_owned()
    }

    fn events(&self) -> u64 {
        self.events.len() as u64
    }

    fn has_changes(&self) -> bool {
        self.has_changes
    }

    fn read(&self, each: &mut BatchConsumer<'_>) -> Result<(), Error> {
        for batch in self.events.chunks(1000) {
            if !each(&mut batch.iter().copied()) {
                break;
            }
        }
        Ok(())
    }
}

fn event(cache: CacheKind, operation: Operation, key: HashKey) -> TraceEvent {
    let event = Event {
        cache,
        operation,
        key,
    };
    TraceEvent::new(0, 0, event)
}

fn replay_all(
    source: &dyn Source,
    cache: CacheKind,
    capacity: Capacity,
    of: &[(impl Into<Finder> + Copy, u32)],
) -> Vec<Outcome> {
    let wanted = Wanted::default().with(cache, capacity);
    let surveys = survey(source, wanted).unwrap();
    let combinations: Vec<_> = of
        .iter()
        .map(|(function, bits)| Combination {
            cache,
            function: (*function).into(),
            bits: *bits,
        })
        .collect();
    replay(source, wanted, &surveys, &combinations, &mut |_| {}).unwrap()
}

/// Returns random insertions, removals and lookups of blocks, as in a trace of the buffer cache.
fn random_events(seed: Seed, count: usize, objects: u64) -> Vec<TraceEvent> {
    let mut random = Random::new(seed);
    let mut there = std::collections::BTreeSet::new();
    let cache = CacheKind::Buffer;
    (0..count)
        .map(|_| {
            let key = HashKey {
                object: 8 << 20 | 1,
                index: random.below(objects) * 8,
            };
            let operation = match random.below(10) {
                0..3 if there.insert(key) => Operation::Insert,
                3 if there.remove(&key) => Operation::Remove,
                _ => Operation::Lookup {
                    hit: there.contains(&key),
                },
            };
            event(cache, operation, key)
        })
        .collect()
}

/// A model of a hash table. Chains are vectors that grow at their end, where lookups begin.
#[derive(Default)]
struct Model {
    chains: HashMap<u32, Vec<HashKey>>,
    hits: u64,
    misses: u64,
    links_on_hits: u64,
    links_on_misses: u64,
}

impl Model {
    fn follow(&mut self, event: &TraceEvent, function: Function, bits: u32) {
        let key = event.key();
        let chain = self.chains.entry(function.bucket(key, bits)).or_default();
        let place = chain.iter().rev().position(|one| *one == key);
        match (event.operation, place) {
            (Operation::Lookup { .. }, Some(before)) => {
                self.hits += 1;
                self.links_on_hits += before as u64 + 1;
            }
            (Operation::Lookup { .. }, None) => {
                self.misses += 1;
                self.links_on_misses += chain.len() as u64;
            }
            (Operation::Insert, _) => chain.push(key),
            (Operation::Remove | Operation::Evict, _) => chain.retain(|one| *one != key),
        }
    }

    fn lengths(&self, bits: u32) -> BTreeMap<u64, u64> {
        let mut lengths = BTreeMap::new();
        for bucket in 0..1 << bits {
            let length = self.chains.get(&bucket).map_or(0, Vec::len) as u64;
            *lengths.entry(length).or_default() += 1;
        }
        lengths
    }
}

#[test]
fn replay_counts_equal_those_of_a_simple_model() {
    let seed = Seed::from_environment(0x4a51_0001);
    let events = random_events(seed, 40_000, 3000);
    let source = Events {
        events,
        has_changes: true,
    };
    let tables = [
        (Function::BufferReference, 8),
        (Function::BufferSteiner, 11),
        (Function::Golden, 10),
    ];
    let outcomes = replay_all(&source, CacheKind::Buffer, Capacity::AsRecorded, &tables);
    for (outcome, (function, bits)) in outcomes.iter().zip(tables) {
        let mut model = Model::default();
        let mut fullest = (0, BTreeMap::new());
        for batch in source.events.chunks(1000) {
            for event in batch {
                model.follow(event, function, bits);
            }
            let objects = model.chains.values().map(Vec::len).sum::<usize>();
            if objects >= fullest.0 {
                fullest = (objects, model.lengths(bits));
            }
        }
        let counts = outcome.counts;
        assert_eq!(
            [
                counts.hits,
                counts.misses,
                counts.links_on_hits,
                counts.links_on_misses
            ],
            [
                model.hits,
                model.misses,
                model.links_on_hits,
                model.links_on_misses
            ],
            "{function}, seed {seed}"
        );
        let lengths: BTreeMap<_, _> = outcome.histogram.lengths().collect();
        let lengths_of_model: BTreeMap<_, _> = fullest.1;
        assert_eq!(lengths, lengths_of_model, "{function}, seed {seed}");
    }
}

#[test]
fn chance_equals_the_mean_of_random_functions() {
    let seed = Seed::from_environment(0x4a51_0002);
    let source = Events {
        events: random_events(seed, 20_000, 2000),
        has_changes: true,
    };
    let wanted = Wanted::default().with(CacheKind::Buffer, Capacity::AsRecorded);
    let surveys = survey(&source, wanted).unwrap();
    let bits = 9;
    let chance = surveys[&CacheKind::Buffer].chance(bits).lookup;
    let mut random = Random::new(seed);
    let rounds = 40;
    let mut sum = 0.0;
    for _ in 0..rounds {
        // A random function: a number drawn for each key.
        let mut drawn: HashMap<HashKey, u32> = HashMap::new();
        let mut chains: HashMap<u32, Vec<HashKey>> = HashMap::new();
        let (mut lookups, mut links) = (0.0, 0.0);
        for event in &source.events {
            let key = event.key();
            let draw = || u32::try_from(random.below(1 << bits)).unwrap();
            let chain = chains
                .entry(*drawn.entry(key).or_insert_with(draw))
                .or_default();
            match event.operation {
                Operation::Insert => chain.push(key),
                Operation::Remove | Operation::Evict => chain.retain(|one| *one != key),
                Operation::Lookup { .. } => {
                    let place = chain.iter().rev().position(|one| *one == key);
                    lookups += 1.0;
                    #[expect(clippy::cast_precision_loss, reason = "the length of a chain")]
                    let walked = place.map_or(chain.len(), |place| place + 1) as f64;
                    links += walked;
                }
            }
        }
        sum += links / lookups;
    }
    let mean = sum / f64::from(rounds);
    assert!(
        (mean / chance - 1.0).abs() < 0.02,
        "{mean} {chance}, seed {seed}"
    );
}

#[test]
fn histogram_of_known_keys_equals_a_simple_model() {
    let source = Keys::new(KeyKind::Blocks, CacheKind::Buffer, 20_000, 7);
    let mut buckets = vec![0_u64; 1 << 12];
    let mut seen = std::collections::HashSet::new();
    source
        .read(&mut |events| {
            for event in events.filter(|event| seen.insert(event.index)) {
                let product = u32::try_from(event.index)
                    .unwrap()
                    .wrapping_mul(2_654_435_761);
                buckets[(product >> 11) as usize & 4095] += 1;
            }
            true
        })
        .unwrap();
    let mut expected = BTreeMap::new();
    for bucket in buckets {
        *expected.entry(bucket).or_insert(0_u64) += 1;
    }
    let table = [(Function::BufferMult11, 12)];
    let outcomes = replay_all(&source, CacheKind::Buffer, Capacity::AsRecorded, &table);
    let lengths: BTreeMap<_, _> = outcomes[0].histogram.lengths().collect();
    assert_eq!(lengths, expected);
}

#[test]
fn uniform_keys_pass_the_test_at_5_percent_in_95_percent_of_cases() {
    let seed = Seed::from_environment(0x4a51_0003);
    let rounds = 400;
    let mut random = Random::new(seed);
    let passed = (0..rounds)
        .filter(|_| {
            let mut chains = vec![0_u64; 4096];
            for _ in 0..6000 {
                chains[usize::try_from(random.below(4096)).unwrap()] += 1;
            }
            let mut histogram = larder_cache::table::Histogram::default();
            for length in chains {
                histogram.add(length);
            }
            p_value(histogram.chi_square()) > 0.05
        })
        .count();
    // Of 400 tests that pass with probability 0.95, 380 pass on average, with a deviation of 4.4. The range
    // extends by four deviations to each side.
    assert!((362..=398).contains(&passed), "{passed}, seed {seed}");
}

#[test]
fn lookup_only_trace_is_completed_within_the_capacity() {
    let source = Keys::new(KeyKind::Pages, CacheKind::Page, 5000, 3);
    let tables = [(Function::Golden, 10), (Function::PageReference, 11)];
    let all = replay_all(&source, CacheKind::Page, Capacity::AsRecorded, &tables);
    assert!(all.iter().all(|one| one.counts.misses == 5000));
    assert!(all.iter().all(|one| one.histogram.objects() == 5000));
    let few = replay_all(&source, CacheKind::Page, Capacity::Objects(1000), &tables);
    assert!(few.iter().all(|one| one.histogram.objects() == 1000));
    assert_eq!(few[0].counts.hits, few[1].counts.hits);
    assert!(few[0].counts.misses > 15_000, "{:?}", few[0].counts);
}

#[test]
fn hit_without_recorded_insertion_counts_as_miss_and_contradiction() {
    let key = |index| HashKey { object: 1, index };
    let lookup = |index| {
        let operation = Operation::Lookup { hit: true };
        event(CacheKind::Page, operation, key(index))
    };
    let source = Events {
        events: vec![lookup(1), lookup(2), lookup(1), lookup(1)],
        has_changes: true,
    };
    let wanted = Wanted::default().with(CacheKind::Page, Capacity::AsRecorded);
    let surveys = survey(&source, wanted).unwrap();
    assert_eq!(surveys[&CacheKind::Page].contradictions, 2);
    let outcomes = replay_all(
        &source,
        CacheKind::Page,
        Capacity::AsRecorded,
        &[(Function::Golden, 4)],
    );
    assert_eq!((outcomes[0].counts.hits, outcomes[0].counts.misses), (2, 2));
}

#[test]
fn report_of_a_sweep_has_a_page_plots_csv_and_json() {
    let source = Keys::new(KeyKind::Names, CacheKind::Dentry, 3000, 1);
    let wanted = Wanted::default().with(CacheKind::Dentry, Capacity::AsRecorded);
    let surveys = survey(&source, wanted).unwrap();
    let tables = [Function::DentryReference, Function::Golden].map(|function| {
        [10, 12].map(|bits| Combination {
            cache: CacheKind::Dentry,
            function: function.into(),
            bits,
        })
    });
    let outcomes = replay(
        &source,
        wanted,
        &surveys,
        tables.as_flattened(),
        &mut |_| {},
    )
    .unwrap();
    let report = HashReport::new(&source, wanted, &surveys, &outcomes);
    let files = report.report().unwrap();
    let names: Vec<&str> = files.iter().map(|file| &*file.name).collect();
    assert_eq!(
        names,
        [
            "hash.md",
            "hash.html",
            "hash.csv",
            "hash.json",
            "dentry-links.svg",
            "dentry-time.svg",
            "dentry-chains.svg"
        ]
    );
    assert_eq!(files[1].content.matches("<svg").count(), 3);
    assert!(
        !files[1].content.contains("src="),
        "the page refers to other files"
    );
    assert_eq!(files[2].content.lines().count(), 5);
    let json: serde_json::Value = serde_json::from_str(&files[3].content).unwrap();
    assert_eq!(json["caches"][0]["cache"], "dentry");
    assert_eq!(json["caches"][0]["rows"].as_array().unwrap().len(), 4);
    assert!(files[0].content.contains("hash table histogram:"));
}

/// Calls small caches at random, so that most insertions evict an entry.
fn use_caches(caches: &Caches, seed: Seed) {
    let mut random = Random::new(seed);
    for _ in 0..20_000 {
        let number = random.below(2000);
        let key = PageKey {
            ino: number % 7,
            index: number / 7,
        };
        if caches.pages.get(key).is_none()
            && let Entry::New(page) = caches.pages.get_or_insert(key)
        {
            page.complete();
        }
        let ino = u32::try_from(random.below(3000)).unwrap();
        if caches.inodes.get(ino).is_none() {
            caches.inodes.insert(ino, &[1; 20]);
        }
        let name = format!("name{}", random.below(2000));
        if caches.dentries.get(2, name.as_bytes()).is_none() {
            let dentry = Dentry::Negative;
            caches.dentries.insert(2, name.as_bytes(), dentry);
        }
    }
}

#[test]
fn replay_walks_the_recorded_links() {
    let seed = Seed::from_environment(0x4a51_0004);
    record_and_replay(seed, 1, |recorded, replayed, survey| {
        assert_eq!(survey.contradictions, 0);
        assert_eq!(replayed, recorded.counts);
    });
}

#[test]
fn replay_of_threads_differs_only_by_reordered_lookups() {
    const THREADS: u64 = 4;
    let seed = Seed::from_environment(0x4a51_0012);
    record_and_replay(seed, THREADS, |recorded, replayed, survey| {
        let objects = survey.inserts - survey.removals;
        assert_eq!(objects, recorded.histogram.objects());
        assert_eq!(replayed.lookups(), recorded.counts.lookups());
        let changes = survey.inserts + survey.removals;
        assert!(survey.contradictions <= changes * (THREADS - 1));
        assert!(replayed.hits.abs_diff(recorded.counts.hits) <= survey.contradictions);
    });
}

/// Uses caches in this number of threads. Passes the report, the counts of a replay, and the survey of
/// the trace to `check`, for each cache.
fn record_and_replay(seed: Seed, threads: u64, check: impl Fn(&Report, Counts, Survey)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.parquet");
    let tables = "larder+page=offset/7+dentry=mult-11/6+inode=modified/8+iget=all";
    let config = BudgetConfig {
        tables: tables.parse().unwrap(),
        ..BudgetConfig::new(1 << 20, 4096)
    };
    let device = Arc::new(MemoryDevice::new(vec![0; 64 * 4096]));
    let caches: Caches = Caches::new(&config, device).unwrap();
    let recorder = TraceRecorder::start(&path, "a test", Recording::lossless()).unwrap();
    caches.set_tape(&recorder.tape());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let caches = &caches;
            scope.spawn(move || use_caches(caches, seed.part(thread)));
        }
    });
    let reports = [
        (Function::PageOffset, 7, caches.pages.report()),
        (Function::DentryMult11, 6, caches.dentries.report()),
        (Function::InodeModified, 8, caches.inodes.report()),
    ];
    recorder.finish().unwrap();
    let trace = TraceFile::open(&path, Tolerance::Whole).unwrap();
    for (function, bits, report) in reports {
        println!("{function}, seed {seed}");
        let wanted = Wanted::default().with(report.cache, Capacity::AsRecorded);
        let surveys = survey(&trace, wanted).unwrap();
        let outcomes = replay_all(
            &trace,
            report.cache,
            Capacity::AsRecorded,
            &[(function, bits)],
        );
        check(&report, outcomes[0].counts, surveys[&report.cache]);
    }
}
