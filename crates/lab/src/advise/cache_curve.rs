//! The miss-ratio curves of the caches, as points for plots, and their main values.

use super::curve::MissCurve;
use super::memory::objects_of;
use super::pass::{Counts, Observation, PoolCurve};
use super::population::Capacity;
use crate::run_report::{as_f64, ratio};
use larder_cache::tape::CacheKind;
use serde::Serialize;

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The size of the cache, in objects.
    pub objects: u64,
    /// The miss ratio of LRU.
    pub lru: f64,
    /// The lower end of the range of `lru`, which has three standard errors on each side. Without sampling, it equals
    /// `lru`.
    pub low: f64,
    /// The upper end of this range.
    pub high: f64,
    /// The miss ratio of a mount, which evicts by a clock.
    pub clock: f64,
}

/// The miss-ratio curve of one cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheCurve {
    /// The cache.
    pub cache: CacheKind,
    /// Number of lookups.
    pub lookups: u64,
    /// Number of insertions.
    pub inserts: u64,
    /// Number of removals.
    pub removals: u64,
    /// The lookups that missed in the recorded cache; `None` if this was not recorded.
    pub recorded_misses: Option<u64>,
    /// The predicted misses of a mount with the current memory.
    pub current_misses: f64,
    /// The number of objects for which a mount has space with the current memory. Pages and buffers share one part of
    /// the memory.
    pub current_objects: u64,
    /// The misses that no size avoids.
    pub least_misses: f64,
    /// The smallest size that avoids at least 95% of the misses that any size can avoid.
    pub knee_objects: u64,
    /// The smallest size with the least misses.
    pub useful_objects: u64,
    /// Whether all objects were tracked.
    pub is_exact: bool,
    /// The share of objects that was tracked at the end of the trace.
    pub sampled_share: f64,
    /// Points of the curve, in the order of size.
    pub points: Vec<CurvePoint>,
}

/// Returns the curves of the caches that have lookups.
pub(super) fn curves(
    observation: &Observation,
    records_hits: bool,
    capacity: Capacity,
) -> Vec<CacheCurve> {
    let caches = CacheKind::ALL.into_iter();
    let used = caches.filter(|cache| observation.counts[*cache as usize].lookups > 0);
    let of_cache = |cache: CacheKind| {
        let at = cache as usize;
        let Counts {
            lookups,
            recorded_misses,
            inserts,
            removals,
        } = observation.counts[at];
        let curve = &observation.curves[at];
        CacheCurve {
            cache,
            lookups,
            inserts,
            removals,
            recorded_misses: records_hits.then_some(recorded_misses),
            current_misses: observation.misses(cache, capacity),
            current_objects: objects_of(cache, capacity),
            least_misses: curve.misses(u64::MAX),
            knee_objects: curve.knee(),
            useful_objects: curve.largest_useful_size(),
            is_exact: curve.is_exact(),
            sampled_share: curve.sampled_share(),
            points: points(curve, &observation.pools[at], cache),
        }
    };
    used.map(of_cache).collect()
}

/// Returns points up to twice the largest useful size. Each size is the previous size times the square root of 2.
fn points(curve: &MissCurve, pool: &PoolCurve, cache: CacheKind) -> Vec<CurvePoint> {
    let last = curve.largest_useful_size().max(1) * 2;
    let mut sizes: Vec<u64> = (0..=last.ilog2())
        .flat_map(|bits| [1 << bits, (181 << bits) >> 7])
        .collect();
    sizes.dedup();
    let lookups = as_f64(curve.lookups());
    let point = |objects: u64| {
        let [low, high] = curve.range(objects);
        // Pages and buffers share one part of the memory, and `pool` contains the misses in this part. `curve` contains
        // the misses of one of the two caches alone. So only the difference between clock and LRU is taken from `pool`.
        let shared = pool.lru.misses(objects);
        let misses = match cache {
            CacheKind::Page | CacheKind::Buffer => {
                curve.misses(objects) + pool.misses(objects) - shared
            }
            CacheKind::Dentry | CacheKind::Inode => pool.misses(objects),
        };
        CurvePoint {
            objects,
            lru: curve.ratio(objects),
            low: ratio(low, lookups),
            high: ratio(high, lookups),
            clock: ratio(misses, lookups).clamp(0.0, 1.0),
        }
    };
    sizes.into_iter().map(point).collect()
}
