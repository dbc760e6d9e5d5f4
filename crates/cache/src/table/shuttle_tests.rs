//! Tests of the table under the model checker: concurrent lookups, insertions and evictions.

use super::number::Number;
use super::*;
use crate::shuttle_tests::{CheckingTape, check};

/// A hash function with two buckets, for even and for odd numbers.
#[derive(Debug)]
struct Parity;

impl HashFunction<u64> for Parity {
    fn bucket(&self, value: u64, _: u32) -> u32 {
        u32::from(value % 2 == 1)
    }
}

type Numbers = Table<Number, Parity, 2>;

/// Returns the value that the tests store for `key`. It depends on the key, so that a mixture of
/// two entries is detected.
fn value_of(key: u64) -> u64 {
    !key
}

fn numbers(capacity: u32, keys: &[u64]) -> Arc<Numbers> {
    let arena = Arc::new(Arena::new(capacity, Growth::Prepaid).unwrap());
    let table = Table::new(arena, 1, 0, Parity).unwrap();
    table.set_tape(Arc::new(CheckingTape::default()), CacheKind::Inode);
    keys.iter().for_each(|key| put(&table, *key));
    Arc::new(table)
}

fn put(table: &Numbers, key: u64) {
    if let Some(vacant) = table.allocate() {
        table.replace(&key, vacant, |slot| slot.set_word(1, value_of(key)));
    }
}

fn copy(table: &Numbers, key: u64) -> Option<u64> {
    let found = table.copy(&key, |slot| (slot.word(0), slot.word(1)));
    found.map(|(found, value)| {
        assert_eq!((found, value), (key, value_of(key)), "one whole entry");
        value
    })
}

/// Inserts two entries, unless they exist.
fn insert(table: &Numbers) {
    for key in [2, 4] {
        let Some(vacant) = table.allocate() else {
            continue;
        };
        let fill = |slot: &Slot<2>| slot.set_word(1, value_of(key));
        match table.get_or_insert(&key, vacant, 0, fill) {
            Inserted::New(_) => {}
            Inserted::Existing(Found::Pinned(pin, _)) => {
                assert_eq!(pin.slot().word(1), value_of(key));
            }
            Inserted::Existing(other) => panic!("{other:?}"),
        }
    }
}

fn finish(table: &Numbers) {
    table.check_invariants(|a, b| a.word(0) == b.word(0));
    let used = table.objects() + u64::from(table.arena().count_free());
    assert_eq!(used, u64::from(table.arena().touched()), "no slot is lost");
}

/// Runs both functions concurrently, and then checks the table.
fn race(table: &Arc<Numbers>, one: fn(&Numbers), other: fn(&Numbers)) {
    let theirs = Arc::clone(table);
    let thread = shuttle::thread::spawn(move || one(&theirs));
    other(table);
    thread.join().unwrap();
    finish(table);
}

#[test]
fn shuttle_entry_that_stays_is_found_while_its_chain_changes() {
    check(|| {
        // The entry 2 stays at the end of its chain. Slots before it are inserted and removed, and
        // move to the other chain and back.
        race(
            &numbers(3, &[2, 4, 6]),
            |table| {
                table.remove(&4);
                put(table, 5);
                table.remove(&6);
                put(table, 8);
                table.remove(&5);
                put(table, 4);
            },
            |table| {
                for _ in 0..2 {
                    assert!(copy(table, 2).is_some(), "2 was never removed");
                    assert!(matches!(table.get(&2), Some(Found::Pinned(..))));
                    assert!(table.contains(&2));
                }
            },
        );
    });
}

#[test]
fn shuttle_copy_of_a_reused_slot_is_consistent() {
    check(|| {
        race(
            &numbers(1, &[2]),
            |table| {
                table.remove(&2);
                put(table, 4);
                table.remove(&4);
                put(table, 2);
            },
            |table| {
                copy(table, 2);
                copy(table, 4);
                copy(table, 2);
            },
        );
    });
}

#[test]
fn shuttle_replaced_entry_is_always_found() {
    check(|| {
        race(
            &numbers(3, &[2]),
            |table| {
                put(table, 2);
                put(table, 2);
            },
            |table| {
                assert!(copy(table, 2).is_some());
                assert!(copy(table, 2).is_some());
            },
        );
    });
}

