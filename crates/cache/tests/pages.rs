//! Tests of the page cache: the life cycle of its pages, its limits, and concurrent use.

use larder_block::MemoryDevice;
use larder_cache::Caches;
use larder_cache::budget::{BudgetConfig, Division};
use larder_cache::dentry::Dentry;
use larder_cache::inode::InodeCache;
use larder_cache::mbcache::Variant;
use larder_cache::page::{Entry, Frames, FramesConfig, Lock, NewPage, PageCache, PageKey};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};

fn cache_of(frames: u32) -> PageCache {
    let config = FramesConfig::of_pages(4096, frames, frames.ilog2());
    PageCache::new(Arc::new(Frames::new(&config).unwrap()))
}

fn key(index: u64) -> PageKey {
    PageKey { ino: 12, index }
}

fn new_page(pages: &PageCache, key: PageKey) -> NewPage {
    match pages.get_or_insert(key) {
        Entry::New(page) => page,
        other => panic!("{key:?} is not new: {other:?}"),
    }
}

/// Returns a byte that depends on all of the key.
fn byte_of(key: PageKey) -> u8 {
    let mixed = (key.ino << 32 ^ key.index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed.to_be_bytes()[0]
}

fn fill(pages: &PageCache, key: PageKey) {
    let mut page = new_page(pages, key);
    page.fill(byte_of(key));
    page.complete();
}

#[test]
fn page_completed_is_found_with_its_bytes() {
    let pages = cache_of(4);
    assert!(pages.get(key(1)).is_none());
    let mut page = new_page(&pages, key(1));
    assert!(pages.contains(key(1)));
    assert!(pages.get(key(1)).is_none(), "not before it is filled");
    page.fill(7);
    assert_eq!(pages.complete(page)[4095], 7);
    assert_eq!(pages.get(key(1)).unwrap()[0], 7);
    pages.frames().check_invariants();
}

#[test]
fn page_dropped_unfilled_can_be_read_again() {
    let pages = cache_of(4);
    drop(new_page(&pages, key(1)));
    assert!(!pages.contains(key(1)));
    fill(&pages, key(1));
    assert!(pages.get(key(1)).is_some());
    pages.frames().check_invariants();
}

#[test]
fn get_or_insert_with_all_pages_held_returns_full() {
    let pages = cache_of(2);
    fill(&pages, key(1));
    let pinned = pages.get(key(1));
    let filling = new_page(&pages, key(2));
    assert!(matches!(pages.get_or_insert(key(3)), Entry::Full));
    assert!(pages.insert_absent(key(3)).is_none());
    drop(pinned);
    assert!(matches!(pages.get_or_insert(key(3)), Entry::New(_)));
    drop(filling);
    pages.frames().check_invariants();
}

#[test]
fn cache_of_one_frame_keeps_the_last_page() {
    let pages = cache_of(1);
    for index in 0..10 {
        fill(&pages, key(index));
        assert_eq!(pages.get(key(index)).unwrap()[0], byte_of(key(index)));
        assert!(index == 0 || !pages.contains(key(index - 1)));
    }
    pages.frames().check_invariants();
}

#[test]
fn marker_is_taken_once() {
    let pages = cache_of(1);
    let mut page = new_page(&pages, key(1));
    page.set_marker();
    page.complete();
    let (a, b) = (pages.get(key(1)).unwrap(), pages.get(key(1)).unwrap());
    assert!(a.take_marker());
    assert!(!b.take_marker());
}

#[test]
fn marker_of_page_in_flight_is_taken_by_first_waiter() {
    let pages = cache_of(1);
    let mut page = new_page(&pages, key(1));
    page.set_marker();
    let waits: Vec<bool> = (0..2)
        .map(|_| match pages.get_or_insert(key(1)) {
            Entry::Busy(wait) => wait.take_marker(),
            other => panic!("not in flight: {other:?}"),
        })
        .collect();
    assert_eq!(waits, [true, false]);
    assert!(!pages.complete(page).take_marker());
}

#[test]
fn removal_of_any_range_spares_other_pages_and_files() {
    for range in [2..4, 2..u64::MAX] {
        let pages = cache_of(8);
        (0..5).for_each(|index| fill(&pages, key(index)));
        let other = PageKey { ino: 13, index: 3 };
        fill(&pages, other);
        let pin = pages.get(key(3));
        pages.remove_range(12, range.clone());
        let left: Vec<u64> = (0..5).filter(|index| pages.contains(key(*index))).collect();
        let expected: &[u64] = if range.end == 4 {
            &[0, 1, 3, 4]
        } else {
            &[0, 1, 3]
        };
        assert_eq!(left, expected, "{range:?}");
        assert!(pages.contains(other));
        drop(pin);
        pages.frames().check_invariants();
    }
}

#[test]
fn page_read_ahead_is_counted_as_used_or_wasted_once() {
    let pages = cache_of(2);
    for index in 0..2 {
        let mut page = pages.insert_absent(key(index)).unwrap();
        page.set_readahead();
        page.complete();
    }
    for _ in 0..3 {
        assert!(pages.get(key(0)).is_some());
    }
    fill(&pages, key(2));
    fill(&pages, key(3));
    let counts = pages.readahead_counts();
    assert_eq!(
        (counts.pages_ahead, counts.pages_used, counts.pages_wasted),
        (2, 1, 1)
    );
}

#[test]
fn page_read_ahead_and_used_once_is_evicted_before_one_used_twice() {
    let pages = cache_of(2);
    for index in 0..2 {
        let mut page = pages.insert_absent(key(index)).unwrap();
        page.set_readahead();
        page.complete();
        assert!(pages.get(key(index)).is_some());
    }
    assert!(pages.get(key(0)).is_some());
    fill(&pages, key(2));
    assert!(pages.contains(key(0)) && !pages.contains(key(1)));
}

#[test]
fn page_wanted_and_used_once_is_evicted_before_one_used_twice() {
    let pages = cache_of(2);
    for index in 0..2 {
        let mut page = new_page(&pages, key(index));
        page.set_wanted();
        page.complete();
        assert!(pages.get(key(index)).is_some());
    }
    assert!(pages.get(key(0)).is_some());
    fill(&pages, key(2));
    assert!(pages.contains(key(0)) && !pages.contains(key(1)));
    assert_eq!(pages.readahead_counts().pages_ahead, 0);
}

#[test]
fn page_read_ahead_and_removed_is_wasted_unless_it_was_used() {
    for remove in [PageCache::remove_range, PageCache::discard_range] {
        let pages = cache_of(2);
        for index in 0..2 {
            let mut page = pages.insert_absent(key(index)).unwrap();
            page.set_readahead();
            page.complete();
        }
        assert!(pages.get(key(0)).is_some());
        remove(&pages, 12, 0..2);
        assert!(!pages.contains(key(0)) && !pages.contains(key(1)));
        let counts = pages.readahead_counts();
        assert_eq!((counts.pages_used, counts.pages_wasted), (1, 1));
    }
}

#[test]
fn dirty_page_stays_until_it_is_clean() {
    let pages = cache_of(2);
    pages.complete(new_page(&pages, key(1))).set_dirty();
    fill(&pages, key(2));
    fill(&pages, key(3));
    assert!(pages.contains(key(1)) && !pages.contains(key(2)));
    assert!(!pages.remove(key(1)));
    assert!(pages.set_clean(key(1)));
    assert!(!pages.set_clean(key(1)), "clean already");
    assert!(!pages.set_clean(key(2)), "not here");
    assert!(pages.remove(key(1)));
    pages.frames().check_invariants();
}

#[test]
fn pinned_page_is_not_removed_until_it_is_unpinned() {
    let pages = cache_of(2);
    fill(&pages, key(1));
    let pin = pages.get(key(1));
    assert!(!pages.remove(key(1)));
    drop(pin);
    assert!(pages.remove(key(1)));
    assert!(!pages.contains(key(1)));
    pages.frames().check_invariants();
}

#[test]
fn page_with_many_waiters_is_read_once() {
    // Room for four pages, and for the frame that each thread may hold during its second attempt.
    let pages = cache_of(16);
    let reads = AtomicU64::new(0);
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                for index in 0..1000 {
                    let index = index / 250;
                    read(&pages, key(index), |page| {
                        reads.fetch_add(1, Relaxed);
                        page.fill(byte_of(key(index)));
                        true
                    });
                }
            });
        }
    });
    assert_eq!(reads.into_inner(), 4);
    pages.frames().check_invariants();
}

