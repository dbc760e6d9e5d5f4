//! Tests recommendations for keys with a known answer.

use larder::tables::Finder;
use larder::{OpenOptions, Tables, Volume};
use larder_cache::hash::{Function, HashKey};
use larder_cache::tape::{CacheKind, Event, Operation};
use larder_lab::hash::{
    BatchConsumer, Capacity, Combination, Error, KeyKind, Keys, Outcome, SEGMENTS, Source, Surveys,
    Wanted, replay, survey, survey_from,
};
use larder_lab::tune::{Advice, Conditions, mount_option, tune};
use larder_testkit::image::recipe;
use larder_testkit::{Image, Requirement, skip};
use larder_trace::TraceEvent;

const CACHE: CacheKind = CacheKind::Buffer;
const MEMORY: u64 = 16 << 20;

/// Events including all changes, which are passed in a single batch.
struct Events(Vec<TraceEvent>);

impl Source for Events {
    fn title(&self) -> String {
        "events".to_owned()
    }

    fn events(&self) -> u64 {
        self.0.len() as u64
    }

    fn has_changes(&self) -> bool {
        true
    }

    fn read(&self, each: &mut BatchConsumer<'_>) -> Result<(), Error> {
        each(&mut self.0.iter().copied());
        Ok(())
    }
}

/// Returns events in which blocks are inserted, looked up `rounds` times, and removed.
fn life(blocks: &(impl Iterator<Item = u64> + Clone), rounds: usize) -> Vec<TraceEvent> {
    let all = |operation| {
        blocks.clone().map(move |index| {
            let key = HashKey { object: 1, index };
            let cache = CACHE;
            TraceEvent::new(
                0,
                0,
                Event {
                    cache,
                    operation,
                    key,
                },
            )
        })
    };
    let lookups = (0..rounds).flat_map(|_| all(Operation::Lookup { hit: true }));
    let inserts = all(Operation::Insert);
    inserts
        .chain(lookups)
        .chain(all(Operation::Remove))
        .collect()
}

fn replayed(source: &dyn Source, surveys: &Surveys, function: Finder, bits: u32) -> Outcome {
    let wanted = Wanted::default().with(CACHE, Capacity::AsRecorded);
    let table = Combination {
        cache: CACHE,
        function,
        bits,
    };
    let mut outcomes = replay(source, wanted, surveys, &[table], &mut |_| {}).unwrap();
    outcomes.remove(0)
}

fn links(outcome: &Outcome) -> f64 {
    f64::from(u32::try_from(outcome.counts.links()).unwrap())
        / f64::from(u32::try_from(outcome.counts.lookups()).unwrap())
}

fn advise(source: &dyn Source, memory_bytes: u64) -> Advice {
    tune(source, Conditions::new(memory_bytes), &mut |_| {}).unwrap()
}

/// Parses the value of `-o`.
fn tables(option: &str) -> Tables {
    option.strip_prefix("tables=").unwrap().parse().unwrap()
}

/// Opens a volume with caches of [`MEMORY`].
fn open(tables: Tables) -> Option<Volume> {
    if skip(&["mke2fs", "debugfs", "tune2fs", "e2fsck"].map(Requirement::Tool)) {
        return None;
    }
    let image = Image::get(recipe("ext4-2k-no-journal").unwrap()).unwrap();
    let mut options = OpenOptions::default();
    options.cache_size_bytes = MEMORY;
    options.tables = tables;
    Some(Volume::open(image.path(), &options).unwrap())
}

#[test]
fn strided_blocks_get_a_function_that_distributes_them() {
    let source = Keys::new(KeyKind::Strided, CACHE, 3000, 1);
    // With room for all objects.
    let advice = advise(&source, 4 * MEMORY);
    let [of] = &advice.caches[..] else {
        panic!("{:?}", advice.caches);
    };
    let surveys = survey(&source, Wanted::default().with(CACHE, Capacity::AsRecorded)).unwrap();
    let terrible = replayed(
        &source,
        &surveys,
        Function::BufferReference.into(),
        of.selected.bits,
    );
    assert!(links(&terrible) > 4.0 * of.selected.chance_links, "{of:?}");
    assert_ne!(of.selected.function, Function::BufferReference.into());
    assert!(of.selected.links < 1.5 * of.selected.chance_links, "{of:?}");
}

