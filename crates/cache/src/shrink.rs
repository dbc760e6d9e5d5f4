//! Reclaim of memory when the budget is used up.
//!
//! # Model
//! `do_shrink_slab` and `shrink_lruvec`: under pressure each cache scans a share of its objects. The share is
//! 1/4096 at first (priority 12), doubles in each round, and is everything in the end. Frames can be given
//! back by the pool of pages and buffers, and by the caches of shared attributes, dentries and inodes. In
//! each round shared attributes are scanned before the pool. Dentries and inodes are scanned after it, and
//! only when a quarter of the pages freed too little, since a name is worth more than a page that was read
//! once. If dentries are shrunk [eagerly](crate::tables::Shrinking::Eager), they are scanned before all
//! others.

use std::fmt::Debug;
use std::sync::Weak;

/// A cache that can give memory back.
///
/// The caller calls `count_objects` and then `scan_objects` with a part of that, possibly from several
/// threads at once and with no lock held. The callee scans up to `count` objects, evicts those that are not
/// in use, and returns how many frames it gave back. It must not wait for I/O, nor for a lock that is held
/// during an allocation of frames.
pub trait Shrinker: Debug + Send + Sync {
    /// Returns the number of objects that could be scanned now.
    fn count_objects(&self) -> u64;
    /// Scans up to `count` objects. Returns the number of frames given back.
    fn scan_objects(&self, count: u64) -> u64;
}

/// The first priority: reclaim starts with 1/4096 of the objects. Linux's `DEF_PRIORITY`.
const PRIORITY: u32 = 12;

/// The priority from which dentries and inodes are scanned too: so much of the pool is in use that a quarter
/// of it freed too little.
const LAST_PRIORITY: u32 = 2;

/// The shrinkers other than the pool of frames.
#[derive(Debug)]
pub(crate) struct Shrinkers {
    /// Scanned first, with the whole share that [`Shrinking::Eager`](crate::tables::Shrinking::Eager)
    /// defines, however many frames are wanted.
    pub eager: Vec<Weak<dyn Shrinker>>,
    /// Scanned before the pool, which has the most frames and would otherwise satisfy each request alone.
    pub before_pool: Vec<Weak<dyn Shrinker>>,
    /// Scanned from [`LAST_PRIORITY`] on, for the frames that the pool did not free.
    pub last: Vec<Weak<dyn Shrinker>>,
}

/// Scans ever larger shares of `pool` and `others` until `want` frames are freed. Returns the number of freed
/// frames.
pub(crate) fn reclaim(pool: &dyn Shrinker, others: Option<&Shrinkers>, want: u64) -> u64 {
    let upgraded = |shrinkers: fn(&Shrinkers) -> &[Weak<dyn Shrinker>]| {
        let all = others.map_or(&[][..], shrinkers);
        all.iter().filter_map(Weak::upgrade)
    };
    let mut freed = 0;
    // The last two rounds are full turns: the first clears the referenced bits, the second evicts.
    for priority in (0..=PRIORITY).rev().chain([0]) {
        for eager in upgraded(|others| &others.eager) {
            let share = eager.count_objects() / u64::from(priority + 1);
            freed += eager.scan_objects(share);
        }
        for other in upgraded(|others| &others.before_pool) {
            freed += scan_share(&*other, priority, want.saturating_sub(freed));
        }
        freed += scan_share(pool, priority, want.saturating_sub(freed));
        if priority <= LAST_PRIORITY && freed < want {
            // The same amount from each, or the first would give all.
            for other in upgraded(|others| &others.last) {
                freed += scan_share(&*other, priority, want);
            }
        }
        if freed >= want {
            break;
        }
    }
    freed
}

/// Scans the share of `shrinker` at `priority`, until `want` frames are freed.
fn scan_share(shrinker: &dyn Shrinker, priority: u32, want: u64) -> u64 {
    let mut freed = 0;
    let mut left = shrinker.count_objects() >> priority;
    while left > 0 && freed < want {
        // No more objects than could be necessary.
        let batch = left.min(want - freed);
        freed += shrinker.scan_objects(batch);
        left -= batch;
    }
    freed
}