/// Reads as a file system does, and checks every byte. `device` may fail.
fn read(pages: &PageCache, key: PageKey, device: impl Fn(&mut NewPage) -> bool) {
    let check = |bytes: &[u8]| {
        assert!(bytes.iter().all(|b| *b == byte_of(key)), "bytes of {key:?}");
    };
    loop {
        if let Some(page) = pages.get(key) {
            return check(&page);
        }
        match pages.get_or_insert(key) {
            Entry::Uptodate(page) => return check(&page),
            Entry::Busy(wait) => {
                if let Some(page) = wait.wait(None).unwrap() {
                    return check(&page);
                }
            }
            Entry::New(mut page) => {
                if device(&mut page) {
                    return check(&pages.complete(page));
                }
            }
            Entry::Full => return,
        }
    }
}

/// A pseudo-random sequence from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn eight_threads_on_a_tiny_pool_read_the_right_bytes() {
    const SEED: u64 = 0x1a2d_e201;
    println!("seed {SEED:#x}");
    for frames in [1, 2, 7, 16] {
        let pages = cache_of(frames);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let pages = &pages;
                scope.spawn(move || {
                    let mut random = Random(SEED + thread);
                    for _ in 0..4000 {
                        let key = PageKey {
                            ino: random.below(3),
                            index: random.below(12),
                        };
                        match random.below(8) {
                            0 => drop(pages.remove(key)),
                            1 => {
                                if let Some(mut page) = pages.insert_absent(key) {
                                    page.set_readahead();
                                    page.fill(byte_of(key));
                                    page.complete();
                                }
                            }
                            chance => {
                                // Some reads fail; the next attempt succeeds.
                                let failures = Cell::new(u32::from(chance == 2));
                                read(pages, key, |page| {
                                    page.fill(byte_of(key));
                                    failures.replace(0) == 0
                                });
                            }
                        }
                    }
                });
            }
        });
        pages.frames().check_invariants();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Fill(u64),
    Fail(u64),
    Get(u64),
    Remove(u64),
    Hold(u64),
    Release,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = 0..10u64;
    let step = prop_oneof![
        3 => index.clone().prop_map(Step::Fill),
        1 => index.clone().prop_map(Step::Fail),
        3 => index.clone().prop_map(Step::Get),
        1 => index.clone().prop_map(Step::Remove),
        1 => index.prop_map(Step::Hold),
        1 => Just(Step::Release),
    ];
    proptest::collection::vec(step, 1..100)
}

