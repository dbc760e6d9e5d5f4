//! Compares the table with a `BTreeMap`, and tests the turns of the clock hand.

use super::number::Number;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A hash function that puts all keys into bucket 0, in one chain.
#[derive(Debug)]
struct Zero;

impl HashFunction<u64> for Zero {
    fn bucket(&self, _: u64, _: u32) -> u32 {
        0
    }
}

type Numbers<H> = Table<Number, H, 2>;

fn numbers<H: HashFunction<u64>>(capacity: u32, bits: u32, hash: H) -> Numbers<H> {
    let arena = Arena::new(capacity, Growth::Prepaid).unwrap();
    Table::new(Arc::new(arena), bits, 0, hash).unwrap()
}

fn check<H: HashFunction<u64>>(table: &Numbers<H>) {
    table.check_invariants(|a, b| a.word(0) == b.word(0));
    let arena = table.arena();
    let used = table.objects() + u64::from(arena.count_free());
    assert_eq!(used, u64::from(arena.touched()), "no slot is lost");
}

fn put<H: HashFunction<u64>>(table: &Numbers<H>, key: u64, value: u64) {
    let vacant = table.allocate().expect("a slot");
    table.replace(&key, vacant, |slot| slot.set_word(1, value));
}

fn value<H: HashFunction<u64>>(table: &Numbers<H>, key: u64) -> Option<u64> {
    table.copy(&key, |slot| slot.word(1))
}

#[derive(Clone, Debug)]
enum Step {
    Put(u64, u64),
    InsertOnce(u64, u64),
    Copy(u64),
    Get(u64),
    Remove(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..24u64;
    let step = prop_oneof![
        (key.clone(), any::<u64>()).prop_map(|(k, v)| Step::Put(k, v)),
        (key.clone(), any::<u64>()).prop_map(|(k, v)| Step::InsertOnce(k, v)),
        key.clone().prop_map(Step::Copy),
        key.clone().prop_map(Step::Get),
        key.prop_map(Step::Remove),
    ];
    proptest::collection::vec(step, 1..200)
}

/// Runs `steps` on a table and a map, and compares the results. If `evicts` is true, the table may have
/// evicted entries of the map, but must not differ in any other way.
fn run<H: HashFunction<u64>>(table: &Numbers<H>, steps: Vec<Step>, evicts: bool) {
    let mut map = BTreeMap::new();
    for step in steps {
        let (key, found) = match step {
            Step::Put(key, value) => {
                put(table, key, value);
                map.insert(key, value);
                continue;
            }
            Step::InsertOnce(key, value) => {
                let vacant = table.allocate().expect("a slot");
                let fill = |slot: &Slot<2>| slot.set_word(1, value);
                match table.get_or_insert(&key, vacant, 0, fill) {
                    Inserted::New(_) => {
                        assert!(evicts || !map.contains_key(&key));
                        map.insert(key, value);
                        continue;
                    }
                    Inserted::Existing(Found::Pinned(pin, _)) => (key, Some(pin.slot().word(1))),
                    Inserted::Existing(other) => panic!("no other thread fills: {other:?}"),
                }
            }
            Step::Copy(key) => (key, value(table, key)),
            Step::Get(key) => match table.get(&key) {
                Some(Found::Pinned(pin, _)) => {
                    assert!(!table.remove(&key), "a pinned entry stays");
                    (key, Some(pin.slot().word(1)))
                }
                None => (key, None),
                Some(other) => panic!("no thread fills: {other:?}"),
            },
            Step::Remove(key) => {
                let removed = table.remove(&key);
                assert!(removed == map.contains_key(&key) || evicts);
                map.remove(&key);
                continue;
            }
        };
        if found.is_some() || !evicts {
            assert_eq!(found, map.get(&key).copied());
        }
    }
    check(table);
}

proptest! {
    #[test]
    fn table_of_any_size_agrees_with_map(steps in steps(), bits in 0..8u32) {
        run(&numbers(25, bits, Hash64), steps, false);
    }

    #[test]
    fn table_with_one_chain_agrees_with_map(steps in steps()) {
        run(&numbers(25, 3, Zero), steps, false);
    }

    #[test]
    fn table_that_evicts_returns_only_what_was_put(
        steps in steps(), bits in 0..4u32, capacity in 1..8u32
    ) {
        run(&numbers(capacity, bits, Hash64), steps, true);
    }
}

#[test]
fn clock_referenced_entry_survives_one_turn() {
    let table = numbers(4, 2, Hash64);
    (0..4).for_each(|key| put(&table, key, key));
    assert_eq!(value(&table, 2), Some(2));
    let turn = || table.arena.scan(4, |index, _| table.unlink(index));
    assert_eq!(turn(), 3, "all unreferenced entries are evicted");
    assert!(table.contains(&2));
    assert_eq!(turn(), 1, "the entry was not referenced again");
    assert!(!table.contains(&2));
    check(&table);
}

#[test]
fn clock_pinned_entry_survives_every_turn() {
    let table = numbers(2, 1, Hash64);
    put(&table, 7, 70);
    put(&table, 8, 80);
    let pin = table.get(&7);
    assert!(matches!(pin, Some(Found::Pinned(..))));
    for turn in 0..3 {
        let freed = table.arena.scan(2, |index, _| table.unlink(index));
        assert_eq!(freed, u32::from(turn == 0), "turn {turn}");
    }
    assert!(table.contains(&7));
    drop(pin);
    check(&table);
}

#[test]
fn allocation_with_every_entry_pinned_returns_none() {
    let table = numbers(2, 1, Hash64);
    put(&table, 7, 70);
    put(&table, 8, 80);
    let pins = (table.get(&7), table.get(&8));
    assert!(table.allocate().is_none());
    drop(pins);
    assert!(table.allocate().is_some());
}

#[test]
fn get_counts_hits_misses_and_links() {
    let table = numbers(8, 0, Zero);
    (0..3).for_each(|key| put(&table, key, key));
    // The entry that was inserted last is the first in the chain.
    assert!(value(&table, 0).is_some());
    assert!(value(&table, 2).is_some());
    assert!(value(&table, 9).is_none());
    assert!(table.get(&1).is_some());
    let expected = Counts {
        hits: 3,
        misses: 1,
        links_on_hits: 3 + 1 + 2,
        links_on_misses: 3,
    };
    assert_eq!(table.counts(), expected);
    assert_eq!(table.histogram().longest_chain(), 3);
}

#[test]
fn counts_of_more_threads_than_shards_are_complete() {
    let table = numbers(8, 0, Zero);
    put(&table, 1, 1);
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| (0..1000).for_each(|_| assert!(value(&table, 1).is_some())));
        }
    });
    assert_eq!(table.counts().hits, 100_000);
}

