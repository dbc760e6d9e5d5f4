//! Reclaim of memory when the budget is used up.
//!
//! # Model
//! `do_shrink_slab` and `shrink_lruvec`: when no frame is free, the caches are scanned in up to 14 passes,
//! until enough frames are free. Each pass scans a part of the objects of each cache. The part is 1/4096 in
//! the first pass (priority 12), and doubles in each further pass. The last two passes (both with priority 0)
//! scan all objects. Frames are freed by the pool of pages and buffers, and by the caches of shared
//! attributes, dentries and inodes. Each pass scans shared attributes before the pool. It scans dentries and
//! inodes after the pool, but only if its priority is 2, 1 or 0, and the frames freed so far are not enough.
//! The reason is that a name is worth more than a page that was read once. If dentries are shrunk
//! [eagerly](crate::tables::Shrinking::Eager), each pass scans them before everything else.

use std::fmt::Debug;
use std::sync::Weak;

/// A cache that can give memory back.
///
/// The caller calls `count_objects`, and then `scan_objects` with a part of the result. The caller must not
/// hold a lock. Several threads may call the methods at the same time. The cache scans up to `count` objects,
/// and evicts those that are neither in use nor used recently. It returns the number of frames that it gave
/// back. The cache must not wait for I/O, or for a lock that a thread may hold while it allocates frames.
pub trait Shrinker: Debug + Send + Sync {
    /// Returns the number of objects that could be scanned now.
    fn count_objects(&self) -> u64;
    /// Scans up to `count` objects. Returns the number of frames given back.
    fn scan_objects(&self, count: u64) -> u64;
}

/// The priority of the first pass, which scans 1/4096 of the objects: Linux's `DEF_PRIORITY`.
const PRIORITY: u32 = 12;

/// The first priority at which dentries and inodes are scanned. Before they are scanned, this pass has scanned
/// a quarter of the pool without freeing enough frames.
const DENTRY_PRIORITY: u32 = 2;

/// The shrinkers other than the pool of frames.
#[derive(Debug)]
pub(crate) struct Shrinkers {
    /// Caches that are scanned before all others. [`Shrinking::Eager`](crate::tables::Shrinking::Eager)
    /// defines the part of their objects that a pass scans. The pass scans this whole part, even if a smaller
    /// part would free enough frames.
    pub eager: Vec<Weak<dyn Shrinker>>,
    /// Caches that are scanned before the pool. If the pool were scanned first, these caches would rarely be
    /// scanned, since the pool has the most frames and normally frees enough of them.
    pub before_pool: Vec<Weak<dyn Shrinker>>,
    /// Caches that are scanned after the pool, and only from [`DENTRY_PRIORITY`] on.
    pub last: Vec<Weak<dyn Shrinker>>,
}

/// Scans `pool` and `others` in passes, each of a larger part, until `want` frames are freed or all objects
/// were scanned twice. Returns the number of freed frames.
pub(crate) fn reclaim(pool: &dyn Shrinker, others: Option<&Shrinkers>, want: u64) -> u64 {
    let upgraded = |shrinkers: fn(&Shrinkers) -> &[Weak<dyn Shrinker>]| {
        let all = others.map_or(&[][..], shrinkers);
        all.iter().filter_map(Weak::upgrade)
    };
    let mut freed = 0;
    // The last two passes scan everything: the first of them clears the referenced bits, and the second
    // evicts.
    for priority in (0..=PRIORITY).rev().chain([0]) {
        for eager in upgraded(|others| &others.eager) {
            let share = eager.count_objects() / u64::from(priority + 1);
            freed += eager.scan_objects(share);
        }
        for other in upgraded(|others| &others.before_pool) {
            freed += scan_share(&*other, priority, want.saturating_sub(freed));
        }
        freed += scan_share(pool, priority, want.saturating_sub(freed));
        if priority <= DENTRY_PRIORITY && freed < want {
            // Each cache gets the same target. Otherwise only the first cache would shrink.
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

/// Scans 1/2^`priority` of the objects of `shrinker`, but stops when `want` frames are freed. Returns the
/// number of freed frames.
fn scan_share(shrinker: &dyn Shrinker, priority: u32, want: u64) -> u64 {
    let mut freed = 0;
    let mut left = shrinker.count_objects() >> priority;
    while left > 0 && freed < want {
        // Each object may free a frame, so a larger batch could free more frames than requested.
        let batch = left.min(want - freed);
        freed += shrinker.scan_objects(batch);
        left -= batch;
    }
    freed
}