proptest! {
    #[test]
    fn pages_of_any_pool_agree_with_map(steps in steps(), frames in 1..12u32) {
        let pages = cache_of(frames);
        let mut map = BTreeMap::new();
        let mut held = Vec::new();
        for (stamp, step) in (0u64..).zip(steps) {
            match step {
                Step::Fill(index) => {
                    if let Entry::New(mut page) = pages.get_or_insert(key(index)) {
                        page[..8].copy_from_slice(&stamp.to_le_bytes());
                        map.insert(index, stamp);
                        page.complete();
                    }
                }
                Step::Fail(index) => drop(pages.insert_absent(key(index))),
                Step::Get(index) => {
                    if let Some(page) = pages.get(key(index)) {
                        prop_assert_eq!(&page[..8], &map[&index].to_le_bytes()[..]);
                    }
                }
                Step::Remove(index) => drop(pages.remove(key(index))),
                Step::Hold(index) => held.extend(pages.get(key(index)).map(|page| (index, page))),
                Step::Release => held.clear(),
            }
            for (index, page) in &held {
                prop_assert_eq!(&page[..8], &map[index].to_le_bytes()[..]);
                prop_assert!(pages.contains(key(*index)), "a held page stays");
            }
        }
        held.clear();
        pages.frames().check_invariants();
    }

    #[test]
    fn division_of_any_budget_stays_within_the_budget(
        budget_bytes in (256u64 << 10)..(1 << 40), block_bits in 10..17u32,
        variant in proptest::sample::select(&Variant::ALL)
    ) {
        let config = BudgetConfig {
            shared_blocks: variant,
            shared_inodes: variant,
            ..BudgetConfig::new(budget_bytes, 1 << block_bits)
        };
        let division = Division::new(&config, InodeCache::<20>::SLOT_BYTES);
        let frames = &division.frames;
        let arenas = [division.short_names, division.long_names, division.inodes];
        let shared = division.shared_blocks.iter().chain(&division.shared_inodes);
        let shared = shared.map(|shared| &shared.arena);
        let arenas: Vec<_> = arenas.iter().chain(shared).collect();
        let heads: usize = arenas.iter().map(|arena| arena.bucket_bytes << arena.bits).sum();
        let first_chunks = (arenas.len() * frames.frame_bytes) as u64;
        let bookkeeping = 32 * u64::from(frames.frames)
            + (4 << frames.page_bits)
            + (4 << frames.buffer_bits);
        let contents = frames.frame_bytes as u64 * u64::from(frames.frames);
        prop_assert!(frames.frames >= 1);
        prop_assert!(bookkeeping * 100 <= contents, "bookkeeping is at most 1%");
        if budget_bytes >= 2 << 20 || block_bits <= 12 {
            prop_assert!(heads as u64 + first_chunks + bookkeeping + contents <= budget_bytes);
        }
    }
}

