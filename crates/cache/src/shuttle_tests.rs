//! Models of the concurrent parts, run under many interleavings:
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p larder-cache --lib shuttle
//! ```
//!
//! A failure prints the schedule that led to it, for `shuttle::replay`.

use crate::frame::{Frames, FramesConfig};
use crate::page::{Entry, Lock, PageCache, PageKey};
use crate::sync::{AtomicU32, Relaxed};
use crate::table::{Arena, Found, Growth, HashFunction, Inserted, Layout, Slot, Table, Vacant};
use std::sync::Arc;

/// Interleavings tried of each model, chosen at random and again by priorities.
const SCHEDULES: usize = 10_000;

pub(crate) fn check(model: fn()) {
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

/// The key in the first word, its image in the second.
#[derive(Debug)]
struct Number;

impl Layout<2> for Number {
    type Key<'k> = u64;
    type Hashed = u64;

    fn hashed(key: &u64) -> u64 {
        *key
    }

    fn hashed_in(slot: &Slot<2>) -> u64 {
        slot.word(0)
    }

    fn matches(key: &u64, slot: &Slot<2>) -> bool {
        slot.word(0) == *key
    }

    fn store(key: &u64, slot: &Slot<2>) {
        slot.set_word(0, *key);
    }
}

/// Two buckets: even and odd.
#[derive(Debug)]
struct Parity;

impl HashFunction<u64> for Parity {
    fn bucket(&self, value: u64, _: u32) -> u32 {
        u32::from(value % 2 == 1)
    }
}

type Numbers = Table<Number, Parity, 2>;

/// What belongs to `key`, so that a mixture of two entries shows.
fn image(key: u64) -> u64 {
    !key
}

fn numbers(capacity: u32, keys: &[u64]) -> Arc<Numbers> {
    let arena = Arc::new(Arena::new(capacity, Growth::Prepaid).unwrap());
    let table = Table::new(arena, 1, 0, Parity).unwrap();
    keys.iter().for_each(|key| put(&table, *key));
    Arc::new(table)
}

fn put(table: &Numbers, key: u64) {
    if let Some(vacant) = table.take() {
        table.replace(&key, vacant, |slot| slot.set_word(1, image(key)));
    }
}

fn copy(table: &Numbers, key: u64) -> Option<u64> {
    let found = table.copy(&key, |slot| (slot.word(0), slot.word(1)));
    found.map(|(found, value)| {
        assert_eq!((found, value), (key, image(key)), "one whole entry");
        value
    })
}

fn finish(table: &Numbers) {
    table.check_invariants(|a, b| a.word(0) == b.word(0));
    let used = table.objects() + u64::from(table.arena().count_free());
    assert_eq!(used, u64::from(table.arena().touched()), "no slot is lost");
}

/// Runs both at once, and then checks the table.
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
        // 2 stays at the end of its chain; slots before it come and go, and
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
fn shuttle_copy_of_a_reused_slot_is_whole() {
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
                        assert_eq!(pin.slot().word(1), image(key));
                    }
                }
            },
        );
    });
}

#[test]
fn shuttle_key_inserted_by_two_is_in_the_table_once() {
    fn insert(table: &Numbers) {
        for key in [2, 4] {
            let Some(vacant) = table.take() else { continue };
            let fill = |slot: &Slot<2>| slot.set_word(1, image(key));
            match table.get_or_insert(&key, vacant, 0, fill) {
                Inserted::New(_) => {}
                Inserted::Existing(Found::Pinned(pin, _)) => {
                    assert_eq!(pin.slot().word(1), image(key));
                }
                Inserted::Existing(other) => panic!("{other:?}"),
            }
        }
    }
    check(|| race(&numbers(4, &[]), insert, insert));
    // So small that they evict each other's.
    check(|| race(&numbers(2, &[6]), insert, insert));
}

#[test]
fn shuttle_hands_of_two_do_not_take_the_same_slot() {
    fn churn(table: &Numbers) {
        for key in [2, 3, 4] {
            put(table, key);
            copy(table, key);
        }
    }
    check(|| race(&numbers(2, &[]), churn, churn));
}

