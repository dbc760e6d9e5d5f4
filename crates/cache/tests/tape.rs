//! Tests that a tape gets all events of the caches, in order.

use larder_block::MemoryDevice;
use larder_cache::Caches;
use larder_cache::budget::BudgetConfig;
use larder_cache::dentry::{Dentry, name_hash};
use larder_cache::hash::HashKey;
use larder_cache::page::{Entry, PageKey};
use larder_cache::tables::Tables;
use larder_cache::tape::{CacheKind, Event, Operation, Tape};
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// A tape that stores its events.
#[derive(Debug, Default)]
struct EventLog(Mutex<Vec<Event>>);

impl Tape for EventLog {
    fn record(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

#[derive(Clone, Debug)]
enum Step {
    ReadPage(u64, u64),
    RemovePage(u64, u64),
    ReadBlock(u64),
    FindName(u32, u8),
    AddName(u32, u8),
    RemoveName(u32, u8),
    ReadInode(u32),
    RemoveInode(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4_u64, 0..700_u64).prop_map(|(ino, index)| Step::ReadPage(ino, index)),
        1 => (0..4_u64, 0..700_u64).prop_map(|(ino, index)| Step::RemovePage(ino, index)),
        2 => (0..64_u64).prop_map(Step::ReadBlock),
        2 => (2..9_u32, any::<u8>()).prop_map(|(parent, name)| Step::FindName(parent, name)),
        2 => (2..9_u32, any::<u8>()).prop_map(|(parent, name)| Step::AddName(parent, name)),
        1 => (2..9_u32, any::<u8>()).prop_map(|(parent, name)| Step::RemoveName(parent, name)),
        2 => (1..400_u32).prop_map(Step::ReadInode),
        1 => (1..400_u32).prop_map(Step::RemoveInode),
    ];
    prop::collection::vec(step, 1..3000)
}

/// Returns a name. Some names are long, and are stored in a separate table.
fn name(number: u8) -> Vec<u8> {
    let length = if number.is_multiple_of(8) { 60 } else { 6 };
    format!("{number:0length$}").into_bytes()
}

/// Creates caches with a budget so small that most steps evict entries.
fn caches(tables: &str, name_seed: [u64; 2]) -> (Caches, Arc<EventLog>) {
    let config = BudgetConfig {
        tables: tables.parse::<Tables>().unwrap(),
        name_seed,
        ..BudgetConfig::new(1 << 20, 4096)
    };
    let device = Arc::new(MemoryDevice::new(vec![0; 64 * 4096]));
    let caches = Caches::new(&config, device).unwrap();
    let log = Arc::new(EventLog::default());
    let tape: Arc<dyn Tape> = log.clone();
    caches.set_tape(&tape);
    (caches, log)
}

fn do_step(caches: &Caches, step: &Step) {
    match *step {
        Step::ReadPage(ino, index) => {
            let key = PageKey { ino, index };
            if caches.pages.get(key).is_none()
                && let Entry::New(page) = caches.pages.get_or_insert(key)
            {
                page.complete();
            }
        }
        Step::RemovePage(ino, index) => {
            caches.pages.remove(PageKey { ino, index });
        }
        Step::ReadBlock(block) => {
            let read = caches
                .buffers
                .read(block, |_| Ok::<_, larder_block::Error>(()));
            drop(read.unwrap());
        }
        Step::FindName(parent, number) => {
            let _ = caches.dentries.get(parent, &name(number));
        }
        Step::AddName(parent, number) => {
            caches
                .dentries
                .insert(parent, &name(number), Dentry::Negative);
        }
        Step::RemoveName(parent, number) => {
            caches.dentries.remove(parent, &name(number));
        }
        Step::ReadInode(ino) => {
            if caches.inodes.get(ino).is_none() {
                caches.inodes.insert(ino, &[1; 20]);
            }
        }
        Step::RemoveInode(ino) => {
            caches.inodes.remove(ino);
        }
    }
}

/// The entries of each cache.
type Present = HashSet<(CacheKind, HashKey)>;

/// The result of following the events of a tape.
#[derive(Default)]
struct Followed {
    present: Present,
    /// Lookups and hits of each cache.
    lookups: [(u64, u64); 4],
    /// Number of insertions and removals.
    changes: u64,
    /// Lookups reported out of order: hits of entries that were absent, or misses of entries that
    /// were present.
    out_of_order: u64,
}

fn follow(events: &[Event]) -> Followed {
    let mut followed = Followed::default();
    for event in events {
        let key = (event.cache, event.key);
        let lookups = &mut followed.lookups[event.cache as usize];
        match event.operation {
            Operation::Lookup { hit } => {
                followed.out_of_order += u64::from(hit != followed.present.contains(&key));
                lookups.0 += 1;
                lookups.1 += u64::from(hit);
                continue;
            }
            Operation::Insert => assert!(followed.present.insert(key), "{event:?}: inserted twice"),
            Operation::Remove | Operation::Evict => {
                assert!(
                    followed.present.remove(&key),
                    "{event:?}: not inserted before"
                );
            }
        }
        followed.changes += 1;
    }
    followed
}

/// Compares the state of the caches with the events of the tape. `threads` threads have used the caches.
fn check(caches: &Caches, events: &[Event], threads: u64) {
    let Followed {
        present,
        lookups,
        changes,
        out_of_order,
    } = follow(events);
    assert!(
        out_of_order <= changes * (threads - 1),
        "{out_of_order} lookups among {changes} changes"
    );
    let stats = [
        caches.pages.stats(),
        caches.buffers.stats(),
        caches.dentries.stats(),
        caches.inodes.stats(),
    ];
    for (cache, stats) in CacheKind::ALL.into_iter().zip(stats) {
        let recorded = lookups[cache as usize];
        assert_eq!(
            recorded,
            (stats.lookups, stats.hits),
            "lookups and hits: {cache:?}"
        );
        let objects = present.iter().filter(|(of, _)| *of == cache).count();
        assert_eq!(objects as u64, stats.objects, "objects: {cache:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn tape_matches_every_cache_through_eviction(
        steps in steps(),
        tables in prop::sample::select(vec!["larder", "D", "D+page=rbtree"]),
    ) {
        let (caches, log) = caches(tables, [1, 2]);
        for step in &steps {
            do_step(&caches, step);
        }
        check(&caches, &log.0.lock().unwrap(), 1);
    }

    #[test]
    fn tape_matches_caches_of_threads_that_evict_each_others_entries(
        of_threads in [steps(), steps(), steps(), steps()],
        tables in prop::sample::select(vec!["larder", "D", "D+page=rbtree"]),
    ) {
        let (caches, log) = caches(tables, [1, 2]);
        std::thread::scope(|scope| {
            for steps in &of_threads {
                scope.spawn(|| steps.iter().for_each(|step| do_step(&caches, step)));
            }
        });
        check(&caches, &log.0.lock().unwrap(), 4);
    }
}

#[test]
fn tapes_record_the_same_names_with_any_seed_or_function() {
    let recorded = |tables, seed| {
        let (caches, log) = caches(tables, seed);
        for number in 0..=u8::MAX {
            do_step(&caches, &Step::FindName(7, number));
            do_step(&caches, &Step::AddName(7, number));
            do_step(&caches, &Step::FindName(7, number));
            do_step(&caches, &Step::RemoveName(7, number));
        }
        // All lengths that a name can have. In each table, some names end in the last word of the slot.
        for length in 1..=255 {
            let name = vec![b'a' + u8::try_from(length % 26).unwrap(); length];
            caches.dentries.insert(9, &name, Dentry::Negative);
            assert_eq!(caches.dentries.get(9, &name), Some(Dentry::Negative));
            let recorded = log.0.lock().unwrap();
            let [.., inserted, found] = &recorded[..] else {
                panic!("nothing was recorded")
            };
            let key = HashKey {
                object: 9,
                index: name_hash(&name).into(),
            };
            assert_eq!((inserted.key, found.key), (key, key), "{length} bytes");
        }
        std::mem::take(&mut *log.0.lock().unwrap())
    };
    let first = recorded("larder", [1, 2]);
    assert!(first == recorded("larder", [0x1234_5678_9abc_def0, 99]));
    assert!(first == recorded("D+dentry=larder", [5, 6]));
}