#[test]
fn budget_of_any_size_works() {
    for budget_bytes in [1, 4096, 65536, 2 << 20, 16 << 20] {
        for block in [1024, 4096, 65536] {
            let device = Arc::new(MemoryDevice::new(vec![0; 1 << 20]));
            let caches: Caches =
                Caches::new(&BudgetConfig::new(budget_bytes, block), device).unwrap();
            for index in 0..2000 {
                read(&caches.pages, key(index), |page| {
                    page.fill(byte_of(key(index)));
                    true
                });
                let ino = u32::try_from(index).unwrap() + 1;
                let name = format!("a name {index}");
                let dentry = Dentry::Positive { ino, file_type: 1 };
                caches.dentries.insert(2, name.as_bytes(), dentry);
                caches.inodes.insert(ino, &[index; 20]);
                assert_eq!(caches.dentries.get(2, name.as_bytes()), Some(dentry));
                assert_eq!(caches.inodes.get(ino), Some([index; 20]));
            }
            caches.check_invariants();
        }
    }
}

#[test]
fn frames_returned_for_names_cover_their_memory() {
    let device = Arc::new(MemoryDevice::new(vec![0; 1 << 20]));
    let caches: Caches = Caches::new(&BudgetConfig::new(4 << 20, 4096), device).unwrap();
    let before = caches.pages.frames().capacity();
    for i in 0..100_000u32 {
        let name = i.to_string();
        caches.dentries.insert(2, name.as_bytes(), Dentry::Negative);
    }
    let slots = caches.dentries.stats().objects * 64;
    let returned_bytes = u64::from(before - caches.pages.frames().capacity()) * 4096;
    // The first chunk was charged from the start.
    assert!(
        returned_bytes + 4096 >= slots,
        "{returned_bytes} bytes for {slots}"
    );
    assert!(
        returned_bytes <= slots,
        "{returned_bytes} bytes for {slots}"
    );
    caches.check_invariants();
}

#[test]
fn lock_of_pinned_page_is_abandoned_on_request() {
    let device = Arc::new(MemoryDevice::new(vec![0; 1 << 20]));
    let caches: Caches = Caches::new(&BudgetConfig::new(2 << 20, 4096), device).unwrap();
    let pages = &caches.pages;
    read(pages, key(1), |page| {
        page.fill(byte_of(key(1)));
        true
    });
    let pinned = pages.get(key(1)).unwrap();
    let looks = std::cell::Cell::new(0);
    let lock = pages.lock(key(1), || {
        looks.set(looks.get() + 1);
        looks.get() == 3
    });
    assert!(matches!(lock, Lock::Pinned));
    assert_eq!(looks.get(), 3);
    // The page is unchanged: it is found, pinned once, and can be locked once no thread reads it.
    assert_eq!(pages.get(key(1)).unwrap()[0], byte_of(key(1)));
    assert_eq!(pinned[0], byte_of(key(1)));
    drop(pinned);
    assert!(matches!(pages.lock(key(1), || true), Lock::Locked(_)));
    caches.check_invariants();
}