#[test]
fn shuttle_free_slot_is_taken_by_one() {
    check(|| {
        let arena: Arc<Arena<2>> = Arc::new(Arena::new(3, Growth::Prepaid).unwrap());
        drop([(); 3].map(|()| arena.take_free()));
        let theirs = Arc::clone(&arena);
        let thread = shuttle::thread::spawn(move || {
            let (first, second) = (theirs.take_free(), theirs.take_free());
            // Puts the first on top again, and leaves the second out.
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
fn shuttle_free_slot_is_found_whichever_list_it_comes_to() {
    check(|| {
        let arena: Arc<Arena<2>> = Arc::new(Arena::new(3, Growth::Prepaid).unwrap());
        // All on the list of this thread; each takes to its own what it took.
        drop([(); 3].map(|()| arena.take_free()));
        let threads = [(); 2].map(|()| {
            let theirs = Arc::clone(&arena);
            shuttle::thread::spawn(move || {
                (0..2).for_each(|_| drop(theirs.take_free().expect("each has one at most")));
            })
        });
        (0..2).for_each(|_| drop(arena.take_free().expect("each has one at most")));
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(arena.count_free(), 3);
    });
}

fn cache_of(frames: u32) -> PageCache {
    let config = FramesConfig::of_pages(4096, frames, 0);
    PageCache::new(Arc::new(Frames::new(&config).unwrap()))
}

fn key(index: u64) -> PageKey {
    PageKey { ino: 12, index }
}

fn fill(page: &mut [u8], index: u64) {
    page[0] = u8::try_from(index).unwrap();
    shuttle::thread::yield_now();
    page[4095] = page[0];
}

fn check_bytes(page: &[u8], index: u64) {
    assert_eq!(u64::from(page[0]), index);
    shuttle::thread::yield_now();
    assert_eq!(u64::from(page[4095]), index);
}

/// Reads page `index`; the first `failures` reads of the device fail. Returns
/// whether it was this thread that read it.
fn read(pages: &PageCache, index: u64, failures: &AtomicU32) -> bool {
    loop {
        if let Some(page) = pages.get(key(index)) {
            check_bytes(&page, index);
            return false;
        }
        match pages.get_or_insert(key(index)) {
            Entry::Uptodate(page) => {
                check_bytes(&page, index);
                return false;
            }
            Entry::Busy(wait) => {
                if let Some(page) = wait.wait() {
                    check_bytes(&page, index);
                    return false;
                }
            }
            Entry::New(mut page) => {
                fill(&mut page, index);
                let failed = failures.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
                if failed.is_err() {
                    check_bytes(&pages.complete(page), index);
                    return true;
                }
            }
            Entry::Full => return false,
        }
    }
}

/// Reads `indexes` in each of three threads; returns how often the device was
/// read to the end. Each may hold a frame that it finds it does not need.
fn read_by_three(frames: u32, indexes: &'static [u64], failures: u32) -> usize {
    let pages = cache_of(frames);
    let failures = Arc::new(AtomicU32::new(failures));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (pages, failures) = (pages.clone(), Arc::clone(&failures));
            shuttle::thread::spawn(move || {
                let reads = indexes
                    .iter()
                    .filter(|index| read(&pages, **index, &failures));
                reads.count()
            })
        })
        .collect();
    let reads = threads.into_iter().map(|t| t.join().unwrap()).sum();
    pages.frames().check_invariants();
    reads
}

#[test]
fn shuttle_page_asked_for_by_three_is_read_once() {
    check(|| assert_eq!(read_by_three(4, &[1], 0), 1));
}

#[test]
fn shuttle_page_whose_read_fails_is_read_by_a_waiter() {
    check(|| assert_eq!(read_by_three(4, &[1], 2), 1));
}

#[test]
fn shuttle_pinned_page_is_not_evicted() {
    check(|| {
        read_by_three(1, &[1, 2], 0);
    });
    check(|| {
        read_by_three(2, &[1, 2, 3], 1);
    });
}

/// What becomes of a page that two others want, and which carries the marker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Succeeds,
    Fails,
}

/// Asks for page 1 as a reader does; says whether this thread took its marker.
fn take_marker(pages: &PageCache) -> bool {
    match pages.get_or_insert(key(1)) {
        Entry::Uptodate(page) => page.take_marker(),
        Entry::Busy(wait) => {
            wait.take_marker() || wait.wait().is_some_and(|page| page.take_marker())
        }
        Entry::New(_) | Entry::Full => false,
    }
}

/// Fills page 1, with two who want it. If that fails, page 2 takes the frame, with a marker of
/// its own that is nobody else's.
fn race_for_marker(frames: u32, reading: Reading) {
    let pages = cache_of(frames);
    let mut page = pages.insert_absent(key(1)).unwrap();
    page.set_marker();
    let takers: Vec<_> = (0..2)
        .map(|_| {
            let pages = pages.clone();
            shuttle::thread::spawn(move || take_marker(&pages))
        })
        .collect();
    fill(&mut page, 1);
    let next = match reading {
        Reading::Succeeds => {
            page.complete();
            None
        }
        Reading::Fails => {
            drop(page);
            pages.insert_absent(key(2)).map(|mut next| {
                next.set_marker();
                shuttle::thread::yield_now();
                pages.complete(next)
            })
        }
    };
    let taken = takers.into_iter().map(|t| t.join().unwrap());
    let taken = taken.filter(|taken| *taken).count();
    match reading {
        Reading::Succeeds => assert_eq!(taken, 1),
        Reading::Fails => assert!(taken <= 1),
    }
    assert!(next.is_none_or(|next| next.take_marker()));
    pages.frames().check_invariants();
}

#[test]
fn shuttle_marker_of_a_page_in_flight_is_taken_once() {
    check(|| race_for_marker(3, Reading::Succeeds));
}

#[test]
fn shuttle_marker_of_a_page_whose_read_fails_is_no_other_pages() {
    check(|| race_for_marker(1, Reading::Fails));
    check(|| race_for_marker(3, Reading::Fails));
}

/// Makes page `index` and dirties it; false if there is no room for it.
fn make_dirty(pages: &PageCache, index: u64) -> bool {
    let Some(mut page) = pages.insert_absent(key(index)) else {
        return false;
    };
    fill(&mut page, index);
    pages.complete(page).set_dirty();
    true
}

#[test]
fn shuttle_dirty_page_stays_until_one_cleans_it() {
    fn churn(pages: &PageCache) {
        for index in [3, 4] {
            if let Some(page) = pages.insert_absent(key(index)) {
                page.complete();
            }
        }
    }
    check(|| {
        let pages = cache_of(3);
        let (theirs, hand) = (pages.clone(), pages.clone());
        // Cleans page 1, whose frame may be another's by then.
        let cleaner = shuttle::thread::spawn(move || {
            let has_cleaned = theirs.set_clean(key(1));
            theirs.remove(key(1));
            has_cleaned
        });
        let hand = shuttle::thread::spawn(move || churn(&hand));
        let is_made = make_dirty(&pages, 1);
        let has_cleaned = pages.set_clean(key(1));
        let is_other_made = make_dirty(&pages, 2);
        shuttle::thread::yield_now();
        let cleaned_by_other = cleaner.join().unwrap();
        hand.join().unwrap();
        let times_cleaned = u32::from(has_cleaned) + u32::from(cleaned_by_other);
        assert_eq!(times_cleaned, u32::from(is_made), "dirtied once");
        pages.frames().check_invariants();
        assert_eq!(pages.set_clean(key(2)), is_other_made, "nobody else's");
        assert!(!is_other_made || pages.remove(key(2)));
        pages.frames().check_invariants();
    });
}

/// Makes all of page 1 say `value`, in two steps; false if it is not here.
fn change(pages: &PageCache, value: u64) -> bool {
    loop {
        match pages.lock(key(1)) {
            Lock::Locked(mut page) => {
                fill(&mut page, value);
                page.set_dirty();
                return true;
            }
            Lock::Busy(wait) => drop(wait.wait()),
            Lock::Absent => return false,
        }
    }
}

#[test]
fn shuttle_page_that_is_changed_is_seen_before_or_after() {
    fn look(pages: &PageCache) {
        for _ in 0..2 {
            if let Some(page) = pages.get(key(1)) {
                check_bytes(&page, page[0].into());
            }
        }
    }
    check(|| {
        let pages = cache_of(2);
        assert!(make_dirty(&pages, 1));
        let others: Vec<_> = [look, look, |pages: &PageCache| assert!(change(pages, 5))]
            .map(|other| {
                let theirs = pages.clone();
                shuttle::thread::spawn(move || other(&theirs))
            })
            .into();
        assert!(change(&pages, 7));
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(
            pages
                .get(key(1))
                .is_some_and(|page| page[0] == 5 || page[0] == 7)
        );
        pages.frames().check_invariants();
    });
}

#[test]
fn shuttle_page_that_is_discarded_is_gone_whoever_changes_or_evicts_it() {
    check(|| {
        let pages = cache_of(2);
        assert!(make_dirty(&pages, 1));
        let (writer, hand) = (pages.clone(), pages.clone());
        let writer = shuttle::thread::spawn(move || change(&writer, 5));
        let hand = shuttle::thread::spawn(move || {
            for index in [3, 4] {
                if let Some(page) = hand.insert_absent(key(index)) {
                    page.complete();
                }
            }
        });
        pages.set_clean(key(1));
        pages.discard_range(key(1).ino, 1..2);
        let is_changed = writer.join().unwrap();
        hand.join().unwrap();
        let is_here = pages.get(key(1)).is_some();
        assert!(is_changed || !is_here, "nobody brought it back");
        pages.frames().check_invariants();
    });
}