#[test]
fn second_half_is_judged_independently_of_the_first() {
    // Twice as many objects, a quarter as far apart, with other numbers, and fewer lookups of each.
    let mut events = life(&(0..4000).map(|block| 1 + 16 * block), 4);
    let second = Events(life(&(0..2000).map(|block| 7 + 64 * block), 10));
    assert_eq!(events.len(), second.0.len());
    events.extend(&second.0);
    let both = Events(events);
    let advice = advise(&both, MEMORY);
    let [of] = &advice.caches[..] else {
        panic!("{:?}", advice.caches);
    };
    let wanted = Wanted::default().with(CACHE, Capacity::AsRecorded);
    let alone = survey(&second, wanted).unwrap();
    assert_eq!(of.lookups, alone[&CACHE].lookups);
    for table in [of.selected, of.current] {
        let outcome = replayed(&second, &alone, table.function, table.bits);
        assert!((links(&outcome) - table.links).abs() < 1e-9, "{table:?}");
        let chance = alone[&CACHE].chance(table.bits).lookup;
        assert!((table.chance_links - chance).abs() < 1e-9, "{table:?}");
    }
    // The timed lookups are also in the second half.
    let half = both.events() / 2;
    let late = survey_from(&both, wanted, half).unwrap();
    assert_eq!(late[&CACHE].peak_objects, 4000);
    let outcome = replayed(&both, &late, Finder::Larder, 10);
    assert_eq!(outcome.histogram.objects(), 2000);
    let timing = outcome.timing.unwrap();
    assert!(timing.lookups <= 20_000 && timing.hits == timing.lookups);
}

#[test]
fn segments_of_a_single_batch_have_equal_sizes() {
    let source = Events(life(&(0..1000), 10));
    let surveys = survey(&source, Wanted::default().with(CACHE, Capacity::AsRecorded)).unwrap();
    let outcome = replayed(&source, &surveys, Finder::Larder, 10);
    assert_eq!(outcome.segments.len() as u64, SEGMENTS);
    // 375 events in each segment: 1000 insertions first, then 10,000 lookups.
    let lookups: Vec<_> = outcome
        .segments
        .iter()
        .map(larder_cache::table::Counts::lookups)
        .collect();
    assert_eq!(lookups[..4], [0, 0, 125, 375]);
    assert_eq!(lookups.iter().sum::<u64>(), 10_000);
}

#[test]
fn trace_with_few_lookups_recommends_no_change() {
    let advice = advise(&Events(life(&(0..100), 20)), MEMORY);
    let of = &advice.caches[0];
    assert_eq!((of.gain_links.low, of.gain_links.high), (None, None));
    assert!(!of.is_worth_it);
    assert!(advice.summary().contains("keep the current table"));
    assert_eq!(tables(&advice.mount_option), Tables::LARDER);
}

#[test]
fn current_table_has_the_size_that_a_mount_selects() {
    let Some(volume) = open(Tables::LARDER) else {
        return;
    };
    let stats = volume.stats();
    for (kind, cache, buckets) in [
        (KeyKind::Pages, CacheKind::Page, stats.page.buckets),
        (KeyKind::Blocks, CacheKind::Buffer, stats.buffer.buckets),
        (KeyKind::Sequential, CacheKind::Inode, stats.inode.buckets),
    ] {
        let source = Keys::new(kind, cache, 2000, 1);
        let advice = advise(&source, MEMORY);
        assert_eq!(1 << advice.caches[0].current.bits, buckets, "{cache:?}");
    }
}

/// Keys of all caches, one cache after the other, repeated so that all are in both halves.
struct Together([Keys; 4]);

impl Together {
    fn new() -> Self {
        Self([
            Keys::new(KeyKind::Pages, CacheKind::Page, 3000, 1),
            Keys::new(KeyKind::Blocks, CacheKind::Buffer, 3000, 1),
            Keys::new(KeyKind::Names, CacheKind::Dentry, 3000, 1),
            Keys::new(KeyKind::Sequential, CacheKind::Inode, 3000, 1),
        ])
    }
}

impl Source for Together {
    fn title(&self) -> String {
        "keys of all caches".to_owned()
    }

    fn events(&self) -> u64 {
        2 * self.0.iter().map(Source::events).sum::<u64>()
    }

    fn has_changes(&self) -> bool {
        false
    }

    fn read(&self, each: &mut BatchConsumer<'_>) -> Result<(), Error> {
        self.0
            .iter()
            .chain(&self.0)
            .try_for_each(|keys| keys.read(each))
    }
}

#[test]
fn volume_opens_with_the_recommended_tables() {
    let mut advice = advise(&Together::new(), MEMORY);
    assert_eq!(advice.caches.len(), CacheKind::ALL.len());
    let Some(_as_advised) = open(tables(&advice.mount_option)) else {
        return;
    };
    // Also applies all changes, including those that are not recommended here.
    for of in &mut advice.caches {
        of.is_worth_it = true;
    }
    let all = tables(&mount_option(
        Tables::LARDER,
        &advice.caches,
        advice.shrinking.as_ref(),
    ));
    let Some(volume) = open(all) else {
        return;
    };
    for ((cache, stats), advice) in volume.stats().caches().into_iter().zip(&advice.caches) {
        assert_eq!(cache, advice.cache);
        assert_eq!(stats.finder, advice.selected.function, "{cache:?}");
        // Long names have a separate table with an eighth of the buckets.
        assert_eq!(stats.buckets.ilog2(), advice.selected.bits, "{cache:?}");
    }
}