#[test]
fn shuttle_replaced_entry_that_moves_to_the_front_is_always_found() {
    fn look_up(table: &Numbers) {
        assert!(copy(table, 2).is_some());
        assert!(copy(table, 2).is_some());
    }
    // Entry 2 moves to the front after a reader has passed the front.
    check(|| race(&numbers(4, &[2, 4]), |table| put(table, 2), look_up));
    // While the reader is at the slot of entry 4, the slot is reused for entry 2 at the front.
    check(|| {
        race(
            &numbers(2, &[2, 4]),
            |table| {
                table.remove(&4);
                put(table, 2);
            },
            look_up,
        );
    });
}

#[test]
fn shuttle_reinsertion_during_eviction_reports_the_removal_first() {
    fn evict(table: &Numbers) {
        table.scan(2, |_| {});
    }
    fn insert_absent(table: &Numbers) {
        let vacant = table.allocate().expect("two of the four slots are free");
        table.insert_absent(&2, vacant, 0, 9, |_| {});
    }
    check(|| race(&numbers(4, &[2, 4]), evict, |table| put(table, 2)));
    check(|| race(&numbers(4, &[2, 4]), evict, insert));
    check(|| race(&numbers(4, &[2, 4]), evict, insert_absent));
}

#[test]
fn shuttle_pinned_entry_is_not_reused() {
    check(|| {
        race(
            &numbers(2, &[2, 3]),
            |table| {
                put(table, 4);
                put(table, 5);
                table.remove(&2);
            },
            |table| {
                for key in [2, 4] {
                    if let Some(Found::Pinned(pin, _)) = table.get(&key) {
                        assert_eq!(pin.slot().word(0), key);
                        shuttle::thread::yield_now();
                        assert_eq!(pin.slot().word(1), value_of(key));
                    }
                }
            },
        );
    });
}

#[test]
fn shuttle_key_inserted_by_two_threads_is_in_the_table_once() {
    check(|| race(&numbers(4, &[]), insert, insert));
    // The arena is so small that each thread evicts entries of the other.
    check(|| race(&numbers(2, &[6]), insert, insert));
}

#[test]
fn shuttle_concurrent_scans_do_not_take_the_same_slot() {
    fn churn(table: &Numbers) {
        for key in [2, 3, 4] {
            put(table, key);
            copy(table, key);
        }
    }
    check(|| race(&numbers(2, &[]), churn, churn));
}

#[test]
fn shuttle_free_slot_is_taken_by_one_thread() {
    check(|| {
        let arena: Arc<Arena<2>> = Arc::new(Arena::new(3, Growth::Prepaid).unwrap());
        drop([(); 3].map(|()| arena.take_free()));
        let theirs = Arc::clone(&arena);
        let thread = shuttle::thread::spawn(move || {
            let (first, second) = (theirs.take_free(), theirs.take_free());
            // The first slot is then on top of the list again, and the second is not on the list.
            drop(first);
            second.map(Vacant::into_index)
        });
        let mine = arena.take_free().map(Vacant::into_index);
        let second = thread.join().unwrap();
        assert!(mine.is_some() && second.is_some() && mine != second);
        let left = arena.take_free().map(Vacant::into_index);
        assert!(left.is_some() && left != mine && left != second);
    });
}

#[test]
fn shuttle_free_slot_is_found_on_any_list() {
    check(|| {
        let arena: Arc<Arena<2>> = Arc::new(Arena::new(3, Growth::Prepaid).unwrap());
        // All slots are on the list of this thread; each thread frees to its own list.
        drop([(); 3].map(|()| arena.take_free()));
        let threads = [(); 2].map(|()| {
            let theirs = Arc::clone(&arena);
            shuttle::thread::spawn(move || {
                (0..2).for_each(|_| drop(theirs.take_free().expect("each has at most one")));
            })
        });
        (0..2).for_each(|_| drop(arena.take_free().expect("each has at most one")));
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(arena.count_free(), 3);
    });
}
