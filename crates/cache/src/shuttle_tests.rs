//! Tests of pages under the model checker, which tries many interleavings of threads. Other modules have
//! such tests of their own. To run all of them:
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p larder-cache --lib shuttle
//! ```
//!
//! A failure prints the schedule that led to it, for `shuttle::replay`.

use crate::hash::HashKey;
use crate::page::{Entry, Frames, FramesConfig, Lock, PageCache, PageKey};
use crate::sync::{AtomicU32, Relaxed};
use crate::tape::{Event, Operation, Tape};
use std::collections::HashSet;
use std::sync::Arc;

/// The number of random interleavings of each test. The same number is tried with random priorities.
const SCHEDULES: usize = 10_000;

pub(crate) fn check(model: fn()) {
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

/// A tape that checks that insertions and removals of each key alternate.
#[derive(Debug, Default)]
pub(crate) struct CheckingTape(std::sync::Mutex<HashSet<HashKey>>);

impl Tape for CheckingTape {
    fn record(&self, event: Event) {
        let mut present = self.0.lock().unwrap();
        match event.operation {
            Operation::Lookup { .. } => {}
            Operation::Insert => assert!(present.insert(event.key), "{event:?}: inserted twice"),
            Operation::Remove | Operation::Evict => {
                assert!(present.remove(&event.key), "{event:?}: not inserted before")
            }
        }
    }
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

/// Reads page `index`. The first `failures` reads of the device fail. Returns true if this thread read
/// the page.
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
                if let Some(page) = wait.wait(None).unwrap() {
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

/// Reads `indexes` in each of three threads. Returns the number of successful device reads. Each thread
/// may allocate a frame that it then does not need.
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
fn shuttle_page_read_by_three_threads_is_read_once() {
    check(|| assert_eq!(read_by_three(4, &[1], 0), 1));
}

#[test]
fn shuttle_page_of_failed_read_is_read_by_a_waiter() {
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

/// The result of the read of a marked page for which two other threads wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Succeeds,
    Fails,
}

/// Requests page 1 as a reader does. Returns true if this thread took the page's marker.
fn take_marker(pages: &PageCache) -> bool {
    match pages.get_or_insert(key(1)) {
        Entry::Uptodate(page) => page.take_marker(),
        Entry::Busy(wait) => {
            wait.take_marker()
                || wait
                    .wait(None)
                    .unwrap()
                    .is_some_and(|page| page.take_marker())
        }
        Entry::New(_) | Entry::Full => false,
    }
}

/// Fills page 1, for which two threads wait. If the read fails, page 2 may reuse the frame. Page 2 has a
/// marker of its own, which must not be treated as the marker of page 1.
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
fn shuttle_marker_of_failed_page_is_not_passed_to_another() {
    check(|| race_for_marker(1, Reading::Fails));
    check(|| race_for_marker(3, Reading::Fails));
}

#[test]
fn shuttle_failed_insertion_of_a_page_is_not_its_first_use() {
    fn read_ahead(pages: &PageCache) {
        if let Some(mut page) = pages.insert_absent(key(1)) {
            page.set_readahead();
            page.complete();
        }
    }
    check(|| {
        let pages = cache_of(3);
        let theirs = pages.clone();
        let other = shuttle::thread::spawn(move || read_ahead(&theirs));
        read_ahead(&pages);
        other.join().unwrap();
        assert!(pages.get(key(1)).is_some());
        let counts = pages.readahead_counts();
        assert_eq!((counts.pages_ahead, counts.pages_used), (1, 1));
    });
}

/// Creates page `index` and makes it dirty. Returns false if there is no room for it.
fn make_dirty(pages: &PageCache, index: u64) -> bool {
    let Some(mut page) = pages.insert_absent(key(index)) else {
        return false;
    };
    fill(&mut page, index);
    pages.complete(page).set_dirty();
    true
}

#[test]
fn shuttle_dirty_page_stays_until_it_is_cleaned() {
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
        // Cleans page 1, whose frame may belong to another page by then.
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
        assert_eq!(
            pages.set_clean(key(2)),
            is_other_made,
            "page 2 is dirty if it was created"
        );
        assert!(!is_other_made || pages.remove(key(2)));
        pages.frames().check_invariants();
    });
}

/// Fills page 1 with `value`, in two steps. Returns false if it is not cached.
fn change(pages: &PageCache, value: u64) -> bool {
    loop {
        match pages.lock(key(1), || false) {
            Lock::Locked(mut page) => {
                fill(&mut page, value);
                page.set_dirty();
                return true;
            }
            Lock::Busy(wait) => drop(wait.wait(None)),
            Lock::Pinned => unreachable!("never given up"),
            Lock::Absent => return false,
        }
    }
}

#[test]
fn shuttle_changed_page_is_seen_old_or_new() {
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
fn shuttle_discarded_page_is_absent_despite_concurrent_change_or_eviction() {
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
        assert!(is_changed || !is_here, "the discarded page is cached again");
        pages.frames().check_invariants();
    });
}