/// A source of memory that never runs out.
struct Plenty;

impl Charge for Plenty {
    fn charge(&self) -> bool {
        true
    }

    fn uncharge(&self) {}
}

#[test]
fn returned_slot_starts_above_its_earlier_generations() {
    let growth = Growth::Charged {
        chunk: 2,
        charge: Arc::new(Plenty),
    };
    let arena: Arena<2> = Arena::new(100, growth).unwrap();
    let take_four = || [(); 4].map(|()| arena.take_free().expect("a slot"));
    let generation = |index| arena.slot(index).state().generation();
    let mut before = 0;
    for round in 0..4 {
        // In each round the slots are reused once more.
        (0..=round).for_each(|_| drop(take_four()));
        let highest = (0..4).map(generation).max();
        drop(take_four());
        assert_eq!(arena.give_back(1, |_, _| panic!("all are free")), 1);
        assert_eq!((arena.touched(), generation(2), generation(3)), (2, 0, 0));
        drop(take_four());
        for index in [2, 3] {
            assert!(Some(generation(index)) > highest && generation(index) > before);
        }
        before = generation(2);
    }
    assert_eq!(arena.give_back(9, |_, _| panic!("all are free")), 1);
    assert_eq!(arena.give_back(9, |_, _| false), 0, "the first chunk stays");
    assert_eq!(arena.count_free(), 2);
}

#[test]
fn only_chunks_after_the_last_used_slot_are_given_back() {
    for (in_use, given) in [(19, 0), (18, 0), (9, 5), (1, 9)] {
        let growth = Growth::Charged {
            chunk: 2,
            charge: Arc::new(Plenty),
        };
        let arena: Arena<2> = Arena::new(20, growth).unwrap();
        let mut taken: Vec<_> = std::iter::from_fn(|| arena.take_free()).collect();
        taken.sort_by_key(Vacant::index);
        let held = taken.remove(in_use);
        drop(taken);
        assert_eq!(arena.give_back(9, |_, _| panic!("all are free")), given);
        if given == 0 {
            // The slot that was freed last is allocated first: the free list is unchanged.
            let left = std::iter::from_fn(|| arena.take_free()).map(Vacant::into_index);
            assert!(left.eq((0..20).rev().filter(|&index| index != held.index())));
        }
    }
}

/// A source without memory.
pub(crate) struct NoMemory;

impl Charge for NoMemory {
    fn charge(&self) -> bool {
        false
    }

    fn uncharge(&self) {}
}

#[test]
fn slots_are_taken_in_order() {
    let arena: Arena<2> = Arena::new(200, Growth::Prepaid).unwrap();
    let taken = [(); 200].map(|()| arena.take_free().expect("a slot"));
    assert!(taken.iter().map(Vacant::index).eq(0..200));
}

#[test]
fn slots_freed_by_another_thread_are_taken_and_returned() {
    let growth = Growth::Charged {
        chunk: 100,
        charge: Arc::new(Plenty),
    };
    let arena: Arena<2> = Arena::new(200, growth).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| drop([(); 200].map(|()| arena.take_free().expect("a slot"))));
    });
    let taken = [(); 200].map(|()| arena.take_free().expect("a slot"));
    assert_eq!((arena.touched(), arena.count_free()), (200, 0));
    std::thread::scope(|scope| {
        scope.spawn(|| drop(taken));
    });
    assert_eq!(arena.give_back(1, |_, _| panic!("all are free")), 1);
    assert_eq!((arena.touched(), arena.count_free()), (100, 100));
}

#[test]
fn slots_freed_by_another_thread_are_used_before_untouched_slots() {
    let arena: Arena<2> = Arena::new(1000, Growth::Prepaid).unwrap();
    let take = || drop([(); 100].map(|()| arena.take_free().expect("a slot")));
    take();
    let touched = arena.touched();
    std::thread::scope(|scope| {
        scope.spawn(take);
    });
    assert_eq!(arena.touched(), touched);
}

#[test]
fn arena_without_more_memory_reuses_its_slots() {
    let refuse = Growth::Charged {
        chunk: 3,
        charge: Arc::new(NoMemory),
    };
    let arena = Arena::new(100, refuse).unwrap();
    let table: Numbers<Hash64> = Table::new(Arc::new(arena), 4, 0, Hash64).unwrap();
    (0..50).for_each(|key| put(&table, key, key));
    assert_eq!(table.arena().touched(), 3);
    assert_eq!(table.objects(), 3);
    check(&table);
}
