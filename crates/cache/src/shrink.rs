//! Reclaim: what happens when the memory budget is used up.
//!
//! # Model
//! `do_shrink_slab` and `shrink_lruvec`: under pressure everything that caches
//! is asked to scan a share of its objects, 1/4096 at first (priority 12), twice
//! as much each time, in the end everything. What caches and can give frames back
//! are the pool of pages and buffers, the caches of shared attributes, dentries and inodes. In each
//! round shared attributes are asked before the pool; dentries and inodes behind it, and only when
//! a quarter of the pages gave too little, since a name is worth more than a page that was read once. Where
//! dentries are shrunk [eagerly](crate::tables::Shrinking::Eager), they are asked before all others.

use std::fmt::Debug;
use std::sync::Weak;

/// Something that caches, and can be asked for memory.
///
/// The caller asks `count_objects` and then `scan_objects` with a part of that,
/// possibly from several threads at once and with no lock held. The callee looks
/// at up to `count` objects, gives up those that are not in use, may not wait for
/// I/O or for a lock that is held during an allocation of frames, and says how
/// many frames it gave back.
pub trait Shrinker: Debug + Send + Sync {
    /// Objects that could be scanned now.
    fn count_objects(&self) -> u64;
    /// Scans up to `count` objects; returns the number of frames given back.
    fn scan_objects(&self, count: u64) -> u64;
}

/// How gently reclaim starts: with 1/4096 of the objects. Linux's
/// `DEF_PRIORITY`.
const PRIORITY: u32 = 12;

/// The priority at which dentries and inodes are asked too: when so much of the pool was in use that a
/// quarter of it gave too little.
const LAST_PRIORITY: u32 = 2;

/// What can give memory back, beside the pool of frames.
#[derive(Debug)]
pub(crate) struct Shrinkers {
    /// Asked first, all of it that [`Shrinking::Eager`](crate::tables::Shrinking::Eager) says, whatever is wanted.
    pub eager: Vec<Weak<dyn Shrinker>>,
    /// Asked before the pool, which has most to give, and would leave them out.
    pub before_pool: Vec<Weak<dyn Shrinker>>,
    /// Asked from [`LAST_PRIORITY`] on, for what the pool did not give.
    pub last: Vec<Weak<dyn Shrinker>>,
}

/// Asks `pool` and `others` to scan ever larger shares until `want` frames are freed;
/// returns how many were.
pub(crate) fn reclaim(pool: &dyn Shrinker, others: Option<&Shrinkers>, want: u64) -> u64 {
    let living = |shrinkers: fn(&Shrinkers) -> &[Weak<dyn Shrinker>]| {
        let all = others.map_or(&[][..], shrinkers);
        all.iter().filter_map(Weak::upgrade)
    };
    let mut freed = 0;
    // The last two rounds are full turns: one clears what is referenced, the
    // next takes it.
    for priority in (0..=PRIORITY).rev().chain([0]) {
        for eager in living(|others| &others.eager) {
            let share = eager.count_objects() / u64::from(priority + 1);
            freed += eager.scan_objects(share);
        }
        for other in living(|others| &others.before_pool) {
            freed += scan_share(&*other, priority, want.saturating_sub(freed));
        }
        freed += scan_share(pool, priority, want.saturating_sub(freed));
        if priority <= LAST_PRIORITY && freed < want {
            // As much of each, or the first would give all.
            for other in living(|others| &others.last) {
                freed += scan_share(&*other, priority, want);
            }
        }
        if freed >= want {
            break;
        }
    }
    freed
}

/// Asks `shrinker` to scan its share at `priority`, until `want` frames are freed.
fn scan_share(shrinker: &dyn Shrinker, priority: u32, want: u64) -> u64 {
    let mut freed = 0;
    let mut left = shrinker.count_objects() >> priority;
    while left > 0 && freed < want {
        // No more than could be enough.
        let batch = left.min(want - freed);
        freed += shrinker.scan_objects(batch);
        left -= batch;
    }
    freed
}
