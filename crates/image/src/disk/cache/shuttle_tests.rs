//! Tests of the cache and of the budget under the model checker, which tries many interleavings of threads. To run them:
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p larder-image --lib shuttle
//! ```
//!
//! A failure prints the schedule that led to it, for `shuttle::replay`.

use super::*;
use crate::disk::budget::Budget;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of random interleavings of each test. The same number is tried with random priorities.
const SCHEDULES: usize = 10_000;
const THREADS: usize = 3;

fn check(model: fn()) {
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

/// Calls `run` in each of [`THREADS`] threads, and returns the results.
fn in_threads<T: Send + 'static>(run: impl Fn() -> T + Send + Sync + 'static) -> Vec<T> {
    let run = Arc::new(run);
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let run = Arc::clone(&run);
            shuttle::thread::spawn(move || run())
        })
        .collect();
    let results = threads.into_iter().map(|thread| thread.join().unwrap());
    results.collect()
}

#[test]
fn shuttle_part_that_several_threads_need_is_filled_by_one_of_them() {
    check(|| {
        let cache = Arc::new(PartCache::new(1 << 20));
        let fills = Arc::new(AtomicUsize::new(0));
        let (own, counted) = (Arc::clone(&cache), Arc::clone(&fills));
        let results = in_threads(move || {
            own.get_or_fill(Key::Unit(0), || {
                counted.fetch_add(1, Ordering::Relaxed);
                shuttle::thread::yield_now();
                Ok(vec![7])
            })
        });
        assert!(results.into_iter().all(|bytes| *bytes.unwrap() == [7]));
        assert_eq!(fills.load(Ordering::Relaxed), 1);
        assert!(cache.state.lock().filling.is_empty());
    });
}

#[test]
fn shuttle_thread_that_needs_a_part_after_a_failure_fills_it() {
    check(|| {
        let cache = Arc::new(PartCache::new(1 << 20));
        let fills = Arc::new(AtomicUsize::new(0));
        let (own, counted) = (Arc::clone(&cache), Arc::clone(&fills));
        let results = in_threads(move || {
            own.get_or_fill(Key::Unit(0), || {
                shuttle::thread::yield_now();
                match counted.fetch_add(1, Ordering::Relaxed) {
                    0 => Err(Error::ReadOnly),
                    _ => Ok(vec![7]),
                }
            })
        });
        let failed = results.iter().filter(|result| result.is_err()).count();
        let fills = fills.load(Ordering::Relaxed);
        // The first fill fails. If there is a second one, it succeeds.
        assert!((1..=2).contains(&fills), "{fills} fills");
        assert!(failed >= 1 && (failed == THREADS) == (fills == 1));
        assert!(cache.state.lock().filling.is_empty());
    });
}

#[test]
fn shuttle_reservations_do_not_exceed_the_budget() {
    check(|| {
        let budget = Arc::new(Budget::new(5));
        let used_bytes = Arc::new(AtomicU64::new(0));
        let own = Arc::clone(&budget);
        in_threads(move || {
            for bytes in [2, 3] {
                let reserved = own.reserve(bytes);
                let before = used_bytes.fetch_add(bytes, Ordering::Relaxed);
                assert!(before + bytes <= 5);
                shuttle::thread::yield_now();
                used_bytes.fetch_sub(bytes, Ordering::Relaxed);
                drop(reserved);
            }
        });
        assert_eq!(budget.used_bytes(), 0);
    });
}
