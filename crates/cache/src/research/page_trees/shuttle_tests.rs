//! Tests of the trees under the model checker: concurrent lookups, insertions and evictions.

use super::*;
use crate::page::PageIndex as _;
use crate::shuttle_tests::{CheckingTape, check};
use crate::table::Growth;

fn key(index: u64) -> PageKey {
    PageKey { ino: 12, index }
}

/// Creates trees with the given pages, whose roots are in one chain.
fn trees(frames: u32, indexes: &[u64]) -> Arc<PageTrees> {
    let arena = Arc::new(Arena::new(frames, Growth::Prepaid).unwrap());
    let trees = Arc::new(PageTrees::new(arena, 0).unwrap());
    trees.set_tape(Arc::new(CheckingTape::default()));
    indexes.iter().for_each(|index| put(&trees, key(*index)));
    trees
}

/// Inserts the page. If no slot is free, first moves the clock hand over all slots.
fn put(trees: &PageTrees, key: PageKey) {
    let vacant = trees.arena.take_free().or_else(|| {
        evict(trees);
        trees.arena.take_free()
    });
    if let Some(vacant) = vacant {
        trees.get_or_insert(&key, vacant, 0, |slot| slot.set_aux(1));
    }
}

/// Moves the clock hand over all slots.
fn evict(trees: &PageTrees) {
    trees
        .arena
        .scan(trees.arena.touched(), |index, _| trees.unlink(index));
}

/// Runs both functions concurrently, and then checks the trees.
fn race(trees: &Arc<PageTrees>, one: fn(&PageTrees), other: fn(&PageTrees)) {
    let theirs = Arc::clone(trees);
    let thread = shuttle::thread::spawn(move || one(&theirs));
    other(trees);
    thread.join().unwrap();
    trees.check_invariants();
    let used = trees.objects() + u64::from(trees.arena.count_free());
    assert_eq!(used, u64::from(trees.arena.touched()), "no slot is lost");
}

#[test]
fn shuttle_page_is_found_while_its_tree_rotates() {
    check(|| {
        race(
            &trees(6, &[4]),
            |trees| {
                // Each insertion rotates the tree. Then nodes are removed from all sides.
                [5, 6, 7].iter().for_each(|index| put(trees, key(*index)));
                assert!(trees.remove_entry(&key(6)).is_some());
                assert!(trees.remove_entry(&key(5)).is_some());
            },
            |trees| {
                for _ in 0..3 {
                    assert!(matches!(trees.get(&key(4)), Some(Found::Pinned(..))));
                }
            },
        );
    });
}

#[test]
fn shuttle_page_inserted_by_two_threads_is_in_its_tree_once() {
    fn put_both(trees: &PageTrees) {
        [1, 2].iter().for_each(|index| put(trees, key(*index)));
    }
    check(|| race(&trees(4, &[]), put_both, put_both));
    // The arena is so small that each thread evicts pages of the other.
    check(|| race(&trees(2, &[3]), put_both, put_both));
}

#[test]
fn shuttle_page_reinserted_during_eviction_keeps_its_tree_consistent() {
    check(|| {
        race(
            &trees(5, &[1, 2, 3]),
            |trees| evict(trees),
            |trees| {
                trees.remove_entry(&key(1));
                put(trees, key(2));
                put(trees, PageKey { ino: 13, index: 2 });
            },
        );
    });
}

#[test]
fn shuttle_pinned_page_is_not_evicted_from_its_tree() {
    check(|| {
        race(
            &trees(3, &[1, 2]),
            |trees| {
                evict(trees);
                put(trees, key(3));
                trees.remove_entry(&key(1));
            },
            |trees| {
                if let Some(Found::Pinned(pin, _)) = trees.get(&key(1)) {
                    shuttle::thread::yield_now();
                    assert_eq!(PageLayout::hash_input_in(pin.slot()), key(1));
                    assert!(pin.slot().state().has(State::LIVE));
                }
            },
        );
    });
}
